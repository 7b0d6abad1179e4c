//! What an image with modules is made of: their code, and the function that enters them.

use std::fmt::Write;
use std::sync::Arc;

use everwarp_process::Module;
use everwarp_runtime::{LinkedPart, Precompiled, Publisher};

use crate::code::LoadedCode;
use crate::code::joining;
use crate::partial::Partial;
use crate::program;

/// What the device sources are compiled with. A module that comes later may lack functions.
pub(super) fn declarations(loaded: &[Arc<LoadedCode>], open: bool) -> String {
    match open || loaded.iter().any(|code| code.partial.is_some()) {
        true => [program::DECLARATIONS, program::PARTIAL].concat(),
        false => program::DECLARATIONS.to_owned(),
    }
}

/// What writes the addresses of functions of modules that may lack some, and of those that modules call which come later.
pub(super) fn publishers(loaded: &[Arc<LoadedCode>], open: bool) -> Vec<Publisher> {
    let partial = loaded.iter().filter_map(|code| code.partial.as_ref());
    let partial = partial.map(|p| p.publisher().clone());
    partial.chain(open.then(joining::publisher)).collect()
}

/// The machine code that a module came with.
pub(super) fn precompiled(module: &Module) -> impl Iterator<Item = Precompiled> {
    module.images().iter().map(|image| Precompiled {
        arch: image.arch,
        key: image.key.as_str().into(),
        code: image.code[..].into(),
    })
}

/// The parts of an image with these modules: their code, and the function that calls them by their numbers.
pub(super) fn parts(loaded: &[Arc<LoadedCode>], open: bool) -> Vec<LinkedPart> {
    let mut loaded: Vec<_> = loaded.iter().collect();
    loaded.sort_by_key(|code| code.number);
    let entries = loaded.iter().map(|code| Entry {
        number: code.number,
        prefix: &code.module.prefix,
        roots: code.partial.as_ref().map(Partial::roots),
    });
    let entries: Vec<_> = entries.collect();
    let dispatch = LinkedPart {
        name: "the call of a module".into(),
        ptx: dispatch(&entries, open).into(),
    };
    let parts = loaded.iter().flat_map(|code| code.all_parts());
    let own = std::iter::once(dispatch).chain(open.then(joining::part));
    own.chain(parts).collect()
}

/// How a module is entered.
pub(super) struct Entry<'p> {
    pub(super) number: u32,
    pub(super) prefix: &'p str,
    /// [`Partial::roots`].
    pub(super) roots: Option<String>,
}

/// The function `linked_enter`, which calls the entry of a module by the module's number. It is PTX, so that the unit of the
/// scheduler is the same for all sets of modules and is compiled once. Modules that are not among these may be next to the image, if it is
/// `open`.
pub(super) fn dispatch(modules: &[Entry<'_>], open: bool) -> String {
    let mut out = String::from(everwarp_compiler::PTX_HEAD);
    for Entry { prefix, roots, .. } in modules {
        let _ = writeln!(out, ".extern .func {prefix}enter({});", joining::PARAMETERS);
        if let Some(roots) = roots {
            let _ = writeln!(out, ".extern .func {roots}();");
        }
    }
    if open {
        let (_, enter) = joining::enter();
        let _ = writeln!(
            out,
            ".extern {enter};\n.extern .func {}();",
            joining::roots()
        );
    }
    out.push_str(
        ".visible .func linked_enter(.param .b32 module, .param .b64 block, .param .b32 entry, .param .b64 args)
{
  .reg .b64 %block, %args, %none;
  .reg .b32 %module, %entry;
  .reg .pred %p;
  ld.param.b32 %module, [module];
  ld.param.b64 %block, [block];
  ld.param.b32 %entry, [entry];
  ld.param.b64 %args, [args];
  mov.b64 %none, 0;
",
    );
    for Entry { number, .. } in modules {
        let _ = writeln!(
            out,
            "  setp.eq.u32 %p, %module, {number};\n  @%p bra $M{number};"
        );
    }
    // A process has a block, so roots are reached and never called.
    let reach = |out: &mut String, label: &str, roots: &str| {
        let _ = writeln!(
            out,
            "  setp.ne.s64 %p, %block, 0;\n  @%p bra {label};\n  call {roots}, ();\n{label}:"
        );
    };
    let call = |out: &mut String, name: &str, module: bool| {
        let (declared, stored, given) = match module {
            true => (
                "  .param .b32 cm;\n",
                "  st.param.b32 [cm], %module;\n",
                "cm, ",
            ),
            false => ("", "", ""),
        };
        let _ = writeln!(
            out,
            "  {{
{declared}  .param .b64 c0;
  .param .b32 c1;
  .param .b64 c2;
  .param .b64 c3;
{stored}  st.param.b64 [c0], %block;
  st.param.b32 [c1], %entry;
  st.param.b64 [c2], %args;
  st.param.b64 [c3], %none;
  call {name}, ({given}c0, c1, c2, c3);
  }}
  ret;"
        );
    };
    match open {
        true => {
            reach(&mut out, "$Bl", &joining::roots());
            call(&mut out, &joining::enter().0, true);
        }
        false => out.push_str("  ret;\n"),
    }
    for Entry {
        number,
        prefix,
        roots,
    } in modules
    {
        let _ = writeln!(out, "$M{number}:");
        if let Some(roots) = roots {
            reach(&mut out, &format!("$B{number}"), roots);
        }
        call(&mut out, &format!("{prefix}enter"), false);
    }
    out.push_str("}\n");
    out
}

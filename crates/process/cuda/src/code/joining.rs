//! Modules that come next to an image: their code alone is loaded, and the engine has it until the next image has everything.

use std::sync::{Arc, LazyLock};

use everwarp_assembler::entries::Entries;
use everwarp_compiler::PTX_HEAD;
use everwarp_process::imports::functions;
use everwarp_process::threads;
use everwarp_runtime::cuda::MAX_REGISTERS;
use everwarp_runtime::{Addition, LinkedPart, Publisher};

use crate::code::{BRIDGE_FRAME, LoadedCode};
use crate::config::MODULES_MOST;
use crate::partial::Partial;
use crate::wasi;

/// The most modules next to an image. The next one comes in an image with all of them: their calls go through bridges, and what
/// no host uses any more stays loaded. An engine without hosts does so sooner.
pub(crate) const JOINED_MOST: usize = 100;
/// The table of an image in which modules may come.
const TABLE: &str = "linked_modules";
/// The parameters of a module's entry.
pub(crate) const PARAMETERS: &str =
    ".param .b64 a0, .param .b32 a1, .param .b64 a2, .param .b64 a3";

/// What modules may call that come later: all that the device sources provide, but for modules with threads, which come in an image.
static ENTRIES: LazyLock<Entries> = LazyLock::new(|| {
    let called = functions().filter(|function| function.module != threads::MODULE);
    let called = called.map(|function| {
        let symbol = wasi::symbol(&function);
        let ty = wasi::import_type(function.module, function.name);
        let signature = ty.expect("it is one of them").provided(&symbol);
        (symbol, signature)
    });
    Entries::new(PTX_HEAD, TABLE, MODULES_MOST, called.collect(), PARAMETERS)
});

/// The table of an image in which modules may come, and the functions that enter them.
pub(crate) fn part() -> LinkedPart {
    let text = ENTRIES.text(MAX_REGISTERS as usize);
    LinkedPart {
        name: "the entries of modules".into(),
        ptx: text.expect("the signatures are ours").into(),
    }
}

/// The function that enters a module that has come: its name and its signature.
pub(crate) fn enter() -> (String, String) {
    (ENTRIES.enter(), ENTRIES.enter_signature())
}

/// A function that the engine's kernel has to reach.
pub(crate) fn roots() -> String {
    ENTRIES.roots()
}

/// What writes the addresses that modules need.
pub(crate) fn publisher() -> Publisher {
    publisher_of(ENTRIES.gives())
}

fn publisher_of(kernel: String) -> Publisher {
    Publisher {
        kernel: kernel.into(),
        table: TABLE.into(),
    }
}

/// These modules as code that is loaded next to an image. `None` if one of them can only come in an image.
pub(crate) fn addition(codes: &[Arc<LoadedCode>]) -> Option<Addition> {
    let mut addition = Addition {
        bridge_bytes: BRIDGE_FRAME,
        ..Addition::default()
    };
    for code in codes {
        if code.module.threads.is_some() {
            return None;
        }
        let prefix = &code.module.prefix;
        let parts: Vec<_> = code.all_parts().collect();
        // A table of addresses is no file of functions.
        let files = parts
            .iter()
            .filter(|part| !part.ptx.contains(".visible .global"));
        let files: Vec<_> = files.map(|part| &*part.ptx).collect();
        let roots = code.partial.as_ref().map(Partial::roots);
        let (entry, number) = (format!("{prefix}enter"), code.number as usize);
        let bridges = ENTRIES.bridges(&files, &entry, number, roots.as_deref())?;
        addition.parts.extend(parts);
        addition.parts.push(LinkedPart {
            name: code.module.name.as_str().into(),
            ptx: bridges.ptx.into(),
        });
        addition.gives.push(publisher_of(bridges.gives));
        let own = code
            .partial
            .iter()
            .map(|partial| partial.publisher().clone());
        addition.gives.extend(own);
        addition.takes.push(publisher_of(bridges.takes));
        addition.prefixes.insert(prefix.as_str().into());
    }
    Some(addition)
}

//! Text that passes on the carried global and the address of memory, which `facts/carried.rs` describes; and the
//! functions that other modules and device code call, which pass on nothing.

use crate::context::Context;
use crate::emit::signature::write_head_arguments;
use crate::facts::abi;
use crate::facts::types::{Convention, ValueType, parts, placed};
use crate::text::line;

/// Text that puts the carried global, if there is one, where others find it.
pub(crate) fn keep(context: Context<'_>) -> String {
    let at = context.layout.carried(context.module);
    at.map_or_else(String::new, |at| {
        format!("  st.global.b32 [%inst+{at}], %carry;\n")
    })
}

/// Text that takes it from there.
pub(crate) fn find(context: Context<'_>) -> String {
    let at = context.layout.carried(context.module);
    at.map_or_else(String::new, |at| {
        format!("  ld.global.b32 %carry, [%inst+{at}];\n")
    })
}

/// Declares what is passed on, and finds it, for the outermost function.
pub(crate) fn write_found(out: &mut String, context: Context<'_>) {
    let module = context.module;
    if module.convention.global.is_some() {
        line!(out, "  .reg .b32 %carry;");
    }
    out.push_str(&find(context));
    if module.convention.memory {
        line!(out, "  .reg .b64 %mem;");
        line!(out, "  ld.global.b64 %mem, [%inst+{}];", abi::MEMORY);
    }
}

/// The name of the function that others call for this one.
pub(crate) fn outer_name(prefix: &str, function: u32) -> String {
    format!("{prefix}x{function}")
}

/// For each function that other modules may call, a wrapper that they can call, to which no registers are passed on.
pub(crate) fn outer_functions(context: Context<'_>) -> String {
    let Context { module, prefix, .. } = context;
    let convention = module.convention;
    let mut out = String::new();
    if convention == Convention::PLAIN {
        return out;
    }
    for function in module.entries() {
        let ty = module.function_type(function);
        let name = outer_name(prefix, function);
        line!(out, ".func {}\n{{", ty.signature(&name, Convention::PLAIN));
        let head = "  .reg .b64 %inst, %fuel, %d;
  .reg .b32 %depth, %r;
  .reg .pred %p;
  ld.param.b64 %inst, [inst];
  ld.param.b64 %fuel, [fuel];
  ld.param.b32 %depth, [depth];";
        line!(out, "{head}");
        write_found(&mut out, context);
        line!(out, "  {{");
        let mut list = String::from(write_head_arguments(&mut out, "%inst", convention));
        let register = |ty: ValueType| if ty.is_wide() { "%d" } else { "%r" };
        for (i, part) in parts(&ty.params).into_iter().enumerate() {
            let (size, reg) = (part.ptx(), register(part));
            line!(out, "  .param .{size} c{i};");
            line!(out, "  ld.param.{size} {reg}, [a{i}];");
            line!(out, "  st.param.{size} [c{i}], {reg};");
            list.push_str(&format!(", c{i}"));
        }
        let bytes = ty.return_bytes(convention);
        line!(out, "  .param .align 8 .b8 cr[{bytes}];");
        line!(out, "  call (cr), {prefix}f{function}, ({list});");
        line!(out, "  ld.param.b64 %fuel, [cr];");
        line!(out, "  st.param.b64 [ret], %fuel;");
        if let Some(at) = context.layout.carried(module) {
            // Where it has trapped or is suspended, the block has it already.
            line!(out, "  setp.lt.s64 %p, %fuel, 0;");
            line!(out, "  ld.param.b32 %carry, [cr+{}];", ty.carried_at());
            line!(out, "  @!%p st.global.b32 [%inst+{at}], %carry;");
        }
        for (part, at) in placed(&parts(&ty.results)) {
            let (size, reg, at) = (part.ptx(), register(part), 8 + at);
            line!(out, "  ld.param.{size} {reg}, [cr+{at}];");
            line!(out, "  st.param.{size} [ret+{at}], {reg};");
        }
        line!(out, "  }}\n  ret;\n}}");
    }
    out
}

//! A module as the handler of a ring kernel on a GPU. One thread of the block runs it; all of them copy messages and results.

use std::fmt::Write;

use everwarp_actor::MODULE_HEADER;
use everwarp_ring::{CudaHandler, Failure};
use wasmtime::Val;

use super::facts::Facts;
use super::plan::Plan;
use super::{
    FUEL, bits_of, check_content, first_content, functions, line, placed, trapped, variables,
};

/// An instance of a module before its first message: what it has, and where messages go.
pub(crate) struct Initial<'m> {
    pub(crate) bytes: &'m [u8],
    /// Its memory.
    pub(crate) memory: &'m [u8],
    /// Its mutable globals, with their values.
    pub(crate) globals: &'m [(u32, Val)],
    /// The address and the size of a message, and of a result.
    pub(crate) input: (usize, usize),
    pub(crate) output: (usize, usize),
}

/// The handler for GPUs, or why there is none.
pub(crate) fn translate(module: &Initial<'_>) -> Result<CudaHandler, String> {
    let facts = Facts::read(module.bytes)?;
    let plan = Plan::new(&facts)?;
    check_content(&facts, module.memory)?;
    let size = u32::try_from(module.memory.len())
        .map_err(|_| "its memory has 4 GiB or more".to_owned())?;
    let mut out = String::new();
    variables(&mut out, &facts, module.globals.iter().map(|(n, _)| *n))?;
    let first = first_content(&mut out, 0, module.memory);
    functions(&mut out, &facts, &plan, size)?;
    // Before the memory are a byte that is 1 once all is there, and the globals.
    let header = (MODULE_HEADER as usize + 8 * module.globals.len()).next_multiple_of(16);
    let (mut begin, mut load, mut keep) = (String::new(), String::new(), String::new());
    for (place, (global, value)) in module.globals.iter().enumerate() {
        let at = format!("(u64*)(state + {})", MODULE_HEADER as usize + 8 * place);
        let (bits, width) = (
            bits_of(value)?,
            facts.globals[*global as usize].width.clone()?.c(),
        );
        write!(begin, " ew::wasm::store_aligned({at}, {bits}ull);").expect("a string takes it");
        write!(
            load,
            " g.g{global} = ({width})ew::wasm::load_aligned({at});"
        )
        .expect("a string takes it");
        write!(keep, " ew::wasm::store_aligned({at}, (u64)g.g{global});")
            .expect("a string takes it");
    }
    let handle = facts.exports["handle"];
    let ((from, inputs), (to, outputs)) = (module.input, module.output);
    line(
        &mut out,
        &format!(
            "EW_FN u64 handle(ew::Block& t, const u8* input, u8* output, u8* state) {{\n  \
             G g;\n  g.memory = state + {header}; g.fuel = -{FUEL}ll; g.trap = 0; g.where = ew::NONE;\n  \
             // A launch clears the state.\n  \
             if (t.thread == 0 && ew::wasm::load_aligned(state) == 0) {{{first}{begin} ew::wasm::store_aligned(state, (u8)1); }}\n  \
             __syncthreads();\n  \
             ew::wasm::copy_by_block(g.memory + {from}, input, {inputs}, t.thread, blockDim.x);\n  \
             __syncthreads();\n  \
             if (t.thread == 0) {{{load} f{handle}(g);{keep} }}\n  \
             __syncthreads();\n  \
             ew::wasm::copy_by_block(output, g.memory + {to}, {outputs}, t.thread, blockDim.x);\n  \
             return g.trap == 0 ? 0 : (u64)g.where << 32 | g.trap;\n}}"
        ),
    );
    let names = facts.named();
    Ok(CudaHandler::of_module(
        out,
        header + module.memory.len(),
        move |code| {
            let what = trapped(code as u32);
            Failure::new(placed(what, names.get(&((code >> 32) as u32))))
        },
    ))
}

//! How a module is to be compiled, and what becomes of each of its imports.

use std::collections::BTreeSet;

use crate::error::CompileError;
use crate::facts::first::FirstFunctions;
use crate::facts::module::{Import, ImportKind};

/// The length of text above which functions are divided for ptxas ([`CompileOptions::divide`]). At this length it takes about
/// a second for a function, and one half of that grows with the square of the length. On an H200, Lua divided at 150,000 bytes ran
/// 5 % longer than whole, at this length not longer.
pub const LONG_FUNCTION: usize = 250_000;

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Every global name of the PTX begins with this text, so that several modules can be one image.
    pub prefix: String,
    /// Imported functions, by module and name, whose calls do nothing.
    pub ignored_imports: Vec<(String, String)>,
    /// Imported functions that other code in the image provides. A call of a function in neither list traps.
    pub provided_imports: Vec<ProvidedImport>,
    /// Imports whose [`ProvidedImport::suspends`] is set may suspend the instance that calls them.
    pub suspendable: bool,
    /// The instance may also be suspended at every safepoint, by [`YIELD`](crate::YIELD) or by the
    /// `slice` of its [`DevSuspension`](crate::DevSuspension). Implies `suspendable`.
    pub preempt: bool,
    /// Calls may nest deeper than the header's `depth`: frames that the device's stack does not hold are kept in memory
    /// ([`DevDeep`](crate::DevDeep)). Only with `preempt`, and not in modules with tail calls or functions of other modules.
    /// No other module may import functions of the module.
    pub deep: bool,
    /// The functions to compile; all of them if it is not given. An instance that calls another one is suspended
    /// ([`CallState::Missing`](crate::CallState::Missing)), and goes on in an image that has the function. Functions without
    /// loops and calls are always compiled. Only with `preempt`; a module with tail calls is compiled as a whole.
    pub only: Option<BTreeSet<u32>>,
    /// In addition to [`only`](Self::only), or in place of it, the functions that direct calls lead to from the module's entries,
    /// up to a number of bytes. A small module is compiled as a whole, whatever `only` says.
    pub first: Option<FirstFunctions>,
    /// The module's code can be loaded next to an image that is there: it needs no constants of the kernel, and so no branch has a
    /// list of targets.
    pub apart: bool,
    /// Parts of a function that becomes more than about this many bytes of text become functions of their own, so that no function
    /// takes the assembler long. A part counts as a function for fuel and for `depth`; a trap names the function that it is of.
    pub divide: Option<usize>,
    /// The module may use the threads proposal: atomic instructions, and a memory that instances share.
    pub threads: bool,
    /// The memories of 32 instances are interleaved in units of [`UNIT`](crate::UNIT) bytes, so that lanes of a warp
    /// which access the same address access neighbours: see [the crate](crate#interleaved-memories). Not with
    /// `threads`.
    pub interleaved: bool,
    /// A product and the sum or the difference that it goes into may be rounded once, as a fused multiply-add, where
    /// WebAssembly rounds twice. CUDA C++ does so unless told otherwise. Results may then differ from those of other
    /// engines in their last bits, and from one version of the driver's compiler to the next.
    pub contract: bool,
}

/// An imported function that other code in the image provides.
#[derive(Clone, Debug)]
pub struct ProvidedImport {
    /// The module that it is imported from.
    pub module: String,
    /// The imported name.
    pub name: String,
    /// The function in the image. Its signature is that of a compiled function of the import's type.
    pub symbol: String,
    /// The kind of code that provides it.
    pub provider: Provider,
    /// Whether it may suspend its caller, by returning [`SUSPENDED`](crate::SUSPENDED). For a function of
    /// another module it must be the result of [`Compiled::may_suspend`](crate::Compiled::may_suspend) there.
    pub suspends: bool,
}

/// What kind of code provides an imported function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Device code, linked from elsewhere. It is called with the block of the instance that imports.
    Device,
    /// Another module, joined in the same file before this one. It is called with the block of its own
    /// instance: see [`Link::provider`](crate::Link::provider).
    Module,
}

/// What a call of an imported function does.
#[derive(Clone, Copy)]
pub(crate) enum ImportAction<'o> {
    Trap,
    Ignore,
    Call(&'o ProvidedImport),
}

/// The function that the options provide under a name, if they do.
pub(crate) fn provided<'o>(
    options: &'o CompileOptions,
    module: &str,
    name: &str,
) -> Result<Option<&'o ProvidedImport>, CompileError> {
    let mut all = options.provided_imports.iter();
    let found = all.find(|p| p.module == module && p.name == name);
    if found.is_some_and(|p| p.suspends) && !options.suspendable && !options.preempt {
        return Err(CompileError::NotSuspendable {
            module: module.to_owned(),
            name: name.to_owned(),
        });
    }
    Ok(found)
}

pub(crate) fn action<'o>(
    import: &Import,
    options: &'o CompileOptions,
) -> Result<ImportAction<'o>, CompileError> {
    let is = |module: &str, name: &str| *module == import.module && *name == import.name;
    if let Some(provided) = provided(options, &import.module, &import.name)? {
        return Ok(ImportAction::Call(provided));
    }
    if !options.ignored_imports.iter().any(|(m, n)| is(m, n)) {
        return Ok(ImportAction::Trap);
    }
    match &import.kind {
        ImportKind::Function(ty) if !ty.results.is_empty() => {
            Err(CompileError::IgnoredImportHasResults {
                module: import.module.clone(),
                name: import.name.clone(),
            })
        }
        _ => Ok(ImportAction::Ignore),
    }
}

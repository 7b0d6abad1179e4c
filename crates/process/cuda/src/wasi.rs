//! The functions that device code provides to modules. `everwarp_process::imports` has their names and types.

use everwarp_compiler::{FunctionType, NOTIFY, ProvidedImport, Provider, ValueType, WAIT, WAITING};
use everwarp_process::imports::{
    ImportType, ImportedFunction, WASI_MODULE, find_function, functions,
};
use everwarp_process::{gpu, net, threads};

/// The module that WASI's functions are imported from.
pub(crate) const MODULE: &str = WASI_MODULE;

/// The name in the image of the device code that provides a function.
pub(crate) fn symbol(function: &ImportedFunction) -> String {
    match function.module {
        gpu::MODULE => format!("everwarp_gpu_{}", function.name),
        net::MODULE => format!("everwarp_net_{}", function.name),
        threads::MODULE => "everwarp_threads_spawn".to_owned(),
        _ => format!("everwarp_wasi_{}", function.name),
    }
}

/// Whether a function may suspend its caller, because it waits for the host or for another process.
fn suspends(function: &ImportedFunction) -> bool {
    let calls_host = ["fd_", "path_", "poll_", "sock_"];
    match function.module {
        MODULE => calls_host
            .iter()
            .any(|prefix| function.name.starts_with(prefix)),
        gpu::MODULE => gpu::find(function.name).is_some_and(|f| f.waits),
        net::MODULE => true,
        _ => false,
    }
}

/// All functions that the device sources provide.
pub(crate) fn provided() -> Vec<ProvidedImport> {
    let imported = functions().map(|function| ProvidedImport {
        module: function.module.to_owned(),
        name: function.name.to_owned(),
        symbol: symbol(&function),
        provider: Provider::Device,
        suspends: suspends(&function),
    });
    // Compiled code calls these for its atomic instructions. A waiter is suspended; a notifier goes on at once.
    let atomics = [(WAIT, "wait", true), (NOTIFY, "notify", false)];
    let atomics = atomics.map(|(name, symbol, suspends)| ProvidedImport {
        module: WAITING.to_owned(),
        name: name.to_owned(),
        symbol: format!("everwarp_threads_{symbol}"),
        provider: Provider::Device,
        suspends,
    });
    imported.chain(atomics).collect()
}

/// The type of the function that is imported from a module under a name, if there is one.
pub(crate) fn import_type(module: &str, name: &str) -> Option<FunctionType> {
    let function = find_function(module, name)?;
    let value = |of| match of {
        ImportType::I32 => ValueType::I32,
        ImportType::I64 => ValueType::I64,
    };
    Some(FunctionType {
        params: function.params().map(value).collect(),
        results: function.result().into_iter().map(value).collect(),
    })
}

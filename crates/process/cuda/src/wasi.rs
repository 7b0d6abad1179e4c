//! What processes can import: the names and types of WASI preview 1, and those of `everwarp:gpu`.

use everwarp_compiler::{FunctionType, NOTIFY, ProvidedImport, Provider, ValueType, WAIT, WAITING};
use everwarp_process::{gpu, threads};

/// The module that WASI's functions are imported from.
pub(crate) const MODULE: &str = "wasi_snapshot_preview1";

/// Every function with its parameters, `i` for 32 bits and `l` for 64. All give an error number but
/// `proc_exit`, which does not return.
const FUNCTIONS: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "ili"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "illi"),
    ("fd_allocate", "ill"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "ill"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "il"),
    ("fd_filestat_set_times", "illi"),
    ("fd_pread", "iiili"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiili"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiili"),
    ("fd_renumber", "ii"),
    ("fd_seek", "ilii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiilli"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiillii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// The name in the image of the device code that provides a function.
pub(crate) fn symbol(name: &str) -> String {
    format!("everwarp_wasi_{name}")
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

fn value(c: char) -> ValueType {
    match c {
        'l' => ValueType::I64,
        _ => ValueType::I32,
    }
}

/// Everything that the device sources provide.
pub(crate) fn provided() -> Vec<ProvidedImport> {
    let wasi = names().map(|name| ProvidedImport {
        module: MODULE.to_owned(),
        name: name.to_owned(),
        symbol: symbol(name),
        provider: Provider::Device,
        suspends: calls_the_host(name),
    });
    let gpu = gpu::FUNCTIONS.iter().map(|f| ProvidedImport {
        module: gpu::MODULE.to_owned(),
        name: f.name.to_owned(),
        symbol: format!("everwarp_gpu_{}", f.name),
        provider: Provider::Device,
        suspends: f.waits,
    });
    // What waits for a notification is suspended; the other two end at once.
    let of_threads = [
        (threads::MODULE, threads::SPAWN, "spawn"),
        (WAITING, WAIT, "wait"),
        (WAITING, NOTIFY, "notify"),
    ];
    let of_threads = of_threads.map(|(module, name, symbol)| ProvidedImport {
        module: module.to_owned(),
        name: name.to_owned(),
        symbol: format!("everwarp_threads_{symbol}"),
        provider: Provider::Device,
        suspends: name == WAIT,
    });
    wasi.chain(gpu).chain(of_threads).collect()
}

/// The type of what may be imported from a module under a name.
pub(crate) fn import_type(module: &str, name: &str) -> Option<FunctionType> {
    match module {
        MODULE => function_type(name),
        gpu::MODULE => gpu::find(name).map(|f| FunctionType {
            params: f.params.chars().map(value).collect(),
            results: vec![value(f.result)],
        }),
        threads::MODULE if name == threads::SPAWN => Some(FunctionType {
            params: vec![ValueType::I32],
            results: vec![ValueType::I32],
        }),
        _ => None,
    }
}

/// A function's type, if there is one of that name.
pub(crate) fn function_type(name: &str) -> Option<FunctionType> {
    let (_, params) = FUNCTIONS.iter().find(|(n, _)| *n == name)?;
    Some(FunctionType {
        params: params.chars().map(value).collect(),
        results: match name {
            "proc_exit" => Vec::new(),
            _ => vec![ValueType::I32],
        },
    })
}

/// Whether a function may suspend its caller, because it calls the host.
pub(crate) fn calls_the_host(name: &str) -> bool {
    let prefixes = ["fd_", "path_", "poll_", "sock_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

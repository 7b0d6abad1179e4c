//! The functions that a module may import: WASI preview 1, `everwarp:gpu`, `everwarp:net` and `wasi.thread-spawn`.
//!
//! The names and types are declared here once. [`Module::new`](crate::Module::new) checks a module's imports against
//! them, so that no engine has to, and every engine provides all of them.

use crate::{gpu, net, threads};

/// The module that WASI preview 1 is imported from.
pub const WASI_MODULE: &str = "wasi_snapshot_preview1";

/// The type of a parameter or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportType {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
}

impl ImportType {
    const fn of(letter: u8) -> Self {
        match letter {
            b'l' => Self::I64,
            _ => Self::I32,
        }
    }
}

/// A function that every engine provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedFunction {
    /// The module that it is imported from.
    pub module: &'static str,
    /// The imported name.
    pub name: &'static str,
    /// One letter for each parameter: `i` for 32 bits, `l` for 64.
    letters: &'static str,
    /// The letter of the result.
    result: Option<u8>,
}

impl ImportedFunction {
    /// The types of its parameters.
    pub fn params(&self) -> impl ExactSizeIterator<Item = ImportType> {
        self.letters.bytes().map(ImportType::of)
    }

    /// The type of its result, if it has one.
    pub fn result(&self) -> Option<ImportType> {
        self.result.map(ImportType::of)
    }
}

/// The functions of WASI preview 1 with their parameters. Each returns an errno, except `proc_exit`, which does not
/// return. The names and types are those of the standard's `wasi_snapshot_preview1.witx`.
const WASI: &[(&str, &str)] = &[
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

fn wasi(&(name, letters): &(&'static str, &'static str)) -> ImportedFunction {
    ImportedFunction {
        module: WASI_MODULE,
        name,
        letters,
        result: (name != "proc_exit").then_some(b'i'),
    }
}

fn gpu(function: &'static gpu::Function) -> ImportedFunction {
    ImportedFunction {
        module: gpu::MODULE,
        name: function.name,
        letters: function.params,
        result: Some(function.result as u8),
    }
}

fn net(&(name, letters): &(&'static str, &'static str)) -> ImportedFunction {
    ImportedFunction {
        module: net::MODULE,
        name,
        letters,
        result: Some(b'i'),
    }
}

const SPAWN: ImportedFunction = ImportedFunction {
    module: threads::MODULE,
    name: threads::SPAWN,
    letters: "i",
    result: Some(b'i'),
};

/// All functions of WASI preview 1.
pub fn wasi_functions() -> impl Iterator<Item = ImportedFunction> {
    WASI.iter().map(wasi)
}

/// All functions that a module may import.
pub fn functions() -> impl Iterator<Item = ImportedFunction> {
    let gpu = gpu::FUNCTIONS.iter().map(gpu);
    let net = net::FUNCTIONS.iter().map(net);
    wasi_functions().chain(gpu).chain(net).chain([SPAWN])
}

/// The function that is imported from `module` under `name`, if the engines provide it.
pub fn find_function(module: &str, name: &str) -> Option<ImportedFunction> {
    match module {
        WASI_MODULE => WASI.iter().find(|(n, _)| *n == name).map(wasi),
        gpu::MODULE => gpu::find(name).map(gpu),
        net::MODULE => net::find(name).map(net),
        threads::MODULE if name == SPAWN.name => Some(SPAWN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_found_by_its_name() {
        assert_eq!(wasi_functions().count(), 46);
        for function in functions() {
            assert_eq!(
                find_function(function.module, function.name),
                Some(function)
            );
        }
        assert_eq!(find_function("env", "fd_write"), None);
        assert_eq!(find_function(WASI_MODULE, "fd_writes"), None);
    }

    #[test]
    fn only_proc_exit_has_no_result() {
        let without: Vec<_> = functions().filter(|f| f.result().is_none()).collect();
        assert_eq!(without.len(), 1);
        assert_eq!(without[0].name, "proc_exit");
        let open = find_function(WASI_MODULE, "path_open").expect("it is in the table");
        assert_eq!(open.params().len(), 9);
        assert_eq!(open.params().nth(5), Some(ImportType::I64));
    }
}

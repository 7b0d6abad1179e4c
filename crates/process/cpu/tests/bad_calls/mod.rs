//! Calls with bad pointers, lengths and counts, which must fail alike on every engine. The tests of both engines use them.

use everwarp_process::imports::{ImportType, ImportedFunction, WASI_MODULE, functions};
use everwarp_process::net;

const FAULT: u32 = 21;
const INVALID: u32 = 28;
const NOT_CAPABLE: u32 = 76;

/// A call that must fail: the function, its arguments and the expected error.
pub(crate) type BadCall = (&'static str, &'static [i64], u32);

/// Beyond the memory, which has one page.
const BEYOND: i64 = 65_536;
/// The last four bytes of the memory.
const LAST: i64 = 65_532;
/// A vector at 16 that is in memory, one at 24 that begins beyond it, and one at 32 that ends beyond it.
const GOOD: i64 = 16;
const OUTSIDE: i64 = 24;
const LONG: i64 = 32;

/// Each pointer of each function.
pub(crate) const CALLS: &[BadCall] = &[
    ("args_get", &[BEYOND, 64], FAULT),
    ("args_get", &[64, BEYOND], FAULT),
    ("args_sizes_get", &[BEYOND, 64], FAULT),
    ("args_sizes_get", &[64, LAST + 1], FAULT),
    ("environ_get", &[BEYOND, 64], FAULT),
    ("environ_sizes_get", &[64, BEYOND], FAULT),
    ("clock_res_get", &[0, LAST], FAULT),
    ("clock_res_get", &[9, 64], INVALID),
    ("clock_time_get", &[0, 1, LAST], FAULT),
    ("clock_time_get", &[9, 1, 64], INVALID),
    ("fd_fdstat_get", &[1, BEYOND], FAULT),
    ("fd_filestat_get", &[3, BEYOND - 63], FAULT),
    ("fd_prestat_get", &[3, LAST], FAULT),
    ("fd_prestat_dir_name", &[3, BEYOND, 5], FAULT),
    ("fd_prestat_dir_name", &[3, 64, 65_536], FAULT),
    ("fd_read", &[0, BEYOND, 1, 64], FAULT),
    ("fd_read", &[0, OUTSIDE, 1, 64], FAULT),
    ("fd_read", &[0, LONG, 1, 64], FAULT),
    ("fd_read", &[0, GOOD, 1, BEYOND], FAULT),
    ("fd_read", &[0, GOOD, -1, 64], FAULT),
    ("fd_pread", &[3, OUTSIDE, 1, 0, 64], FAULT),
    ("fd_write", &[1, BEYOND, 1, 64], FAULT),
    ("fd_write", &[1, OUTSIDE, 1, 64], FAULT),
    ("fd_write", &[1, LONG, 1, 64], FAULT),
    ("fd_write", &[1, GOOD, 1, LAST + 1], FAULT),
    ("fd_write", &[1, GOOD, 0x2000_0000, 64], FAULT),
    ("fd_pwrite", &[3, LONG, 1, 0, 64], FAULT),
    ("fd_readdir", &[3, 64, 65_536, 0, 96], FAULT),
    ("fd_readdir", &[3, 64, 8, 0, BEYOND], FAULT),
    ("fd_seek", &[3, 0, 0, LAST], FAULT),
    ("fd_tell", &[3, LAST], FAULT),
    ("path_create_directory", &[3, BEYOND, 1], FAULT),
    ("path_create_directory", &[3, 64, -1], FAULT),
    ("path_filestat_get", &[3, 0, BEYOND, 1, 64], FAULT),
    ("path_filestat_get", &[3, 0, 48, 1, BEYOND], FAULT),
    (
        "path_filestat_set_times",
        &[3, 0, BEYOND, 1, 0, 0, 0],
        FAULT,
    ),
    ("path_link", &[3, 0, BEYOND, 1, 3, 48, 1], FAULT),
    ("path_link", &[3, 0, 48, 1, 3, BEYOND, 1], FAULT),
    ("path_open", &[3, 0, BEYOND, 1, 0, 2, 2, 0, 64], FAULT),
    ("path_open", &[3, 0, 48, 1, 1, 2, 2, 0, BEYOND], FAULT),
    ("path_readlink", &[3, BEYOND, 1, 64, 8, 96], FAULT),
    ("path_readlink", &[3, 48, 1, BEYOND, 8, 96], FAULT),
    ("path_readlink", &[3, 48, 1, 64, 8, BEYOND], FAULT),
    ("path_remove_directory", &[3, BEYOND, 1], FAULT),
    ("path_rename", &[3, BEYOND, 1, 3, 48, 1], FAULT),
    ("path_rename", &[3, 48, 1, 3, 48, -1], FAULT),
    ("path_symlink", &[BEYOND, 1, 3, 48, 1], FAULT),
    ("path_symlink", &[48, 1, 3, BEYOND, 1], FAULT),
    ("path_unlink_file", &[3, BEYOND, 1], FAULT),
    ("poll_oneoff", &[64, 256, 0, 128], INVALID),
    ("poll_oneoff", &[BEYOND, 256, 1, 128], FAULT),
    ("poll_oneoff", &[64, BEYOND, 1, 128], FAULT),
    ("poll_oneoff", &[64, 256, 1, BEYOND], FAULT),
    ("poll_oneoff", &[64, 256, -1, 128], FAULT),
    ("random_get", &[BEYOND, 1], FAULT),
    ("random_get", &[64, -1], FAULT),
    ("sock_accept", &[0, 0, BEYOND], FAULT),
    ("sock_recv", &[0, BEYOND, 1, 0, 64, 96], FAULT),
    ("sock_recv", &[0, GOOD, 1, 0, 64, BEYOND], FAULT),
    ("sock_send", &[1, LONG, 1, 0, 64], FAULT),
    ("launch", &[BEYOND, 1, 64, 0, 128], FAULT),
    ("launch", &[64, 0, 64, -1, 128], FAULT),
    ("launch", &[64, 0, 64, 0, BEYOND], FAULT),
    ("socket", &[4, 1, BEYOND], FAULT),
    ("bind", &[3, BEYOND - 23], FAULT),
    ("connect", &[3, BEYOND - 20], FAULT),
    ("address", &[3, 0, BEYOND - 20], FAULT),
    ("send_to", &[3, BEYOND, 1, 96, 128], FAULT),
    ("send_to", &[3, 64, -1, 96, 128], FAULT),
    ("send_to", &[3, 64, 8, BEYOND - 20, 128], FAULT),
    ("send_to", &[3, 64, 8, 96, BEYOND], FAULT),
    ("receive_from", &[3, BEYOND, 1, 0, 96, 128], FAULT),
    ("receive_from", &[3, 64, -1, 0, 96, 128], FAULT),
    ("receive_from", &[3, 64, 8, 0, BEYOND - 20, 128], FAULT),
    ("receive_from", &[3, 64, 8, 0, 96, BEYOND], FAULT),
    ("option", &[3, 1, LAST], FAULT),
    ("look_up", &[BEYOND, 1, 96, 1, 128], FAULT),
    ("look_up", &[64, -1, 96, 1, 128], FAULT),
    ("look_up", &[64, 1, 96, 0x7fff_ffff, 128], FAULT),
    ("look_up", &[64, 1, 96, -1, 128], FAULT),
    ("look_up", &[64, 1, 96, 1, BEYOND], FAULT),
    // Without a grant.
    ("launch", &[64, 1, 96, 0, 128], NOT_CAPABLE),
    ("socket", &[4, 1, 64], NOT_CAPABLE),
    ("look_up", &[48, 1, 96, 1, 128], NOT_CAPABLE),
    // Pointers that are not aligned.
    ("socket", &[4, 1, 66], INVALID),
    ("bind", &[3, 66], INVALID),
    ("connect", &[3, 66], INVALID),
    ("address", &[3, 0, 66], INVALID),
    ("send_to", &[3, 64, 8, 98, 128], INVALID),
    ("receive_from", &[3, 64, 8, 0, 96, 130], INVALID),
    ("option", &[3, 1, 68], INVALID),
    ("look_up", &[64, 1, 98, 1, 128], INVALID),
    ("args_get", &[65, 128], INVALID),
    ("args_sizes_get", &[66, 128], INVALID),
    ("clock_time_get", &[0, 1, 68], INVALID),
    ("fd_filestat_get", &[3, 68], INVALID),
    ("fd_write", &[1, 17, 1, 64], INVALID),
    ("fd_write", &[1, GOOD, 1, 66], INVALID),
    ("poll_oneoff", &[68, 256, 1, 128], INVALID),
];

/// The functions of WASI and of `everwarp:net`, whose names differ.
pub(crate) fn known() -> impl Iterator<Item = ImportedFunction> {
    functions().filter(|function| [WASI_MODULE, net::MODULE].contains(&function.module))
}

/// A module that makes the calls and exits with 1,000 and the number of the first that returns something else, or with
/// 0. `memory` declares and exports its memory.
pub(crate) fn calls(memory: &str, calls: &[BadCall]) -> String {
    let mut imports = String::new();
    for function in known() {
        let letters = |ty| match ty {
            ImportType::I32 => "i32",
            ImportType::I64 => "i64",
        };
        let params: Vec<_> = function.params().map(letters).collect();
        let (module, name, params) = (function.module, function.name, params.join(" "));
        let result = function.result().map_or("", |_| "(result i32)");
        imports +=
            &format!(r#"(import "{module}" "{name}" (func ${name} (param {params}) {result}))"#);
    }
    let mut body = String::new();
    for (n, (name, arguments, errno)) in calls.iter().enumerate() {
        let function = known().find(|function| function.name == *name);
        let function = function.expect("there is such a function");
        let operands = function
            .params()
            .zip(*arguments)
            .map(|(ty, value)| match ty {
                ImportType::I32 => format!("(i32.const {})", *value as i32),
                ImportType::I64 => format!("(i64.const {value})"),
            });
        let operands: Vec<_> = operands.collect();
        assert_eq!(operands.len(), function.params().len(), "{name}");
        let operands = operands.join(" ");
        body += &format!(
            "(if (i32.ne (call ${name} {operands}) (i32.const {errno}))
               (then (call $proc_exit (i32.const {}))))\n",
            1000 + n
        );
    }
    format!(
        r#"(module {imports} {memory}
          (func (export "_start")
            (i32.store (i32.const 16) (i32.const 64)) (i32.store (i32.const 20) (i32.const 8))
            (i32.store (i32.const 24) (i32.const 65536)) (i32.store (i32.const 28) (i32.const 1))
            (i32.store (i32.const 32) (i32.const 64)) (i32.store (i32.const 36) (i32.const -1))
            (i32.store (i32.const 48) (i32.const 0x78))
            {body}))"#
    )
}

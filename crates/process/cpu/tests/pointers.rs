//! Host calls with pointers and lengths beyond the memory return `EFAULT`, and with pointers that are not aligned
//! `EINVAL`, as on a GPU. They used to trap, or to return `ENOMEM`.

mod bad_calls;
mod common;

use bad_calls::{CALLS, calls, known};
use common::{captured, module, run};
use everwarp_process::imports::{ImportType, wasi_functions};
use everwarp_process::{Directory, ExitStatus};

fn check(memory: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut given = captured().args(&["name"]);
    given.env = vec![("KEY".to_owned(), "value".to_owned())];
    let directory = Directory::open(folder.path(), "/data").expect("the folder is there");
    given.grants.directories = vec![directory];
    let exit = run(&module(&calls(memory, CALLS)), given);
    if let ExitStatus::Exited(code @ 1000..) = exit.status {
        panic!("{:?}", CALLS[code as usize - 1000]);
    }
    assert_eq!(exit.status, ExitStatus::Exited(0));
    assert_eq!(exit.stdout_bytes(), b"", "a refused call does nothing");
    let entries = std::fs::read_dir(folder.path()).expect("the folder is there");
    assert_eq!(entries.count(), 0, "a refused call makes no file");
}

#[test]
fn pointers_beyond_the_memory_are_errors() {
    check(r#"(memory (export "memory") 1)"#);
}

#[test]
fn pointers_beyond_a_shared_memory_are_errors() {
    check(r#"(import "env" "memory" (memory 1 1 shared)) (export "memory" (memory 0))"#);
}

/// Every function that takes a pointer is called with a bad one.
#[test]
fn all_functions_with_pointers_are_checked() {
    const WITHOUT_POINTERS: &[&str] = &[
        "fd_advise",
        "fd_allocate",
        "fd_close",
        "fd_datasync",
        "fd_fdstat_set_flags",
        "fd_fdstat_set_rights",
        "fd_filestat_set_size",
        "fd_filestat_set_times",
        "fd_renumber",
        "fd_sync",
        "listen",
        "proc_exit",
        "proc_raise",
        "sched_yield",
        "set_option",
        "sock_shutdown",
    ];
    for function in known() {
        let called = CALLS.iter().any(|(name, ..)| *name == function.name);
        let without = WITHOUT_POINTERS.contains(&function.name);
        assert_ne!(called, without, "{}", function.name);
    }
}

/// Arguments that are at some limit: of the memory, of an alignment, of a type, or of a table.
const LIMITS: &[i64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    64,
    65,
    0xffff,
    0x1_0000,
    0xfff8,
    0x7fff_ffff,
    -1,
    -8,
    1 << 63,
];

/// Calls of every function of WASI with arguments that were chosen without looking at their meaning. `proc_exit` would
/// end the calls, and `poll_oneoff` might wait.
fn calls_with_any_arguments(each: usize) -> String {
    let (mut imports, mut calls) = (String::new(), String::new());
    let mut random = 1u64;
    let mut choose = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        LIMITS[(random >> 33) as usize % LIMITS.len()]
    };
    for function in wasi_functions() {
        if ["proc_exit", "poll_oneoff"].contains(&function.name) {
            continue;
        }
        let name = function.name;
        let types: Vec<_> = function.params().collect();
        let words: Vec<_> = types
            .iter()
            .map(|ty| if *ty == ImportType::I64 { "i64" } else { "i32" })
            .collect();
        let params = words.join(" ");
        imports += &format!(
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {params}) (result i32)))"#
        );
        for _ in 0..each {
            let arguments: String = words
                .iter()
                .map(|word| match *word {
                    "i32" => format!("(i32.const {})", choose() as i32),
                    _ => format!("(i64.const {})", choose()),
                })
                .collect();
            calls += &format!("(drop (call ${name} {arguments}))\n");
        }
    }
    format!(r#"(module {imports} (memory (export "memory") 1) (func (export "_start") {calls}))"#)
}

/// The library underneath ended the process for some arguments, and its message for a pointer showed a Rust struct. No
/// call traps any more, whatever its arguments are.
#[test]
fn host_calls_return_errors_for_any_arguments() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut given = captured().args(&["name"]);
    let directory = Directory::open(folder.path(), "/data").expect("the folder is there");
    given.grants.directories = vec![directory];
    let exit = run(&module(&calls_with_any_arguments(200)), given);
    assert_eq!(exit.status, ExitStatus::Exited(0), "{}", exit.status);
}

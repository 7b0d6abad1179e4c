//! Host calls with pointers and lengths beyond the memory return `EFAULT`, and with pointers that are not aligned
//! `EINVAL`, as on a GPU. They used to trap, or to return `ENOMEM`.

mod bad_calls;
mod common;

use bad_calls::{CALLS, calls};
use common::{captured, module, run};
use everwarp_process::imports::wasi_functions;
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
        "proc_exit",
        "proc_raise",
        "sched_yield",
        "sock_shutdown",
    ];
    for function in wasi_functions() {
        let called = CALLS.iter().any(|(name, ..)| *name == function.name);
        let without = WITHOUT_POINTERS.contains(&function.name);
        assert_ne!(called, without, "{}", function.name);
    }
}

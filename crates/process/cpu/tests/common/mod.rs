//! Modules as text, and what several tests do with them.

use everwarp_process_cpu::{Config, Exit, Host, Output, Program};

/// The imports that the modules share; each is `$` and its name.
#[allow(dead_code, reason = "one test binary has modules of its own")]
pub(crate) const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory"
    (func $path_remove_directory (param i32 i32 i32) (result i32)))
  ;; Writes bytes to a descriptor, with the vector at 0; answers the error number.
  (func $write (param $fd i32) (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
"#;

/// A program from the text of its fields, with [`IMPORTS`] before them.
#[allow(dead_code, reason = "one test binary has modules of its own")]
pub(crate) fn program(fields: &str) -> Program {
    let bytes = wat::parse_str(format!("(module {IMPORTS} {fields})")).expect("the text is right");
    Program::load(&bytes).expect("the module is right")
}

/// A configuration that captures both streams.
pub(crate) fn captured() -> Config {
    Config {
        stdout: Output::Capture { limit: 1 << 16 },
        stderr: Output::Capture { limit: 1 << 16 },
        ..Config::default()
    }
}

#[allow(dead_code, reason = "not every test binary runs a single process")]
pub(crate) fn run(program: &Program, config: Config) -> Exit {
    let host = Host::start(std::num::NonZeroUsize::new(1)).expect("a host starts");
    let pid = host.spawn(program, config).expect("the process begins");
    host.wait(pid).expect("the pid is fresh")
}

#[allow(dead_code, reason = "not every test binary reads output")]
pub(crate) fn stdout(exit: &Exit) -> String {
    let bytes = &exit.stdout.as_ref().expect("it was captured").bytes;
    String::from_utf8(bytes.clone()).expect("it is text")
}

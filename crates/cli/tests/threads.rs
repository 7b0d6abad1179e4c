//! A thread that waits for standard input does not keep the other threads of its process from writing.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use everwarp_testkit::Running;

/// The first thread reads a byte and exits with it as the code; if there is an argument, it first polls for the byte and a
/// clock. A second thread writes twenty lines and sleeps between them.
const MODULE: &str = r#"(module
  (import "env" "memory" (memory 1 1 shared))
  (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (export "memory" (memory 0))
  (data $line "line\n")
  (func $must (param $errno i32) (if (local.get $errno) (then unreachable)))
  (func (export "_start")
    (call $must (i32.lt_s (call $spawn (i32.const 0)) (i32.const 1)))
    (call $must (call $args_sizes (i32.const 0) (i32.const 4)))
    ;; An hour by the monotonic clock, or descriptor 0.
    (i32.store (i32.const 528) (i32.const 1))
    (i64.store (i32.const 536) (i64.const 3600000000000))
    (i64.store (i32.const 560) (i64.const 77))
    (i32.store8 (i32.const 568) (i32.const 1))
    (if (i32.gt_u (i32.load (i32.const 0)) (i32.const 1)) (then
      (call $must (call $poll (i32.const 512) (i32.const 640) (i32.const 2) (i32.const 704)))
      (call $must (i32.ne (i32.load (i32.const 704)) (i32.const 1)))
      (call $must (i64.ne (i64.load (i32.const 640)) (i64.const 77)))))
    (i32.store (i32.const 16) (i32.const 32))
    (i32.store (i32.const 20) (i32.const 1))
    (call $must (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 24)))
    (call $exit (i32.load8_u (i32.const 32))))
  (func (export "wasi_thread_start") (param i32 i32) (local $left i32)
    (memory.init $line (i32.const 1040) (i32.const 0) (i32.const 5))
    (i32.store (i32.const 1024) (i32.const 1040))
    (i32.store (i32.const 1028) (i32.const 5))
    (i32.store (i32.const 1104) (i32.const 1))
    (i64.store (i32.const 1112) (i64.const 3000000))
    (local.set $left (i32.const 20))
    (loop $more
      (call $must (call $write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1032)))
      (call $must (call $poll (i32.const 1088) (i32.const 1200) (i32.const 1) (i32.const 1300)))
      (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;

#[test]
fn blocked_stdin_read_does_not_block_writes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = folder.path().join("module.wasm");
    let bytes = wat::parse_str(MODULE).expect("the text is right");
    std::fs::write(&module, bytes).expect("the folder is writable");
    let gpu = everwarp::cuda_device_count().is_ok_and(|n| n > 0);
    let engines: &[&str] = if gpu { &["cpu", "cuda"] } else { &["cpu"] };
    for engine in engines {
        for arguments in [vec![], vec!["--", "poll"]] {
            let mut child = Running::start(
                Command::new(env!("CARGO_BIN_EXE_everwarp"))
                    .arg("run")
                    .arg(&module)
                    .args(["--engine", engine])
                    .args(&arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped()),
            );
            let mut input = child.stdin.take().expect("it is piped");
            let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
            let (send, lines) = std::sync::mpsc::channel();
            let reader = thread::spawn(move || {
                for _ in 0..20 {
                    let mut line = String::new();
                    output.read_line(&mut line).expect("it can be read");
                    send.send(line).expect("the test receives");
                }
                let mut rest = String::new();
                output.read_to_string(&mut rest).expect("it can be read");
                rest
            });
            for _ in 0..20 {
                let line = lines.recv_timeout(Duration::from_secs(60));
                assert_eq!(line.as_deref(), Ok("line\n"), "{engine} {arguments:?}");
            }
            input.write_all(b"a").expect("it is read");
            let status = child.wait();
            assert_eq!(status.code(), Some(97), "{engine} {arguments:?}");
            assert_eq!(reader.join().expect("it has not panicked"), "");
        }
    }
}

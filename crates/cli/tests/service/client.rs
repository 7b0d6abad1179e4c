//! The public crate as a client of a sandbox's service, on any of its engines.

use everwarp::process::serving::Folder;
use everwarp::process::{Command, Exit, ExitStatus, Module, Output};
use everwarp::{Select, Service};

use crate::sandbox::{Sandbox, wait_for};

pub(crate) fn connect(sandbox: &Sandbox, engine: Select) -> Service {
    let folder = Folder::at(sandbox.path().join("everwarp"));
    let service = Service::connect_in(folder, engine).expect("it can be used");
    service.expect("it is up")
}

pub(crate) fn module(name: &str, text: &str) -> Module {
    let bytes = wat::parse_str(text).expect("the text is right");
    Module::new(name, bytes).expect("it is a command")
}

/// Writes 600 bytes, and ends with the error of the write.
const WRITES: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 600))
    (call $exit (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

fn captured(exit: &Exit) -> usize {
    exit.stdout_bytes().len()
}

/// The setting of a service for [`captured_output_counts`].
pub(crate) const OUTPUT_QUOTA: &str = "output_bytes = 1000";

/// Captured output counts until the client has it. A process whose output the engine collects, as on a GPU, has ended when its
/// last output turns out not to fit.
pub(crate) fn captured_output_counts(service: &Service, collects: bool) {
    let writes = module("writes", WRITES);
    let host = service.host().module(&writes).start();
    let host = host.expect("it starts");
    let mut command = Command::new(&host, &writes);
    command.stdout(Output::capture(4096));
    let run = || command.spawn().expect("it starts");
    let ended = |count: usize| {
        wait_for("they have ended", || {
            let listing = host.list(0).expect("the service is up");
            (listing.ended == count).then_some(())
        });
    };
    let first = run();
    ended(1);
    let second = run();
    ended(2);
    // No space left on the device, after what there was room for.
    let second = second.wait().expect("it has ended");
    let code = if collects { 0 } else { 51 };
    assert_eq!(second.status, ExitStatus::Exited(code));
    assert_eq!(captured(&second), 400);
    let refused = second.stdout.as_ref().map(|captured| captured.refused);
    assert_eq!(refused, Some(true));
    let first = first.wait().expect("it has ended");
    assert!(first.success());
    assert_eq!(captured(&first), 600);
    // The client has received both.
    for _ in 0..5 {
        let exit = run().wait().expect("it ends");
        assert!(exit.success(), "{:?}", exit.status);
        assert_eq!(captured(&exit), 600);
    }
    let children = command.spawn_many(40).expect("they start");
    let mut total = 0;
    children
        .wait_each(|_, exit| total += captured(&exit))
        .expect("the service is up");
    assert!(total >= 1000, "{total}");
}

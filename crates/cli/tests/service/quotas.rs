//! What each client may use, and that it has it again when its processes have ended.

use std::path::PathBuf;

use everwarp::Service;
use everwarp::process::{Command, ExitStatus, Host, Module, Pid};

use crate::client::{OUTPUT_QUOTA, captured_output_counts, module};
use crate::library::connect;
use crate::sandbox::{Sandbox, endless, finish, signal, wait_for, words};

/// Writes the quotas to a configuration file.
fn config(sandbox: &Sandbox, quotas: &str) -> PathBuf {
    let path = sandbox.path().join("config.toml");
    std::fs::write(&path, format!("[quota]\n{quotas}\n")).expect("the folder is writable");
    path
}

fn host(service: &Service, module: &Module) -> Host {
    service.host().module(module).start().expect("it starts")
}

/// Adds 40 pages to its one page, and ends with whether that failed.
const GROWS: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (call $exit (i32.eq (memory.grow (i32.const 40)) (i32.const -1)))))"#;

/// The same, and then it runs for ever.
const GROWS_AND_STAYS: &str = r#"(module
  (memory (export "memory") 1) (func $nothing)
  (func (export "_start")
    (drop (memory.grow (i32.const 40)))
    (loop $forever (call $nothing) (br $forever))))"#;

const GROWN: u64 = 41 << 16;

fn status(host: &Host, module: &Module) -> ExitStatus {
    Command::new(host, module).status().expect("it runs").status
}

#[test]
fn processes_of_a_client_share_its_memory() {
    let sandbox = Sandbox::new();
    // Enough for one process that has grown, and not for two.
    let config = config(&sandbox, &format!("memory = {}", GROWN + (4 << 16)));
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    let (grows, stays) = (module("grows", GROWS), module("stays", GROWS_AND_STAYS));
    let service = connect(&sandbox);
    let host = service.host().module(&grows).module(&stays);
    let host = host.start().expect("it starts");
    assert_eq!(status(&host, &grows), ExitStatus::Exited(0));
    let mut holder = Command::new(&host, &stays).spawn().expect("it starts");
    wait_for("it has grown", || {
        let rows = host.list(1).expect("the service is up").rows;
        (rows.first()?.memory_bytes == Some(GROWN)).then_some(())
    });
    assert_eq!(status(&host, &grows), ExitStatus::Exited(1));
    // Another client has a memory of its own.
    let other = connect(&sandbox);
    let other = self::host(&other, &grows);
    assert_eq!(status(&other, &grows), ExitStatus::Exited(0));
    holder.kill().expect("the service is up");
    let killed = holder.wait().expect("it ends");
    assert_eq!(killed.status, ExitStatus::Killed);
    assert_eq!(status(&host, &grows), ExitStatus::Exited(0));
    // A module that starts with more than there is does not run.
    let big = module("big", r#"(module (memory 46) (func (export "_start")))"#);
    let big_host = self::host(&service, &big);
    assert!(matches!(
        status(&big_host, &big),
        ExitStatus::OutOfMemory { .. }
    ));
}

#[test]
fn captured_output_counts_until_the_client_has_it() {
    let sandbox = Sandbox::new();
    let config = config(&sandbox, OUTPUT_QUOTA);
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    captured_output_counts(&connect(&sandbox), false);
}

#[test]
fn clients_beyond_the_quota_are_refused_until_one_has_gone() {
    let sandbox = Sandbox::new();
    let config = config(&sandbox, "clients = 1");
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    let first = endless(&sandbox, &[]);
    let nothing = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let args = ["run", nothing.to_str().expect("a plain path")];
    let refused = sandbox.run(&args);
    assert_eq!(refused.status.code(), Some(1));
    let told = words(&refused.stderr);
    assert!(told.contains("1 clients on this engine already"), "{told}");
    signal(first.id(), rustix::process::Signal::INT);
    assert_eq!(finish(first).status.code(), Some(130));
    wait_for("it is gone", || (sandbox.clients() == 0).then_some(()));
    assert!(sandbox.run(&args).status.success());
}

/// Processes that have ended count until they are waited for.
#[test]
fn processes_count_until_they_are_waited_for() {
    let sandbox = Sandbox::new();
    let config = config(&sandbox, "processes = 3");
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    let nothing = module("nothing", r#"(module (func (export "_start")))"#);
    let service = connect(&sandbox);
    let host = host(&service, &nothing);
    let command = Command::new(&host, &nothing);
    for _ in 0..3 {
        let children = command.spawn_many(3).expect("there is room");
        let refused = command.spawn().expect_err("there are three").to_string();
        assert!(refused.contains("3 processes"), "{refused}");
        // Processes that there are not, and the same ones again, make no room.
        let (pids, none) = (children.pids().to_vec(), Pid::new(7, 7));
        for pid in [none; 3] {
            assert!(host.wait(pid).is_err());
        }
        assert!(command.spawn().is_err());
        assert_eq!(children.wait_all().expect("they end").len(), 3);
        for pid in pids {
            assert!(host.wait(pid).is_err());
        }
        let again = command.spawn_many(4).expect_err("there are three");
        assert!(again.to_string().contains("3 processes"), "{again}");
    }
}

/// Opens three sockets, closes them, opens one more, and ends with the error numbers of the third and of the last.
const OPENS: &str = r#"(module
  (import "everwarp:net" "socket" (func $socket (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (local $third i32)
    (drop (call $socket (i32.const 4) (i32.const 1) (i32.const 0)))
    (drop (call $socket (i32.const 4) (i32.const 2) (i32.const 4)))
    (local.set $third (call $socket (i32.const 4) (i32.const 1) (i32.const 8)))
    (drop (call $close (i32.load (i32.const 0))))
    (drop (call $close (i32.load (i32.const 4))))
    (call $exit (i32.add
      (local.get $third)
      (i32.mul (i32.const 100) (call $socket (i32.const 4) (i32.const 1) (i32.const 8)))))))"#;

/// Descriptors are the whole service's, so no client takes all of them.
#[test]
fn sockets_of_a_client_are_counted_and_come_back() {
    let sandbox = Sandbox::new();
    let config = config(&sandbox, "sockets = 2");
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    let opens = sandbox.module("opens.wasm", OPENS);
    let opens = opens.to_str().expect("a plain path");
    // A process that has ended has given its sockets back.
    for _ in 0..3 {
        let output = sandbox.run(&["run", opens, "--engine", "cpu", "--connect", "1"]);
        // ENFILE.
        assert_eq!(output.status.code(), Some(41), "{}", words(&output.stderr));
    }
}

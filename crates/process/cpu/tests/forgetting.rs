//! A program that runs one module after the other for months keeps none of them.
#![cfg(target_os = "linux")]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;

use everwarp_process::{
    ExitStatus, Grants, HostConfig, Module, ModuleId, ProcessEngine, SpawnRequest,
};
use everwarp_process_cpu::CpuProcesses;

/// Modules that are run before the memory is looked at for the first time.
const FIRST: u32 = 1000;
const ALL: u32 = 10_000;
/// Bytes by which the memory may differ afterwards: allocators keep some.
const TOLERANCE: u64 = 32 << 20;

/// A module that exits with a code of its own.
fn module(number: u32) -> Module {
    let text = format!(
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory 1) (data (i32.const 0) "module {number}")
          (func (export "_start") (call $exit (i32.const {}))))"#,
        number % 100
    );
    let bytes = wat::parse_str(&text).expect("it is a module");
    Module::new(format!("module-{number}"), bytes).expect("it is valid")
}

/// Runs a process of a module on a host of its own.
fn run(number: u32) -> ExitStatus {
    let config = HostConfig {
        workers: NonZeroUsize::new(1),
        ..HostConfig::default()
    };
    let host = CpuProcesses::start(&[module(number)], &config).expect("it starts");
    let started = Mutex::new(Vec::new());
    host.spawn(&SpawnRequest {
        module: ModuleId(0),
        grants: &Grants::default(),
        count: 1,
        write: &|_, start| start.arg(&["program"]),
        started: &|_, pids| {
            started.lock().expect("no other holder panics").extend(pids);
            ControlFlow::Continue(())
        },
    })
    .expect("it is spawned");
    let pids = started.into_inner().expect("no other holder panics");
    host.wait(pids[0], None).expect("it exits").status
}

/// The bytes of memory that this program has.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map_or(0, |pages: u64| pages * 4096)
}

#[test]
fn ten_thousand_different_modules_leave_the_memory_as_it_was() {
    let mut before = 0;
    for number in 0..ALL {
        assert_eq!(run(number), ExitStatus::Exited(number % 100));
        if number == FIRST {
            before = memory();
        }
    }
    let after = memory();
    assert!(
        before > 0 && after < before + TOLERANCE,
        "{before} bytes after {FIRST} modules, {after} after {ALL}"
    );
}

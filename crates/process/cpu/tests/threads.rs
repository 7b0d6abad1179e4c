//! Threads of one process. The module and its expected behaviour are those of the GPU's tests.

mod common;

use std::collections::BTreeMap;

use common::{Given, TestHost, captured, module, run, stdout};
use everwarp_process::{Exit, ExitStatus, Module, Stage, Trap, TrapKind};

fn program() -> Module {
    let text = include_str!("../../cuda/tests/modules/threads.wat");
    let bytes = wat::parse_str(text).expect("the text is right");
    Module::new("threads", bytes).expect("the module is right")
}

fn mode(letter: char) -> Given {
    let given = captured().memory(4 << 16);
    given.args(&["threads", &letter.to_string()])
}

fn exit(letter: char) -> Exit {
    run(&program(), mode(letter))
}

#[test]
fn threads_share_memory_and_wait_for_each_other() {
    for letter in ['c', 'l', 'n', 't', 'g', 'j', 'd'] {
        assert_eq!(exit(letter).status, ExitStatus::Exited(0), "{letter}");
    }
}

#[test]
fn lines_of_threads_stay_whole() {
    let exit = exit('o');
    assert_eq!(exit.status, ExitStatus::Exited(0));
    let mut lines = BTreeMap::new();
    for line in stdout(&exit).lines() {
        *lines.entry(line.to_owned()).or_insert(0) += 1;
    }
    let expected = (0..=20).map(|n| (format!("a line of thread {n:02}"), 10));
    assert_eq!(lines, expected.collect());
}

#[test]
fn end_of_one_thread_ends_the_process() {
    let trap = |kind, function: &str| {
        ExitStatus::Trapped(Trap {
            kind,
            function: Some(function.to_owned()),
            message: String::new(),
        })
    };
    for (letter, status) in [
        ('x', trap(TrapKind::Unreachable, "culprit")),
        ('e', ExitStatus::Exited(7)),
        ('r', ExitStatus::Exited(0)),
        ('a', trap(TrapKind::UnalignedAtomic, "first")),
        ('w', trap(TrapKind::MemoryOutOfBounds, "first")),
    ] {
        assert_eq!(exit(letter).status, status, "{letter}");
    }
}

#[test]
fn threads_share_the_fuel_of_their_process() {
    let limited = |letter, fuel| run(&program(), mode(letter).fuel(fuel));
    let spinning = limited('f', 10_000_000);
    assert_eq!(spinning.status, ExitStatus::OutOfFuel);
    assert!(spinning.fuel_used.is_some_and(|used| used <= 10_000_000));
    // Later threads get what ended threads have left, and the process has used what all of them have.
    let churning = limited('j', 1_000_000_000);
    assert_eq!(churning.status, ExitStatus::Exited(0));
    let used = churning.fuel_used.expect("it was counted");
    assert!(used > 300 && used < 100_000_000, "{used}");
    let counting = limited('c', 1 << 62);
    assert_eq!(counting.status, ExitStatus::Exited(0));
    assert!(counting.fuel_used.is_some_and(|used| used > 40 * 100));
    assert_eq!(exit('c').fuel_used, None);
}

#[test]
fn kill_ends_all_threads() {
    let host = TestHost::start(1);
    for (letter, at_once) in [('k', false), ('k', true), ('f', true)].repeat(5) {
        let pid = host.spawn(&program(), mode(letter));
        let calls = || host.list().rows[0].stage == Stage::Calling;
        while !(at_once || calls()) {
            std::thread::yield_now();
        }
        host.kill(pid);
        let exit = host.wait(pid);
        assert_eq!(exit.status, ExitStatus::Killed, "{letter}");
    }
}

#[test]
fn process_cannot_exceed_its_thread_quota() {
    assert_eq!(exit('b').status, ExitStatus::Exited(64));
    for threads in [0, 1, 9] {
        let mut given = mode('b');
        given.load.threads = threads;
        assert_eq!(run(&program(), given).status, ExitStatus::Exited(threads));
    }
}

#[test]
fn processes_with_threads_run_at_the_same_time() {
    let host = TestHost::start(2);
    let program = program();
    let pids = ['c', 'n', 'x', 'c', 'e', 'd'].repeat(3).into_iter();
    let pids: Vec<_> = pids
        .map(|letter| (letter, host.spawn(&program, mode(letter))))
        .collect();
    for (letter, pid) in pids {
        let status = host.wait(pid).status;
        match letter {
            'x' => assert!(matches!(status, ExitStatus::Trapped(_))),
            'e' => assert_eq!(status, ExitStatus::Exited(7)),
            _ => assert_eq!(status, ExitStatus::Exited(0), "{letter}"),
        }
    }
}

#[test]
fn process_with_threads_cannot_be_a_child() {
    let parent = r#"(module
      (import "everwarp:gpu" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32) (result i64)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1) (data (i32.const 0) "threads")
      (func (export "_start")
        (call $exit (i32.wrap_i64 (i64.sub (i64.const 0)
          (call $spawn (i32.const 0) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))))))"#;
    let parent = module(parent);
    let host = TestHost::start(1);
    host.load(&program(), &captured().load);
    let exit = host.wait(host.spawn(&parent, captured()));
    assert_eq!(exit.status, ExitStatus::Exited(6));
}

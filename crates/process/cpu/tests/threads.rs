//! Threads of one process: the module is that of the GPU's tests, and so is what it must do.

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use common::{captured, run, stdout};
use everwarp_process_cpu::{Config, Exit, Host, Program, Reason, Stage, TrapKind};

fn program() -> Program {
    let text = include_str!("../../cuda/tests/modules/threads.wat");
    Program::load(&wat::parse_str(text).expect("the text is right")).expect("the module is right")
}

fn mode(letter: char) -> Config {
    Config {
        args: vec!["threads".to_owned(), letter.to_string()],
        memory_limit: Some(4 << 16),
        ..captured()
    }
}

fn exit(letter: char) -> Exit {
    run(&program(), mode(letter))
}

#[test]
fn threads_count_together_and_wait_for_each_other() {
    for letter in ['c', 'l', 'n', 't', 'g', 'j', 'd'] {
        assert_eq!(exit(letter).reason, Reason::Normal(0), "{letter}");
    }
}

#[test]
fn lines_of_threads_stay_whole() {
    let exit = exit('o');
    assert_eq!(exit.reason, Reason::Normal(0));
    let mut lines = BTreeMap::new();
    for line in stdout(&exit).lines() {
        *lines.entry(line.to_owned()).or_insert(0) += 1;
    }
    let expected = (0..=20).map(|n| (format!("a line of thread {n:02}"), 10));
    assert_eq!(lines, expected.collect());
}

#[test]
fn what_ends_one_thread_ends_all() {
    let trap = |kind, function: &str| Reason::Trap {
        kind,
        function: Some(function.to_owned()),
        message: String::new(),
    };
    for (letter, reason) in [
        ('x', trap(TrapKind::Unreachable, "culprit")),
        ('e', Reason::Normal(7)),
        ('r', Reason::Normal(0)),
        ('a', trap(TrapKind::UnalignedAtomic, "first")),
        ('w', trap(TrapKind::MemoryOutOfBounds, "first")),
    ] {
        assert_eq!(exit(letter).reason, reason, "{letter}");
    }
}

#[test]
fn fuel_is_the_process_s() {
    let limited = |letter, fuel| Config {
        fuel: Some(fuel),
        ..mode(letter)
    };
    let spinning = run(&program(), limited('f', 10_000_000));
    assert_eq!(spinning.reason, Reason::OutOfFuel);
    assert!(spinning.fuel_used <= 10_000_000);
    // What threads have left is there for those that come later, and what all have used is what the process has.
    let churning = run(&program(), limited('j', 1_000_000_000));
    assert_eq!(churning.reason, Reason::Normal(0));
    assert!(churning.fuel_used > 300 && churning.fuel_used < 100_000_000);
    let endless = exit('c');
    assert!(endless.fuel_used > 40 * 100 && endless.fuel_used < 1_000_000_000);
}

#[test]
fn a_kill_ends_all_threads() {
    let host = Host::start(NonZeroUsize::new(1)).expect("a host starts");
    for (letter, at_once) in [('k', false), ('k', true), ('f', true)].repeat(5) {
        let pid = host.spawn(&program(), mode(letter)).expect("it begins");
        let calls = || host.processes(1).rows[0].stage == Stage::Calling;
        while !(at_once || calls()) {
            std::thread::yield_now();
        }
        host.kill(pid).expect("the pid is fresh");
        let exit = host.wait(pid).expect("the pid is fresh");
        assert_eq!(exit.reason, Reason::Killed, "{letter}");
    }
}

#[test]
fn a_bomb_meets_its_quota() {
    assert_eq!(exit('b').reason, Reason::Normal(64));
    for threads in [0, 1, 9] {
        let config = Config {
            threads: Some(threads),
            ..mode('b')
        };
        assert_eq!(run(&program(), config).reason, Reason::Normal(threads));
    }
}

#[test]
fn processes_with_threads_run_beside_each_other() {
    let host = Host::start(NonZeroUsize::new(2)).expect("a host starts");
    let program = program();
    let pids = ['c', 'n', 'x', 'c', 'e', 'd'].repeat(3).into_iter();
    let pids: Vec<_> = pids
        .map(|letter| {
            (
                letter,
                host.spawn(&program, mode(letter)).expect("it begins"),
            )
        })
        .collect();
    for (letter, pid) in pids {
        let reason = host.wait(pid).expect("the pid is fresh").reason;
        match letter {
            'x' => assert!(matches!(reason, Reason::Trap { .. })),
            'e' => assert_eq!(reason, Reason::Normal(7)),
            _ => assert_eq!(reason, Reason::Normal(0), "{letter}"),
        }
    }
}

#[test]
fn a_process_with_threads_is_nobody_s_child() {
    let parent = r#"(module
      (import "everwarp:gpu" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32) (result i64)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1) (data (i32.const 0) "threads")
      (func (export "_start")
        (call $exit (i32.wrap_i64 (i64.sub (i64.const 0)
          (call $spawn (i32.const 0) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))))))"#;
    let parent = Program::load(&wat::parse_str(parent).expect("the text is right"));
    let parent = parent.expect("the module is right");
    let host = Host::start(NonZeroUsize::new(1)).expect("a host starts");
    host.name("threads", &program());
    let pid = host.spawn(&parent, captured()).expect("it begins");
    let exit = host.wait(pid).expect("the pid is fresh");
    assert_eq!(exit.reason, Reason::Normal(6));
}

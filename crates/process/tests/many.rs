//! Many processes at once, and the table that names them.

mod common;

use std::num::NonZeroUsize;

use common::{captured, program, stdout};
use everwarp_process::{Config, Host, ProcessState, Reason};

/// Writes its arguments out, each with a zero byte behind it.
const ECHO: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $args_get (i32.const 1024) (i32.const 32768)))
    (drop (call $write (i32.const 1) (i32.const 32768) (i32.load (i32.const 20)))))"#;

#[test]
fn a_thousand_processes_keep_their_arguments_apart() {
    let echo = program(ECHO);
    let host = Host::start(NonZeroUsize::new(4)).expect("a host starts");
    assert_eq!(host.threads(), 4);
    let pids: Vec<_> = (0..1000)
        .map(|n| {
            let config = Config {
                args: vec!["echo".to_owned(), n.to_string()],
                ..captured()
            };
            host.spawn(&echo, config).expect("it begins")
        })
        .collect();
    assert_eq!(host.list().len(), 1000);
    for (n, pid) in pids.into_iter().enumerate() {
        let exit = host.wait(pid).expect("the pid is fresh");
        assert!(exit.success());
        assert_eq!(stdout(&exit), format!("echo\0{n}\0"));
    }
    assert!(host.list().is_empty());
}

#[test]
fn a_trap_touches_nobody_else() {
    let echo = program(ECHO);
    let trapping = program(r#"(memory (export "memory") 1) (func (export "_start") unreachable)"#);
    let host = Host::start(NonZeroUsize::new(2)).expect("a host starts");
    let pids: Vec<_> = (0..200)
        .map(|n| {
            let program = if n % 3 == 0 { &trapping } else { &echo };
            host.spawn(program, captured()).expect("it begins")
        })
        .collect();
    for (n, pid) in pids.into_iter().enumerate() {
        let exit = host.wait(pid).expect("the pid is fresh");
        let trapped = matches!(exit.reason, Reason::Trap { .. });
        assert_eq!((exit.success(), trapped), (n % 3 != 0, n % 3 == 0));
    }
}

#[test]
fn an_old_pid_is_an_error_and_never_somebody_else() {
    let echo = program(ECHO);
    let host = Host::start(NonZeroUsize::new(1)).expect("a host starts");
    let first = host.spawn(&echo, captured()).expect("it begins");
    host.wait(first).expect("the pid is fresh");
    let endless =
        program(r#"(memory (export "memory") 1) (func (export "_start") (loop $l (br $l)))"#);
    let second = host.spawn(&endless, captured()).expect("it begins");
    assert_eq!(first.slot(), second.slot());
    assert_eq!(first.generation() + 1, second.generation());
    assert!(host.wait(first).is_err());
    assert!(host.kill(first).is_err(), "it must not end the second");
    assert_ne!(host.list()[0].state, ProcessState::Exited);
    host.kill(second).expect("the pid is fresh");
    assert_eq!(
        host.wait(second).expect("the pid is fresh").reason,
        Reason::Killed
    );
    assert_eq!(host.kill(second).expect_err("it is old").0, second);
}

#[test]
fn of_two_that_wait_for_one_process_one_gets_the_exit() {
    let echo = program(ECHO);
    let host = Host::start(NonZeroUsize::new(1)).expect("a host starts");
    for _ in 0..50 {
        let pid = host.spawn(&echo, captured()).expect("it begins");
        let got = std::thread::scope(|scope| {
            let waiters = [0, 1].map(|_| scope.spawn(|| host.wait(pid).is_ok()));
            waiters.map(|w| w.join().expect("it returns"))
        });
        assert_ne!(got[0], got[1]);
    }
}

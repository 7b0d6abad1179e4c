//! Many processes at once, and the table that names them.

mod common;

use std::num::NonZeroUsize;

use common::{captured, program, run, stdout};
use everwarp_process_cpu::{Config, Host, ProcessState, Reason, TrapKind};

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
fn processes_are_begun_together_in_order_or_not_at_all() {
    let echo = program(ECHO);
    let host = Host::start(NonZeroUsize::new(2)).expect("a host starts");
    let config = |argument: &str| Config {
        args: vec!["echo".to_owned(), argument.to_owned()],
        ..captured()
    };
    let configs = (0..300).map(|n| config(&n.to_string())).collect();
    let pids = host.spawn_all(&echo, configs).expect("they begin");
    for (n, pid) in pids.into_iter().enumerate() {
        let exit = host.wait(pid).expect("the pid is fresh");
        assert_eq!(stdout(&exit), format!("echo\0{n}\0"));
    }
    let wrong = vec![config("a"), config("zero\0byte"), config("b")];
    let error = host.spawn_all(&echo, wrong).expect_err("one is wrong");
    assert!(error.to_string().contains("zero byte"), "{error}");
    let limit = |memory_limit| Config {
        memory_limit,
        ..captured()
    };
    let small = vec![limit(None), limit(Some(100))];
    let error = host.spawn_all(&echo, small).expect_err("one is small");
    assert!(error.to_string().contains("the limit is 100"), "{error}");
    assert!(host.list().is_empty());
    let none = host.spawn_all(&echo, Vec::new()).expect("nothing is wrong");
    assert!(none.is_empty());
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

/// Traps unless its memory, its table and its global are as the module says, then leaves them full of something
/// else, and ends by a trap if it has an argument. It grows by 16 pages, and `MAXIMUM` is its table's.
const SCRIBBLE: &str = r#"(memory (export "memory") 1) (data (i32.const 65528) "original")
  (table 2 MAXIMUM funcref) (elem (i32.const 0) $check) (elem declare func $check)
  (global $mark (mut i32) (i32.const 7))
  (func $check (local $at i32)
    (if (i32.ne (memory.grow (i32.const 16)) (i32.const 1)) (then unreachable))
    (if (i64.ne (i64.load (i32.const 65528)) (i64.const 0x6c616e696769726f)) (then unreachable))
    (i64.store (i32.const 65528) (i64.const 0))
    (loop $each
      (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
      (br_if $each (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 0x110000))))
    (if (i32.eqz (ref.is_null (table.get (i32.const 1)))) (then unreachable))
    (if (i32.ne (global.get $mark) (i32.const 7)) (then unreachable)))
  (func $start (export "_start")
    (call $check)
    (drop (call $args_sizes_get (i32.const 0) (i32.const 4)))
    (global.set $mark (i32.load (i32.const 0)))
    (memory.fill (i32.const 0) (i32.const 0xa5) (i32.const 0x110000))
    (table.set (i32.const 1) (ref.func $check))
    (table.set (i32.const 0) (ref.null func))
    (drop (i32.div_u (i32.const 1) (i32.eqz (global.get $mark)))))"#;

#[test]
fn nothing_of_an_instance_is_left_for_the_next() {
    // A table with a small maximum comes from the pool, one without is mapped afresh.
    for maximum in ["2", ""] {
        let scribbling = program(&SCRIBBLE.replace("MAXIMUM", maximum));
        let host = Host::start(NonZeroUsize::new(3)).expect("a host starts");
        let pids: Vec<_> = (0..300)
            .map(|n| {
                let args = vec!["one".to_owned(); n % 2];
                let config = Config { args, ..captured() };
                host.spawn(&scribbling, config).expect("it begins")
            })
            .collect();
        for (n, pid) in pids.into_iter().enumerate() {
            let expected = match n % 2 {
                0 => Reason::Normal(0),
                _ => Reason::Trap {
                    kind: TrapKind::DivideByZero,
                    function: Some("start".to_owned()),
                    message: String::new(),
                },
            };
            assert_eq!(host.wait(pid).expect("the pid is fresh").reason, expected);
        }
    }
}

#[test]
fn a_table_without_a_maximum_grows_beyond_what_the_pool_has() {
    let growing = program(
        r#"(memory (export "memory") 1) (table 1 funcref)
        (func (export "_start")
          (call $proc_exit (table.grow (ref.null func) (i32.const 1000000))))"#,
    );
    // The answer is the length before.
    assert_eq!(run(&growing, captured()).reason, Reason::Normal(1));
    let large = program(
        r#"(memory (export "memory") 1) (table 20001 20001 funcref) (table 3 3 funcref)
        (func (export "_start") (call $proc_exit (table.size 0)))"#,
    );
    assert_eq!(run(&large, captured()).reason, Reason::Normal(20_001));
}

#[test]
fn threads_are_limited_and_come_back() {
    let many = Host::start(NonZeroUsize::new(1025));
    let says = many.expect_err("the pool has 1,024 instances").to_string();
    assert!(says.starts_with("1025 threads beside "), "{says}");
    for _ in 0..300 {
        drop(Host::start(NonZeroUsize::new(4)).expect("those before have ended"));
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

/// Adds up to a number in a loop of calls, and ends with whether the sum is right.
const SUM: &str = r#"(memory (export "memory") 1)
  (func $next (param i64) (result i64) (i64.add (local.get 0) (i64.const 1)))
  (func (export "_start") (local $n i64) (local $sum i64)
    (loop $more
      (local.set $sum (i64.add (local.get $sum) (local.get $n)))
      (br_if $more (i64.lt_u (local.tee $n (call $next (local.get $n))) (i64.const 200000))))
    (call $proc_exit (i64.ne (local.get $sum) (i64.const 19999900000))))"#;

#[test]
fn a_module_is_loaded_while_others_run() {
    let first = program(SUM);
    let endless = program(r#"(memory (export "memory") 1) (func (export "_start") (loop (br 0)))"#);
    let host = Host::start(NonZeroUsize::new(2)).expect("a host starts");
    let loops = host.spawn(&endless, captured()).expect("it begins");
    let in_flight: Vec<_> = (0..100)
        .map(|_| host.spawn(&first, captured()).expect("it begins"))
        .collect();
    let bytes = wat::parse_str(format!("(module {} {ECHO})", common::IMPORTS));
    let (late, took) = host
        .load(&bytes.expect("the text is right"))
        .expect("it is right");
    eprintln!("loaded in {took:?}");
    let config = Config {
        args: vec!["late".to_owned()],
        ..captured()
    };
    let late = host.spawn(&late, config).expect("it begins");
    for pid in in_flight {
        assert!(host.wait(pid).expect("the pid is fresh").success());
    }
    assert_eq!(
        stdout(&host.wait(late).expect("the pid is fresh")),
        "late\0"
    );
    host.kill(loops).expect("the pid is fresh");
    let exit = host.wait(loops).expect("the pid is fresh");
    assert_eq!(exit.reason, Reason::Killed);
    assert!(host.load(b"no module").is_err());
}

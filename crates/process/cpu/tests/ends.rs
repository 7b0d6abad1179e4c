//! How processes end: traps, fuel, kills and memory.

mod common;

use common::{captured, program, run};
use everwarp_process_cpu::{
    Config, Host, LoadError, ProcessState, Program, Reason, SpawnError, Stage, TrapKind,
};

const LOOP: &str =
    r#"(memory (export "memory") 1) (func (export "_start") (loop $forever (br $forever)))"#;

/// Waits for a relative clock of an hour. The subscription lies at 96, because its record is 8-aligned.
const SLEEP: &str = r#"(memory (export "memory") 1)
        (func (export "_start")
          (i32.store (i32.const 112) (i32.const 1))
          (i64.store (i32.const 120) (i64.const 3600000000000))
          (drop (call $poll_oneoff (i32.const 96) (i32.const 200) (i32.const 1) (i32.const 300))))"#;

#[test]
fn a_trap_has_its_kind_and_its_function() {
    for (body, kind) in [
        ("unreachable", TrapKind::Unreachable),
        (
            "(drop (i32.div_s (i32.const 1) (global.get $zero)))",
            TrapKind::DivideByZero,
        ),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
            TrapKind::IntegerOverflow,
        ),
        (
            "(drop (i32.trunc_f32_s (f32.const nan)))",
            TrapKind::InvalidConversion,
        ),
        (
            "(drop (i32.load (i32.const 65533)))",
            TrapKind::MemoryOutOfBounds,
        ),
        ("(call_indirect (i32.const 9))", TrapKind::TableOutOfBounds),
        (
            "(call_indirect (i32.const 1))",
            TrapKind::UninitializedElement,
        ),
        (
            "(drop (call_indirect (result i32) (i32.const 0)))",
            TrapKind::IndirectCallTypeMismatch,
        ),
        ("(call $culprit)", TrapKind::StackExhausted),
    ] {
        let trapping = program(&format!(
            r#"(memory (export "memory") 1) (table 2 funcref) (elem (i32.const 0) $culprit)
            (global $zero (mut i32) (i32.const 0))
            (func $culprit {body}) (func (export "_start") (call $culprit))"#
        ));
        let expected = Reason::Trap {
            kind,
            function: Some("culprit".to_owned()),
            message: String::new(),
        };
        assert_eq!(run(&trapping, captured()).reason, expected, "{body}");
    }
}

#[test]
fn a_function_without_a_name_is_named_by_its_number() {
    let bytes = wat::parse_str(r#"(module (func) (func (export "_start") unreachable))"#);
    let program = Program::load(&bytes.expect("the text is right")).expect("the module is right");
    let reason = run(&program, captured()).reason;
    assert_eq!(reason.to_string(), "trap: unreachable in `function 1`");
}

#[test]
fn fuel_ends_a_loop_and_is_counted() {
    let endless = program(LOOP);
    for fuel in [0, 1, 100_000] {
        let config = Config {
            fuel: Some(fuel),
            ..captured()
        };
        let exit = run(&endless, config);
        assert_eq!(exit.reason, Reason::OutOfFuel);
        assert!(exit.fuel_used <= fuel && exit.fuel_used + 10 >= fuel);
    }
}

#[test]
fn a_kill_ends_what_runs_what_waits_and_what_sleeps() {
    let endless = program(LOOP);
    let sleeping = program(SLEEP);
    let one = std::num::NonZeroUsize::new(1);
    for program in [&endless, &sleeping] {
        let host = Host::start(one).expect("a host starts");
        let first = host.spawn(program, captured()).expect("it begins");
        let second = host.spawn(program, captured()).expect("it begins");
        // Whether the first runs already or not, each ends by a kill and by nothing else.
        host.kill(second).expect("the pid is fresh");
        host.kill(first).expect("the pid is fresh");
        host.kill(first).expect("a second kill is no error");
        for pid in [first, second] {
            assert_eq!(
                host.wait(pid).expect("the pid is fresh").reason,
                Reason::Killed
            );
        }
        // The only thread is free again.
        let quick = common::program(r#"(memory (export "memory") 1) (func (export "_start"))"#);
        let pid = host.spawn(&quick, captured()).expect("it begins");
        assert!(host.wait(pid).expect("the pid is fresh").success());
        // Dropping the host kills what it still has.
        host.spawn(program, captured()).expect("it begins");
        host.spawn(program, captured()).expect("it begins");
    }
}

#[test]
fn a_kill_ends_what_is_certainly_running() {
    let programs = [program(LOOP), program(SLEEP)];
    let host = Host::start(std::num::NonZeroUsize::new(1)).expect("a host starts");
    for program in programs.iter().cycle().take(40) {
        let pid = host.spawn(program, captured()).expect("it begins");
        loop {
            match host.list()[0].state {
                ProcessState::Queued => std::thread::yield_now(),
                ProcessState::Running => break,
                ProcessState::Exited => panic!("it ended by itself: {:?}", host.wait(pid)),
            }
        }
        host.kill(pid).expect("the pid is fresh");
        assert_eq!(
            host.wait(pid).expect("the pid is fresh").reason,
            Reason::Killed
        );
    }
}

#[test]
fn the_list_tells_what_each_process_does() {
    // Fuel is made known by calls.
    let looping = r#"(memory (export "memory") 1) (func $nothing)
      (func (export "_start") (loop $forever (call $nothing) (br $forever)))"#;
    let (looping, sleeping) = (program(looping), program(SLEEP));
    let host = Host::start(std::num::NonZeroUsize::new(2)).expect("a host starts");
    let spawn = |program| host.spawn(program, captured()).expect("it begins");
    let (turns, sleeps, waits) = (spawn(&looping), spawn(&sleeping), spawn(&looping));
    let stages = || {
        let listing = host.processes(usize::MAX);
        let stages: Vec<_> = listing
            .rows
            .iter()
            .map(|r| (r.pid, r.stage.clone()))
            .collect();
        (listing, stages)
    };
    let expected = [
        (turns, Stage::Running),
        (sleeps, Stage::Calling),
        (waits, Stage::Waiting),
    ];
    // It takes a while until the second one sleeps and the first has used any fuel.
    let first = loop {
        let (listing, stages) = stages();
        if stages == expected && listing.rows[0].fuel_used > Some(0) {
            break listing;
        }
        std::thread::yield_now();
    };
    assert_eq!((first.running, first.waiting, first.ended), (2, 1, 0));
    assert!(
        first.rows[0]
            .memory_bytes
            .is_some_and(|bytes| bytes >= 1 << 16)
    );
    assert_eq!(
        (first.rows[2].fuel_used, first.rows[2].memory_bytes),
        (None, None)
    );
    let second = host.processes(1);
    assert_eq!((second.rows.len(), second.total()), (1, 3));
    assert!(
        second.rows[0].fuel_used > first.rows[0].fuel_used,
        "it goes on"
    );
    host.kill_all();
    for pid in [turns, sleeps, waits] {
        loop {
            let listing = host.processes(usize::MAX);
            let row = listing
                .rows
                .iter()
                .find(|r| r.pid == pid)
                .expect("it is there");
            if row.stage == Stage::Ended("killed".to_owned()) {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(
            host.wait(pid).expect("the pid is fresh").reason,
            Reason::Killed
        );
    }
    assert_eq!(host.processes(usize::MAX).total(), 0);
}

/// Grows by so many pages and exits with 1 if that was refused.
const GROW: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (call $proc_exit (i32.eq (memory.grow (i32.const 3)) (i32.const -1))))"#;

#[test]
fn memory_beyond_the_limit_is_refused_to_the_guest_and_at_the_start() {
    let growing = program(GROW);
    assert_eq!(growing.start_bytes(), 2 << 16);
    for (pages, code) in [(2, 1), (4, 1), (5, 0), (100, 0)] {
        let config = Config {
            memory_limit: Some(pages << 16),
            ..captured()
        };
        assert_eq!(
            run(&growing, config).reason,
            Reason::Normal(code),
            "{pages}"
        );
    }
    let host = Host::start(None).expect("a host starts");
    let config = Config {
        memory_limit: Some((2 << 16) - 1),
        ..captured()
    };
    let refused = host.spawn(&growing, config);
    assert!(matches!(
        refused,
        Err(SpawnError::Memory {
            needs: 131_072,
            limit: 131_071
        })
    ));
    assert!(host.list().is_empty());
}

#[test]
fn a_table_counts_for_the_limit() {
    let growing = program(
        r#"(memory (export "memory") 1) (table 10 funcref)
        (func (export "_start")
          (call $proc_exit (i32.eq (table.grow (ref.null func) (i32.const 1000)) (i32.const -1))))"#,
    );
    for (limit, code) in [((1 << 16) + 80, 1), ((1 << 16) + 80 + 8000, 0)] {
        let config = Config {
            memory_limit: Some(limit),
            ..captured()
        };
        assert_eq!(run(&growing, config).reason, Reason::Normal(code));
    }
}

#[test]
fn what_is_no_program_is_refused_with_the_offset() {
    let load = |text: &str| Program::load(&wat::parse_str(text).expect("the text is right"));
    assert!(matches!(
        Program::load(b"(module)"),
        Err(LoadError::Invalid { offset: 0, .. })
    ));
    let wrong = load(r#"(module (func (export "_start") i32.add))"#);
    assert!(matches!(&wrong, Err(LoadError::Invalid { offset, message })
        if *offset > 8 && message.contains("type mismatch")));
    let external = load(r#"(module (table 1 externref) (func (export "_start")))"#);
    assert!(matches!(external, Err(LoadError::Invalid { .. })));
    let import = load(r#"(module (import "env" "foo" (func)) (func (export "_start")))"#);
    assert!(
        matches!(import, Err(LoadError::Import { offset, module, name })
        if offset > 8 && module == "env" && name == "foo")
    );
    let memory = load(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (memory 1)) (func (export "_start")))"#,
    );
    assert!(matches!(memory, Err(LoadError::ImportType { .. })));
    let differing = load(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)) (func (export "_start")))"#,
    );
    assert!(
        matches!(differing, Err(LoadError::ImportType { offset, name, .. })
        if offset > 8 && name == "fd_write")
    );
    for text in [
        r#"(module)"#,
        r#"(module (func (export "_start") (param i32)))"#,
    ] {
        assert!(matches!(load(text), Err(LoadError::NoStart)));
    }
}

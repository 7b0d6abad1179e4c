//! How processes end: traps, fuel, kills and memory.

mod common;

use std::num::NonZeroUsize;

use common::{TestHost, captured, module, program, run};
use everwarp_process::{
    ExitStatus, HostConfig, LoadConfig, Pid, ProcessEngine, SpawnError, Stage, StartError, Trap,
    TrapKind,
};
use everwarp_process_cpu::CpuProcesses;

const LOOP: &str =
    r#"(memory (export "memory") 1) (func (export "_start") (loop $forever (br $forever)))"#;

/// Waits for a relative clock of an hour. The subscription is at 96, because its record is 8-aligned.
const SLEEP: &str = r#"(memory (export "memory") 1)
        (func (export "_start")
          (i32.store (i32.const 112) (i32.const 1))
          (i64.store (i32.const 120) (i64.const 3600000000000))
          (drop (call $poll_oneoff (i32.const 96) (i32.const 200) (i32.const 1) (i32.const 300))))"#;

#[test]
fn trap_names_its_kind_and_function() {
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
        let expected = ExitStatus::Trapped(Trap {
            kind,
            function: Some("culprit".to_owned()),
            message: String::new(),
        });
        assert_eq!(run(&trapping, captured()).status, expected, "{body}");
        let metered = run(&trapping, captured().fuel(1 << 40));
        assert_eq!(metered.status, expected, "{body}");
    }
}

/// Calls nest `depth` deep, and the sum of the levels is checked.
fn nested(depth: u32) -> String {
    let sum = u64::from(depth) * u64::from(depth + 1) / 2;
    format!(
        r#"(memory (export "memory") 1)
        (func $sum (param i64) (result i64)
          (if (result i64) (i64.eqz (local.get 0))
            (then (i64.const 0))
            (else (i64.add (local.get 0) (call $sum (i64.sub (local.get 0) (i64.const 1)))))))
        (func (export "_start")
          (if (i64.ne (call $sum (i64.const {depth})) (i64.const {sum})) (then unreachable)))"#
    )
}

#[test]
fn calls_nest_as_deep_as_the_stack_allows() {
    // A native program with this function and a stack of 8 MiB nests 170,000 calls of 48 bytes.
    let deep = program(&nested(150_000));
    assert_eq!(run(&deep, captured()).status, ExitStatus::Exited(0));
    assert_eq!(
        run(&deep, captured().fuel(1 << 40)).status,
        ExitStatus::Exited(0)
    );
    let status = |stack: u32, depth: u32| {
        let config = HostConfig {
            stack_bytes: Some(stack),
            ..HostConfig::default()
        };
        let module = program(&nested(depth));
        let host = TestHost::with(&config);
        let pid = host.spawn(&module, captured());
        host.wait(pid).status
    };
    assert_eq!(status(64 << 20, 1_000_000), ExitStatus::Exited(0));
    assert_eq!(status(64 << 10, 1_000), ExitStatus::Exited(0));
    let exhausted = status(64 << 10, 10_000);
    assert!(
        matches!(&exhausted, ExitStatus::Trapped(trap) if trap.kind == TrapKind::StackExhausted),
        "{exhausted}"
    );
}

#[test]
fn function_without_a_name_is_reported_by_its_number() {
    let trapping = module(r#"(module (func) (func (export "_start") unreachable))"#);
    let status = run(&trapping, captured()).status;
    assert_eq!(status.to_string(), "trap: unreachable in `function 1`");
}

#[test]
fn fuel_ends_a_loop_and_is_counted() {
    let endless = program(LOOP);
    for fuel in [1, 100_000, 3_000_000] {
        let exit = run(&endless, captured().fuel(fuel));
        assert_eq!(exit.status, ExitStatus::OutOfFuel);
        let used = exit.fuel_used.expect("it was counted");
        assert!(used <= fuel && used + 10 >= fuel, "{used} of {fuel}");
    }
    let host = TestHost::start(1);
    for fuel in [0, 1 << 63] {
        let refused = host.try_spawn(&endless, captured().fuel(fuel));
        assert!(matches!(refused, Err(SpawnError::Fuel { fuel: f }) if f == fuel));
    }
}

#[test]
fn fuel_is_counted_only_under_a_limit() {
    let quick = program(r#"(memory (export "memory") 1) (func (export "_start"))"#);
    assert_eq!(run(&quick, captured()).fuel_used, None);
    let limited = run(&quick, captured().fuel(1000));
    assert!(limited.fuel_used.is_some_and(|used| used < 1000));
    // One module with both kinds of processes, whatever it was compiled for at first.
    let host = TestHost::start(1);
    let mut surprise = captured();
    surprise.grants.fuel = Some(1000);
    for given in [captured(), surprise.clone(), captured(), surprise] {
        let limited = given.grants.fuel.is_some();
        let exit = host.wait(host.spawn(&quick, given));
        assert_eq!((exit.success(), exit.fuel_used.is_some()), (true, limited));
    }
}

/// The listing used to show 0 for a loop without calls, because compiled code counts fuel in a register.
#[test]
fn listing_shows_the_fuel_of_a_loop_without_calls() {
    let endless = program(LOOP);
    let host = TestHost::start(2);
    let limited = host.spawn(&endless, captured().fuel(1 << 60));
    let unlimited = host.spawn(&endless, captured());
    let fuel = |pid: Pid| {
        let rows = host.list().rows;
        rows.into_iter()
            .find(|row| row.pid == pid)
            .and_then(|row| row.fuel_used)
    };
    let first = loop {
        match fuel(limited) {
            Some(used) if used > 0 => break used,
            _ => std::thread::yield_now(),
        }
    };
    while fuel(limited) <= Some(first) {
        std::thread::yield_now();
    }
    assert_eq!(fuel(unlimited), None, "it is not counted");
    for pid in [limited, unlimited] {
        assert!(host.kill(pid));
    }
    let used = host.wait(limited).fuel_used.expect("it was counted");
    assert!(used > first, "{used}");
    assert_eq!(host.wait(unlimited).fuel_used, None);
}

#[test]
fn kill_ends_looping_sleeping_and_queued_processes() {
    let endless = program(LOOP);
    let sleeping = program(SLEEP);
    let cases = [
        (&endless, None),
        (&endless, Some(1 << 60)),
        (&sleeping, None),
    ];
    for (module, fuel) in cases {
        let given = || match fuel {
            Some(fuel) => captured().fuel(fuel),
            None => captured(),
        };
        let host = TestHost::start(1);
        let first = host.spawn(module, given());
        let second = host.spawn(module, given());
        // Whether the first runs already or not, each ends by a kill and by nothing else.
        assert!(host.kill(second));
        assert!(host.kill(first));
        assert!(host.kill(first), "a second kill is no error");
        for pid in [first, second] {
            assert_eq!(host.wait(pid).status, ExitStatus::Killed);
        }
        // The only thread is free again.
        let quick = program(r#"(memory (export "memory") 1) (func (export "_start"))"#);
        assert!(host.wait(host.spawn(&quick, captured())).success());
        // Dropping the host kills what it still has.
        host.spawn(module, given());
        host.spawn(module, given());
    }
}

#[test]
fn kill_ends_a_process_that_runs_already() {
    let modules = [program(LOOP), program(SLEEP)];
    let host = TestHost::start(1);
    for module in modules.iter().cycle().take(40) {
        let pid = host.spawn(module, captured());
        loop {
            match host.list().rows[0].stage {
                Stage::Waiting => std::thread::yield_now(),
                Stage::Running | Stage::Calling => break,
                Stage::Ended(_) => panic!("it ended by itself: {:?}", host.wait(pid)),
            }
        }
        assert!(host.kill(pid));
        assert_eq!(host.wait(pid).status, ExitStatus::Killed);
    }
}

#[test]
fn listing_describes_each_process() {
    let (looping, sleeping) = (program(LOOP), program(SLEEP));
    let host = TestHost::start(2);
    let limited = || captured().fuel(1 << 60);
    let turns = host.spawn(&looping, limited());
    let sleeps = host.spawn(&sleeping, limited());
    let waits = host.spawn(&looping, limited());
    let expected = [
        (turns, Stage::Running),
        (sleeps, Stage::Calling),
        (waits, Stage::Waiting),
    ];
    // It takes a while until the second one sleeps and the first has used any fuel.
    let first = loop {
        let listing = host.list();
        let rows = listing.rows.iter();
        let stages: Vec<_> = rows.map(|row| (row.pid, row.stage.clone())).collect();
        if stages == expected && listing.rows[0].fuel_used > Some(0) {
            break listing;
        }
        std::thread::yield_now();
    };
    assert_eq!((first.running, first.waiting, first.ended), (2, 1, 0));
    let memory = first.rows[0].memory_bytes;
    assert!(memory.is_some_and(|bytes| bytes >= 1 << 16));
    let queued = &first.rows[2];
    assert_eq!((queued.fuel_used, queued.memory_bytes), (None, None));
    let short = host.engine.list(1).expect("the engine runs");
    assert_eq!((short.rows.len(), short.total()), (1, 3));
    host.engine.kill_all().expect("the engine runs");
    for pid in [turns, sleeps, waits] {
        loop {
            let listing = host.list();
            let row = listing.rows.iter().find(|row| row.pid == pid);
            let row = row.expect("it has not been waited for");
            if row.stage == Stage::Ended("killed".to_owned()) {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(host.wait(pid).status, ExitStatus::Killed);
    }
    assert_eq!(host.list().total(), 0);
}

/// Grows by 3 pages and exits with 1 if that was refused.
const GROW: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (call $proc_exit (i32.eq (memory.grow (i32.const 3)) (i32.const -1))))"#;

#[test]
fn memory_beyond_the_limit_is_refused_at_the_start_and_later() {
    let growing = program(GROW);
    for (pages, code) in [(2, 1), (4, 1), (5, 0), (100, 0)] {
        let status = run(&growing, captured().memory(pages << 16)).status;
        assert_eq!(status, ExitStatus::Exited(code), "{pages}");
    }
    let config = HostConfig {
        workers: NonZeroUsize::new(1),
        load: LoadConfig {
            memory: Some((2 << 16) - 1),
            ..LoadConfig::default()
        },
        ..HostConfig::default()
    };
    let refused = CpuProcesses::start(&[growing], &config);
    let refused = refused.expect_err("it starts with more");
    assert!(matches!(
        refused,
        StartError::Memory {
            needs: 131_072,
            limit: 131_071,
            ..
        }
    ));
}

#[test]
fn tables_count_for_the_memory_limit() {
    let growing = program(
        r#"(memory (export "memory") 1) (table 10 funcref)
        (func (export "_start")
          (call $proc_exit (i32.eq (table.grow (ref.null func) (i32.const 1000)) (i32.const -1))))"#,
    );
    for (limit, code) in [((1 << 16) + 80, 1), ((1 << 16) + 80 + 8000, 0)] {
        let status = run(&growing, captured().memory(limit)).status;
        assert_eq!(status, ExitStatus::Exited(code));
    }
}

/// Without a limit, tables once grew to 10 GB in 30 s.
#[test]
fn tables_are_bounded_without_a_memory_limit() {
    // Exits with 1 if a table of 10,000,000 elements could not be made of two, and with 2 if one more element was given.
    let growing = program(
        r#"(memory (export "memory") 1) (table $a 1 funcref) (table $b 1 funcref)
        (func (export "_start")
          (if (i32.eq (table.grow $a (ref.null func) (i32.const 4999999)) (i32.const -1))
            (then (call $proc_exit (i32.const 1))))
          (if (i32.eq (table.grow $b (ref.null func) (i32.const 4999999)) (i32.const -1))
            (then (call $proc_exit (i32.const 1))))
          (if (i32.ne (table.grow $b (ref.null func) (i32.const 1)) (i32.const -1))
            (then (call $proc_exit (i32.const 2)))))"#,
    );
    assert_eq!(run(&growing, captured()).status, ExitStatus::Exited(0));
    let large = program(
        r#"(memory (export "memory") 1) (table 10000001 funcref)
        (func (export "_start")
          (call $proc_exit (i32.ne (table.grow (ref.null func) (i32.const 1)) (i32.const -1))))"#,
    );
    assert_eq!(run(&large, captured()).status, ExitStatus::Exited(0));
}

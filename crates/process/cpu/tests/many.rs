//! Many processes at once, and their pids.

mod common;

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use common::{TestHost, captured, program, run, stdout, unknown};
use everwarp_process::{
    ExitStatus, HostConfig, HostError, ModuleId, ProcessEngine, SpawnRequest, Stage, Trap, TrapKind,
};
use everwarp_process_cpu::CpuProcesses;

/// Writes its arguments, each with a zero byte after it.
const ECHO: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $args_get (i32.const 1024) (i32.const 32768)))
    (drop (call $write (i32.const 1) (i32.const 32768) (i32.load (i32.const 20)))))"#;

#[test]
fn each_of_many_processes_gets_its_own_arguments() {
    let echo = program(ECHO);
    let host = TestHost::start(4);
    let pids: Vec<_> = (0..1000)
        .map(|n| host.spawn(&echo, captured().args(&["echo", &n.to_string()])))
        .collect();
    assert_eq!(host.list().total(), 1000);
    assert_eq!(host.engine.width(ModuleId(0)), 4);
    assert_eq!(host.engine.width(ModuleId(1)), 0, "there is no such module");
    for (n, pid) in pids.into_iter().enumerate() {
        let exit = host.wait(pid);
        assert!(exit.success());
        assert_eq!(stdout(&exit), format!("echo\0{n}\0"));
    }
    assert_eq!(host.list().total(), 0);
}

#[test]
fn processes_that_are_spawned_together_are_reported_by_number() {
    let echo = program(ECHO);
    let host = TestHost::start(8);
    let args = |n: u32| vec!["echo".to_owned(), n.to_string()];
    for count in [0, 1, 255, 256, 257, 5000] {
        let pids = host.spawn_all(&echo, &captured(), &args, count);
        let pids = pids.expect("they are spawned");
        assert_eq!(pids.len(), count as usize);
        let mut next = 0;
        let waited = host.engine.wait_each(&pids, &mut |pid, exit| {
            assert_eq!(pid, pids[next]);
            assert_eq!(stdout(&exit), format!("echo\0{next}\0"));
            next += 1;
        });
        waited.expect("the engine runs");
        assert_eq!(next, count as usize);
    }
    let wrong = |n: u32| vec![if n == 1 { "zero\0byte" } else { "right" }.to_owned()];
    let error = host.spawn_all(&echo, &captured(), &wrong, 3);
    let error = error.expect_err("one is wrong").to_string();
    assert!(error.contains("zero byte"), "{error}");
    assert_eq!(
        host.list().total(),
        0,
        "a part is spawned as a whole or not at all"
    );
}

#[test]
fn caller_can_break_off_spawning() {
    let echo = program(ECHO);
    let host = TestHost::start(8);
    let started = Mutex::new(Vec::new());
    let given = captured();
    let request = SpawnRequest {
        module: host.load(&echo, &given.load),
        grants: &given.grants,
        count: 100_000,
        write: &|_, _| {},
        started: &|_, pids| {
            started.lock().expect("no thread panics").extend(pids);
            ControlFlow::Break(())
        },
    };
    host.engine
        .spawn(&request)
        .expect("breaking off is no error");
    let started = started.into_inner().expect("no thread panics");
    assert!(
        !started.is_empty() && started.len() < 10_000,
        "{}",
        started.len()
    );
    let mut exits = 0;
    let waited = host.engine.wait_each(&started, &mut |_, _| exits += 1);
    waited.expect("the engine runs");
    assert_eq!((exits, host.list().total()), (started.len(), 0));
}

#[test]
fn trap_does_not_affect_other_processes() {
    let echo = program(ECHO);
    let trapping = program(r#"(memory (export "memory") 1) (func (export "_start") unreachable)"#);
    let host = TestHost::start(2);
    let pids: Vec<_> = (0..200)
        .map(|n| {
            let program = if n % 3 == 0 { &trapping } else { &echo };
            host.spawn(program, captured())
        })
        .collect();
    for (n, pid) in pids.into_iter().enumerate() {
        let exit = host.wait(pid);
        let trapped = matches!(exit.status, ExitStatus::Trapped(_));
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
fn instance_starts_without_traces_of_earlier_ones() {
    // A table with a small maximum comes from the pool, one without is mapped afresh.
    for maximum in ["2", ""] {
        let scribbling = program(&SCRIBBLE.replace("MAXIMUM", maximum));
        let host = TestHost::start(3);
        let pids: Vec<_> = (0..300)
            .map(|n| {
                let args = vec!["one".to_owned(); n % 2];
                let given = common::Given { args, ..captured() };
                host.spawn(&scribbling, given)
            })
            .collect();
        for (n, pid) in pids.into_iter().enumerate() {
            let expected = match n % 2 {
                0 => ExitStatus::Exited(0),
                _ => ExitStatus::Trapped(Trap {
                    kind: TrapKind::DivideByZero,
                    function: Some("start".to_owned()),
                    message: String::new(),
                }),
            };
            assert_eq!(host.wait(pid).status, expected);
        }
    }
}

#[test]
fn table_without_a_maximum_grows_beyond_the_pools_tables() {
    let growing = program(
        r#"(memory (export "memory") 1) (table 1 funcref)
        (func (export "_start")
          (call $proc_exit (table.grow (ref.null func) (i32.const 1000000))))"#,
    );
    // The result is the length before.
    assert_eq!(run(&growing, captured()).status, ExitStatus::Exited(1));
    let large = program(
        r#"(memory (export "memory") 1) (table 20001 20001 funcref) (table 3 3 funcref)
        (func (export "_start") (call $proc_exit (table.size 0)))"#,
    );
    assert_eq!(run(&large, captured()).status, ExitStatus::Exited(20_001));
}

#[test]
fn threads_of_all_hosts_are_limited_and_returned() {
    let many = HostConfig {
        workers: NonZeroUsize::new(1025),
        ..HostConfig::default()
    };
    let refused = CpuProcesses::start(&[], &many);
    let refused = refused
        .expect_err("a host may have 1,024 threads")
        .to_string();
    assert!(refused.contains("1025 were asked for"), "{refused}");
    for _ in 0..300 {
        drop(TestHost::start(4));
    }
}

/// A host whose processes all run for ever keeps no other host from running.
#[test]
fn threads_of_one_host_leave_one_for_each_other_host() {
    let endless = program(LOOP);
    let host = TestHost::start(1024);
    let args = |_| vec!["loop".to_owned()];
    let pids = host.spawn_all(&endless, &captured(), &args, 40);
    let pids = pids.expect("they are spawned");
    let others: Vec<_> = (0..4).map(|_| TestHost::start(16)).collect();
    let echo = program(ECHO);
    for other in &others {
        let pid = other.spawn(&echo, captured().args(&["echo"]));
        assert_eq!(stdout(&other.wait(pid)), "echo\0");
    }
    for pid in pids {
        assert!(host.kill(pid));
        assert_eq!(host.wait(pid).status, ExitStatus::Killed);
    }
}

#[test]
fn options_of_a_gpu_are_refused() {
    for config in [
        HostConfig {
            interleaved: true,
            ..HostConfig::default()
        },
        HostConfig {
            contract: true,
            ..HostConfig::default()
        },
    ] {
        let refused = CpuProcesses::start(&[], &config);
        let refused = refused.expect_err("a CPU has no such option").to_string();
        assert!(refused.contains("has no option"), "{refused}");
    }
}

const LOOP: &str = r#"(memory (export "memory") 1) (func (export "_start") (loop $l (br $l)))"#;

#[test]
fn old_pid_never_names_a_later_process() {
    let echo = program(ECHO);
    let host = TestHost::start(1);
    let first = host.spawn(&echo, captured());
    host.wait(first);
    let second = host.spawn(&program(LOOP), captured());
    assert_eq!(first.slot(), second.slot());
    assert_eq!(first.generation() + 1, second.generation());
    assert!(unknown(&host.engine.wait(first, None)));
    assert!(!host.kill(first), "it must not end the second");
    assert!(!matches!(host.list().rows[0].stage, Stage::Ended(_)));
    assert!(host.kill(second));
    assert_eq!(host.wait(second).status, ExitStatus::Killed);
    assert!(!host.kill(second));
}

#[test]
fn exactly_one_of_two_waiters_gets_the_exit() {
    let echo = program(ECHO);
    let host = TestHost::start(1);
    for _ in 0..50 {
        let pid = host.spawn(&echo, captured());
        let got = std::thread::scope(|scope| {
            let waiters = [0, 1].map(|_| scope.spawn(|| host.engine.wait(pid, None)));
            waiters.map(|w| w.join().expect("it returns"))
        });
        assert_ne!(unknown(&got[0]), unknown(&got[1]));
    }
}

#[test]
fn wait_with_a_timeout_leaves_the_process_running() {
    let host = TestHost::start(1);
    let pid = host.spawn(&program(LOOP), captured());
    for after in [Duration::ZERO, Duration::from_millis(3)] {
        let waited = host.engine.wait(pid, Some(after));
        assert_eq!(waited, Err(HostError::Timeout { after }));
    }
    assert!(host.kill(pid));
    assert_eq!(host.wait(pid).status, ExitStatus::Killed);
}

#[test]
fn futures_are_woken_by_the_end_of_their_process() {
    let host = TestHost::start(2);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().expect("it is made");
    let engine = &host.engine;
    let exit = |pid| poll_fn(move |cx| engine.poll_wait(pid, cx));
    let echo = program(ECHO);
    let quick: Vec<_> = (0..100).map(|_| host.spawn(&echo, captured())).collect();
    for &pid in &quick {
        let ended = runtime.block_on(exit(pid)).expect("the pid is fresh");
        assert!(ended.success());
        assert!(unknown(&runtime.block_on(exit(pid))));
    }
    let endless = host.spawn(&program(LOOP), captured());
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            host.kill(endless)
        });
        let exit = runtime.block_on(exit(endless)).expect("the pid is fresh");
        assert_eq!(exit.status, ExitStatus::Killed);
        assert!(killer.join().expect("it returns"));
    });
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
fn module_can_be_loaded_while_processes_run() {
    let first = program(SUM);
    let endless = program(r#"(memory (export "memory") 1) (func (export "_start") (loop (br 0)))"#);
    let host = TestHost::start(2);
    let loops = host.spawn(&endless, captured());
    let in_flight: Vec<_> = (0..100).map(|_| host.spawn(&first, captured())).collect();
    let late = program(ECHO);
    let loaded = host
        .engine
        .load(&late, &captured().load)
        .expect("it is right");
    assert_eq!(loaded.pause, Duration::ZERO, "no process waits for it");
    let late = host.spawn(&late, captured().args(&["late"]));
    for pid in in_flight {
        assert!(host.wait(pid).success());
    }
    assert_eq!(stdout(&host.wait(late)), "late\0");
    assert!(host.kill(loops));
    assert_eq!(host.wait(loops).status, ExitStatus::Killed);
}

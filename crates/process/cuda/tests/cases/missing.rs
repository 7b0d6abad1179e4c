//! Processes of a module whose image lacks functions at first.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use everwarp_process::{
    ExitStatus, Module, ModuleId, Pid, ProcessEngine, SpawnError, SpawnRequest, TrapKind,
};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::load::module as encoded;
use super::{PATIENCE, config, normal, wait};

/// The functions that processes of small numbers call. Each calls another one.
const FUNCTIONS: u32 = 64;
/// The numbers of processes that call functions which take long to assemble.
const SLOW: [u32; 2] = [1_000_000, 1_000_001];
/// Statements of such a function.
const STATEMENTS: u32 = 6000;

/// The begin of a module whose processes take a number as their argument, and whose functions have this type, `$f`. `$number` is the
/// number. No earlier run of the test has asked for functions of the same module.
pub(crate) fn begin_of_module(functions: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (type $f (func {functions}))
  (memory (export "memory") 1)
  (global i64 (i64.const {}))
  (func $number (result i32) (local $at i32) (local $n i32)
    (drop (call $args (i32.const 0) (i32.const 1024)))
    (local.set $at (i32.load (i32.const 4)))
    (loop $next
      (if (i32.load8_u (local.get $at)) (then
        (local.set $n (i32.sub
          (i32.add (i32.mul (local.get $n) (i32.const 10)) (i32.load8_u (local.get $at))) (i32.const 48)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next))))
    (local.get $n))
"#,
        now.map_or(0, |now| now.as_nanos() as i64),
    )
}

/// A module whose processes take a number as their argument, call the function that the number names through a table, and exit
/// with what the function returns.
pub(crate) fn module() -> Module {
    let mut text = begin_of_module("(param i32) (result i32)");
    let _ = write!(
        text,
        r#"  (func (export "_start") (local $n i32)
    (local.set $n (call $number))
    (call $exit (i32.and (i32.const 127) (call_indirect (type $f) (local.get $n)
      (select
        (i32.add (i32.const {FUNCTIONS}) (i32.sub (local.get $n) (i32.const {})))
        (i32.rem_u (local.get $n) (i32.const {FUNCTIONS}))
        (i32.ge_u (local.get $n) (i32.const {})))))))
"#,
        SLOW[0], SLOW[0]
    );
    let mut elements = String::new();
    for k in 0..FUNCTIONS {
        let _ = write!(
            text,
            "  (func $f{k} (param i32) (result i32) (loop (br_if 0 (i32.const 0)))
    (call $g{k} (i32.mul (local.get 0) (i32.const {}))))
  (func $g{k} (param i32) (result i32) (loop (br_if 0 (i32.const 0)))
    (i32.add (local.get 0) (i32.const {k})))\n",
            k + 3
        );
        let _ = write!(elements, " $f{k}");
    }
    for (slow, _) in SLOW.iter().enumerate() {
        let _ = writeln!(
            text,
            "  (func $slow{slow} (param i32) (result i32) (loop (br_if 0 (i32.const 0)))"
        );
        for statement in 0..STATEMENTS {
            let _ = writeln!(
                text,
                "    (local.set 0 (i32.xor (i32.rotl (local.get 0) (i32.const 5)) (i32.const {})))",
                word(slow as u32, statement)
            );
        }
        text.push_str("    (local.get 0))\n");
        let _ = write!(elements, " $slow{slow}");
    }
    let _ = write!(text, "  (table funcref (elem{elements})))");
    encoded("missing", &text)
}

fn word(slow: u32, statement: u32) -> u32 {
    (statement * 2 + slow).wrapping_mul(0x9e37_79b1) >> 1
}

/// The code with which the process with a number exits.
fn code(number: u32) -> u32 {
    let found = match number.checked_sub(SLOW[0]) {
        Some(slow) => (0..STATEMENTS).fold(number, |found, statement| {
            found.rotate_left(5) ^ word(slow, statement)
        }),
        None => {
            let k = number % FUNCTIONS;
            number.wrapping_mul(k + 3).wrapping_add(k)
        }
    };
    found & 127
}

/// Starts a process for each number from `first` on.
pub(super) fn spawn(host: &CudaProcesses, first: u32, count: u32) -> Result<Vec<Pid>, SpawnError> {
    let parts = Mutex::new(BTreeMap::new());
    host.spawn(&SpawnRequest {
        module: ModuleId(0),
        grants: &config(&[]).grants,
        count,
        write: &|number, writer| {
            writer.arg(&["program"]);
            writer.arg(&[&(first + number).to_string()]);
        },
        started: &|first, pids| {
            let mut parts = parts.lock().expect("no other holder panics");
            parts.insert(first, pids.to_vec());
            ControlFlow::Continue(())
        },
    })?;
    let parts = parts.into_inner().expect("no other holder panics");
    Ok(parts.into_values().flatten().collect())
}

/// All ask at the same time, and all get what they call. The second thousand asks for nothing.
pub(super) fn a_thousand_processes_call_missing_functions_at_once(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    for round in 0..2 {
        let begin = Instant::now();
        let pids = spawn(host, 0, 1000)?;
        for (number, pid) in (0..).zip(pids) {
            normal(&wait(host, pid)?, code(number))?;
        }
        eprintln!("round {round}: {:?}", begin.elapsed());
    }
    Ok(())
}

/// A process that waits for a function can be killed, and the others get it.
pub(super) fn a_kill_ends_a_process_that_waits_for_a_function(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let pids = spawn(host, 2000, 500)?;
    for pid in pids.iter().step_by(2) {
        host.kill(*pid)?;
    }
    for (number, pid) in (2000..).zip(pids) {
        let exit = wait(host, pid)?;
        // A process may have exited before it was killed.
        if exit.status != ExitStatus::Killed || number % 2 == 1 {
            normal(&exit, code(number))?;
        }
    }
    Ok(())
}

/// The processes of ptxas that this program has started.
fn assemblers() -> Vec<String> {
    let own = std::process::id().to_string();
    let found = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_ours = |number: &String| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(number).join("stat"));
        // `NUMBER (NAME) STATE PARENT …`
        stat.is_ok_and(|stat| {
            let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
            let parent = rest.and_then(|rest| rest.split_whitespace().nth(1));
            stat.contains("(ptxas)") && parent == Some(&own)
        })
    };
    numbers.filter(is_ours).collect()
}

/// Kills up to `most` processes of ptxas while `run` runs; returns how many with what `run` returns.
fn killing<T>(most: usize, run: impl FnOnce() -> T) -> (usize, T) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut killed = 0;
            while !ended.load(Ordering::Relaxed) && killed < most {
                for number in assemblers().into_iter().take(most - killed) {
                    let kill = Command::new("kill").args(["-9", &number]).status();
                    killed += usize::from(kill.is_ok_and(|status| status.success()));
                }
                std::thread::yield_now();
            }
            killed
        });
        let done = run();
        ended.store(true, Ordering::Relaxed);
        (killer.join().expect("it does not panic"), done)
    })
}

/// A process of ptxas that is killed is started once more, and the process gets its function.
pub(super) fn a_killed_assembler_is_started_again(host: &CudaProcesses) -> Result<(), Failed> {
    let (killed, ended) = killing(1, || -> Result<(), Failed> {
        let pids = spawn(host, SLOW[0], 1)?;
        normal(&wait(host, pids[0])?, code(SLOW[0]))
    });
    eprintln!("{killed} processes of ptxas were killed");
    ended
}

/// A function that cannot be assembled ends the processes that ask for it, with its name and the reason, and no other process.
pub(super) fn a_function_that_cannot_be_assembled_ends_the_processes_that_ask_for_it(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let (killed, ended) = killing(usize::MAX, || -> Result<_, Failed> {
        let asking = spawn(host, SLOW[1], 1)?;
        Ok(host.wait(asking[0], Some(PATIENCE * 3))?)
    });
    let exit = ended?;
    if killed == 0 {
        eprintln!("the driver assembles, which cannot be killed");
        return normal(&exit, code(SLOW[1]));
    }
    match &exit.status {
        ExitStatus::Trapped(trap)
            if trap.kind == TrapKind::NotCompiled
                && trap.function.as_deref() == Some("slow1")
                && trap.message.contains("ptxas") => {}
        other => return Err(format!("it ended by {other:?}").into()),
    }
    // All other functions are what they were, and the answer for this one stays the same.
    for number in [7, SLOW[0], 71] {
        let pids = spawn(host, number, 1)?;
        normal(&wait(host, pids[0])?, code(number))?;
    }
    let again = spawn(host, SLOW[1], 1)?;
    let again = wait(host, again[0])?;
    super::same(again.status, exit.status)
}

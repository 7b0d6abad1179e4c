//! Processes of a large module, whose functions come in batches while they run.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use everwarp_process::{Compiling, Module, ProcessEngine};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::load::module as encoded;
use super::missing::{begin_of_module, spawn};
use super::{normal, wait};

/// The functions that processes call, each through the table.
const FUNCTIONS: u32 = 300;
/// Statements of each, about a kilobyte of WebAssembly.
const STATEMENTS: u32 = 100;
/// The distance between a function and the one that it calls.
const STEP: u32 = 7;
/// One process in this many calls so deep that its frames do not fit the stack of a thread.
const DEEP: u32 = 20;

/// How deep the process with this number calls.
fn depth(number: u32) -> u32 {
    match number.is_multiple_of(DEEP) {
        true => 3000 + number,
        false => number % 40,
    }
}

/// A module whose processes take a number as their argument, call functions through a table, one in the other, and exit with the
/// result.
pub(crate) fn module() -> Module {
    let mut text = begin_of_module("(param i32 i32) (result i32)");
    let _ = write!(
        text,
        r#"  (func (export "_start") (local $n i32)
    (local.set $n (call $number))
    (call $exit (i32.and (i32.const 127) (call_indirect (type $f) (local.get $n)
      (select
        (i32.add (i32.const 3000) (local.get $n))
        (i32.rem_u (local.get $n) (i32.const 40))
        (i32.eqz (i32.rem_u (local.get $n) (i32.const {DEEP}))))
      (i32.rem_u (local.get $n) (i32.const {FUNCTIONS}))))))
"#,
    );
    let mut elements = String::new();
    for k in 0..FUNCTIONS {
        let _ = writeln!(text, "  (func $f{k} (param i32 i32) (result i32)");
        for statement in 0..STATEMENTS {
            let _ = writeln!(
                text,
                "    (local.set 0 (i32.xor (i32.rotl (local.get 0) (i32.const 5)) (i32.const {})))",
                word(k, statement)
            );
        }
        let _ = writeln!(
            text,
            "    (if (result i32) (local.get 1)
      (then (i32.add (i32.const {k}) (call_indirect (type $f) (local.get 0) (i32.sub (local.get 1) (i32.const 1)) (i32.const {}))))
      (else (local.get 0))))",
            (k + STEP) % FUNCTIONS
        );
        let _ = write!(elements, " $f{k}");
    }
    let _ = write!(text, "  (table funcref (elem{elements})))");
    encoded("growing", &text)
}

fn word(k: u32, statement: u32) -> u32 {
    (statement * FUNCTIONS + k).wrapping_mul(0x9e37_79b1) >> 1
}

/// The code with which the process with a number exits.
fn code(number: u32) -> u32 {
    let (mut found, mut sum, mut k) = (number, 0_u32, number % FUNCTIONS);
    for left in (0..=depth(number)).rev() {
        for statement in 0..STATEMENTS {
            found = found.rotate_left(5) ^ word(k, statement);
        }
        if left > 0 {
            sum = sum.wrapping_add(k);
        }
        k = (k + STEP) % FUNCTIONS;
    }
    found.wrapping_add(sum) & 127
}

fn compiling(host: &CudaProcesses) -> Result<Compiling, Failed> {
    let compiling = host.compiling();
    compiling.ok_or_else(|| "the module is compiled as a whole".into())
}

/// All processes compute what they should, while batches come, the engine is stopped for a moment again and again, and frames go to
/// memory and back. The engine's image is exchanged a few times, not once for each function.
pub(super) fn processes_call_deeply_while_their_module_is_compiled(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let before = compiling(host)?;
    if before.left_out < FUNCTIONS as usize {
        return Err(format!("only {} functions are left out", before.left_out).into());
    }
    let ended = AtomicBool::new(false);
    let exits = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| -> Result<u32, Failed> {
            let mut pauses = 0;
            while !ended.load(Ordering::Relaxed) {
                // Another pause may be under way, of an exchange.
                pauses += u32::from(host.pause().is_ok());
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(pauses)
        });
        let run = || -> Result<(), Failed> {
            for (number, pid) in (0..).zip(spawn(host, 0, 2000)?) {
                normal(&wait(host, pid)?, code(number))?;
            }
            Ok(())
        };
        let ran = run();
        ended.store(true, Ordering::Relaxed);
        let pauses = stopper.join().expect("it does not panic")?;
        eprintln!("the engine was stopped {pauses} times");
        ran
    });
    exits?;
    let after = compiling(host)?;
    eprintln!("{after}");
    // Each exchange brings all that is assembled by then.
    match (1..=FUNCTIONS / 3).contains(&after.exchanges.count) {
        true => Ok(()),
        false => Err(format!("{} exchanges", after.exchanges.count).into()),
    }
}

/// What no process has called is assembled as well.
pub(super) fn the_rest_of_a_module_comes_without_being_asked_for(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let begin = Instant::now();
    loop {
        let now = compiling(host)?;
        if now.assembled == now.left_out {
            eprintln!("{} functions are assembled", now.assembled);
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(120) {
            return Err(format!("after two minutes: {now}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! What engines measure, from the library.

use everwarp::telemetry::{FunctionView, ProgramView, view};
use everwarp::{Device, Engine, Error, Select, TaskCx, program};

program! {
    static FIB: fib() {
        CALL: lane(call).forks(2),
        SUM: lane(sum),
        FAIL: lane(fail),
    }
}

fn call(task: &mut dyn TaskCx) {
    let (n, slot) = (task.lo(), task.tag());
    if n < 2 {
        return task.report_slot(slot.into(), n);
    }
    task.fork_collect(SUM, slot);
    task.spawn_child(CALL, 0, (n - 1).into());
    task.spawn_child(CALL, 1, (n - 2).into());
}

fn sum(task: &mut dyn TaskCx) {
    let (slot, value) = (task.tag(), task.lo() + task.hi());
    task.report_slot(slot.into(), value);
}

fn fail(task: &mut dyn TaskCx) {
    task.fault(7);
}

fn engine(measure: bool, threads: u32) -> Result<Engine, Error> {
    let device = Device::open(Select::Cpu)?;
    device
        .engine()
        .program(&FIB)
        .size(threads)
        .measure(measure)
        .start()
}

/// The functions of the only engine of this program with this many tasks.
fn functions(program: &ProgramView, executed: u64) -> Vec<FunctionView> {
    let mut engines = program.engines.iter();
    let engine = engines.find(|engine| engine.executed == executed);
    engine.expect("it is shown").functions.clone()
}

#[test]
fn calls_are_exact_and_times_stand_for_all_tasks() -> Result<(), Error> {
    let engine = engine(true, 2)?;
    let fib = engine.plain_instance(&FIB)?;
    assert_eq!(engine.run(fib.task(CALL).arg(21))?.value, 10_946);
    // fib(21) is 35,421 calls; 17,710 of them fork, and a sum follows each.
    let functions = functions(&view(0), 35_421 + 17_710);
    let calls: Vec<_> = functions
        .iter()
        .map(|f| (f.function.as_str(), f.calls))
        .collect();
    assert_eq!(
        calls,
        [
            ("call", Some(35_421)),
            ("sum", Some(17_710)),
            ("fail", Some(0))
        ]
    );
    for function in &functions[..2] {
        let run = function.run.as_ref().expect("some were measured");
        let wait = function.wait.as_ref().expect("some were measured");
        for times in [run, wait] {
            assert!(times.count > 0 && times.p50 <= times.p99 && times.p99 <= times.most);
        }
    }
    // Each worker's last sample stands for tasks that follow it.
    let counted: u64 = functions
        .iter()
        .filter_map(|f| f.run.as_ref())
        .map(|run| run.count)
        .sum();
    assert!(counted <= 35_421 + 17_710, "{counted}");
    Ok(())
}

#[test]
fn an_engine_that_measures_nothing_has_no_times_and_can_hide() -> Result<(), Error> {
    let engine = engine(false, 2)?;
    let fib = engine.plain_instance(&FIB)?;
    assert_eq!(engine.run(fib.task(CALL).arg(15))?.value, 610);
    // fib(15) is 1,973 calls and 986 sums.
    let functions = functions(&view(0), 1973 + 986);
    assert!(
        functions
            .iter()
            .all(|f| f.calls.is_none() && f.run.is_none() && f.wait.is_none())
    );
    let hidden = Device::open(Select::Cpu)?
        .engine()
        .program(&FIB)
        .shown(false)
        .start()?;
    let fib = hidden.plain_instance(&FIB)?;
    assert_eq!(hidden.run(fib.task(CALL).arg(3))?.value, 2);
    assert!(
        view(0)
            .engines
            .iter()
            .all(|engine| engine.executed != 5 + 2)
    );
    Ok(())
}

#[test]
fn the_report_of_a_fault_has_the_last_tasks() -> Result<(), Error> {
    // One thread runs all of them.
    let engine = engine(true, 1)?;
    let fib = engine.plain_instance(&FIB)?;
    engine.run(fib.task(CALL).arg(10))?;
    let error = engine.run(fib.task(FAIL).arg(0xabc)).expect_err("it fails");
    let text = error.to_string();
    assert!(text.contains("the last tasks of each worker"), "{text}");
    let worker = text
        .lines()
        .find(|line| line.trim_start().starts_with("worker") && line.ends_with("fib/fail(0xabc)"));
    assert!(
        worker.is_some_and(|line| line.contains("fib/sum(")),
        "{text}"
    );
    Ok(())
}

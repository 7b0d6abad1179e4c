//! Two clients of one service at the same time, compared with one that starts as many processes as both.

use std::time::Instant;

use super::job::Where;
use super::service::{BenchService, failed};
use super::whole::{BUDGET_S, REPEATS, hello_job};
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::error::CliError;

pub(super) fn clients(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    let (engine, folder) = (cx.device.kind().to_string(), service.folder());
    let half = (cx.processes / 2).max(1);
    let one = hello_job(folder, 2 * half)?;
    let each = hello_job(folder, half)?;
    let begin = Instant::now();
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let mut right = [true; 2];
    // Both sides take turns, so that what else the machine does meets both.
    for round in 0..=REPEATS {
        if together.len() > 2 && begin.elapsed().as_secs_f64() > 3.0 * BUDGET_S {
            break;
        }
        let (times, good) = one.run(service.command(), Where::Service, &engine, folder)?;
        right[0] &= good;
        let at = Instant::now();
        let start = |name| each.start(service.command(), Where::Service, &engine, folder, name);
        let (first, second) = (start("first")?, start("second")?);
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| first.wait());
            let second = second.wait();
            (first.join(), second)
        });
        let both = at.elapsed().as_secs_f64();
        let first = first.map_err(|_| failed("a thread of the benchmark panicked"))?;
        for ended in [first?, second?] {
            right[1] &= ended.check(&each)?.1;
        }
        if round > 0 {
            alone.push(times.whole);
            together.push(both);
        }
    }
    let case = format!("{} hello", 2 * half);
    let row = |what: &str, times| {
        let row = Row::new(what, "process", f64::from(2 * half), times);
        row.case(&case)
    };
    let what = "two commands at the same time with half of the processes each";
    let row_of_two = row(what, together).role(Role::Ours).verified(right[1]);
    cx.emit_as("two clients", row_of_two.against(&["one client"]))?;
    let row_of_one = row("one command with all processes", alone);
    cx.emit_as(
        "one client",
        row_of_one.role(Role::Rival).verified(right[0]),
    )
}

//! Processes on the CPU engine.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

use everwarp_process_cpu::{Config, Directory, Host, Input, Pid, Program, Reason};

use super::tally::{Ended, How, Tally};
use super::{Plan, Ran};
use crate::error::CliError;

/// Processes that are begun before the next signal is looked for.
const TOGETHER: u32 = 1 << 13;
/// Threads that run processes for each that begins them: to begin one takes a tenth of what a short one takes.
const WORKERS_PER_SPAWNER: usize = 4;
const SPAWNERS_MOST: usize = 8;
/// No thread is made for fewer.
const SHARE_LEAST: usize = 256;

fn config(plan: &Plan<'_>, number: u32) -> Config {
    let options = &plan.args.process;
    let (stdout, stderr) = plan.outputs();
    Config {
        args: plan.arguments(number),
        env: options.env(number),
        directories: options
            .dir
            .iter()
            .map(|(host, guest)| Directory {
                host: host.clone(),
                guest: guest.clone(),
            })
            .collect(),
        stdin: plan.line(number).map_or_else(|| plan.input(), Input::Bytes),
        stdout,
        stderr,
        fuel: options.fuel,
        memory_limit: options.memory,
        threads: Some(options.threads),
        ends: Vec::new(),
        instance: number,
    }
}

/// Begins the processes of these numbers, on several threads where they are many; answers their pids by number.
fn begin_some(
    plan: &Plan<'_>,
    host: &Host,
    program: &Program,
    numbers: Range<u32>,
) -> Result<Vec<Pid>, CliError> {
    let spawners = (host.threads() / WORKERS_PER_SPAWNER).clamp(1, SPAWNERS_MOST);
    let share = numbers.len().div_ceil(spawners).max(SHARE_LEAST) as u32;
    let end = numbers.end;
    let spawn = &|from: u32| {
        let share = from..end.min(from + share);
        host.spawn_all(program, share.map(|number| config(plan, number)).collect())
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let mut starts = numbers.step_by(share as usize);
        let first = starts.next();
        let others: Vec<_> = starts
            .map(|from| scope.spawn(move || spawn(from)))
            .collect();
        let first = first.map(spawn);
        let join = |part: std::thread::ScopedJoinHandle<'_, _>| {
            part.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        first
            .into_iter()
            .chain(others.into_iter().map(join))
            .collect()
    });
    let mut pids = Vec::new();
    for part in parts {
        pids.extend(part?);
    }
    Ok(pids)
}

fn ended(reason: &Reason, fuel_used: u64) -> Ended {
    let words = |key| How::Words {
        key,
        reason: reason.to_string(),
    };
    Ended {
        how: match reason {
            Reason::Normal(code) => How::Code(*code),
            Reason::Trap { kind, .. } => words(format!("trap: {kind}")),
            other => words(other.word().to_owned()),
        },
        fuel_used,
    }
}

/// Runs all of them.
pub(super) fn run(plan: &Plan<'_>) -> Result<Ran, CliError> {
    let options = &plan.args.process;
    for (option, given) in [
        ("--stack", options.stack.is_some()),
        ("--interleave", options.interleave),
        ("--contract", options.contract),
    ] {
        if given {
            return Err(CliError::NotOnEngine {
                option,
                engine: "CPU",
                other: "cuda",
            });
        }
    }
    let threads = match plan.args.size {
        None => None,
        Some(size) => Some(NonZeroUsize::new(size as usize).ok_or(CliError::Value {
            option: "--size",
            rule: "at least 1",
            value: 0,
        })?),
    };
    let begin = Instant::now();
    let program = Program::load(plan.bytes).map_err(|source| CliError::Program {
        path: plan.path.to_owned(),
        source,
    })?;
    let load = begin.elapsed();
    let host = Arc::new(Host::start(threads).map_err(CliError::ProcessHost)?);
    plan.job.begins(host.clone());
    let begin = Instant::now();
    let mut pids = Vec::with_capacity(plan.instances as usize);
    let mut next = 0;
    while next < plan.instances && plan.job.signal().is_none() {
        let end = plan.instances.min(next + TOGETHER);
        let begun = begin_some(plan, &host, &program, next..end)?;
        plan.job.name(&begun, next);
        pids.extend(begun);
        next = end;
    }
    if plan.job.signal().is_some() {
        // The last one may have come after the others were ended.
        host.kill_all();
    }
    let mut tally = Tally::default();
    for pid in pids {
        let exit = host.wait(pid).expect("nobody else waits for it");
        tally.add(pid, ended(&exit.reason, exit.fuel_used));
    }
    plan.job.is_over();
    Ok(Ran {
        engine: "cpu",
        width: host.threads(),
        on: format!("{} threads of the CPU engine", host.threads()),
        load,
        elapsed: begin.elapsed(),
        tally,
    })
}

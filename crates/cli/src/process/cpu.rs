//! Processes on the CPU engine.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use everwarp_process::{Config, Directory, Host, Input, Pid, Program, Reason};

use super::{Ended, How, Plan, Ran};
use crate::error::CliError;

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

/// Runs all of them; `each` hears of every end, in the order of beginning.
pub(super) fn run(plan: &Plan<'_>, each: &mut dyn FnMut(Pid, Ended)) -> Result<Ran, CliError> {
    let options = &plan.args.process;
    for (option, given) in [
        ("--stack", options.stack.is_some()),
        ("--interleave", options.interleave),
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
    for number in 0..plan.instances {
        if plan.job.signal().is_some() {
            break;
        }
        let pid = host.spawn(&program, config(plan, number))?;
        plan.job.name(&[pid], number);
        pids.push(pid);
    }
    if plan.job.signal().is_some() {
        // The last one may have come after the others were ended.
        host.kill_all();
    }
    for pid in pids {
        let exit = host.wait(pid).expect("nobody else waits for it");
        each(pid, ended(&exit.reason, exit.fuel_used));
    }
    plan.job.is_over();
    Ok(Ran {
        engine: "cpu",
        width: host.threads(),
        on: format!("{} threads of the CPU engine", host.threads()),
        load,
        elapsed: begin.elapsed(),
    })
}

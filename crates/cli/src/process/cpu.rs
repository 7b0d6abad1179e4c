//! Processes on the CPU engine.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use everwarp_process::{
    Directory, ExitStatus, Grants, HostConfig, Module, ModuleId, ProcessEngine, SpawnRequest,
};
use everwarp_process_cpu::CpuProcesses;

use super::tally::{Ended, How, Tally};
use super::{Plan, Ran};
use crate::error::CliError;

fn grants(plan: &Plan<'_>) -> Result<Grants, CliError> {
    let options = &plan.args.process;
    let (stdout, stderr) = plan.outputs();
    let open = |(host, guest): &(std::path::PathBuf, String)| {
        Directory::open(host, guest.clone()).map_err(|source| CliError::Input {
            path: host.clone(),
            source,
        })
    };
    Ok(Grants {
        directories: options.dir.iter().map(open).collect::<Result<_, _>>()?,
        stdin: plan.input(),
        stdout,
        stderr,
        fuel: options.fuel,
        ..Grants::default()
    })
}

/// Spawns all processes, unless a signal comes; returns their pids by number.
fn spawn(
    plan: &Plan<'_>,
    host: &CpuProcesses,
    grants: &Grants,
) -> Result<Vec<everwarp_process::Pid>, CliError> {
    let parts = Mutex::new(std::collections::BTreeMap::new());
    host.spawn(&SpawnRequest {
        module: ModuleId(0),
        grants,
        count: plan.instances,
        write: &|number, writer| {
            for arg in plan.arguments(number) {
                writer.arg(&[&arg]);
            }
            for (name, value) in plan.args.process.env(number) {
                writer.variable(&name, &[&value]);
            }
            if let Some(line) = plan.line(number) {
                writer.stdin(line);
            }
        },
        started: &|first, pids| {
            plan.job.name(pids, first);
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.insert(first, pids.to_vec());
            match plan.job.signal() {
                None => ControlFlow::Continue(()),
                Some(_) => ControlFlow::Break(()),
            }
        },
    })?;
    let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(parts.into_values().flatten().collect())
}

fn ended(status: &ExitStatus, fuel_used: Option<u64>) -> Ended {
    Ended {
        how: match status {
            ExitStatus::Exited(code) => How::Code(*code),
            other => How::Words {
                key: other.category(),
                reason: other.to_string(),
            },
        },
        fuel_used: fuel_used.unwrap_or(0),
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
    let module = Module::new(plan.args.program.clone(), plan.bytes.to_owned());
    let module = module.map_err(|source| CliError::Program {
        path: plan.path.to_owned(),
        source,
    })?;
    let grants = grants(plan)?;
    let mut config = HostConfig {
        workers: threads,
        ..HostConfig::default()
    };
    config.load.memory = options.memory;
    config.load.metered = options.fuel.is_some();
    config.load.threads = options.threads;
    let host = Arc::new(CpuProcesses::start(slice::from_ref(&module), &config)?);
    let load = begin.elapsed();
    plan.job.begins(host.clone());
    let begin = Instant::now();
    let pids = spawn(plan, &host, &grants)?;
    if plan.job.signal().is_some() {
        // The last one may have come after the others were ended.
        ProcessEngine::kill_all(&*host)?;
    }
    let mut tally = Tally::default();
    host.wait_each(&pids, &mut |pid, exit| {
        tally.add(pid, ended(&exit.status, exit.fuel_used))
    })?;
    if let Some(lost) = host.output_errors().first() {
        return Err(CliError::Lost(lost));
    }
    plan.job.is_over();
    Ok(Ran {
        engine: "cpu",
        width: host.width(ModuleId(0)) as usize,
        on: format!("{} threads of the CPU engine", host.width(ModuleId(0))),
        load,
        elapsed: begin.elapsed(),
        tally,
    })
}

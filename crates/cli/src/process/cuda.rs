//! Processes on the CUDA engine.

use std::sync::Arc;
use std::time::Instant;

use everwarp::{Device, Select};
use everwarp_guest::{Config, Directory, Host, HostConfig, Module, Reason, Streams, Strings};

use super::{Ended, Plan, Ran};
use crate::error::CliError;

/// More processes at once than an H200 has lanes gain nothing.
const PLACES_MOST: u32 = 1 << 16;

/// Processes that are spawned together.
const PART: usize = 1 << 13;

fn config(plan: &Plan<'_>) -> Result<Config, CliError> {
    let options = &plan.args.process;
    let (stdout, stderr) = plan.outputs();
    let open = |(host, guest): &(std::path::PathBuf, String)| {
        Directory::open(host, guest.clone()).map_err(|source| CliError::Input {
            path: host.clone(),
            source,
        })
    };
    Ok(Config {
        directories: options.dir.iter().map(open).collect::<Result<_, _>>()?,
        stdin: plan.input(),
        stdout,
        stderr,
        fuel: options.fuel,
        ..Config::default()
    })
}

fn ended(reason: &Reason, fuel_used: u64) -> Ended {
    Ended {
        key: match reason {
            Reason::Trap { trap, .. } => format!("trap: {trap}"),
            other => other.to_string(),
        },
        code: match reason {
            Reason::Normal(code) => Some(*code),
            _ => None,
        },
        reason: reason.to_string(),
        fuel_used,
    }
}

/// Runs all of them; `each` hears of every end, in the order of beginning.
pub(super) fn run(plan: &Plan<'_>, each: &mut dyn FnMut(&str, Ended)) -> Result<Ran, CliError> {
    if plan.args.size.is_some() {
        return Err(CliError::NotOnEngine {
            option: "--size",
            engine: "CUDA",
            other: "cpu",
        });
    }
    let options = &plan.args.process;
    let config = config(plan)?;
    let begin = Instant::now();
    let device = Device::open(Select::Cuda)?;
    let gpu = device.cuda().expect("a GPU was asked for");
    let (free, _) = gpu.memory()?;
    let host = HostConfig {
        memory: options.memory,
        interleaved: options.interleave,
        threads: options.threads,
        ..HostConfig::new(plan.instances.min(PLACES_MOST), free)
    };
    let host = match options.stack {
        None => host,
        Some(stack) => HostConfig {
            stack_bytes: u32::try_from(stack).map_err(|_| CliError::Value {
                option: "--stack",
                rule: "less than 4G",
                value: stack,
            })?,
            ..host
        },
    };
    let module = Module::new(plan.args.program.clone(), plan.bytes.to_owned());
    let host = Host::start(&device, &[module], &host, Streams::inherit())?;
    let host = Arc::new(host);
    plan.job.begins(host.clone());
    let load = begin.elapsed();
    let begin = Instant::now();
    let strings = |number| Strings {
        args: plan.arguments(number),
        env: options.env(number),
        stdin: plan.line(number),
    };
    // In parts: the first ones run while the arguments of the next are gathered.
    let mut pids = Vec::with_capacity(plan.instances as usize);
    for begin in (0..plan.instances).step_by(PART) {
        let part = begin..plan.instances.min(begin.saturating_add(PART as u32));
        pids.extend(host.spawn_each(0, &config, part.map(strings))?);
    }
    plan.job.name(&pids, 0);
    if plan.job.signal().is_some() {
        // It may have come before they did.
        host.kill_all()?;
    }
    for pid in pids {
        let exit = host.wait(pid)?.expect("nobody else waits for it");
        each(&pid.to_string(), ended(&exit.reason, exit.fuel_used));
    }
    plan.job.is_over();
    Ok(Ran {
        engine: "cuda",
        width: host.places(0) as usize,
        on: format!("{} places of {}", host.places(0), device.name()),
        load,
        elapsed: begin.elapsed(),
    })
}

//! Processes on the CUDA engine.

use std::slice;
use std::sync::Arc;
use std::time::Instant;

use everwarp::{Device, Select};
use everwarp_guest::{
    Config, Directory, Host, HostConfig, Module, Pid, Reason, StartError, Streams, Writer,
};

use super::{Ended, How, Plan, Ran};
use crate::error::CliError;

/// An H200 runs some 67,000 lanes at once. With more places than that the next processes are ready in device memory
/// before a lane is, and the host need not hear of an end before it can say what begins.
const PLACES_MOST: u32 = 1 << 17;

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
        how: match reason {
            Reason::Normal(code) => How::Code(*code),
            Reason::Trap { trap, .. } => How::Words {
                key: format!("trap: {trap}"),
                reason: reason.to_string(),
            },
            other => How::Words {
                key: other.to_string(),
                reason: other.to_string(),
            },
        },
        fuel_used,
    }
}

/// Writes what a process is given.
fn give(plan: &Plan<'_>, number: u32, writer: &mut Writer<'_>) {
    let options = &plan.args.process;
    let number_text = number.to_string();
    writer.arg(&[&plan.args.program]);
    options.each_arg(&number_text, |parts| writer.arg(parts));
    options.each_variable(&number_text, |name, parts| writer.variable(name, parts));
    if let Some(line) = plan.line(number) {
        writer.stdin(line);
    }
}

/// Runs all of them; `each` hears of every end, in the order of beginning.
pub(super) fn run(plan: &Plan<'_>, each: &mut dyn FnMut(Pid, Ended)) -> Result<Ran, CliError> {
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
    let start = |host: &HostConfig| {
        Host::start(&device, slice::from_ref(&module), host, Streams::inherit())
    };
    let started = start(&host);
    // Nobody has said how much stack there is to be, and how much it takes is known only now.
    let wanted = started.as_ref().err().and_then(StartError::stack_wanted);
    let host = match wanted.filter(|_| options.stack.is_none()) {
        Some(stack_bytes) => start(&HostConfig {
            stack_bytes,
            ..host
        })?,
        None => started?,
    };
    let host = Arc::new(host);
    plan.job.begins(host.clone());
    let load = begin.elapsed();
    let begin = Instant::now();
    let write = |number, writer: &mut Writer<'_>| give(plan, number, writer);
    let pids = host.spawn_all(0, &config, plan.instances, write)?;
    plan.job.name(&pids);
    if plan.job.signal().is_some() {
        // It may have come before they did.
        host.kill_all()?;
    }
    host.wait_each(&pids, |pid, exit| {
        each(pid, ended(&exit.reason, exit.fuel_used));
    })?;
    plan.job.is_over();
    Ok(Ran {
        engine: "cuda",
        width: host.places(0) as usize,
        on: format!("{} places of {}", host.places(0), device.name()),
        load,
        elapsed: begin.elapsed(),
    })
}

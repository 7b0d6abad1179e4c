//! Processes on the CUDA engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use everwarp::Device;
use everwarp_process_cuda::{
    Config, Directory, Host, HostConfig, Module, Pid, Reason, StartError, Streams, Writer,
};

use super::lines::StdinLines;
use super::tally::{Ended, How, Tally};
use super::{Plan, Ran};
use crate::error::CliError;

/// An H200 runs some 67,000 lanes at once. With more places than that the next processes are ready in device memory
/// before a lane is, and the host need not hear of an end before it can say what begins.
const PLACES_MOST: u32 = 1 << 17;
/// One thread of so many waits for processes. To hear of an end takes 0.1 us, for 100,000 as long as all else together.
const WAITERS_SHARE: usize = 4;
/// No thread is made to wait for fewer.
const FOR_A_WAITER: u32 = 1 << 12;
/// Bytes of arguments and of what stands before them, as a guess.
const BESIDE_A_LINE: u64 = 128;

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

/// What all of them are given together, where that is much.
fn given_bytes(plan: &Plan<'_>) -> u64 {
    let lines = plan.lines.as_ref().map(StdinLines::bytes);
    lines.map_or(0, |bytes| {
        bytes as u64 + u64::from(plan.instances) * BESIDE_A_LINE
    })
}

/// Writes what a process is given.
fn give(plan: &Plan<'_>, number: u32, writer: &mut Writer<'_>) {
    let options = &plan.args.process;
    let digits = options.digits(number);
    writer.arg(&[&plan.args.program]);
    options.each_arg(&digits, |parts| writer.arg(parts));
    options.each_variable(&digits, |name, parts| writer.variable(name, parts));
    if let Some(line) = plan.line(number) {
        writer.stdin(line);
    }
}

/// Threads that wait for so many processes, some thousand at a time.
fn waiters(instances: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let wanted = instances.div_ceil(FOR_A_WAITER) as usize;
    wanted.min(cores / WAITERS_SHARE).max(1)
}

/// Begins all of them, and waits for them as soon as the first have begun.
fn run_all(host: &Host, config: &Config, plan: &Plan<'_>) -> Result<Tally, CliError> {
    let (sender, parts) = mpsc::channel::<(u32, Vec<Pid>)>();
    let parts = Mutex::new(parts);
    let wait = || {
        let mut tallies = BTreeMap::new();
        loop {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((first, pids)) = part else {
                return Ok::<_, CliError>(tallies);
            };
            let tally: &mut Tally = tallies.entry(first).or_default();
            host.wait_each(&pids, |pid, exit| {
                tally.add(pid, ended(&exit.reason, exit.fuel_used));
            })?;
        }
    };
    std::thread::scope(|scope| {
        let spawner = scope.spawn(move || {
            let write = |number, writer: &mut Writer<'_>| give(plan, number, writer);
            let begun = |first, pids: Vec<Pid>| {
                plan.job.name(&pids, first);
                // Nobody waits any more who has failed.
                drop(sender.send((first, pids)));
            };
            let spawned = host.spawn_all(0, config, plan.instances, write, begun);
            if spawned.is_err() || plan.job.signal().is_some() {
                // A signal may have come before they did; and nobody waits for what will not be whole.
                host.kill_all()?;
            }
            Ok::<(), CliError>(spawned?)
        });
        let others: Vec<_> = (1..waiters(plan.instances))
            .map(|_| scope.spawn(wait))
            .collect();
        let mut tallies = wait();
        let join = |waited: ScopedJoinHandle<'_, Result<BTreeMap<_, _>, _>>| {
            waited.join().unwrap_or_else(|e| resume_unwind(e))
        };
        for other in others.into_iter().map(join) {
            tallies = tallies.and_then(|all| Ok(all.into_iter().chain(other?).collect()));
        }
        spawner.join().unwrap_or_else(|e| resume_unwind(e))?;
        let mut all = Tally::default();
        tallies?.into_values().for_each(|tally| all.append(tally));
        Ok(all)
    })
}

/// Runs all of them on a GPU, which took so long to open.
pub(super) fn run(plan: &Plan<'_>, device: &Device, opening: Duration) -> Result<Ran, CliError> {
    let options = &plan.args.process;
    let config = config(plan)?;
    let begin = Instant::now();
    let gpu = device.cuda().expect("a GPU was asked for");
    let (free, _) = gpu.memory()?;
    let host = HostConfig {
        memory: options.memory,
        interleaved: options.interleave,
        contract: options.contract,
        threads: options.threads,
        given_bytes: given_bytes(plan),
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
    let start =
        |host: &HostConfig| Host::start(device, slice::from_ref(&module), host, Streams::inherit());
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
    let load = opening + begin.elapsed();
    let begin = Instant::now();
    let tally = run_all(&host, &config, plan)?;
    plan.job.is_over();
    Ok(Ran {
        engine: "cuda",
        width: host.places(0) as usize,
        on: format!("{} places of {}", host.places(0), device.name()),
        load,
        elapsed: begin.elapsed(),
        tally,
    })
}

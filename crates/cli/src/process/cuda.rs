//! Processes on the CUDA engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use everwarp::Device;
use everwarp_process::{
    Directory, ExitStatus, Grants, HostConfig, Module, ModuleId, Pid, ProcessEngine, SpawnRequest,
    StartWriter,
};
use everwarp_process_cuda::{CudaProcesses, Streams};

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

/// What all of them are given together, where that is much.
fn given_bytes(plan: &Plan<'_>) -> u64 {
    let lines = plan.lines.as_ref().map(StdinLines::bytes);
    lines.map_or(0, |bytes| {
        bytes as u64 + u64::from(plan.instances) * BESIDE_A_LINE
    })
}

/// Writes what a process is given.
fn give(plan: &Plan<'_>, number: u32, writer: &mut dyn StartWriter) {
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
fn run_all(host: &CudaProcesses, grants: &Grants, plan: &Plan<'_>) -> Result<Tally, CliError> {
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
            host.wait_each(&pids, &mut |pid, exit| {
                tally.add(pid, ended(&exit.status, exit.fuel_used));
            })?;
        }
    };
    std::thread::scope(|scope| {
        let spawner = scope.spawn(move || {
            let spawned = host.spawn(&SpawnRequest {
                module: ModuleId(0),
                grants,
                count: plan.instances,
                write: &|number, writer| give(plan, number, writer),
                started: &|first, pids| {
                    plan.job.name(pids, first);
                    // The waiters are gone if they have failed.
                    drop(sender.send((first, pids.to_vec())));
                    ControlFlow::Continue(())
                },
            });
            if spawned.is_err() || plan.job.signal().is_some() {
                // A signal may have come before they did; and nobody waits for what will not be whole.
                ProcessEngine::kill_all(host)?;
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
    let grants = grants(plan)?;
    let begin = Instant::now();
    let mut config = HostConfig::default();
    config.load.places = plan.instances.min(PLACES_MOST);
    config.load.memory = options.memory;
    config.load.threads = options.threads;
    config.interleaved = options.interleave;
    config.contract = options.contract;
    config.given_bytes = given_bytes(plan);
    if let Some(stack) = options.stack {
        let stack = u32::try_from(stack).map_err(|_| CliError::Value {
            option: "--stack",
            rule: "less than 4G",
            value: stack,
        })?;
        config.stack_bytes = Some(stack);
    }
    let module = Module::new(plan.args.program.clone(), plan.bytes.to_owned())?;
    let host = CudaProcesses::start(
        device,
        slice::from_ref(&module),
        &config,
        Streams::inherit(),
    )?;
    let host = Arc::new(host);
    plan.job.begins(host.clone());
    let load = opening + begin.elapsed();
    let begin = Instant::now();
    let tally = run_all(&host, &grants, plan)?;
    plan.job.is_over();
    Ok(Ran {
        engine: "cuda",
        width: host.width(ModuleId(0)) as usize,
        on: format!("{} places of {}", host.width(ModuleId(0)), device.name()),
        load,
        elapsed: begin.elapsed(),
        tally,
    })
}

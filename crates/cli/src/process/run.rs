//! Running the processes of a plan: one thread starts them, others wait for those that have started.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::{Mutex, mpsc};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use everwarp::EngineKind;
use everwarp::process::sync::lock;
use everwarp::process::{Children, Host, Meanwhile, OutputError};
use everwarp::trace::spanned;

use super::connections;
use super::plan::Plan;
use super::tally::Tally;
use super::watch;
use crate::error::CliError;

/// On a GPU, one in this many cores waits for processes. Each exit takes 0.1 us to receive, for 100,000 processes as long
/// as everything else together.
const CORES_PER_WAITER: usize = 4;
/// A waiter is started for this many processes.
const PROCESSES_PER_WAITER: u32 = 1 << 12;

/// How the processes of a plan ran.
pub(super) struct Ran {
    pub(super) engine: EngineKind,
    /// How many processes run at the same time.
    pub(super) width: u32,
    /// Where they ran, in words.
    pub(super) place: String,
    /// The time to open the device, and to compile and load the module.
    pub(super) load: Duration,
    pub(super) elapsed: Duration,
    pub(super) tally: Tally,
    /// Where the processes started, if some started on the CPU engine and others on the GPU.
    pub(super) meanwhile: Option<Meanwhile>,
    /// The first failed write to the command's own output.
    pub(super) lost: Option<OutputError>,
}

/// The parts of the processes that have started, by their first number.
type Parts = Mutex<mpsc::Receiver<(u32, Children)>>;
type Tallies = BTreeMap<u32, Tally>;

fn waiters(kind: EngineKind, instances: u32) -> usize {
    match kind {
        EngineKind::Cpu | EngineKind::Wgpu => 1,
        EngineKind::Cuda => {
            let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let wanted = instances.div_ceil(PROCESSES_PER_WAITER) as usize;
            wanted.min(cores / CORES_PER_WAITER).max(1)
        }
    }
}

/// Waits for the parts that this thread receives, until no further ones come.
fn wait(parts: &Parts) -> Result<Tallies, CliError> {
    let mut tallies = Tallies::new();
    loop {
        let part = lock(parts).recv();
        let Ok((first, children)) = part else {
            return Ok(tallies);
        };
        let tally = tallies.entry(first).or_default();
        children.wait_each(|pid, exit| tally.add(pid, exit))?;
    }
}

/// Starts all processes and passes them to the waiters.
fn spawn(
    plan: &Plan<'_>,
    host: &Host,
    started: &mpsc::Sender<(u32, Children)>,
) -> Result<(), CliError> {
    let spawned = plan.command(host).spawn_parts(
        plan.instances,
        |number, start| plan.write(number, start, |_| {}),
        |first, children| {
            plan.job.name(children.pids(), first);
            // The waiters are gone after an error of the engine, which they return.
            drop(started.send((first, children)));
            match plan.job.signal() {
                None => ControlFlow::Continue(()),
                Some(_) => ControlFlow::Break(()),
            }
        },
    );
    if spawned.is_err() || plan.job.signal().is_some() {
        // A signal may have come before the last of these processes started; and a run that failed to start all of its
        // processes need not finish the others.
        host.kill_all()?;
    }
    Ok(spawned?)
}

/// Starts all processes, waits for each as soon as it has started, and counts how they ended.
fn spawn_and_wait(plan: &Plan<'_>, host: &Host) -> Result<Tally, CliError> {
    let (started, parts) = mpsc::channel();
    let parts = Mutex::new(parts);
    if plan.single() {
        // One process is started at once, so there is nothing to wait for meanwhile.
        spawn(plan, host, &started)?;
        drop(started);
        let mut all = Tally::default();
        wait(&parts)?
            .into_values()
            .for_each(|tally| all.append(tally));
        return Ok(all);
    }
    std::thread::scope(|scope| {
        let spawner = scope.spawn(move || spawn(plan, host, &started));
        let others: Vec<_> = (1..waiters(host.kind(), plan.instances))
            .map(|_| scope.spawn(|| wait(&parts)))
            .collect();
        let mut tallies = wait(&parts);
        let join = |waiter: ScopedJoinHandle<'_, Result<Tallies, _>>| {
            waiter.join().unwrap_or_else(|e| resume_unwind(e))
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

/// Says where processes started that did not wait for the GPU: all that is not as asked for, and the rest if it is wanted.
fn describe(meanwhile: &Meanwhile, verbose: bool) {
    let Meanwhile { on_cpu, on_gpu, .. } = meanwhile;
    if let Some(failure) = &meanwhile.failure {
        eprintln!(
            "everwarp: warning: the GPU's engine did not start, so all processes ran on the CPU engine: {failure}"
        );
    } else if verbose {
        let ready = match meanwhile.ready {
            Some(after) => format!("was ready after {:.1} s", after.as_secs_f64()),
            None => "was not ready yet".to_owned(),
        };
        eprintln!(
            "everwarp: the code for the GPU had to be assembled: {on_cpu} processes started on the CPU engine and {on_gpu} on the \
             GPU, which {ready}"
        );
    }
}

/// Runs the plan.
pub(super) fn run(plan: &Plan<'_>) -> Result<Ran, CliError> {
    let (host, load) = spanned("host: start", || plan.start())?;
    plan.job.start(host.clone());
    let begin = Instant::now();
    let tally = spanned("processes: start, run, wait", || {
        watch::while_output_is_read(&host, &plan.job, || match plan.job.gate() {
            Some(gate) => connections::serve(plan, &host, gate),
            None => spawn_and_wait(plan, &host),
        })
    })?;
    let elapsed = begin.elapsed();
    // The report is all that is left to do.
    everwarp::cuda::leave();
    plan.job.finish();
    let meanwhile = host.meanwhile();
    if let Some(meanwhile) = &meanwhile {
        describe(meanwhile, plan.args.verbose);
    }
    if plan.args.verbose
        && let Some(compiling) = host.compiling()
    {
        eprintln!("everwarp: {compiling}");
    }
    let (engine, width) = match &meanwhile {
        Some(meanwhile) if meanwhile.on_gpu == 0 => (EngineKind::Cpu, meanwhile.threads),
        _ => (host.kind(), host.width(&plan.module)),
    };
    Ok(Ran {
        engine,
        width,
        place: match engine {
            EngineKind::Cpu => format!("{width} threads of the CPU engine"),
            EngineKind::Cuda | EngineKind::Wgpu => {
                format!("{width} places of {}", host.device_name())
            }
        },
        meanwhile: meanwhile.filter(|meanwhile| meanwhile.on_gpu > 0),
        load,
        elapsed,
        tally,
        lost: host.output_errors().first(),
    })
}

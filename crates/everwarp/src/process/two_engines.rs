//! A host on a GPU whose first processes run on the CPU engine, because the code of its modules is still being assembled.
//!
//! Callers of `spawn` give the CPU engine few processes at a time, so that most of those that have not started when the code
//! is there go to the GPU. The pids of both engines are in one table: even slots are the GPU's, odd ones the CPU engine's.

use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_process::{
    ChannelError, Compiling, Exit, HostConfig, HostError, HostStreams, Listing, LoadConfig,
    LoadedModule, Module, ModuleId, OutputErrors, OutputStream, OutputTarget, Pid, ProcessEngine,
    ProcessSnapshot, ProgramStderr, ProgramStdin, ProgramStdout, Receiver, Sender, SpawnError,
    SpawnRequest, StartError,
};
use everwarp_process_cpu::CpuProcesses;
use everwarp_runtime::EngineKind;
use everwarp_telemetry::view::ProcessTotals;

/// Where the processes of a host have started that did not wait for its GPU ([`HostBuilder::meanwhile`]).
///
/// [`HostBuilder::meanwhile`]: super::HostBuilder::meanwhile
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Meanwhile {
    /// The threads of the CPU engine that run processes.
    pub threads: u32,
    /// Processes that were given to the CPU engine.
    pub on_cpu: u64,
    /// Processes that were given to the GPU.
    pub on_gpu: u64,
    /// How long after the start of the host the GPU could run processes; none if it cannot yet.
    pub ready: Option<Duration>,
    /// Why the GPU will not run any.
    pub failure: Option<String>,
}

/// The engine on the GPU, once it is known whether it starts.
struct Decided {
    engine: Result<Arc<dyn ProcessEngine>, StartError>,
    after: Duration,
}

/// Processes given to the CPU engine at a time: first one for each thread, and then as many as begin within a millisecond.
/// While processes take long, only one waits there for a thread.
#[derive(Debug)]
struct Batch {
    size: u32,
    is_first: bool,
}

impl Batch {
    const MOST: u32 = 1024;
    const TIME: Duration = Duration::from_millis(1);

    fn first(threads: u32) -> Self {
        Self {
            size: threads.max(1),
            is_first: true,
        }
    }

    /// Goes on to the next batch, when the last one has started after this time.
    fn next(&mut self, waited: Duration) {
        self.size = match (std::mem::take(&mut self.is_first), waited < Self::TIME) {
            (true, _) => 1,
            (false, true) => (2 * self.size).min(Self::MOST),
            (false, false) => (self.size / 2).max(1),
        };
    }
}

/// What the thread that starts the GPU's engine shares with the others.
#[derive(Default)]
struct Later {
    decided: OnceLock<Decided>,
    /// The CPU engine, as soon as it has started.
    cpu: OnceLock<Weak<CpuProcesses>>,
    /// The GPU's engine is not wanted any more.
    unwanted: Arc<AtomicBool>,
}

/// The thread that starts the GPU's engine. Dropping it ends what it does.
struct Starter {
    later: Arc<Later>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    fn new(later: &Arc<Later>, streams: HostStreams, start: impl Starting) -> io::Result<Self> {
        let (begin, of_thread) = (Instant::now(), Arc::clone(later));
        let thread = std::thread::Builder::new().name("everwarp-starter".into());
        let thread = thread.spawn(move || {
            let engine = start(&streams, &of_thread.unwanted);
            let after = begin.elapsed();
            let _ = of_thread.decided.set(Decided { engine, after });
            // A caller of `spawn` may wait for the CPU engine.
            if let Some(cpu) = of_thread.cpu.get().and_then(Weak::upgrade) {
                cpu.look_again();
            }
        })?;
        Ok(Self {
            later: Arc::clone(later),
            thread: Some(thread),
        })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.later.unwanted.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// The two engines.
pub(super) struct TwoEngines {
    /// Ended first, because it may be about to start the other engine.
    _starter: Starter,
    cpu: Arc<CpuProcesses>,
    later: Arc<Later>,
    errors: Arc<OutputErrors>,
    on_cpu: AtomicU64,
    on_gpu: AtomicU64,
}

impl fmt::Debug for TwoEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoEngines").finish_non_exhaustive()
    }
}

/// A target of output whose errors are noted for both engines.
struct Noted<T> {
    target: T,
    stream: OutputStream,
    errors: Arc<OutputErrors>,
}

impl<T: OutputTarget> OutputTarget for Noted<T> {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let written = self.target.write_all(bytes);
        written.inspect_err(|error| self.errors.report(self.stream, error))
    }

    fn is_terminal(&self) -> bool {
        self.target.is_terminal()
    }
}

/// This program's own streams.
fn streams(errors: &Arc<OutputErrors>) -> HostStreams {
    HostStreams {
        stdin: Arc::new(ProgramStdin),
        stdout: Arc::new(Noted {
            target: ProgramStdout,
            stream: OutputStream::Stdout,
            errors: Arc::clone(errors),
        }),
        stderr: Arc::new(Noted {
            target: ProgramStderr,
            stream: OutputStream::Stderr,
            errors: Arc::clone(errors),
        }),
        budgets: None,
    }
}

/// What a thread does to start the engine on the GPU. It returns early when the flag is set.
pub(super) trait Starting:
    FnOnce(&HostStreams, &Arc<AtomicBool>) -> Result<Arc<dyn ProcessEngine>, StartError>
    + Send
    + 'static
{
}
impl<F> Starting for F where
    F: FnOnce(&HostStreams, &Arc<AtomicBool>) -> Result<Arc<dyn ProcessEngine>, StartError>
        + Send
        + 'static
{
}

/// The slot of a process in the table of both engines.
fn joint(pid: Pid, kind: Side) -> Pid {
    Pid::new(2 * pid.slot() + kind as u32, pid.generation())
}

/// One of the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Gpu = 0,
    Cpu = 1,
}

/// The engine of a process, and its pid there.
fn split(pid: Pid) -> (Side, Pid) {
    let side = match pid.slot() % 2 {
        0 => Side::Gpu,
        _ => Side::Cpu,
    };
    (side, Pid::new(pid.slot() / 2, pid.generation()))
}

/// An error of an engine about one of its processes.
fn joint_error(error: HostError, pid: Pid) -> HostError {
    match error {
        HostError::UnknownPid(_) => HostError::UnknownPid(pid),
        other => other,
    }
}

impl TwoEngines {
    /// Starts the CPU engine, and a thread that starts the other one with `start`.
    ///
    /// # Errors
    /// The CPU engine refuses a module, or the system a thread.
    pub(super) fn start(
        modules: &[Module],
        config: &HostConfig,
        start: impl Starting,
    ) -> Result<Self, StartError> {
        let (later, errors) = (Arc::<Later>::default(), Arc::<OutputErrors>::default());
        let streams = streams(&errors);
        let starter = Starter::new(&later, streams.clone(), start);
        let starter = starter.map_err(|source| StartError::System {
            what: "a thread that starts the GPU".to_owned(),
            source,
        })?;
        // The CPU engine compiles the modules while the other thread works.
        let cpu = CpuProcesses::start_with(modules, config, Some(&streams))?;
        let cpu = Arc::new(cpu);
        let set = later.cpu.set(Arc::downgrade(&cpu));
        debug_assert!(set.is_ok(), "nothing else sets it");
        Ok(Self {
            _starter: starter,
            cpu,
            later,
            errors,
            on_cpu: AtomicU64::new(0),
            on_gpu: AtomicU64::new(0),
        })
    }

    /// Where processes have started so far.
    pub(super) fn report(&self) -> Meanwhile {
        let decided = self.later.decided.get();
        let started = decided.filter(|decided| decided.engine.is_ok());
        let failure = decided.and_then(|decided| decided.engine.as_ref().err());
        Meanwhile {
            threads: self.cpu.width(ModuleId(0)),
            on_cpu: self.on_cpu.load(Ordering::Relaxed),
            on_gpu: self.on_gpu.load(Ordering::Relaxed),
            ready: started.map(|decided| decided.after),
            failure: failure.map(ToString::to_string),
        }
    }

    /// The engine on the GPU, if it runs.
    fn gpu(&self) -> Option<&Arc<dyn ProcessEngine>> {
        self.later.decided.get()?.engine.as_ref().ok()
    }

    /// The engine of a process, and its pid there.
    fn engine_of(&self, pid: Pid) -> Result<(&dyn ProcessEngine, Pid), HostError> {
        let (side, own) = split(pid);
        let engine = match side {
            Side::Cpu => Some(&*self.cpu as &dyn ProcessEngine),
            Side::Gpu => self.gpu().map(|engine| &**engine),
        };
        let engine = engine.ok_or(HostError::UnknownPid(pid))?;
        Ok((engine, own))
    }

    /// Starts a part of the processes of a request. Returns whether the caller has broken off.
    fn spawn_part(
        &self,
        side: Side,
        engine: &dyn ProcessEngine,
        request: &SpawnRequest<'_>,
        part: Range<u32>,
    ) -> Result<bool, SpawnError> {
        let broken_off = AtomicBool::new(false);
        let count = match side {
            Side::Cpu => &self.on_cpu,
            Side::Gpu => &self.on_gpu,
        };
        engine.spawn(&SpawnRequest {
            count: part.len() as u32,
            write: &|number, start| (request.write)(part.start + number, start),
            started: &|first, pids| {
                count.fetch_add(pids.len() as u64, Ordering::Relaxed);
                let pids: Vec<_> = pids.iter().map(|pid| joint(*pid, side)).collect();
                let flow = (request.started)(part.start + first, &pids);
                if flow.is_break() {
                    broken_off.store(true, Ordering::Relaxed);
                }
                flow
            },
            ..*request
        })?;
        Ok(broken_off.into_inner())
    }
}

impl ProcessEngine for TwoEngines {
    /// That of the engine that further processes run on.
    fn kind(&self) -> EngineKind {
        self.gpu().map_or(EngineKind::Cpu, |engine| engine.kind())
    }

    fn width(&self, module: ModuleId) -> u32 {
        let gpu = self.gpu().map(|engine| engine.width(module));
        gpu.unwrap_or_else(|| self.cpu.width(module))
    }

    /// Waits until the GPU has started: the CPU engine is for modules that the host started with.
    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        match &self.later.decided.wait().engine {
            Ok(engine) => engine.load(module, config),
            Err(_) => self.cpu.load(module, config),
        }
    }

    /// Returns when each process has an engine.
    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        let cpu = &*self.cpu;
        let mut batch = Batch::first(cpu.width(request.module));
        let mut started = 0;
        while started < request.count {
            let (side, engine, end): (_, &dyn ProcessEngine, _) = match self.later.decided.get() {
                Some(Decided { engine, .. }) => match engine {
                    Ok(engine) => (Side::Gpu, &**engine, request.count),
                    Err(_) => (Side::Cpu, cpu, request.count),
                },
                None => (
                    Side::Cpu,
                    cpu,
                    started.saturating_add(batch.size).min(request.count),
                ),
            };
            if self.spawn_part(side, engine, request, started..end)? {
                return Ok(());
            }
            started = end;
            if started < request.count {
                let since = Instant::now();
                cpu.wait_until_started(|| self.later.decided.get().is_some());
                batch.next(since.elapsed());
            }
        }
        Ok(())
    }

    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        let (engine, own) = self.engine_of(pid)?;
        let waited = engine.wait(own, timeout);
        waited.map_err(|error| joint_error(error, pid))
    }

    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        for group in pids.chunk_by(|a, b| split(*a).0 == split(*b).0) {
            let own: Vec<_> = group.iter().map(|pid| split(*pid).1).collect();
            let Ok((engine, _)) = self.engine_of(group[0]) else {
                // They name no processes.
                continue;
            };
            let (side, _) = split(group[0]);
            engine.wait_each(&own, &mut |pid, exit| each(joint(pid, side), exit))?;
        }
        Ok(())
    }

    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        match self.engine_of(pid) {
            Ok((engine, own)) => {
                let polled = engine.poll_wait(own, cx);
                polled.map_err(|error| joint_error(error, pid))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        match self.engine_of(pid) {
            Ok((engine, own)) => engine.kill(own),
            Err(_) => Ok(false),
        }
    }

    fn kill_all(&self) -> Result<(), HostError> {
        let gpu = self.gpu().map_or(Ok(()), |engine| engine.kill_all());
        self.cpu.kill_all().and(gpu)
    }

    fn list(&self, limit: usize) -> Result<Listing, HostError> {
        let rows = |listing: &mut Listing, side| {
            let joint_row = |row: ProcessSnapshot| ProcessSnapshot {
                pid: joint(row.pid, side),
                parent: row.parent.map(|parent| joint(parent, side)),
                ..row
            };
            let rows = std::mem::take(&mut listing.rows).into_iter();
            rows.map(joint_row).collect::<Vec<_>>()
        };
        let mut all = self.cpu.list(limit)?;
        all.rows = rows(&mut all, Side::Cpu);
        if let Some(engine) = self.gpu() {
            let mut other = engine.list(limit - all.rows.len())?;
            all.rows.extend(rows(&mut other, Side::Gpu));
            all.waiting += other.waiting;
            all.running += other.running;
            all.ended += other.ended;
        }
        Ok(all)
    }

    fn pause(&self) -> Result<Duration, HostError> {
        self.gpu()
            .map_or(Ok(Duration::ZERO), |engine| engine.pause())
    }

    fn compiling(&self) -> Option<Compiling> {
        self.gpu()?.compiling()
    }

    fn totals(&self) -> Option<ProcessTotals> {
        let of_gpu = self.gpu().and_then(|engine| engine.totals());
        match (self.cpu.totals(), of_gpu) {
            (Some(mut all), Some(of_gpu)) => {
                all.merge(&of_gpu);
                Some(all)
            }
            (of_cpu, of_gpu) => of_cpu.or(of_gpu),
        }
    }

    /// Only modules that are loaded later have channels. Waits as [`load`](Self::load) does.
    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        match &self.later.decided.wait().engine {
            Ok(engine) => engine.channel(capacity, bytes),
            Err(_) => self.cpu.channel(capacity, bytes),
        }
    }

    fn output_errors(&self) -> &OutputErrors {
        &self.errors
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender as Release, channel};

    use everwarp_process::sync::lock;
    use everwarp_process::{ExitStatus, Grants};

    use super::*;

    /// Exits with the number of its arguments.
    const COUNTING: &str = r#"(module
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $sizes (i32.const 0) (i32.const 4)))
            (call $exit (i32.load (i32.const 0)))))"#;
    const ENDLESS: &str = r#"(module (func (export "_start") (loop $forever (br $forever))))"#;

    fn module(text: &str) -> Module {
        let bytes = wat::parse_str(text).expect("it is text");
        Module::new("m", bytes).expect("it is valid")
    }

    fn two_workers() -> HostConfig {
        HostConfig {
            workers: NonZeroUsize::new(2),
            ..HostConfig::default()
        }
    }

    /// Both engines. The second one, which is on the CPU as well, starts when the test says whether it may.
    fn engines(text: &str) -> (TwoEngines, Release<bool>) {
        let module = module(text);
        let (release, released) = channel();
        let own = module.clone();
        let engines = TwoEngines::start(&[module], &two_workers(), move |streams, _| {
            if !released.recv().unwrap_or(false) {
                return Err(StartError::Modules { most: 0 });
            }
            let engine = CpuProcesses::start_with(&[own], &two_workers(), Some(streams))?;
            Ok(Arc::new(engine))
        });
        (engines.expect("the CPU engine starts"), release)
    }

    /// Spawns processes, the one with the number n with n arguments, until `last` have started. Returns their pids.
    fn spawn(engines: &TwoEngines, count: u32, last: usize) -> Vec<(u32, Pid)> {
        let all = Mutex::new(Vec::new());
        let spawned = engines.spawn(&SpawnRequest {
            module: ModuleId(0),
            grants: &Grants::default(),
            count,
            write: &|number, start| (0..number).for_each(|_| start.arg(&["a"])),
            started: &|first, pids| {
                let mut all = lock(&all);
                all.extend((first..).zip(pids.iter().copied()));
                match all.len() < last {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            },
        });
        spawned.expect("they start");
        let mut all = all.into_inner().expect("no thread panicked");
        all.sort_unstable();
        all
    }

    #[test]
    fn what_has_not_begun_when_the_second_engine_starts_goes_there() {
        let (engines, release) = engines(ENDLESS);
        let pids = std::thread::scope(|scope| {
            let spawned = scope.spawn(|| spawn(&engines, 10, usize::MAX));
            // Two run and one waits for a thread.
            while engines.report().on_cpu < 3 {
                std::thread::yield_now();
            }
            assert!(engines.report().ready.is_none() && !spawned.is_finished());
            release.send(true).expect("it waits");
            spawned.join().expect("it does not panic")
        });
        let report = engines.report();
        assert_eq!((report.on_cpu, report.on_gpu), (3, 7));
        assert!(report.ready.is_some() && report.failure.is_none());
        let numbers: Vec<_> = pids.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, Vec::from_iter(0..10));
        let pids: Vec<_> = pids.into_iter().map(|(_, pid)| pid).collect();
        let listing = engines.list(8).expect("both run");
        assert_eq!((listing.total(), listing.rows.len()), (10, 8));
        let all = engines.list(100).expect("both run").rows;
        let listed: HashSet<_> = all.iter().map(|row| row.pid).collect();
        assert_eq!(listed, pids.iter().copied().collect());
        // One of each, alone.
        for pid in [pids[0], pids[9]] {
            let timeout = engines.wait(pid, Some(Duration::ZERO));
            assert!(matches!(timeout, Err(HostError::Timeout { .. })));
            assert!(engines.kill(pid).expect("both run"));
            let exit = engines.wait(pid, None).expect("it ends");
            assert_eq!(exit.status, ExitStatus::Killed);
            let gone = engines.wait(pid, None);
            assert!(matches!(gone, Err(HostError::UnknownPid(unknown)) if unknown == pid));
        }
        engines.kill_all().expect("both run");
        let mut ended = Vec::new();
        let waited = engines.wait_each(&pids, &mut |pid, exit| {
            assert_eq!(exit.status, ExitStatus::Killed);
            ended.push(pid);
        });
        waited.expect("both run");
        assert_eq!(ended, pids[1..9]);
    }

    #[test]
    fn processes_of_both_engines_get_what_is_written_for_their_numbers() {
        let (engines, release) = engines(COUNTING);
        let pids = std::thread::scope(|scope| {
            let spawned = scope.spawn(|| spawn(&engines, 5000, usize::MAX));
            while engines.report().on_cpu < 100 {
                std::thread::yield_now();
            }
            release.send(true).expect("it waits");
            spawned.join().expect("it does not panic")
        });
        let report = engines.report();
        assert_eq!(report.on_cpu + report.on_gpu, 5000);
        assert_eq!(pids.len(), 5000);
        for (number, pid) in pids {
            let exit = engines.wait(pid, None).expect("it ends");
            assert_eq!(exit.status, ExitStatus::Exited(number));
        }
    }

    #[test]
    fn without_the_second_engine_all_run_on_the_first() {
        let (engines, release) = engines(COUNTING);
        release.send(false).expect("it waits");
        for (number, pid) in spawn(&engines, 50, usize::MAX) {
            let exit = engines.wait(pid, None).expect("it ends");
            assert_eq!(exit.status, ExitStatus::Exited(number));
        }
        let loaded = engines.load(&module(ENDLESS), &LoadConfig::default());
        assert_eq!(loaded.expect("the first engine loads it").id, ModuleId(1));
        let report = engines.report();
        assert_eq!((report.on_cpu, report.on_gpu), (50, 0));
        assert!(report.ready.is_none() && report.failure.is_some());
    }

    #[test]
    fn a_caller_breaks_off() {
        let (engines, _release) = engines(ENDLESS);
        let started = spawn(&engines, 1_000_000, 1);
        assert!(started.len() <= 2);
    }

    #[test]
    fn an_engine_that_is_not_wanted_any_more_is_not_waited_for() {
        let (seen, was_seen) = channel();
        let engines = TwoEngines::start(&[module(ENDLESS)], &two_workers(), move |_, unwanted| {
            while !unwanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seen.send(()).expect("the test waits");
            Err(StartError::Modules { most: 0 })
        });
        drop(engines.expect("the CPU engine starts"));
        was_seen.recv().expect("the thread was told");
    }

    #[test]
    fn settings_that_the_first_engine_refuses_end_the_start_of_the_second() {
        let ended = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&ended);
        let config = HostConfig {
            workers: NonZeroUsize::new(1 << 20),
            ..HostConfig::default()
        };
        let engines = TwoEngines::start(&[module(ENDLESS)], &config, move |_, unwanted| {
            while !unwanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seen.store(true, Ordering::Relaxed);
            Err(StartError::Modules { most: 0 })
        });
        assert!(engines.is_err() && ended.load(Ordering::Relaxed));
    }

    #[test]
    fn pids_of_both_engines_differ() {
        for side in [Side::Cpu, Side::Gpu] {
            let pid = Pid::new(77, 3);
            assert_eq!(split(joint(pid, side)), (side, pid));
        }
    }

    #[test]
    fn lost_output_is_noted_for_both() {
        struct Full;
        impl OutputTarget for Full {
            fn write_all(&self, _: &[u8]) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn is_terminal(&self) -> bool {
                false
            }
        }
        let errors = Arc::<OutputErrors>::default();
        let target = Noted {
            target: Full,
            stream: OutputStream::Stderr,
            errors: Arc::clone(&errors),
        };
        assert!(target.write_all(b"x").is_err());
        let first = errors.first().expect("it was noted");
        assert_eq!(first.stream, OutputStream::Stderr);
    }

    #[test]
    fn batches_grow_while_processes_are_short() {
        let mut batch = Batch::first(16);
        let mut sizes = vec![batch.size];
        for waited in [0, 0, 0, 0, 5, 5, 5, 5] {
            batch.next(Duration::from_millis(waited));
            sizes.push(batch.size);
        }
        assert_eq!(sizes, [16, 1, 2, 4, 8, 4, 2, 1, 1]);
        (0..20).for_each(|_| batch.next(Duration::ZERO));
        assert_eq!(batch.size, Batch::MOST);
    }
}

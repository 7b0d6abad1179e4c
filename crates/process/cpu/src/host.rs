//! The engine: modules, processes, and the threads that run them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use everwarp_engine::EngineKind;
use everwarp_process::{
    ChannelError, Exit, HostConfig, HostError, HostStreams, Listing, LoadConfig, LoadedModule,
    Module, ModuleId, OutputErrors, OutputStream, Pid, ProcessEngine, Receiver, Sender, SpawnError,
    SpawnRequest, StartError,
};

use crate::channel::{Channel, HostId};
use crate::engines::POOL;
use crate::family::{HostAccess, ModuleIndex};
use crate::host_input::HostStdin;
use crate::host_stream::HostStream;
use crate::list::list;
use crate::modules::ModuleSet;
use crate::process::Taken;
use crate::scheduler::Scheduler;
use crate::spawn::spawn;
use crate::worker::run_worker;

/// A number of threads, of those for which the pool has instances.
struct ThreadPermit(usize);

static THREADS: AtomicUsize = AtomicUsize::new(0);

impl ThreadPermit {
    fn take(count: usize) -> std::io::Result<Self> {
        let more = |have: usize| have.checked_add(count).filter(|n| *n <= POOL as usize);
        // The number orders nothing else.
        let taken = THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let refused = |have| {
            let text = format!(
                "{count} threads were asked for and {have} are in use; there may be {POOL} for processes"
            );
            std::io::Error::other(text)
        };
        taken.map(|_| Self(count)).map_err(refused)
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        THREADS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A number that no other host of this program has.
fn new_host_id() -> HostId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    HostId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs processes on a fixed number of threads.
///
/// Dropping it kills what still runs.
pub struct CpuProcesses {
    scheduler: Arc<Scheduler>,
    modules: Arc<ModuleSet>,
    errors: Arc<OutputErrors>,
    workers: Vec<JoinHandle<()>>,
    epoch_thread: Option<JoinHandle<()>>,
    _permit: ThreadPermit,
}

impl std::fmt::Debug for CpuProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuProcesses({} threads)", self.workers.len())
    }
}

fn system_error(what: &str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System {
        what: what.to_owned(),
        source,
    }
}

/// Refuses options that only a GPU has.
fn check_options(config: &HostConfig) -> Result<(), StartError> {
    let given = [
        ("stack_bytes", config.stack_bytes.is_some()),
        ("interleaved", config.interleaved),
        ("contract", config.contract),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(StartError::Option {
            option,
            engine: EngineKind::Cpu,
        }),
    }
}

impl CpuProcesses {
    /// Starts a host with these modules, whose ids are their positions.
    ///
    /// # Errors
    /// A module is refused; an option is given that only a GPU has; the system refuses a thread; or all hosts together
    /// would have more than 1,024 threads.
    pub fn start(modules: &[Module], config: &HostConfig) -> Result<Self, StartError> {
        Self::start_with(modules, config, None)
    }

    /// The same. What processes inherit are `streams`, or this program's own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        modules: &[Module],
        config: &HostConfig,
        streams: Option<&HostStreams>,
    ) -> Result<Self, StartError> {
        check_options(config)?;
        let count = match config.workers {
            Some(count) => count.get(),
            None => available_parallelism()
                .map_err(system_error("counting the cores"))?
                .get(),
        };
        let refused = system_error("the threads of the CPU engine");
        let permit = ThreadPermit::take(count).map_err(refused)?;
        let scheduler = Arc::new(Scheduler::new());
        let errors = Arc::new(OutputErrors::new());
        let (stdin, streams) = match streams {
            None => (HostStdin::OfProgram, HostStream::of_program()),
            Some(given) => (
                HostStdin::given(&given.stdin),
                [
                    HostStream::new(OutputStream::Stdout, Arc::clone(&given.stdout)),
                    HostStream::new(OutputStream::Stderr, Arc::clone(&given.stderr)),
                ],
            ),
        };
        let loaded = ModuleSet::new(|launcher| HostAccess {
            id: new_host_id(),
            stdin,
            streams,
            errors: Arc::clone(&errors),
            scheduler: Arc::downgrade(&scheduler),
            launcher,
        });
        for module in modules {
            loaded.load(module, &config.load)?;
        }
        // Made before the threads, so that those that have started end if the system refuses one.
        let mut host = Self {
            scheduler,
            modules: loaded,
            errors,
            workers: Vec::with_capacity(count),
            epoch_thread: None,
            _permit: permit,
        };
        host.start_threads(count)
            .map_err(system_error("a thread of the CPU engine"))?;
        Ok(host)
    }

    fn start_threads(&mut self, count: usize) -> std::io::Result<()> {
        let named = |name: String| std::thread::Builder::new().name(name);
        let scheduler = Arc::clone(&self.scheduler);
        let clock = named("processes".to_owned()).spawn(move || scheduler.epoch.run())?;
        self.epoch_thread = Some(clock);
        for n in 0..count {
            let scheduler = Arc::clone(&self.scheduler);
            let worker = named(format!("process-{n}")).spawn(move || run_worker(&scheduler))?;
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Removes a process that has been waited for.
    fn reaped(&self, pid: Pid, taken: Taken) -> Result<Exit, HostError> {
        match taken {
            Taken::Exit(exit) => {
                self.scheduler.forget(pid);
                Ok(*exit)
            }
            Taken::NotYet | Taken::ByAnother => Err(HostError::UnknownPid(pid)),
        }
    }
}

impl ProcessEngine for CpuProcesses {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }

    fn width(&self, module: ModuleId) -> u32 {
        match self.modules.get(ModuleIndex(module.0)) {
            Some(_) => self.workers.len() as u32,
            None => 0,
        }
    }

    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        let begin = Instant::now();
        let index = self.modules.load(module, config)?;
        // Running processes do not wait for it.
        let id = ModuleId(index.0);
        Ok(LoadedModule::new(id, begin.elapsed(), Duration::ZERO))
    }

    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        spawn(request, &self.modules, &self.scheduler, self.workers.len())
    }

    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        let process = self.scheduler.find(pid).ok_or(HostError::UnknownPid(pid))?;
        match (process.wait(timeout), timeout) {
            (Taken::NotYet, Some(after)) => Err(HostError::Timeout { after }),
            (taken, _) => self.reaped(pid, taken),
        }
    }

    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        for &pid in pids {
            match self.wait(pid, None) {
                Ok(exit) => each(pid, exit),
                Err(HostError::UnknownPid(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        let Some(process) = self.scheduler.find(pid) else {
            return Poll::Ready(Err(HostError::UnknownPid(pid)));
        };
        process.poll_exit(cx).map(|taken| self.reaped(pid, taken))
    }

    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        let process = self.scheduler.find(pid);
        let found = process.map(|process| self.scheduler.kill(&process));
        Ok(found.is_some())
    }

    fn kill_all(&self) -> Result<(), HostError> {
        self.scheduler.kill_all();
        Ok(())
    }

    fn list(&self, limit: usize) -> Result<Listing, HostError> {
        Ok(list(&self.scheduler, limit))
    }

    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        let (sender, receiver) = Channel::open(self.modules.host().id, capacity, bytes)?;
        Ok((
            Sender::new(Box::new(sender)),
            Receiver::new(Box::new(receiver)),
        ))
    }

    fn output_errors(&self) -> &OutputErrors {
        &self.errors
    }
}

impl Drop for CpuProcesses {
    fn drop(&mut self) {
        self.modules.host().stdin.close();
        self.scheduler.stop();
        for process in self.scheduler.all() {
            self.scheduler.kill(&process);
        }
        for worker in self.workers.drain(..) {
            // A thread that panicked has printed its message already.
            drop(worker.join());
        }
        self.scheduler.epoch.stop();
        if let Some(thread) = self.epoch_thread.take() {
            drop(thread.join());
        }
    }
}

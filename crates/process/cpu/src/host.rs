//! The engine: modules, processes, and the threads that run them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use everwarp_engine::EngineKind;
use everwarp_process::{
    ChannelError, Exit, HostConfig, HostError, HostStreams, Listing, LoadConfig, LoadedModule,
    Module, ModuleId, OutputErrors, OutputStream, Pid, ProcessEngine, Receiver, Sender, SpawnError,
    SpawnRequest, StartError,
};
use everwarp_telemetry::processes::totals;
use everwarp_telemetry::view::ProcessTotals;

use crate::channel::{Channel, HostId};
use crate::engines::Stack;
use crate::epoch;
use crate::family::{HostParts, ModuleIndex};
use crate::host_input::HostStdin;
use crate::host_stream::HostStream;
use crate::list::list;
use crate::modules::ModuleSet;
use crate::permits::{self, EXTRAS_LEAST, HostPermit};
use crate::process::Taken;
use crate::scheduler::Scheduler;
use crate::spawn::spawn;
use crate::worker::start_worker;

/// A number that no other host of this program has.
fn new_host_id() -> HostId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    HostId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs processes on a few threads, which are started when there are processes for them.
///
/// Dropping it kills what still runs.
pub struct CpuProcesses {
    scheduler: Arc<Scheduler>,
    modules: Arc<ModuleSet>,
    errors: Arc<OutputErrors>,
    _permit: HostPermit,
}

impl std::fmt::Debug for CpuProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuProcesses({} threads)", self.scheduler.width())
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
    /// A module is refused; an option is given that only a GPU has; more than 1,024 threads are asked for, or more
    /// [processes that wait](HostConfig::waiting) than there is room for; the system refuses a thread; or this program has
    /// 1,024 hosts already.
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
        if count > EXTRAS_LEAST {
            let text = format!("{count} were asked for; a host may have {EXTRAS_LEAST}");
            let refused = system_error("the threads of the CPU engine");
            return Err(refused(std::io::Error::other(text)));
        }
        if config.waiting > HostConfig::WAITING {
            let extras = config.waiting as usize + count;
            permits::reserve(extras).map_err(system_error("processes that wait for sockets"))?;
        }
        let permit = HostPermit::take().map_err(system_error("a host of the CPU engine"))?;
        let scheduler = Scheduler::new(count, start_worker);
        let errors = Arc::new(OutputErrors::new());
        let budgets = streams.and_then(|given| given.budgets.clone());
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
        let loaded = ModuleSet::new(Stack::of(config.stack_bytes), |launcher| {
            Arc::new(HostParts {
                id: new_host_id(),
                stdin,
                streams,
                errors: Arc::clone(&errors),
                budgets,
                scheduler: Arc::downgrade(&scheduler),
                launcher,
            })
        });
        for module in modules {
            loaded.load(module, &config.load)?;
        }
        epoch::start()
            .and_then(|()| scheduler.start())
            .map_err(system_error("a thread of the CPU engine"))?;
        Ok(Self {
            scheduler,
            modules: loaded,
            errors,
            _permit: permit,
        })
    }

    /// Waits until all processes have started, or `enough` holds. The thread that makes it hold calls [`look_again`](Self::look_again)
    /// afterwards.
    pub fn wait_until_started(&self, enough: impl Fn() -> bool) {
        self.scheduler.wait_until_empty(enough);
    }

    /// Has threads in [`wait_until_started`](Self::wait_until_started) look whether they have waited for enough.
    pub fn look_again(&self) {
        self.scheduler.look_again();
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
            Some(_) => self.scheduler.width() as u32,
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
        spawn(
            request,
            &self.modules,
            &self.scheduler,
            self.scheduler.width(),
        )
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

    fn totals(&self) -> Option<ProcessTotals> {
        totals()
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
        self.scheduler.join();
    }
}

//! The engine of processes on a GPU.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_engine::sync::lock;
use everwarp_hostcalls::Attached;
use everwarp_process::{
    ChannelError, Compiling, Exit, HostError, Listing, LoadConfig, LoadedModule, Module, ModuleId,
    OutputErrors, Pid, ProcessEngine, Receiver, Sender, SpawnError, SpawnRequest, StartError,
};
use everwarp_runtime::{Engine, EngineKind, LinkedEngine};
use everwarp_telemetry::hosted::HostedProcesses;
use everwarp_telemetry::view::ProcessTotals;

use crate::directory::DirectoryCache;
use crate::error::refused;
use crate::host_core::HostCore;
use crate::load::ModuleLoader;
use crate::resident::{Residency, ResidentProcesses, ShareLease};

/// How long processes have to end when their host is dropped.
const GRACE: Duration = Duration::from_secs(5);

/// A host on an engine: its modules, and their processes.
pub struct CudaProcesses {
    pub(crate) core: ManuallyDrop<Arc<HostCore>>,
    /// Serves the host calls of the processes.
    pub(crate) attached: Option<Attached>,
    pub(crate) dispatcher: Option<JoinHandle<()>>,
    pub(crate) depth: u32,
    /// The state that later loads start from.
    pub(crate) loader: Mutex<ModuleLoader>,
    /// The directories that processes have been given.
    pub(crate) directories: DirectoryCache,
    pub(crate) share: ShareLease,
    /// Dropped when the processes have ended.
    pub(crate) _residency: Residency,
    pub(crate) resident: Arc<ResidentProcesses>,
}

impl std::fmt::Debug for CudaProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaProcesses")
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl CudaProcesses {
    /// The engine that the processes run on.
    pub fn engine(&self) -> &Engine {
        &self.core.engine
    }

    /// Bytes of the largest stack frame among all functions of the modules.
    pub fn largest_frame(&self) -> u32 {
        self.core.engine.frames().largest()
    }

    /// How deep calls of a process may nest.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Lets processes have up to `files` files and directories open together, rather than as many as the system grants;
    /// at least two. A process that has none open and wants one waits until others have closed theirs. To be called
    /// while no process has anything open.
    pub fn limit_files(&self, files: u64) {
        self.core.service.limit_files(files);
    }

    /// Whether a pid names a process that has not been waited for.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn knows(&self, pid: Pid) -> Result<bool, HostError> {
        self.core.knows(pid).map_err(refused)
    }
}

impl ProcessEngine for CudaProcesses {
    fn kind(&self) -> EngineKind {
        EngineKind::Cuda
    }

    fn width(&self, module: ModuleId) -> u32 {
        let hosted = self.core.modules.get(module.0 as usize);
        hosted.map_or(0, |hosted| hosted.places.count())
    }

    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        lock(&self.loader).load(&self.resident, &self.share, &self.core, module, config)
    }

    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        crate::spawn::spawn(&self.core, &self.directories, request)
    }

    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        self.core.wait(pid, timeout)
    }

    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        self.core.wait_each(pids, each)
    }

    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        self.core.poll_wait(pid, cx)
    }

    /// The process ends at its next look: within some thousand rounds of a loop, or when its host call is answered,
    /// which is at once for calls that wait.
    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        if !self.knows(pid)? {
            return Ok(false);
        }
        self.core.kill(pid).map_err(refused)?;
        Ok(true)
    }

    /// Processes that others have spawned end with their ancestors.
    fn kill_all(&self) -> Result<(), HostError> {
        self.core.kill_all().map_err(refused)
    }

    /// Each process with details takes a copy from the device, and so does each module whose processes can be spawned by
    /// others.
    fn list(&self, limit: usize) -> Result<Listing, HostError> {
        self.core.list(limit).map_err(refused)
    }

    fn pause(&self) -> Result<Duration, HostError> {
        // No other thread exchanges the image meanwhile, for which it parks the engine.
        let _code = self.resident.code();
        let begin = Instant::now();
        self.engine().park().map_err(refused)?;
        self.engine().resume().map_err(refused)?;
        Ok(begin.elapsed())
    }

    fn compiling(&self) -> Option<Compiling> {
        let modules = self.core.modules.iter();
        let partial = modules.filter(|hosted| hosted.code.partial.is_some());
        let wishes = &self.resident.wishes;
        let counts = partial.map(|hosted| wishes.counts(&hosted.code));
        let all = counts.reduce(|all, counts| all.and(&counts))?;
        Some(Compiling {
            left_out: all.left_out,
            assembled: all.assembled,
            present: all.present,
            exchanges: wishes.exchanges(),
        })
    }

    fn totals(&self) -> Option<ProcessTotals> {
        self.core.service.times().map(HostedProcesses::totals)
    }

    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        crate::channel::open(&self.core.family, capacity, bytes)
    }

    fn output_errors(&self) -> &OutputErrors {
        self.core.service.output_errors()
    }
}

impl CudaProcesses {
    /// Leaves the places to later hosts of the engine, if all processes have ended and no other place is known to them.
    fn leave_places(&self, core: Arc<HostCore>) {
        // A sender or receiver of a caller may still hold a part of it.
        let Some(core) = Arc::into_inner(core) else {
            return;
        };
        let reusable = core.waiters.failure().is_none() && core.alive().is_empty();
        let common = lock(&self.loader).common.clone();
        let (modules, generations) = core.into_places();
        for (hosted, generations) in modules.zip(generations) {
            if reusable && !hosted.places.meets_others() {
                let key = hosted.places.key(common.depth);
                lock(&self.resident.idle).put(&hosted.code, key, hosted.places, generations);
            }
        }
    }
}

impl Drop for CudaProcesses {
    /// Kills what still runs.
    fn drop(&mut self) {
        let _span = everwarp_runtime::trace::span("host: end");
        let alive = self.core.alive();
        for pid in &alive {
            // A lost engine has no processes left to kill.
            drop(self.core.kill(*pid));
        }
        let end = Instant::now() + GRACE;
        for pid in alive {
            let left = end.saturating_duration_since(Instant::now());
            drop(self.core.wait(pid, Some(left)));
        }
        self.core.queues.stop();
        if let Some(dispatcher) = self.dispatcher.take() {
            drop(dispatcher.join());
        }
        // The service's threads use the places until here.
        self.attached.take();
        self.resident.end_alone();
        if let Some(reason) = self.core.waiters.failure() {
            self.resident.fail(reason);
        }
        // SAFETY: this is the only place that takes it, and nothing uses it afterwards.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        self.leave_places(core);
    }
}

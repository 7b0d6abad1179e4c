//! Hosts: the engines that processes run on.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use everwarp_process::sync::ignore_poison;
use everwarp_process::{
    ChannelError, Compiling, Exit, HostError, Listing, LoadConfig, LoadedModule, Module, ModuleId,
    OutputErrors, Pid, ProcessEngine, Receiver, Sender, StartError,
};
use everwarp_runtime::{Device, EngineKind, Select};

use super::builder::{HostBuilder, Place};
use super::shown::Shown;
use super::two_engines::{Meanwhile, TwoEngines};

/// The modules of a host with their ids.
#[derive(Debug, Default)]
pub(super) struct ModuleSet(RwLock<Vec<(Module, ModuleId)>>);

impl ModuleSet {
    pub(super) fn add(&self, module: Module, id: ModuleId) {
        let mut modules = ignore_poison(self.0.write());
        modules.push((module, id));
    }

    fn names(&self) -> String {
        let modules = ignore_poison(self.0.read());
        let names: Vec<_> = modules.iter().map(|(module, _)| module.name()).collect();
        names.join(", ")
    }

    pub(super) fn find(&self, module: &Module) -> Option<ModuleId> {
        let modules = ignore_poison(self.0.read());
        let found = modules.iter().find(|(m, _)| m.is(module));
        found.map(|(_, id)| *id)
    }
}

/// What runs the processes of a host.
pub(super) enum HostEngine {
    One(Arc<dyn ProcessEngine>),
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "GPUs need Linux")
    )]
    Two(Arc<TwoEngines>),
}

impl From<Arc<dyn ProcessEngine>> for HostEngine {
    fn from(engine: Arc<dyn ProcessEngine>) -> Self {
        Self::One(engine)
    }
}

/// An engine that runs processes of its modules, on the CPU or on a GPU.
///
/// A host is a handle; its clones, its [`Child`](super::Child)ren and its channels belong to the same engine. When the
/// last of them is dropped, the processes that still run are killed and the engine ends.
#[derive(Clone, Debug)]
pub struct Host {
    engine: Arc<dyn ProcessEngine>,
    /// The same, if it is two.
    two: Option<Arc<TwoEngines>>,
    modules: Arc<ModuleSet>,
    /// The name of its device.
    device: Arc<str>,
    /// Shows it to other programs.
    _shown: Option<Shown>,
}

impl Host {
    /// Prepares a host on a device. The device's kind decides which engine runs the processes.
    pub fn builder(device: &Device) -> HostBuilder<'_> {
        HostBuilder::new(Place::Device(device))
    }

    /// Prepares a host on a device that is opened when the host starts: meanwhile its modules are rehearsed and translated for a GPU,
    /// so that the first process starts sooner than on a device that was opened before.
    ///
    /// ```
    /// use everwarp::Select;
    /// use everwarp::process::{Command, Host, Module};
    ///
    /// # fn main() -> Result<(), everwarp::process::Error> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");
    /// let hello = Module::from_file(path)?;
    /// let host = Host::builder_opening(Select::Cpu).module(&hello).start()?;
    /// assert!(Command::new(&host, &hello).output()?.success());
    /// # Ok(()) }
    /// ```
    pub fn builder_opening(select: Select) -> HostBuilder<'static> {
        HostBuilder::new(Place::Opened(select))
    }

    pub(super) fn new(engine: HostEngine, modules: ModuleSet, device: String, shown: bool) -> Self {
        let (engine, two): (Arc<dyn ProcessEngine>, _) = match engine {
            HostEngine::One(engine) => (engine, None),
            HostEngine::Two(engines) => (Arc::clone(&engines) as _, Some(engines)),
        };
        let _shown = shown.then(|| Shown::new(&engine, modules.names()));
        Self {
            engine,
            two,
            modules: Arc::new(modules),
            device: device.into(),
            _shown,
        }
    }

    pub(super) fn engine(&self) -> &Arc<dyn ProcessEngine> {
        &self.engine
    }

    pub(super) fn module_id(&self, module: &Module) -> Option<ModuleId> {
        self.modules.find(module)
    }

    /// Where processes have started so far, if they did not wait for the GPU ([`HostBuilder::meanwhile`]). None if they did.
    pub fn meanwhile(&self) -> Option<Meanwhile> {
        self.two.as_ref().map(|two| two.report())
    }

    /// The kind of engine that runs the processes: with [`HostBuilder::meanwhile`] the one that further processes run on.
    pub fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    /// The name of the device.
    pub fn device_name(&self) -> &str {
        &self.device
    }

    /// How many processes of a module can run at the same time: the CPU engine's threads, or the module's places on a
    /// GPU. It is 0 if the host does not have the module.
    pub fn width(&self, module: &Module) -> u32 {
        let id = self.module_id(module);
        id.map_or(0, |id| self.engine.width(id))
    }

    /// Loads a module while processes run.
    ///
    /// On a GPU its processes take their places from those that [`HostBuilder::spare_places`] has reserved. Running
    /// processes are paused while its machine code is loaded, on an H200 for a millisecond and 1.5 for each megabyte.
    ///
    /// # Errors
    /// [`StartError`]: the module is refused, or there is no room for its processes. The host is not affected.
    pub fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        let loaded = self.engine.load(module, config)?;
        self.modules.add(module.clone(), loaded.id);
        Ok(loaded)
    }

    /// Waits until the process with this pid exits, and frees the pid.
    ///
    /// # Errors
    /// [`HostError::UnknownPid`]: the process has been waited for, or never existed; or the engine has failed.
    pub fn wait(&self, pid: Pid) -> Result<Exit, HostError> {
        self.engine.wait(pid, None)
    }

    /// The same for up to `timeout`.
    ///
    /// # Errors
    /// As [`Host::wait`], and [`HostError::Timeout`]: the process keeps running.
    pub fn wait_timeout(&self, pid: Pid, timeout: Duration) -> Result<Exit, HostError> {
        self.engine.wait(pid, Some(timeout))
    }

    /// Asks the process with this pid to end, also if another process spawned it. Returns `false` if no process has
    /// this pid. A process that has exited keeps its status.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        self.engine.kill(pid)
    }

    /// Asks all processes to end.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn kill_all(&self) -> Result<(), HostError> {
        self.engine.kill_all()
    }

    /// Counts the processes that have not been waited for, and describes up to `limit` of them.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn list(&self, limit: usize) -> Result<Listing, HostError> {
        self.engine.list(limit)
    }

    /// Stops all processes for a moment and returns how long they stood still, for measurements. Not a stable API.
    #[doc(hidden)]
    pub fn pause(&self) -> Result<std::time::Duration, HostError> {
        self.engine.pause()
    }

    /// Holds back the output of processes in a service, or lets it go on: for a program that is about to be stopped.
    #[doc(hidden)]
    pub fn hold_output(&self, held: bool) -> Result<(), HostError> {
        self.engine.hold_output(held)
    }

    /// Makes a channel for `capacity` messages of up to `bytes` bytes each. [`Command::end`](super::Command::end) passes
    /// its ends to processes, which use them through `everwarp:gpu`. A side is open as long as any end of it exists.
    ///
    /// # Errors
    /// [`ChannelError`]: the channel is too large, there are too many channels, or no module of this host imports
    /// `everwarp:gpu`.
    pub fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        self.engine.channel(capacity, bytes)
    }

    /// How far the compiler is with functions that come while processes run ([`Tier::Lazy`](super::Tier::Lazy)); none if there are no
    /// such functions, and for a host in a service.
    pub fn compiling(&self) -> Option<Compiling> {
        self.engine.compiling()
    }

    /// What processes did so far, for views of this program. Not a stable API.
    #[doc(hidden)]
    pub fn totals(&self) -> Option<everwarp_telemetry::view::ProcessTotals> {
        self.engine.totals()
    }

    /// The errors of writes to this program's own standard output and standard error, which processes may share
    /// ([`Output::Inherit`](super::Output::Inherit), [`Output::Lines`](super::Output::Lines)). A process often ignores
    /// such an error, so check it when the processes have exited.
    pub fn output_errors(&self) -> &OutputErrors {
        self.engine.output_errors()
    }
}

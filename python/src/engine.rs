//! `Engine`: a device, and what runs there for this program.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use everwarp::process::{Command, Host, LoadConfig, Module as WasmModule};
use everwarp::{Device, EngineKind, ProgramRef, Select};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::actors::Running;
use crate::channel::{End, Receiver, Sender};
use crate::errors::{DeviceError, EngineClosed, EngineError, EngineLost, Raise, StartFailed};
use crate::exit::Exits;
use crate::module::Module;
use crate::owner::Owner;
use crate::processes::Processes;
use crate::request::{Dir, Each, Inputs, copied, grant, output};
use crate::wait::{seconds, with_a_word};

/// The places of a GPU that are kept for modules which come after the first.
const SPARE_PLACES: u32 = 16_384;

/// A module as it was loaded: with which limit of memory, and how many processes on a GPU at a time.
struct Loaded {
    module: WasmModule,
    memory: Option<u64>,
    /// The clone that the host knows.
    own: WasmModule,
}

/// What an open engine has.
pub(crate) struct Open {
    pub(crate) device: Device,
    /// Whether the device was left to everwarp.
    pub(crate) auto: bool,
    pub(crate) size: Option<u32>,
    processes: Option<(Host, Vec<Loaded>)>,
    pub(crate) tasks: Option<(&'static str, everwarp::Engine)>,
    /// Actors on a GPU.
    pub(crate) actors: Weak<Running>,
    /// The CPU engine that runs ring kernels.
    rings: Option<everwarp::Engine>,
    /// The engine of a GPU that runs ring kernels and has buffers.
    gpu: Option<Shared>,
}

/// An engine of a GPU, which stays as long as something uses it.
struct Shared {
    engine: everwarp::Engine,
    users: Arc<()>,
}

/// Says that a ring kernel or a buffer is on the GPU.
pub(crate) type OnGpu = Arc<()>;

/// A device and what is resident there. The function `everwarp.engine` makes one.
#[pyclass(frozen, subclass, module = "everwarp._native")]
pub(crate) struct Engine {
    open: Mutex<Option<Open>>,
    pub(crate) kind: EngineKind,
    device: String,
    why: String,
    owner: Owner,
}

impl Engine {
    /// What the engine has, unless it is closed or this is the child of a fork.
    pub(crate) fn open(&self) -> PyResult<OpenGuard<'_>> {
        self.owner.check()?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.is_some() {
            true => Ok(OpenGuard(open)),
            false => Err(EngineClosed::new_err(
                "the engine is closed: use it inside its `with` block, or make another one",
            )),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        let engines = open
            .as_mut()
            .map(|open| (open.rings.take(), open.gpu.take()));
        let Some(rings @ ((Some(_), _) | (_, Some(_)))) = engines else {
            return;
        };
        // The engine's threads do not exist in the child of a fork.
        if self.owner.is_forked() {
            return std::mem::forget(rings);
        }
        // It waits for a handler that runs, which may wait for the interpreter's lock.
        Python::try_attach(|py| py.detach(|| drop(rings)));
    }
}

/// An open engine, locked.
pub(crate) struct OpenGuard<'e>(MutexGuard<'e, Option<Open>>);

impl std::ops::Deref for OpenGuard<'_> {
    type Target = Open;
    fn deref(&self) -> &Open {
        self.0.as_ref().expect("it was open when it was locked")
    }
}

impl std::ops::DerefMut for OpenGuard<'_> {
    fn deref_mut(&mut self) -> &mut Open {
        self.0.as_mut().expect("it was open when it was locked")
    }
}

impl Open {
    /// The host with a module, and the clone of the module that the host knows.
    fn load(
        &mut self,
        module: &WasmModule,
        memory: Option<u64>,
        metered: bool,
    ) -> PyResult<(Host, WasmModule)> {
        if let Some((host, loaded)) = &self.processes {
            let known = |l: &&Loaded| l.module.is(module) && l.memory == memory;
            if let Some(found) = loaded.iter().find(known) {
                return Ok((host.clone(), found.own.clone()));
            }
        }
        self.check_actors()?;
        self.leave_gpu()?;
        self.leave_tasks();
        // A host knows a module with one limit of memory. Another limit takes another copy.
        let known = |(_, loaded): &(Host, Vec<Loaded>)| loaded.iter().any(|l| l.module.is(module));
        let own = match self.processes.as_ref().is_some_and(known) {
            true => WasmModule::new(module.name(), module.bytes().clone()).raise()?,
            false => module.clone(),
        };
        let host = match &self.processes {
            Some((host, _)) => {
                let config = LoadConfig {
                    memory,
                    metered,
                    ..LoadConfig::default()
                };
                host.load(&own, &config).raise()?;
                host.clone()
            }
            None => {
                let mut builder = Host::builder(&self.device)
                    .module(&own)
                    .metered(metered)
                    .spare_places(SPARE_PLACES);
                if let Some(bytes) = memory {
                    builder = builder.memory(bytes);
                }
                if let (Some(size), EngineKind::Cpu) = (self.size, self.device.kind()) {
                    let workers = std::num::NonZeroUsize::new(size as usize);
                    builder = builder.workers(workers.ok_or_else(no_size)?);
                }
                let host = builder.start().raise()?;
                self.processes = Some((host.clone(), Vec::new()));
                host
            }
        };
        if let Some((_, loaded)) = &mut self.processes {
            loaded.push(Loaded {
                module: module.clone(),
                memory,
                own: own.clone(),
            });
        }
        Ok((host, own))
    }

    /// Whether nothing is resident on the device.
    pub(crate) fn is_free(&mut self) -> bool {
        self.tasks.is_none()
            && self.processes.is_none()
            && self.actors.strong_count() == 0
            && self.leave_gpu().is_ok()
    }
    /// Ends the engine of ring kernels and buffers on a GPU, unless some are there.
    fn leave_gpu(&mut self) -> PyResult<()> {
        if let Some(shared) = &self.gpu
            && Arc::strong_count(&shared.users) > 1
        {
            return Err(StartFailed::new_err(
                "ring kernels or buffers are on this GPU, and what is to start needs it alone: end them first, or make another \
                 engine, everwarp.engine(\"cpu\")",
            ));
        }
        self.gpu = None;
        Ok(())
    }
    /// The engine of ring kernels and buffers on the GPU. If it is to be started, it holds this program.
    pub(crate) fn gpu_engine(
        &mut self,
        program: Option<ProgramRef>,
    ) -> PyResult<(everwarp::Engine, OnGpu)> {
        if self.gpu.is_none() {
            self.check_actors()?;
            self.leave_processes()?;
            self.tasks = None;
            let builder = self.device.engine();
            let builder = match program {
                Some(program) => builder.program(program),
                None => builder,
            };
            let builder = match self.size {
                Some(size) => builder.size(size),
                None => builder,
            };
            let engine = with_a_word(true, "this ring kernel", || builder.start());
            self.gpu = Some(Shared {
                engine: engine.map_err(|e| StartFailed::new_err(e.to_string()))?,
                users: Arc::default(),
            });
        }
        let shared = self.gpu.as_ref().expect("it was started");
        Ok((shared.engine.clone(), shared.users.clone()))
    }
    /// Ends the host of processes, unless there are some.
    fn leave_processes(&mut self) -> PyResult<()> {
        if let Some((host, _)) = &self.processes
            && host.list(0).raise()?.total() > 0
        {
            return Err(StartFailed::new_err(
                "processes run on this GPU, and what is to start needs it alone: wait for them first",
            ));
        }
        self.processes = None;
        Ok(())
    }
    /// Refuses what would be resident on a GPU next to actors.
    fn check_actors(&self) -> PyResult<()> {
        match self.actors.strong_count() {
            0 => Ok(()),
            _ => Err(StartFailed::new_err(
                "actors run on this GPU and need it alone: make another engine for them, everwarp.engine(\"cpu\")",
            )),
        }
    }
    /// On a GPU one thing is resident at a time.
    fn leave_tasks(&mut self) {
        if self.device.kind() == EngineKind::Cuda {
            self.tasks = None;
        }
    }

    /// The CPU engine that runs ring kernels.
    pub(crate) fn ring_engine(&mut self) -> PyResult<&everwarp::Engine> {
        if self.rings.is_none() {
            let kind = self.device.kind();
            let own = match kind {
                EngineKind::Cpu => None,
                _ if self.auto => {
                    let device = Device::open(Select::Cpu);
                    Some(device.map_err(|e| DeviceError::new_err(e.to_string()))?)
                }
                kind => {
                    return Err(StartFailed::new_err(format!(
                        "this ring kernel has no handler for an engine that is {kind}: make the engine with everwarp.engine(), \
                         which runs it on the CPU, or with everwarp.engine(\"cpu\")"
                    )));
                }
            };
            let device = own.as_ref().unwrap_or(&self.device);
            let builder = device.engine().program(&everwarp::ring::PROGRAM);
            let builder = match (self.size, kind) {
                (Some(size), EngineKind::Cpu) => builder.size(size),
                _ => builder,
            };
            let engine = builder.start();
            self.rings = Some(engine.map_err(|e| StartFailed::new_err(e.to_string()))?);
        }
        Ok(self.rings.as_ref().expect("it was started"))
    }

    /// Parks what is resident on the device, or resumes it.
    fn set_parked(&self, parked: bool) -> PyResult<()> {
        if self.device.kind() == EngineKind::Cuda && self.processes.is_some() {
            return Err(EngineError::new_err(
                "an engine with processes on a GPU cannot be parked from Python yet: use another engine for them",
            ));
        }
        let lost = |e: everwarp::Error| EngineLost::new_err(e.to_string());
        let tasks = self.tasks.as_ref().map(|(_, tasks)| tasks);
        let shared = self.gpu.as_ref().map(|shared| &shared.engine);
        for engine in tasks.into_iter().chain(shared) {
            match parked {
                true => engine.park().map_err(lost)?,
                false => engine.resume().map_err(lost)?,
            }
        }
        Ok(())
    }

    /// The engine that holds a native program.
    pub(crate) fn tasks(
        &mut self,
        name: &'static str,
        program: &'static everwarp::Program,
    ) -> PyResult<&everwarp::Engine> {
        let held = self.tasks.as_ref().is_some_and(|(held, _)| *held == name);
        if !held {
            self.check_actors()?;
            self.leave_gpu()?;
            self.tasks = None;
            if self.device.kind() == EngineKind::Cuda {
                self.leave_processes()?;
            }
            let builder = self.device.engine().program(program);
            let builder = match self.size {
                Some(size) => builder.size(size),
                None => builder,
            };
            let engine = builder
                .start()
                .map_err(|e| StartFailed::new_err(e.to_string()))?;
            self.tasks = Some((name, engine));
        }
        let (_, engine) = self.tasks.as_ref().expect("it was started");
        Ok(engine)
    }
}

fn no_size() -> PyErr {
    PyValueError::new_err("size must be at least 1")
}

#[pymethods]
impl Engine {
    /// Opens a device: `auto`, `cpu`, `cuda` or `wgpu`.
    #[new]
    #[pyo3(signature = (kind="auto", size=None, adapter=None))]
    fn new(py: Python<'_>, kind: &str, size: Option<u32>, adapter: Option<&str>) -> PyResult<Self> {
        if size == Some(0) {
            return Err(no_size());
        }
        let select: Select = kind
            .parse()
            .map_err(|e: everwarp::Error| PyValueError::new_err(e.to_string()))?;
        let opened = py.detach(|| match (select, adapter) {
            (Select::Wgpu, adapter) => Device::open_adapter(adapter),
            (select, _) => Device::open(select),
        });
        let device = opened.map_err(|e| DeviceError::new_err(e.to_string()))?;
        if adapter.is_some() && device.kind() != EngineKind::Wgpu {
            return Err(PyValueError::new_err(
                "only the engine \"wgpu\" has adapters: pass kind=\"wgpu\" as well",
            ));
        }
        Ok(Self {
            kind: device.kind(),
            device: device.name(),
            why: device.why().to_owned(),
            owner: Owner::here(),
            open: Mutex::new(Some(Open {
                device,
                auto: matches!(select, Select::Auto),
                size,
                processes: None,
                tasks: None,
                actors: Weak::new(),
                rings: None,
                gpu: None,
            })),
        })
    }

    /// The kind of the engine: `cpu`, `cuda` or `wgpu`.
    #[getter]
    fn kind(&self) -> String {
        self.kind.to_string()
    }

    /// The name of the device.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// Why this device was chosen.
    #[getter]
    fn why(&self) -> &str {
        &self.why
    }

    /// Whether `close` has been called.
    #[getter]
    fn closed(&self) -> bool {
        self.open().is_err()
    }

    /// Raises the error of an engine that is closed, or belongs to another process.
    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.open().map(drop))
    }

    /// Ends all processes and frees the device. Closing an engine again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner.is_forked() {
            return Ok(());
        }
        let open = py.detach(|| {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.take()
        });
        py.detach(|| match open {
            // Handles of processes keep the host; its processes must not run on.
            Some(Open {
                processes: Some((host, _)),
                ..
            }) => host.kill_all().raise(),
            _ => Ok(()),
        })
    }

    /// Parks what is resident on the device, or resumes it.
    fn _set_parked(&self, py: Python<'_>, parked: bool) -> PyResult<()> {
        py.detach(|| self.open()?.set_parked(parked))
    }

    /// Compiles a module, so that the first process starts sooner.
    #[pyo3(name = "_load")]
    fn load(
        &self,
        py: Python<'_>,
        module: &Module,
        memory: Option<u64>,
        fuel: bool,
    ) -> PyResult<()> {
        let module = &module.inner;
        py.detach(|| self.open()?.load(module, memory, fuel).map(drop))
    }

    /// Starts processes; `everwarp.Engine.start` describes the parameters.
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    #[pyo3(name = "_start")]
    fn start(
        &self,
        py: Python<'_>,
        module: &Module,
        count: Option<u32>,
        args: Vec<String>,
        own_args: Option<Vec<Vec<String>>>,
        stdin: Option<&Bound<'_, PyAny>>,
        own_stdin: Option<&Bound<'_, PyAny>>,
        env: Vec<(String, String)>,
        dirs: Vec<Dir>,
        stdout: &str,
        stderr: &str,
        limit: usize,
        fuel: Option<u64>,
        memory: Option<u64>,
        handles: Option<u32>,
        ends: Vec<End<'_>>,
    ) -> PyResult<Processes> {
        let stdin = stdin.map(copied).transpose()?;
        let inputs = own_stdin.map(rows).transpose()?;
        let numbered = count.is_some() || own_args.is_some() || inputs.is_some();
        let each = Each {
            args,
            env,
            numbered,
            own_args,
            inputs,
        };
        let count = agreed(count, each.counts())?;
        let (stdout, stderr) = (output(stdout, limit)?, output(stderr, limit)?);
        let ends: Vec<_> = ends.iter().map(End::end).collect();
        let module = &module.inner;
        py.detach(|| {
            let (host, module) = self.open()?.load(module, memory, fuel.is_some())?;
            let mut command = Command::new(&host, &module);
            command.stdout(stdout).stderr(stderr);
            grant(&mut command, dirs, stdin)?;
            fuel.map(|fuel| command.fuel(fuel));
            handles.map(|handles| command.handles(handles));
            for end in ends {
                command.end(end);
            }
            let children = command
                .spawn_each(count, |number, start| each.write(number, start))
                .raise()?;
            Processes::new(host, children)
                .map_err(|e| StartFailed::new_err(format!("a thread cannot be started: {e}")))
        })
    }

    /// Waits for processes; if that is interrupted or takes longer than `timeout` seconds, ends them.
    #[pyo3(name = "_finish")]
    fn finish(
        &self,
        py: Python<'_>,
        processes: &Processes,
        timeout: Option<f64>,
    ) -> PyResult<Option<Exits>> {
        let waited = processes.wait_for(py, seconds(timeout)?);
        if !matches!(waited, Ok(Some(_))) {
            py.detach(|| processes.kill_all())?;
        }
        waited
    }

    /// Makes a channel for `capacity` messages of up to `message_bytes` bytes each. The engine must have a module that
    /// imports `everwarp:gpu`: call `load` first.
    #[pyo3(signature = (capacity, message_bytes))]
    fn channel(
        &self,
        py: Python<'_>,
        capacity: u32,
        message_bytes: u32,
    ) -> PyResult<(Sender, Receiver)> {
        py.detach(|| {
            let open = self.open()?;
            let Some((host, _)) = &open.processes else {
                return Err(crate::errors::ChannelRefused::new_err(
                    "the engine has no module yet: load one that imports `everwarp:gpu` first",
                ));
            };
            let (sender, receiver) = host.channel(capacity, message_bytes).raise()?;
            let owner = Owner::here();
            Ok((Sender(sender, owner), Receiver(receiver, owner)))
        })
    }

    /// The processes that have not been waited for: up to `limit` rows of pid, stage, fuel used and memory, and how many
    /// there are in all.
    #[expect(clippy::type_complexity, reason = "a list of tuples for Python")]
    #[pyo3(name = "_list")]
    fn list(
        &self,
        py: Python<'_>,
        limit: usize,
    ) -> PyResult<(Vec<(String, String, Option<u64>, Option<u64>)>, usize)> {
        py.detach(|| {
            let open = self.open()?;
            let Some((host, _)) = &open.processes else {
                return Ok((Vec::new(), 0));
            };
            let listing = host.list(limit).raise()?;
            let total = listing.total();
            let row = |row: everwarp::process::ProcessSnapshot| {
                let (pid, stage) = (row.pid.to_string(), row.stage.to_string());
                (pid, stage, row.fuel_used, row.memory_bytes)
            };
            Ok((listing.rows.into_iter().map(row).collect(), total))
        })
    }
}

/// The inputs of processes: the rows of an array, or the items of a sequence.
fn rows(object: &Bound<'_, PyAny>) -> PyResult<Inputs> {
    let Ok(view) = pyo3::types::PyMemoryView::from(object) else {
        let items: Vec<Bound<'_, PyAny>> = object.extract()?;
        return Inputs::new(&items);
    };
    let shape: Vec<usize> = view.getattr("shape")?.extract()?;
    let item: usize = view.getattr("itemsize")?.extract()?;
    match shape[..] {
        [] | [_] => Err(PyBufferError::new_err(
            "each process gets a row, so the array needs two dimensions: pass array[:, None] for one element each",
        )),
        [_, ref row @ ..] => {
            let size = row.iter().product::<usize>() * item;
            if size == 0 {
                return Err(PyBufferError::new_err("the rows of the array are empty"));
            }
            Ok(Inputs::parts(&copied(object)?, size))
        }
    }
}

/// How many processes there are: as given, or as many as the lists have items.
fn agreed(count: Option<u32>, lists: [Option<usize>; 2]) -> PyResult<u32> {
    let mut agreed = count.map(|count| count as usize);
    for list in lists.into_iter().flatten() {
        match agreed {
            Some(count) if count != list => {
                return Err(PyValueError::new_err(format!(
                    "the lists are for different numbers of processes: {count} and {list}"
                )));
            }
            _ => agreed = Some(list),
        }
    }
    u32::try_from(agreed.unwrap_or(1))
        .map_err(|_| PyValueError::new_err("there can be up to 2^32 - 1 processes"))
}

//! A service between a mock device and a temporary directory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{
    Config, Ended, Events, ExitReport, FunctionState, HostInput, HostOutput, Input, Reply,
    ServedDirectory, Server, ServerConfig, Service, Streams, Woken,
};
use everwarp_process::{Budget, Directory, HostBudgets, Pid};
use tempfile::TempDir;

use crate::device::{Ask, Device};

/// The rights to read and to write.
pub(crate) const READ_WRITE: u64 = 1 << 1 | 1 << 6;
pub(crate) const READ: u64 = 1 << 1;
pub(crate) const CREATE: u64 = 1;
/// The descriptor of the directory that processes are given.
pub(crate) const DIR: u64 = 3;

/// Bytes that a stream of the host has received.
#[derive(Clone, Default)]
pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no test panics there").clone())
            .expect("tests write text")
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no test panics there")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reports of the service.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) woken: Mutex<Vec<Woken>>,
    pub(crate) exits: Mutex<Vec<(Pid, ExitReport)>>,
    /// What the service gets to know of functions: the first answer is given once, and the last one from then on.
    pub(crate) functions: Mutex<BTreeMap<u32, Vec<FunctionState>>>,
}

impl Told {
    /// The exits that have been reported, as soon as there are `count`: an exit is answered before it is reported.
    pub(crate) fn exits(&self, count: usize) -> Vec<(Pid, ExitReport)> {
        let start = std::time::Instant::now();
        loop {
            let exits = self.exits.lock().expect("no test panics there").clone();
            if exits.len() >= count {
                return exits;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{exits:?}");
            std::thread::yield_now();
        }
    }
}

impl Events for Told {
    fn wake(&self, woken: &[Woken]) {
        self.woken
            .lock()
            .expect("no test panics there")
            .extend(woken);
    }
    fn exited(&self, ended: &mut Vec<Ended>) {
        let ended = ended.drain(..);
        self.exits
            .lock()
            .expect("no test panics there")
            .extend(ended.map(|e| (e.process, e.exit)));
    }
    fn function(&self, _: Pid, function: u32) -> FunctionState {
        let mut functions = self.functions.lock().expect("no test panics there");
        match functions.get_mut(&function) {
            None => FunctionState::Unavailable,
            Some(states) if states.len() > 1 => states.remove(0),
            Some(states) => states[0],
        }
    }
}

/// Fields are dropped in order: the server before the memory that it reads.
pub(crate) struct World {
    pub(crate) server: Option<Server>,
    pub(crate) service: Arc<Service>,
    pub(crate) device: Arc<Device>,
    pub(crate) told: Arc<Told>,
    pub(crate) stdout: Page,
    pub(crate) stderr: Page,
    pub(crate) root: TempDir,
}

/// Two workers and short naps: the machine that runs the tests may have two cores.
pub(crate) const SERVER: ServerConfig = ServerConfig {
    reads: crate::READS,
    workers: 2,
    spin: Duration::from_micros(100),
    nap: Duration::from_micros(100),
};

/// The directory `path` under the name `/data`.
pub(crate) fn served(path: &Path) -> ServedDirectory {
    let directory = Directory::open(path, "/data").expect("it was just made");
    ServedDirectory::of(&directory).expect("a descriptor")
}

impl World {
    pub(crate) fn new(slots: u32, entries: u32, stdin: impl io::Read + Send + 'static) -> Self {
        let stdout = Page::default();
        let writer = stdout.clone();
        Self {
            stdout,
            ..Self::with_stdout(slots, entries, stdin, writer)
        }
    }

    /// With any writer as the host's standard output.
    pub(crate) fn with_stdout(
        slots: u32,
        entries: u32,
        stdin: impl io::Read + Send + 'static,
        stdout: impl Write + Send + 'static,
    ) -> Self {
        let stderr = Page::default();
        let streams = Streams::new(
            HostInput::new(stdin, false),
            HostOutput::new(stdout, true),
            HostOutput::new(stderr.clone(), false),
        );
        Self::with_streams(slots, entries, streams, stderr)
    }

    /// With a limit of captured output for all processes together.
    pub(crate) fn with_output_budget(bytes: u64) -> (Self, Arc<HostBudgets>) {
        let (stdout, stderr) = (Page::default(), Page::default());
        let budgets = Arc::new(HostBudgets {
            memory: Budget::new(u64::MAX),
            output: Budget::new(bytes),
            sockets: Budget::new(0),
        });
        let streams = Streams::new(
            HostInput::new(io::empty(), false),
            HostOutput::new(stdout, false),
            HostOutput::new(stderr.clone(), false),
        );
        let streams = streams.within(Arc::clone(&budgets));
        (Self::with_streams(16, 32, streams, stderr), budgets)
    }

    fn with_streams(slots: u32, entries: u32, streams: Streams, stderr: Page) -> Self {
        let told = Arc::new(Told::default());
        let service = Service::new(4096, streams, Arc::clone(&told) as Arc<dyn Events>);
        let service = Arc::new(service.expect("a thread"));
        let device = Arc::new(Device::new(slots, entries));
        let server = Server::start(device.ring(), &service, SERVER).expect("threads");
        let root = TempDir::new().expect("a temporary directory");
        Self {
            server: Some(server),
            service,
            device,
            told,
            stdout: Page::default(),
            stderr,
            root,
        }
    }

    /// With an empty standard input and process 1.1, which has the directory `beneath` in the temporary one.
    pub(crate) fn with_process() -> (Self, Process) {
        let world = Self::new(16, 32, io::empty());
        std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
        let process = world.open(1, 1, world.config());
        (world, process)
    }

    pub(crate) fn config(&self) -> Config {
        let beneath = self.root.path().join("beneath");
        Config {
            directories: vec![served(&beneath)],
            stdin: Input::Bytes(b"typed".to_vec().into()),
            ..Config::default()
        }
    }

    pub(crate) fn open(&self, slot: u32, generation: u32, config: Config) -> Process {
        self.service
            .open(Pid::new(slot, generation), config)
            .expect("a free slot");
        self.child(slot, generation)
    }

    /// A process that the service has not opened.
    pub(crate) fn child(&self, slot: u32, generation: u32) -> Process {
        Process {
            device: Arc::clone(&self.device),
            slot,
            generation,
        }
    }
}

/// A process on the mock device.
#[derive(Clone)]
pub(crate) struct Process {
    device: Arc<Device>,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Process {
    pub(crate) fn request<'a>(&self, call: u32, args: &[u64], payload: &'a [u8]) -> Ask<'a> {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        Ask {
            process: self.slot,
            generation: self.generation,
            call,
            data_bytes: payload.len() as u32,
            args: all,
            payload,
        }
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(&self, call: u32, args: &[u64], payload: impl AsRef<[u8]>) -> Reply {
        self.device.ask(&self.request(call, args, payload.as_ref()))
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub(crate) fn get(&self, call: u32, args: &[u64], payload: impl AsRef<[u8]>) -> Reply {
        let reply = self.ask(call, args, payload);
        assert_eq!(reply.errno, 0);
        reply
    }

    /// Sends a request that must fail.
    #[track_caller]
    pub(crate) fn fails(&self, errno: u32, call: u32, args: &[u64], payload: impl AsRef<[u8]>) {
        let reply = self.ask(call, args, payload);
        assert_eq!(
            (reply.errno, reply.values, reply.data),
            (errno, [0; 3], Vec::new())
        );
    }

    /// Opens a file for reading and writing, creating it if need be.
    #[track_caller]
    pub(crate) fn create(&self, path: &str) -> u64 {
        self.get(number::PATH_OPEN, &[DIR, 1, CREATE, 0, READ_WRITE, 0], path)
            .values[0]
    }
}

//! The plan of a run, from the command line: the device, the number of processes, and what each of them gets.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::process::serving::rehearse_in_children;
use everwarp::process::{
    AddressRule, Command, Directory, Host, Input, InputLines, Launcher, Listener, Module, Network,
    Output, StartError, StartWriter,
};
use everwarp::trace::spanned;
use everwarp::{EngineKind, Select};

use super::job::Job;
use super::options::{Args, TierOption};
use super::place::Place;
use super::rehearse::rehearsals;
use super::routes::Routes;
use crate::error::CliError;
use crate::{serve, service};

/// An H200 runs some 67,000 lanes at once. With more places than that the next processes are ready in device memory
/// before a lane is free, and the host need not learn of an exit before it can start the next process.
const PLACES_MOST: u32 = 1 << 17;
/// An estimate of the bytes of a process's arguments and of the header before them.
const BYTES_BESIDES_INPUT: u64 = 128;

/// The processes to run.
pub(super) struct Plan<'a> {
    pub(super) args: &'a Args,
    pub(super) module: Module,
    place: Place,
    /// The time to open the place; zero for the CPU engine of this program.
    opening: Duration,
    pub(super) instances: u32,
    lines: Option<InputLines>,
    directories: Vec<Directory>,
    listeners: Vec<Listener>,
    /// The programs of a server's routes, and their directories.
    pub(super) routes: Option<Arc<Routes>>,
    route_directories: Vec<Directory>,
    /// What of the network the processes may use: a route's, where there are routes.
    network: Option<Arc<Network>>,
    pub(super) job: Arc<Job>,
}

impl<'a> Plan<'a> {
    /// Opens what the command line names. `service` is where the processes run, if a service is up.
    pub(super) fn new(
        args: &'a Args,
        module: Module,
        service: Option<Place>,
        job: Arc<Job>,
    ) -> Result<Self, CliError> {
        let options = &args.process;
        let mut directories = open_directories(&options.dir)?;
        let mut routes = None;
        let mut route_directories = Vec::new();
        if let Some(site) = &args.site {
            if let Some(files) = &site.files {
                let opened = open_directories(&[(files.clone(), serve::FILES.to_owned())])?;
                directories.extend(
                    opened
                        .into_iter()
                        .map(|directory| directory.read_only(true)),
                );
            }
            route_directories = open_directories(&site.directories)?;
            routes = Some(Arc::new(Routes::load(&site.routes)?));
        }
        let listeners = open_listeners(args, 3 + directories.len())?;
        if args.verbose && job.events().is_some() {
            let given = if options.per_connection {
                0
            } else {
                listeners.len()
            };
            let number = 3 + directories.len() + given;
            eprintln!("everwarp: descriptor {number} has events");
        }
        let begin = Instant::now();
        let mut place = match service {
            Some(service) => service,
            None => Place::own(args)?,
        };
        let file = options.stdin_lines.as_deref();
        if file.is_some() {
            place.open()?;
        }
        let opening = begin.elapsed();
        let lines = file
            .map(|file| spanned("lines: read", || read_lines(file, &place)))
            .transpose()?;
        let wanted = match options.per_connection {
            // As many as may run at the same time.
            true => Some(options.connections),
            false => options.instances(),
        };
        let instances = match (&lines, file) {
            (Some(lines), Some(file)) => instances_of(lines, file, wanted)?,
            _ => wanted.unwrap_or(1),
        };
        let mut lines = lines;
        if (instances == 1 || options.per_connection) && place.move_to_cpu(args)? {
            // What was read there belongs to that place.
            lines = file.map(|file| read_lines(file, &place)).transpose()?;
        }
        Ok(Self {
            args,
            module,
            place,
            opening,
            instances,
            lines,
            directories,
            listeners,
            routes,
            route_directories,
            network: network(args),
            job,
        })
    }

    /// Whether the command runs one process.
    pub(super) fn single(&self) -> bool {
        self.instances == 1 && !self.per_connection()
    }

    /// Whether each connection is a process.
    pub(super) fn per_connection(&self) -> bool {
        self.args.process.per_connection
    }

    /// The directories of the command line.
    pub(super) fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// The listeners of the command line.
    pub(super) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Starts the host, and returns how long loading took.
    pub(super) fn start(&self) -> Result<(Host, Duration), CliError> {
        let options = &self.args.process;
        let begin = Instant::now();
        let mut builder = self
            .place
            .host()
            .module(&self.module)
            .threads(options.threads)
            .metered(options.fuel.is_some())
            .interleaved(options.interleave)
            .contract(options.contract)
            .tier(options.tier.into())
            .places(self.instances.min(PLACES_MOST))
            .input_bytes(self.input_bytes());
        if options.tier == TierOption::Lazy && self.place.kind() == EngineKind::Cuda {
            // A module can be made so that compiling it takes minutes and gigabytes.
            rehearse_in_children(service::compiler_command);
            builder = builder.rehearse(&self.module, rehearsals(self));
        }
        for module in self.routes.iter().flat_map(|routes| routes.modules()) {
            builder = builder.module(module);
        }
        if let Some(size) = self.args.size {
            builder = builder.workers(at_least_one(size)?);
        }
        if let Some(memory) = options.memory {
            builder = builder.memory(memory);
        }
        if self.per_connection() {
            // Each may ask for a program, and waits for it.
            let routes = self.routes.as_ref();
            let asks = routes.is_some_and(|routes| routes.modules().next().is_some());
            let each = if asks { 2 } else { 1 };
            builder = builder.waiting(self.instances.saturating_mul(each));
        }
        if let Some(stack) = options.stack {
            builder = builder.stack(stack_bytes(stack)?);
        }
        // A command that names the GPU wants the processes there.
        if self.args.engine.parse::<Select>()? == Select::Auto {
            builder = builder.meanwhile(true);
        }
        let host = builder.start().map_err(refused)?;
        Ok((host, self.opening + begin.elapsed()))
    }

    /// The bytes that all processes get together, if that is a lot.
    fn input_bytes(&self) -> u64 {
        let lines = self.lines.as_ref().map(InputLines::bytes);
        lines.map_or(0, |bytes| {
            bytes + u64::from(self.instances) * BYTES_BESIDES_INPUT
        })
    }

    /// The settings that all processes share.
    pub(super) fn command(&self, host: &Host) -> Command {
        let (stdout, stderr) = self.outputs();
        let mut command = Command::new(host, &self.module);
        command.stdout(stdout).stderr(stderr).stdin(self.input());
        for directory in &self.directories {
            command.directory(directory.clone());
        }
        // A process that is given a connection does not accept any.
        let given = if self.per_connection() {
            &[][..]
        } else {
            &self.listeners[..]
        };
        for listener in given {
            command.listener(listener.clone());
        }
        if let Some(events) = self.job.events() {
            command.events(Arc::clone(events));
        }
        if let Some(fuel) = self.args.process.fuel {
            command.fuel(fuel);
        }
        if let Some(routes) = &self.routes {
            command.launcher(Arc::clone(routes) as Arc<dyn Launcher>);
        } else if let Some(network) = &self.network {
            command.network(Arc::clone(network));
        }
        command
    }

    /// The settings of a route's processes.
    pub(super) fn route_command(&self, host: &Host, module: &Module) -> Command {
        let (stdout, stderr) = self.outputs();
        let mut command = Command::new(host, module);
        command.stdout(stdout).stderr(stderr);
        for directory in &self.route_directories {
            command.directory(directory.clone());
        }
        if let Some(fuel) = self.args.process.fuel {
            command.fuel(fuel);
        }
        if let Some(network) = &self.network {
            command.network(Arc::clone(network));
        }
        command
    }

    /// The command's own standard input goes to a single process; many processes would compete for it.
    fn input(&self) -> Input {
        match self.single() {
            true => Input::Inherit,
            false => Input::Empty,
        }
    }

    /// The file whose lines processes get as their standard input.
    pub(super) fn stdin_lines(&self) -> Option<&Path> {
        self.args.process.stdin_lines.as_deref()
    }

    /// The destinations of standard output and standard error: byte for byte, or in whole lines where several processes
    /// share them. With `--json` standard output is for the object.
    fn outputs(&self) -> (Output, Output) {
        let tag = self.args.process.tag;
        let many = !self.single() || tag;
        let to_stderr = self.args.json;
        let lines = Output::Lines { tag, to_stderr };
        let choose = |in_lines| if in_lines { lines } else { Output::Inherit };
        (choose(many || to_stderr), choose(many))
    }

    /// Writes the arguments, the environment and the standard input of the process with this number.
    ///
    /// `variables` adds further variables.
    pub(super) fn write(
        &self,
        number: u32,
        start: &mut dyn StartWriter,
        variables: impl FnOnce(&mut dyn StartWriter),
    ) {
        let options = &self.args.process;
        let digits = options.digits(number);
        options.each_arg(&digits, |parts| start.arg(parts));
        options.each_variable(&digits, |name, parts| start.variable(name, parts));
        variables(start);
        if let Some(lines) = &self.lines {
            start.stdin_line(lines, number);
        }
    }
}

fn open_directories(directories: &[(PathBuf, String)]) -> Result<Vec<Directory>, CliError> {
    let open = |(host, guest): &(PathBuf, String)| {
        Directory::open(host, guest.clone()).map_err(|source| CliError::Input {
            path: host.clone(),
            source,
        })
    };
    directories.iter().map(open).collect()
}

/// Listens on the addresses of the command line, before anything else is started. With `--verbose` it says which
/// descriptors the listeners will have, from `first` on.
fn open_listeners(args: &Args, first: usize) -> Result<Vec<Listener>, CliError> {
    let mut listeners = Vec::new();
    for address in &args.process.listen {
        let listener = Listener::bind(address).map_err(CliError::Listen)?;
        if args.verbose && args.process.per_connection {
            eprintln!(
                "everwarp: each connection to {} is a process",
                listener.local_address()
            );
        } else if args.verbose {
            let number = first + listeners.len();
            eprintln!(
                "everwarp: descriptor {number} listens on {}",
                listener.local_address()
            );
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// The addresses that processes may use. With `--verbose` the command says which option would allow what they are refused.
fn network(args: &Args) -> Option<Arc<Network>> {
    let of_routes = args.site.as_ref().map(|site| site.connect.clone());
    let connect: Vec<AddressRule> = of_routes.unwrap_or_else(|| args.process.connect.clone());
    let bind = args.process.bind.clone();
    if connect.is_empty() && bind.is_empty() && !args.verbose {
        return None;
    }
    let network = Network::new(connect, bind);
    Some(Arc::new(match args.verbose {
        true => network.reporting(|sentence| eprintln!("everwarp: {sentence}")),
        false => network,
    }))
}

fn read_lines(path: &Path, place: &Place) -> Result<InputLines, CliError> {
    let file = std::fs::File::open(path);
    let lines = file.and_then(|file| place.lines(file));
    lines.map_err(|source| CliError::Input {
        path: path.to_owned(),
        source,
    })
}

/// How many processes the lines are for: as many as wanted, or one for each line.
fn instances_of(lines: &InputLines, path: &Path, wanted: Option<u32>) -> Result<u32, CliError> {
    let count = lines.count();
    match wanted {
        None => u32::try_from(count).ok().filter(|&n| n > 0),
        Some(wanted) => Some(wanted).filter(|&n| u64::from(n) <= count),
    }
    .ok_or_else(|| CliError::FewLines {
        path: path.to_owned(),
        lines: count,
        wanted: wanted.unwrap_or(1),
    })
}

fn at_least_one(size: u32) -> Result<NonZeroUsize, CliError> {
    NonZeroUsize::new(size as usize).ok_or(CliError::Value {
        option: "--size",
        rule: "at least 1",
        value: 0,
    })
}

fn stack_bytes(stack: u64) -> Result<u32, CliError> {
    u32::try_from(stack).map_err(|_| CliError::Value {
        option: "--stack",
        rule: "less than 4G",
        value: stack,
    })
}

pub(super) fn not_on(option: &'static str, engine: EngineKind) -> CliError {
    let (engine, other) = match engine {
        EngineKind::Cpu => ("CPU", "cuda"),
        EngineKind::Cuda => ("CUDA", "cpu"),
        EngineKind::Wgpu => ("wgpu", "cpu"),
    };
    CliError::NotOnEngine {
        option,
        engine,
        other,
    }
}

/// An error of the host's start, with the command's name of an option.
fn refused(error: StartError) -> CliError {
    let StartError::Option { option, engine } = error else {
        return error.into();
    };
    let option = match option {
        "stack_bytes" => "--stack",
        "interleaved" => "--interleave",
        "workers" => "--size",
        _ => "--contract",
    };
    not_on(option, engine)
}

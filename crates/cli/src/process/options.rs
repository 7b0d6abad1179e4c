//! The options of `everwarp run MODULE.wasm`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use everwarp::process::threads::{THREADS, THREADS_MOST};
use everwarp::process::{AddressRule, ListenAddress, RuleError, Tier};

use crate::error::CliError;

/// How a module is to run.
#[derive(Debug)]
pub(crate) struct Args {
    /// The module's path.
    pub(crate) program: String,
    /// The name of the engine.
    pub(crate) engine: String,
    /// The adapter of the wgpu engine, which runs no processes.
    pub(crate) adapter: Option<String>,
    /// The engine's size.
    pub(crate) size: Option<u32>,
    /// Whether to print one JSON object.
    pub(crate) json: bool,
    /// Whether to start an engine even if a service is up.
    pub(crate) alone: bool,
    /// Whether to say where the processes run.
    pub(crate) verbose: bool,
    /// What is served, for `everwarp serve`.
    pub(crate) site: Option<Site>,
    /// The other options.
    pub(crate) process: Options,
}

/// The site of a server.
#[derive(Debug)]
pub(crate) struct Site {
    /// The module that serves a connection.
    pub(crate) program: &'static [u8],
    /// The directory whose files are served.
    pub(crate) files: Option<PathBuf>,
    /// The programs that answer requests.
    pub(crate) routes: Vec<Route>,
    /// The directories of these programs, with their names in them.
    pub(crate) directories: Vec<(PathBuf, String)>,
    /// The addresses that these programs may connect to.
    pub(crate) connect: Vec<AddressRule>,
}

/// A program that answers the requests of a path.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The path, by which the server asks for the program.
    pub(crate) path: String,
    /// The path of the module.
    pub(crate) module: PathBuf,
}

/// Which functions of a module are compiled before processes start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TierOption {
    // Doc comments would be printed, and make the help of all options longer.
    Best,
    Lazy,
    // For tests.
    #[value(hide = true)]
    Least,
}

impl From<TierOption> for Tier {
    fn from(option: TierOption) -> Self {
        match option {
            TierOption::Best => Self::Best,
            TierOption::Lazy => Self::Lazy,
            TierOption::Least => Self::Least,
        }
    }
}

/// The options that only modules take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of a module")]
pub(crate) struct Options {
    /// The number of processes to run. In ARGS and in the values of --env, `{instance}` is then replaced by the number
    /// of each process, from 0.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    instances: Option<u32>,
    /// How much each process may execute. A unit is about one WebAssembly instruction on the CPU engine; on a GPU it is
    /// an iteration of a loop, or a call of a function that calls others.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) fuel: Option<u64>,
    /// How much memory each process may have: bytes, or a number followed by K, M or G (powers of 1,024).
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(super) memory: Option<u64>,
    /// How many threads each process may have besides its first one, if the module starts threads (up to 1,024). To
    /// start one more fails.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = THREADS)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(THREADS_MOST)))]
    pub(super) threads: u32,
    /// The size of the stack, which decides how deep calls may nest. On the CPU engine each process has one, of 8M by
    /// default, and sizes are rounded up to a power of two. On a GPU each process has one in memory from the start, by default
    /// an eighth as large as its memory and 8M at most. In modules with tail calls it is the stack of each thread of the GPU.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(super) stack: Option<u64>,
    /// On a GPU, interleave the memories of every 32 processes: faster for processes that run in step, slower for
    /// processes that each do something else.
    #[arg(long)]
    pub(super) interleave: bool,
    /// On a GPU, round a product and a sum once, as CUDA C++ does by default: faster, but the last bits of results may
    /// differ from those of other engines.
    #[arg(long)]
    pub(super) contract: bool,
    /// On a GPU, which functions of the module are compiled before processes start. With `lazy` a large module starts with those
    /// that a short run on the CPU, without effects, has called, and the rest is compiled while processes run; a process that calls one that
    /// is not there yet waits for it. With `best` all are compiled.
    #[arg(long, value_enum, default_value_t = TierOption::Lazy)]
    pub(super) tier: TierOption,
    /// Take the machine code out of MODULE.ewimg, a file that `everwarp compile` has made, instead of compiling the module
    /// in it. A GPU runs machine code unchecked, so trust the file's author as you trust a program. Code of another version of
    /// everwarp or for another GPU is not used; no service takes any, so this command starts an engine of its own.
    #[arg(long)]
    pub(super) allow_precompiled: bool,
    /// A directory that each process may use, and its name in the process (by default the same).
    #[arg(long, value_name = "HOST[::GUEST]", value_parser = directory)]
    pub(super) dir: Vec<(PathBuf, String)>,
    /// An address on which each process may accept connections: a port of this machine, or ADDRESS:PORT. The listeners'
    /// descriptors follow those of the directories; the variables LISTEN_FDS and LISTEN_FDS_FIRST hold how many there are
    /// and the first one's number.
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Vec<ListenAddress>,
    /// An address that each process may connect or send to: PORTS of this machine, or HOST:PORTS, as in 192.0.2.1:80,
    /// 10.0.0.0/8:8000-8100, [::1]:53, example.com:443 or *:53. A process may look up the names that are named.
    #[arg(long, value_name = "HOST:PORTS")]
    pub(super) connect: Vec<AddressRule>,
    /// An address of this machine that each process may bind, to accept connections or to receive datagrams: PORTS of
    /// loopback addresses, or ADDRESS:PORTS. Port 0 is any free port.
    #[arg(long, value_name = "ADDRESS:PORTS", value_parser = local)]
    pub(super) bind: Vec<AddressRule>,
    /// Give each process a descriptor of events, after those of the listeners: timers, and for the first process that asks
    /// the terminal's keys, mouse and size, and signals. The variable EVERWARP_EVENTS holds its number. With FILE, a
    /// recording of an input device or the device, the process may ask for its events as well.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(super) events: Option<Option<PathBuf>>,
    /// Start a process for each connection of the listeners, with the connection as its standard input and output, so that
    /// any filter program is a server. The variables REMOTE_ADDR and REMOTE_PORT name the peer. The first Ctrl-C or
    /// SIGTERM lets the connections that there are end.
    #[arg(long, requires = "listen", conflicts_with_all = ["instances", "stdin_lines"])]
    pub(super) per_connection: bool,
    /// A process that exits with this code leaves its connection open and idle: bytes on it start another process, and a
    /// minute without any closes it. A connection starts its first process when it has bytes.
    #[arg(long, value_name = "CODE", requires = "per_connection")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=125))]
    pub(super) idle_status: Option<u8>,
    /// How many connections are served at the same time; further ones wait. With Linux's default limits the CPU engine has
    /// room for some 9,500.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS, requires = "per_connection")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MOST)))]
    pub(super) connections: u32,
    /// How many seconds connections have to end after a signal, before their processes are ended.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        requires = "per_connection"
    )]
    drain: u32,
    /// A file whose lines become the standard input of one process each. Without --instances there are as many
    /// processes as lines.
    #[arg(long, value_name = "FILE")]
    pub(super) stdin_lines: Option<PathBuf>,
    /// An environment variable. The environment is empty otherwise.
    #[arg(long, value_name = "K=V", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Begin each line of output with the process's id.
    #[arg(long)]
    pub(super) tag: bool,
    /// Arguments of the module.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Connections that are served at the same time: the CPU engine has room for this many processes without a larger pool.
const CONNECTIONS: u32 = 1000;
/// The most that can be asked for.
const CONNECTIONS_MOST: u32 = 100_000;

impl Options {
    /// How long connections have to end after a signal.
    pub(super) fn drain_time(&self) -> Duration {
        Duration::from_secs(self.drain.into())
    }

    /// The value of --instances.
    pub(super) fn instances(&self) -> Option<u32> {
        self.instances
    }

    /// The number of a process in digits, if arguments or variables may contain it.
    pub(super) fn digits(&self, number: u32) -> String {
        match self.instances {
            Some(_) => number.to_string(),
            None => String::new(),
        }
    }

    /// Passes each argument to `each` in parts, without the program's name, for the process with this number. To make a
    /// string for each of many processes would take longer.
    pub(super) fn each_arg(&self, digits: &str, mut each: impl FnMut(&[&str])) {
        for arg in &self.args {
            self.in_parts(arg, digits, &mut each);
        }
    }

    /// Passes each variable's name and the parts of its value to `each`.
    pub(super) fn each_variable(&self, digits: &str, mut each: impl FnMut(&str, &[&str])) {
        for (name, value) in &self.env {
            self.in_parts(value, digits, |parts| each(name, parts));
        }
    }

    /// Splits a text at the number. Without --instances the text is not touched, so that a single process gets what was
    /// typed. Usually there are so few parts that nothing is allocated for them.
    fn in_parts(&self, text: &str, digits: &str, each: impl FnOnce(&[&str])) {
        if self.instances.is_none() || !text.contains('{') {
            return each(&[text]);
        }
        let mut pieces = text.split(NUMBER);
        let first = pieces.next().unwrap_or_default();
        match (pieces.next(), pieces.next()) {
            (None, _) => each(&[first]),
            (Some(second), None) => each(&[first, digits, second]),
            (Some(second), Some(third)) => {
                let mut parts = vec![first, digits, second, digits, third];
                pieces.for_each(|piece| parts.extend([digits, piece]));
                each(&parts);
            }
        }
    }

    /// Whether the options can be used together.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let variables = self.env.iter().map(|(name, _)| name.as_str());
        let directories = self
            .dir
            .iter()
            .map(|(_, guest)| guest.trim_end_matches('/'));
        let twice = |option, name: &str| {
            let name = name.to_owned();
            Err(CliError::Twice { option, name })
        };
        match (repeated(variables), repeated(directories)) {
            (Some(name), _) => twice("--env", name),
            (None, Some(name)) => twice("--dir", name),
            (None, None) => Ok(()),
        }
    }
}

/// The text that is replaced by the number of a process.
const NUMBER: &str = "{instance}";

/// The first name that occurs twice.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// Reads a size: bytes, or a number followed by K, M or G.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let rule = || format!("`{text}` is no size: use bytes, or a number followed by K, M or G");
    let shift = match text.bytes().last() {
        Some(b'K' | b'k') => 10,
        Some(b'M' | b'm') => 20,
        Some(b'G' | b'g') => 30,
        _ => 0,
    };
    let digits = &text[..text.len() - usize::from(shift > 0)];
    let number: u64 = digits.parse().map_err(|_| rule())?;
    number.checked_mul(1 << shift).ok_or_else(rule)
}

pub(crate) fn directory(text: &str) -> Result<(PathBuf, String), String> {
    let (host, guest) = text.split_once("::").unwrap_or((text, text));
    match host.is_empty() || guest.is_empty() {
        true => Err("use HOST or HOST::GUEST".to_owned()),
        false => Ok((PathBuf::from(host), guest.to_owned())),
    }
}

fn local(text: &str) -> Result<AddressRule, String> {
    let rule: AddressRule = text.parse().map_err(|error: RuleError| error.to_string())?;
    match rule.is_for_names() {
        true => Err("a name cannot be bound: use PORTS, or ADDRESS:PORTS".to_owned()),
        false => Ok(rule),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("use NAME=VALUE".to_owned()),
    }
}

//! Servers: processes of the CPU engine and native tasks that answer clients, next to the same I/O by threads of the host alone,
//! and next to nginx. And timers of native tasks.

mod files;
mod gather;
mod interpreter;
mod load;
mod loops;
mod native;
mod server;

use std::time::{Duration, Instant};

use super::experiment::{Context, Experiment, On, Part};
use super::stats::{Role, Row};
use crate::error::CliError;
use load::{Load, Reply};
use server::{HELLO, Protocol, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "io",
    title: "servers",
    about: "Clients on the loopback address send a request, wait for the whole reply, compare every byte of it that does not \
            change, and send the next. `loop` is the same I/O by threads of the host alone, two threads with an epoll each, and \
            nginx serves the same file with two workers. Everything runs on the same cores, the clients included, in turns: a \
            round of each server after a round of the one before. Next to a GPU stands the CPU engine. `echo` is one connection, \
            `echo_1000` a thousand, each of \
            them a process. In `http_1000` a thousand connections ask `everwarp serve` for a small file, and in `http_idle` \
            ten thousand other connections are open and idle. In `cgi` each request of a hundred connections is a process of \
            its own. In `interpreter` each of many connections sends a Forth program of its own, which a process runs. \
            `native_echo` and `native_echo_many` are echoes by tasks of the native program `echo`, with one connection and with \
            `--connections`; `native_http` and `native_http_idle` are `http_1000` and `http_idle` with tasks that reply. \
            In `timers` tasks set `--timers` timers, which expire at the same time, and in `spread` one after \
            the other: the time is that from the first expiry to the last task that goes on, no timer may be early, and the median and p99 \
            of how late the tasks are stand next to it. A request's median and p99 stand next to the time of a round, and `start` is the time from the start of \
            the server's command to its first right answer. The other rows are of files that are in the host's cache, and `loop` are \
            as many threads of the host as serve files. `read_4k` is one read at a time, `background` is the same while others read in the background, and without them, `misses` are random pages of a file of eight times the \
            page cache, `in_order` is the same file from begin to end, and `hits` are pages and words that are in the page cache, next to those of a buffer. \
            Every page that is read is compared. `gather` reads sampled rows, and so does PyTorch, which indexes a memory map.",
    parts: &[
        Part::many("echo", On::CpuAndCuda, one),
        Part::many("echo_1000", On::CpuAndCuda, many),
        Part::many("http_1000", On::CpuAndCuda, |cx| {
            http(cx, 0, Hello::Process)
        }),
        Part::many("http_idle", On::CpuAndCuda, |cx| {
            http(cx, IDLE, Hello::Process)
        }),
        Part::many("cgi", On::CpuAndCuda, cgi),
        Part::many("interpreter", On::CpuAndCuda, interpreter::rows),
        Part::many("native_echo", On::CpuAndCuda, |cx| {
            native::echo(cx, 1, 500, true)
        }),
        Part::many("native_echo_many", On::CpuAndCuda, |cx| {
            native::echo(cx, cx.connections as usize, 4, false)
        }),
        Part::many("native_http", On::CpuAndCuda, |cx| http(cx, 0, Hello::Task)),
        Part::many("native_http_idle", On::CpuAndCuda, |cx| {
            http(cx, IDLE, Hello::Task)
        }),
        Part::many("timers", On::CpuAndCuda, native::timers),
        Part::many("read_4k", On::CpuAndCuda, files::one),
        Part::many("background", On::CpuAndCuda, files::background),
        Part::many("misses", On::CpuAndCuda, files::random),
        Part::many("in_order", On::CpuAndCuda, files::in_order),
        Part::many("hits", On::CpuAndCuda, files::hits),
        Part::many("gather", On::CpuAndCuda, gather::rows),
    ],
};

/// Serves in this process until standard input ends: a loop of the host, or tasks of an engine.
pub(super) fn serve(what: &str, engine: &str) -> Result<(), CliError> {
    let slots = |prefix| what.strip_prefix(prefix)?.parse().ok();
    if let Some(slots) = slots("native:") {
        return native::serve(engine, slots, &[]);
    }
    if let Some(slots) = slots("native-http:") {
        return native::serve(engine, slots, &loops::reply());
    }
    loops::serve(what)
}

/// Connections of a round.
const CONNECTIONS: usize = 1000;
/// Connections that do nothing.
const IDLE: usize = 10_000;
/// Connections whose requests are processes.
const CGI_CONNECTIONS: usize = 100;
/// Rounds of each server, and how long all of them may take together.
const ROUNDS: usize = 25;
const BUDGET: Duration = Duration::from_secs(20);
/// Descriptors of a program besides those of its connections.
const OTHERS: u64 = 200;

/// How the engine's sockets are waited for.
const BACKEND: &str = "epoll";

/// A server with clients.
struct Side {
    name: &'static str,
    role: Role,
    what: String,
    server: Server,
    reply: Reply,
    clients: Load,
    /// Connections that are open and do nothing.
    idle: Option<Load>,
    start_s: f64,
    times: Vec<f64>,
    requests: Vec<f64>,
    right: bool,
}

impl Side {
    /// Connects the clients of a server. `idle` are connected first, and make one request each, so that the server knows them.
    fn new(
        (name, role, what): (&'static str, Role, String),
        server: Server,
        connections: usize,
        idle: usize,
    ) -> Result<Self, CliError> {
        let failed = failed(name);
        let (reply, start_s) = server.first_reply().map_err(failed)?;
        let idle = match idle {
            0 => None,
            idle => {
                let mut load = Load::connect(server.address(), idle).map_err(failed)?;
                let round = load.round(&server.request(), &reply, 1).map_err(failed)?;
                if !round.right {
                    return Err(failed(std::io::ErrorKind::InvalidData.into()));
                }
                Some(load)
            }
        };
        let clients = Load::connect(server.address(), connections).map_err(failed)?;
        Ok(Self {
            name,
            role,
            what,
            reply,
            clients,
            idle,
            start_s,
            server,
            times: Vec::new(),
            requests: Vec::new(),
            right: true,
        })
    }

    /// A round: each connection makes as many requests.
    fn round(&mut self, each: usize, counts: bool) -> Result<(), CliError> {
        let round = self
            .clients
            .round(&self.server.request(), &self.reply, each);
        let round = round.map_err(failed(self.name))?;
        self.right &= round.right;
        if counts {
            self.times.push(round.elapsed_s);
            self.requests.extend(round.requests_s);
        }
        Ok(())
    }

    /// Hands over the row of a server whose rounds have been counted. `single` takes each request as a repetition.
    fn emit(mut self, cx: &Context<'_>, each: usize, single: bool) -> Result<(), CliError> {
        if let Some(idle) = &mut self.idle {
            self.right &= idle.all_open();
        }
        self.requests.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (self.requests.len() as f64 * share).ceil() as usize;
            self.requests[rank.clamp(1, self.requests.len()) - 1]
        };
        let (median, p99) = (at(0.5), at(0.99));
        let units = if single {
            1
        } else {
            self.clients.connections() * each
        };
        let times = if single { self.requests } else { self.times };
        let row = Row::new(&self.what, "request", units as f64, times)
            .case(cx.part)
            .role(self.role)
            .verified(self.right)
            .raw("request_median_s", median)
            .raw("request_p99_s", p99)
            .raw("start_s", self.start_s);
        let name = match self.role {
            Role::Ours => cx.part.to_owned(),
            _ => format!("{} ({})", self.name, cx.part),
        };
        cx.emit_as(&name, row)
    }
}

/// Measures servers in turns, each with the same requests.
fn compare(
    cx: &Context<'_>,
    mut sides: Vec<Side>,
    each: usize,
    single: bool,
) -> Result<(), CliError> {
    let begin = Instant::now();
    for round in 0..=ROUNDS {
        for side in &mut sides {
            // The first round warms up.
            side.round(each, round > 0)?;
        }
        if round >= 5 && begin.elapsed() > BUDGET {
            break;
        }
    }
    sides
        .into_iter()
        .try_for_each(|side| side.emit(cx, each, single))
}

/// The error of a server, or of a client of it.
fn failed(server: &'static str) -> impl Fn(std::io::Error) -> CliError + Copy {
    move |source| CliError::BenchServer { server, source }
}

/// Measures a server of the engine and one of the host alone. Next to a GPU, it measures the CPU engine, too.
fn next_to_loop(
    cx: &Context<'_>,
    (ours, what): (impl Fn(&str) -> std::io::Result<Server>, String),
    (protocol, what_loop): (Protocol, String),
    connections: usize,
    (each, single): (usize, bool),
) -> Result<(), CliError> {
    let mut sides = Vec::new();
    for (name, role, engine) in engines(cx) {
        let server = ours(&engine).map_err(failed(name))?;
        let side = Side::new((name, role, what.clone()), server, connections, 0)?;
        sides.push(side);
    }
    let looped = Server::looped(protocol).map_err(failed("loop"))?;
    let side = Side::new(("loop", Role::Rival, what_loop), looped, connections, 0)?;
    sides.push(side);
    compare(cx, sides, each, single)
}

/// The engine that is measured, and next to a GPU the CPU engine, with their roles.
fn engines(cx: &Context<'_>) -> Vec<(&'static str, Role, String)> {
    let own = ("everwarp", Role::Ours, cx.device.kind().to_string());
    let mut engines = vec![own];
    if cx.is_cuda() {
        engines.push(("CPU engine", Role::Rival, "cpu".to_owned()));
    }
    engines
}

fn echo(cx: &Context<'_>, connections: usize, each: usize, single: bool) -> Result<(), CliError> {
    descriptors();
    let what = format!(
        "{connections} connections, 64 bytes and their echo; a process for each connection, its sockets by {BACKEND}"
    );
    let what_loop = format!(
        "{connections} connections, 64 bytes and their echo; two threads with an epoll each"
    );
    let ours = |engine: &str| Server::echo(engine, 2 * connections);
    let looped = (Protocol::Echo, what_loop);
    next_to_loop(cx, (ours, what), looped, connections, (each, single))
}

fn one(cx: &Context<'_>) -> Result<(), CliError> {
    echo(cx, 1, 500, true)
}

fn many(cx: &Context<'_>) -> Result<(), CliError> {
    echo(cx, CONNECTIONS, 4, false)
}

/// What says hello.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hello {
    /// `everwarp serve` with a file.
    Process,
    /// Native tasks with a reply of their own.
    Task,
}

impl Hello {
    fn start(self, engine: &str, idle: usize) -> std::io::Result<Server> {
        match self {
            // Those that are idle have no process.
            Self::Process => Server::http(engine, 2 * CONNECTIONS),
            Self::Task => Server::native_http(engine, CONNECTIONS + idle + 1),
        }
    }
    fn how(self) -> String {
        match self {
            Self::Process => format!(
                "everwarp serve, a process for each busy connection, its sockets by {BACKEND}"
            ),
            Self::Task => format!(
                "tasks of the native program `echo`, which look for the end of each request and send a reply; their sockets by \
                 {BACKEND}"
            ),
        }
    }
}

fn http(cx: &Context<'_>, idle: usize, hello: Hello) -> Result<(), CliError> {
    let (descriptors, wanted) = (descriptors(), (idle + CONNECTIONS) as u64 + OTHERS);
    if descriptors < wanted {
        let why = format!(
            "this user may have {descriptors} open files, and it needs {wanted}: raise the hard limit of `ulimit -n`"
        );
        return cx.skip(cx.part, cx.part, &why);
    }
    let next_to = match idle {
        0 => String::new(),
        idle => format!(" next to {idle} idle ones"),
    };
    let what = |how: &str| {
        format!(
            "{CONNECTIONS} connections{next_to}, GET of a file of {} bytes; {how}",
            HELLO.len()
        )
    };
    let side = |name, role, how: &str, server: std::io::Result<Server>| {
        let server = server.map_err(failed(name))?;
        Side::new((name, role, what(how)), server, CONNECTIONS, idle)
    };
    // With idle ones, one after the other: a client has descriptors for those of one server only.
    let before_the_next = |sides: &mut Vec<Side>| match idle {
        0 => Ok(()),
        _ => compare(cx, std::mem::take(sides), 4, false),
    };
    let mut sides = Vec::new();
    for (name, role, engine) in engines(cx) {
        match side(name, role, &hello.how(), hello.start(&engine, idle)) {
            Ok(side) => sides.push(side),
            // Its rivals are measured all the same: the table shows what is missing.
            Err(error) if idle > 0 => {
                let why =
                    format!("it does not answer {idle} connections at the same time: {error}");
                let row = match role {
                    Role::Ours => cx.part.to_owned(),
                    _ => format!("{name} ({})", cx.part),
                };
                cx.skip(&row, cx.part, &why)?;
            }
            Err(error) => return Err(error),
        }
        before_the_next(&mut sides)?;
    }
    let how = "two threads with an epoll each";
    let server = Server::looped(Protocol::Http);
    sides.push(side("loop", Role::Rival, how, server)?);
    before_the_next(&mut sides)?;
    match Server::nginx() {
        None => {
            let name = format!("nginx ({})", cx.part);
            let why = "nginx is not installed: apt-get install nginx-light";
            cx.skip(&name, cx.part, why)?;
        }
        Some(server) => {
            let how = "nginx with two workers, the file by sendfile";
            sides.push(side("nginx", Role::Rival, how, server)?);
        }
    }
    compare(cx, sides, 4, false)
}

fn cgi(cx: &Context<'_>) -> Result<(), CliError> {
    let what = format!(
        "{CGI_CONNECTIONS} connections, each request a process of a C program (CGI); everwarp serve, sockets by {BACKEND}"
    );
    let what_loop = format!(
        "{CGI_CONNECTIONS} connections, GET without any process; two threads with an epoll each"
    );
    let ours = |engine: &str| Server::cgi(engine, 2 * CGI_CONNECTIONS);
    let looped = (Protocol::Http, what_loop);
    next_to_loop(cx, (ours, what), looped, CGI_CONNECTIONS, (4, false))
}

/// How many descriptors this program may have; the soft limit is raised to the hard one.
fn descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

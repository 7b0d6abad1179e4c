//! `--per-connection`: each connection of the listeners is a process, with the connection as its standard input and output.
//!
//! One thread accepts and starts, another takes the processes that have exited. While as many processes run as may, or the
//! system gives no descriptors, nothing is accepted, and the system keeps further connections until there is room.
//!
//! With `--idle-status` a connection without bytes needs no process: one is started when bytes come, and it hands the
//! connection back by exiting with that status (`idle.rs`).

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use everwarp::process::sync::{ignore_poison, lock};
use everwarp::process::{
    Child, Children, Command, Connection, ExitStatus, Host, HostError, Listener, SpawnError,
    StartWriter,
};
use everwarp_io::{Interest, Reactor};

use super::idle::{Idle, Spare, raise_descriptors};
use super::plan::Plan;
use super::routes::{Launch, Routes};
use super::tally::Tally;
use super::turns::Turns;
use crate::error::CliError;

/// How long nothing is accepted after the system has refused a descriptor and no process has ended since.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections that are accepted before their processes are started.
const BATCH: usize = 256;

/// How the server and the rest of the command reach each other.
pub(super) struct Gate {
    reactor: Reactor,
    /// No further connections are accepted.
    draining: AtomicBool,
    /// Processes that run.
    live: AtomicUsize,
    /// Connections whose processes have handed them back.
    handed_back: Mutex<Vec<Connection>>,
}

impl Gate {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            reactor: Reactor::new()?,
            draining: AtomicBool::new(false),
            live: AtomicUsize::new(0),
            handed_back: Mutex::default(),
        }))
    }

    /// Accepts no further connections, and lets those that there are be answered. Returns how many there are.
    pub(super) fn drain(&self) -> usize {
        self.draining.store(true, SeqCst);
        self.reactor.wake();
        self.live.load(SeqCst)
    }
}

/// Something that the thread which takes exits has to do.
enum Task {
    /// These have started. Those that may hand their connections back come with them.
    Started(Children, Vec<Connection>),
    /// The process with this number may have exited.
    Look(u64),
    /// No further ones will start.
    Last,
}

/// What that thread has to do.
#[derive(Default)]
struct Tasks {
    list: Mutex<VecDeque<Task>>,
    more: Condvar,
}

impl Tasks {
    fn add(&self, task: Task) {
        lock(&self.list).push_back(task);
        self.more.notify_one();
    }

    fn next(&self) -> Task {
        let mut list: MutexGuard<'_, _> = lock(&self.list);
        loop {
            match list.pop_front() {
                Some(task) => return task,
                None => list = ignore_poison(self.more.wait(list)),
            }
        }
    }
}

/// Wakes the thread for one process.
struct ExitWaker {
    number: u64,
    tasks: Arc<Tasks>,
}

impl Wake for ExitWaker {
    fn wake(self: Arc<Self>) {
        self.tasks.add(Task::Look(self.number));
    }
}

/// A process that was started.
struct Serving {
    child: Child,
    waker: Waker,
    /// Its connection, if the process may hand it back.
    connection: Option<Connection>,
}

impl Serving {
    /// Counts its exit if it has exited. A process with the status `idle` has handed its connection back.
    fn look(
        &mut self,
        tally: &mut Tally,
        gate: &Gate,
        idle: Option<u8>,
    ) -> Result<bool, HostError> {
        let pid = self.child.pid();
        match Pin::new(&mut self.child).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(exit) => {
                let mut exit = exit?;
                let connection = self.connection.take();
                if exit.status.code().is_some() && exit.status.code() == idle.map(u32::from) {
                    lock(&gate.handed_back).extend(connection);
                    // It has done what it was started for.
                    exit.status = ExitStatus::Exited(0);
                }
                if !exit.success() && tally.failed == 0 {
                    eprintln!("everwarp: process {pid} ended: {}", exit.status);
                }
                tally.add(pid, exit);
                Ok(true)
            }
        }
    }
}

/// Takes the exits of processes until the last has exited.
fn take_exits(
    tasks: &Arc<Tasks>,
    gate: &Gate,
    (most, idle): (usize, Option<u8>),
) -> Result<Tally, HostError> {
    let mut tally = Tally::default();
    let mut serving = HashMap::<u64, Serving>::new();
    let (mut number, mut last) = (0, false);
    while !last || !serving.is_empty() {
        let mut ended = 0;
        match tasks.next() {
            Task::Started(children, connections) => {
                let mut connections = connections.into_iter();
                for child in children {
                    number += 1;
                    let tasks = Arc::clone(tasks);
                    let waker = Arc::new(ExitWaker { number, tasks }).into();
                    let mut process = Serving {
                        child,
                        waker,
                        connection: connections.next(),
                    };
                    match process.look(&mut tally, gate, idle)? {
                        true => ended += 1,
                        false => drop(serving.insert(number, process)),
                    }
                }
            }
            Task::Look(number) => {
                if let Some(process) = serving.get_mut(&number)
                    && process.look(&mut tally, gate, idle)?
                {
                    serving.remove(&number);
                    ended = 1;
                }
            }
            Task::Last => last = true,
        }
        // The other thread waits for room only if there was none, and for connections that are handed back.
        if ended > 0 {
            let full = gate.live.fetch_sub(ended, SeqCst) >= most;
            if full || !lock(&gate.handed_back).is_empty() {
                gate.reactor.wake();
            }
        }
    }
    Ok(tally)
}

/// The connections that have come, up to `room`; the error if the system refuses to give one, or `check` does.
fn accept(
    listeners: &[Listener],
    room: usize,
    check: impl Fn(&Listener) -> io::Result<()>,
) -> (Vec<Connection>, Option<io::Error>) {
    let mut connections = Vec::new();
    for listener in listeners {
        while connections.len() < room {
            match check(listener).and_then(|()| listener.accept()) {
                Ok(connection) => connections.push(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return (connections, Some(error)),
            }
        }
    }
    (connections, None)
}

/// The variables that name the peer, as CGI calls them.
fn name_peer(peer: Option<SocketAddr>, start: &mut dyn StartWriter) {
    if let Some(peer) = peer {
        start.variable("REMOTE_ADDR", &[&peer.ip().to_string()]);
        start.variable("REMOTE_PORT", &[&peer.port().to_string()]);
    }
}

/// Starts the processes of connections. With `idle` they may hand them back.
fn start(
    plan: &Plan<'_>,
    (command, gate, tasks): (&Command, &Gate, &Tasks),
    connections: &[Connection],
    idle: bool,
) -> Result<(), SpawnError> {
    gate.live.fetch_add(connections.len(), SeqCst);
    command.spawn_parts(
        connections.len() as u32,
        |number, start| {
            let connection = &connections[number as usize];
            plan.write(number, &mut *start, |start| {
                name_peer(connection.peer(), start)
            });
            start.connection(connection.clone());
        },
        |first, children| {
            let kept = match idle {
                true => &connections[first as usize..][..children.len()],
                false => &[],
            };
            tasks.add(Task::Started(children, kept.to_vec()));
            ControlFlow::Continue(())
        },
    )
}

/// Accepts connections and starts their processes until the gate is closed.
fn accept_all(plan: &Plan<'_>, host: &Host, gate: &Gate, tasks: &Tasks) -> Result<(), CliError> {
    let listeners = plan.listeners();
    let most = plan.instances as usize;
    let command = plan.command(host);
    let mut ready = Vec::new();
    let mut refused = Refusals::default();
    while !gate.draining.load(SeqCst) {
        let room = most.saturating_sub(gate.live.load(SeqCst)).min(BATCH);
        let (connections, error) = accept(listeners, room, |_| Ok(()));
        if !connections.is_empty() {
            start(plan, (&command, gate, tasks), &connections, false)?;
            continue;
        }
        if refused.note(error) {
            std::thread::sleep(PAUSE);
            continue;
        }
        if room > 0 {
            watch_listeners(gate, listeners)?;
        }
        ready.clear();
        gate.reactor
            .wait(&mut ready)
            .map_err(CliError::Connections)?;
    }
    Ok(())
}

fn watch_listeners(gate: &Gate, listeners: &[Listener]) -> Result<(), CliError> {
    for listener in listeners {
        let watched = gate.reactor.watch(listener.socket(), Interest::READ);
        watched.map_err(CliError::Connections)?;
    }
    Ok(())
}

/// Says once when the system refuses connections, until it gives one again.
#[derive(Default)]
struct Refusals {
    said: bool,
}

impl Refusals {
    /// Whether the system has refused one.
    fn note(&mut self, error: Option<io::Error>) -> bool {
        if let Some(error) = &error
            && !std::mem::replace(&mut self.said, true)
        {
            eprintln!("everwarp: no further connection for now: {error}");
        }
        self.said = error.is_some();
        self.said
    }
}

/// The same for processes that hand idle connections back: a process is started when a connection has bytes.
fn accept_idle(plan: &Plan<'_>, host: &Host, gate: &Gate, tasks: &Tasks) -> Result<(), CliError> {
    let listeners = plan.listeners();
    let most = plan.instances as usize;
    let command = plan.command(host);
    let (mut idle, spare) = (Idle::default(), Spare::new());
    let mut turns = Turns::default();
    let (mut ready, mut refused) = (Vec::new(), Refusals::default());
    while !gate.draining.load(SeqCst) {
        let (accepted, error) = accept(listeners, BATCH, |listener| spare.check(listener.socket()));
        let more = accepted.len() == BATCH;
        let handed_back = std::mem::take(&mut *lock(&gate.handed_back));
        handed_back
            .iter()
            .for_each(|connection| turns.end(connection));
        for connection in accepted.into_iter().chain(handed_back) {
            // One that cannot be watched, because the system is short of memory, is closed; the others go on.
            drop(idle.add(connection, &gate.reactor));
        }
        let room = most.saturating_sub(gate.live.load(SeqCst)).min(BATCH);
        let starting = idle.take_ready(room, &gate.reactor);
        let now = Instant::now();
        if !starting.is_empty() {
            starting
                .iter()
                .for_each(|connection| turns.begin(connection, now));
            start(plan, (&command, gate, tasks), &starting, true)?;
        }
        let wanted = turns.ask(idle.ready(), now);
        let mut until = [idle.close_old(now), wanted].into_iter().flatten().min();
        if refused.note(error) {
            // A refused listener stays ready, so it is not watched for a while.
            let pause = Instant::now() + PAUSE;
            until = Some(until.map_or(pause, |until| until.min(pause)));
        } else {
            watch_listeners(gate, listeners)?;
        }
        if more || (!starting.is_empty() && idle.ready() > 0) {
            gate.reactor.wake();
        }
        // A connection that is held here would stay open after its process has ended.
        drop(starting);
        ready.clear();
        gate.reactor
            .wait_until(&mut ready, until)
            .map_err(CliError::Connections)?;
        idle.note_ready(&ready);
    }
    // Nothing is lost with those that have sent nothing; the others are answered if there is room.
    let room = most.saturating_sub(gate.live.load(SeqCst));
    let last = idle.take_ready(room, &gate.reactor);
    // The last ones too: a client that never pauses would keep its process until the time to drain is over.
    let now = Instant::now();
    last.iter()
        .for_each(|connection| turns.begin(connection, now));
    turns.ask_for_all();
    match last.is_empty() {
        true => Ok(()),
        false => Ok(start(plan, (&command, gate, tasks), &last, true)?),
    }
}

/// Starts the processes of routes until no further request for one can come.
fn start_routes(
    plan: &Plan<'_>,
    host: &Host,
    gate: &Gate,
    tasks: &Tasks,
    routes: &Routes,
) -> Result<(), SpawnError> {
    let prepare = |host: &Host, module: &_| plan.route_command(host, module);
    let start = |command: &Command, launches: &[Launch]| {
        gate.live.fetch_add(launches.len(), SeqCst);
        command.spawn_parts(
            launches.len() as u32,
            |number, start| launches[number as usize].write(start),
            |_, children| {
                tasks.add(Task::Started(children, Vec::new()));
                ControlFlow::Continue(())
            },
        )
    };
    routes.run(host, prepare, start)
}

/// Waits until no process runs, up to the time that the command line allows, and then ends those that still run.
fn drain(plan: &Plan<'_>, host: &Host, gate: &Gate) -> Result<(), CliError> {
    for listener in plan.listeners() {
        // A listener that cannot be closed accepts nothing either.
        drop(listener.close());
    }
    let deadline = Instant::now() + plan.args.process.drain_time();
    while gate.live.load(SeqCst) > 0 {
        if Instant::now() >= deadline {
            return Ok(host.kill_all()?);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Serves connections until a signal comes and those that there are have been answered.
pub(super) fn serve(plan: &Plan<'_>, host: &Host, gate: &Arc<Gate>) -> Result<Tally, CliError> {
    let tasks = Arc::<Tasks>::default();
    let most = plan.instances as usize;
    let idle = plan.args.process.idle_status;
    raise_descriptors();
    std::thread::scope(|scope| {
        let exits = scope.spawn(|| {
            let taken = take_exits(&tasks, gate, (most, idle));
            // After an error of the engine nothing can be served.
            gate.drain();
            taken
        });
        let launches = plan.routes.as_ref().map(|routes| {
            let tasks = &tasks;
            scope.spawn(move || start_routes(plan, host, gate, tasks, routes))
        });
        let accepted = match idle {
            None => accept_all(plan, host, gate, &tasks),
            Some(_) => accept_idle(plan, host, gate, &tasks),
        };
        let drained = match &accepted {
            Ok(()) => drain(plan, host, gate),
            Err(_) => Ok(host.kill_all()?),
        };
        // Nothing runs any more, or all has been asked to end.
        let mut launched = Ok(());
        if let (Some(routes), Some(launches)) = (&plan.routes, launches) {
            routes.close();
            launched = launches.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        tasks.add(Task::Last);
        let tally = exits.join().unwrap_or_else(|panic| resume_unwind(panic));
        accepted.and(drained)?;
        launched?;
        Ok(tally?)
    })
}

//! `--per-connection`: each connection of the listeners is a process, with the connection as its standard input and output.
//!
//! One thread accepts and starts, another takes the processes that have exited. While as many processes run as may, or the
//! system gives no descriptors, nothing is accepted, and the system keeps further connections until there is room.

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
    Child, Children, Command, Connection, Host, HostError, Listener, SpawnError, StartWriter,
};
use everwarp_io::{Interest, Reactor};

use super::plan::Plan;
use super::routes::{Launch, Routes};
use super::tally::Tally;
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
}

impl Gate {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            reactor: Reactor::new()?,
            draining: AtomicBool::new(false),
            live: AtomicUsize::new(0),
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
    /// These have started.
    Started(Children),
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
}

impl Serving {
    /// Counts its exit if it has exited.
    fn look(&mut self, tally: &mut Tally) -> Result<bool, HostError> {
        let pid = self.child.pid();
        match Pin::new(&mut self.child).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(exit) => {
                let exit = exit?;
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
fn take_exits(tasks: &Arc<Tasks>, gate: &Gate, most: usize) -> Result<Tally, HostError> {
    let mut tally = Tally::default();
    let mut serving = HashMap::<u64, Serving>::new();
    let (mut number, mut last) = (0, false);
    while !last || !serving.is_empty() {
        let mut ended = 0;
        match tasks.next() {
            Task::Started(children) => {
                for child in children {
                    number += 1;
                    let tasks = Arc::clone(tasks);
                    let waker = Arc::new(ExitWaker { number, tasks }).into();
                    let mut process = Serving { child, waker };
                    match process.look(&mut tally)? {
                        true => ended += 1,
                        false => drop(serving.insert(number, process)),
                    }
                }
            }
            Task::Look(number) => {
                if let Some(process) = serving.get_mut(&number)
                    && process.look(&mut tally)?
                {
                    serving.remove(&number);
                    ended = 1;
                }
            }
            Task::Last => last = true,
        }
        // The other thread waits for room only if there was none.
        if ended > 0 && gate.live.fetch_sub(ended, SeqCst) >= most {
            gate.reactor.wake();
        }
    }
    Ok(tally)
}

/// The connections that have come, up to `room`; the error if the system refuses to give one.
fn accept(listeners: &[Listener], room: usize) -> (Vec<Connection>, Option<io::Error>) {
    let mut connections = Vec::new();
    for listener in listeners {
        while connections.len() < room {
            match listener.accept() {
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

/// Accepts connections and starts their processes until the gate is closed.
fn accept_all(plan: &Plan<'_>, host: &Host, gate: &Gate, tasks: &Tasks) -> Result<(), CliError> {
    let listeners = plan.listeners();
    let most = plan.instances as usize;
    let command = plan.command(host);
    let mut ready = Vec::new();
    let mut refused = false;
    while !gate.draining.load(SeqCst) {
        let room = most.saturating_sub(gate.live.load(SeqCst)).min(BATCH);
        let (connections, error) = accept(listeners, room);
        if !connections.is_empty() {
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
                |_, children| {
                    tasks.add(Task::Started(children));
                    ControlFlow::Continue(())
                },
            )?;
            continue;
        }
        if let Some(error) = error {
            if !refused {
                eprintln!("everwarp: no further connection for now: {error}");
            }
            refused = true;
            std::thread::sleep(PAUSE);
            continue;
        }
        refused = false;
        if room > 0 {
            for listener in listeners {
                let watched = gate.reactor.watch(listener.socket(), Interest::READ);
                watched.map_err(CliError::Connections)?;
            }
        }
        ready.clear();
        gate.reactor
            .wait(&mut ready)
            .map_err(CliError::Connections)?;
    }
    Ok(())
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
                tasks.add(Task::Started(children));
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
    std::thread::scope(|scope| {
        let exits = scope.spawn(|| {
            let taken = take_exits(&tasks, gate, most);
            // After an error of the engine nothing can be served.
            gate.drain();
            taken
        });
        let launches = plan.routes.as_ref().map(|routes| {
            let tasks = &tasks;
            scope.spawn(move || start_routes(plan, host, gate, tasks, routes))
        });
        let accepted = accept_all(plan, host, gate, &tasks);
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

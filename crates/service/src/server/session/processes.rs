//! The processes that a client starts and waits for.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::task::Context;
use std::thread::Scope;

use everwarp_engine::sync::lock;
use everwarp_engine::trace::span;
use everwarp_process::{
    AddressRule, ChannelEnd, Connection, Directory, Events, Grants, Input, Listener, Network,
    Output, Pid,
};

use super::{Misbehaved, Session, host_fault};
use crate::protocol::{
    FromEngine, HostFault, InputGrant, NetworkGrant, OutputGrant, ProcessExit, Reply, SharedGrants,
    body,
};
use crate::server::requests::{PendingSpawn, send_captured, wait_each};

/// A descriptor that a client has passed as a listener. A TCP socket that does not listen is none, nor is anything else.
fn listener(file: OwnedFd) -> io::Result<Listener> {
    match rustix::net::sockopt::socket_acceptconn(&file)? {
        // A listener of another family has no address of this one.
        true => Listener::from_std(file.into()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The streams of events that a client has opened, one for each process.
fn events(streams: Vec<OwnedFd>, count: u32) -> Result<Option<Arc<Events>>, Misbehaved> {
    if streams.is_empty() {
        return Ok(None);
    }
    if streams.len() as u64 != u64::from(count) {
        let text = "not one stream of events for each process";
        return Err(Misbehaved(text.to_owned()));
    }
    let streams = streams.into_iter().map(Connection::from_local_stream);
    let streams: io::Result<Vec<_>> = streams.collect();
    let streams = streams.map_err(|_| Misbehaved("a stream of events that is none".to_owned()))?;
    Ok(Some(Events::given(streams)))
}

/// The rules of a client.
fn rules(texts: &[String]) -> Result<Vec<AddressRule>, Misbehaved> {
    let rules = texts.iter().map(|text| text.parse::<AddressRule>());
    let rules: Result<_, _> = rules.collect();
    rules.map_err(|error| Misbehaved(error.to_string()))
}

impl Session {
    /// What of the network processes may use. The client is this user, and could use it itself.
    fn network(&self, grant: &NetworkGrant) -> Result<Arc<Network>, Misbehaved> {
        let (connect, bind) = (rules(&grant.connect)?, rules(&grant.bind)?);
        if bind.iter().any(AddressRule::is_for_names) {
            return Err(Misbehaved("a rule to bind a name".to_owned()));
        }
        let network = Network::new(connect, bind);
        if !grant.reports {
            return Ok(Arc::new(network));
        }
        // An engine must not wait for a client that does not read. The network reports each sentence once, and not many.
        let (sentences, reported) = channel::<String>();
        let sender = Arc::clone(&self.sender);
        let send = move || {
            for sentence in reported {
                let message = FromEngine::Refused { sentence };
                if sender.send(&body(&message), &[]).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("reports".to_owned());
        if started.spawn(send).is_err() {
            // The processes are refused all the same.
            return Ok(Arc::new(network));
        }
        Ok(Arc::new(network.reporting(move |sentence| {
            // A client that has gone need not know.
            let _ = sentences.send(sentence.to_owned());
        })))
    }

    /// Checks a request for processes. The inner error is the client's to see.
    pub(super) fn prepare(
        &self,
        module: u32,
        count: u32,
        shared: SharedGrants,
        data: u64,
        mut files: Vec<OwnedFd>,
    ) -> Result<Result<PendingSpawn, String>, Misbehaved> {
        let host = self.host()?;
        let given = u64::from(shared.listeners) + u64::from(shared.events);
        let wanted = shared.directories.len() as u64 + given;
        if files.len() as u64 != wanted {
            let text = "not one file for each directory, listener and stream of events";
            return Err(Misbehaved(text.to_owned()));
        }
        let mut listeners = files.split_off(shared.directories.len());
        let streams = listeners.split_off(shared.listeners as usize);
        let listeners: io::Result<Vec<_>> = listeners.into_iter().map(listener).collect();
        let Ok(listeners) = listeners else {
            return Err(Misbehaved("a listener that is none".to_owned()));
        };
        let events = events(streams, count)?;
        let network = shared.network.as_ref();
        let network = network.map(|grant| self.network(grant)).transpose()?;
        let quotas = &self.settings.quotas;
        let live = self.live.load(Ordering::Acquire);
        if live.checked_add(count).is_none_or(|n| n > quotas.processes) {
            let most = quotas.processes;
            return Ok(Err(format!(
                "the service allows each client {most} processes: wait for some of them"
            )));
        }
        let under_way = host.data.load(Ordering::Acquire);
        if under_way
            .checked_add(data)
            .is_none_or(|n| n > quotas.input_bytes)
        {
            let most = quotas.input_bytes;
            return Ok(Err(format!(
                "the service allows each client {most} bytes of arguments and input at the same time"
            )));
        }
        let output = |grant: OutputGrant| match grant.into() {
            Output::Capture { limit } => Output::Capture {
                limit: limit.min(quotas.capture_bytes as usize),
            },
            other => other,
        };
        let directories = shared.directories.into_iter().zip(files);
        let directories: Result<Vec<_>, _> = directories
            .map(|(grant, file)| {
                let directory = Directory::from_file(file.into(), grant.path, grant.guest)?;
                io::Result::Ok(directory.read_only(grant.read_only))
            })
            .collect();
        let Ok(directories) = directories else {
            return Err(Misbehaved("a directory that is none".to_owned()));
        };
        let (stdin, shared_input) = match shared.stdin {
            InputGrant::Empty => (Input::Empty, None),
            InputGrant::Inherit => (Input::Inherit, None),
            InputGrant::Bytes { count } => (Input::Empty, Some(count)),
        };
        let held = lock(&host.ends);
        let ends = shared.ends.iter().map(|number| held.get(number));
        let ends: Option<Vec<_>> = ends.map(|end| Some(ChannelEnd::clone(end?))).collect();
        let Some(ends) = ends else {
            return Err(Misbehaved("a channel end that it does not have".to_owned()));
        };
        self.live.fetch_add(count, Ordering::AcqRel);
        host.data.fetch_add(data, Ordering::AcqRel);
        Ok(Ok(PendingSpawn {
            module,
            count,
            grants: Grants {
                directories,
                listeners,
                launcher: None,
                network,
                events,
                stdin,
                stdout: output(shared.stdout),
                stderr: output(shared.stderr),
                fuel: shared.fuel,
                handles: shared.handles,
                ends,
            },
            shared: shared_input,
            expected: data,
            data: Vec::new(),
            stop: Arc::default(),
        }))
    }

    /// Starts the processes of a request whose data has all come.
    pub(super) fn begin_spawn<'s, 'e>(
        self: &Arc<Self>,
        request: u32,
        pending: &mut HashMap<u32, PendingSpawn>,
        scope: &'s Scope<'s, 'e>,
    ) -> Result<(), Misbehaved> {
        let complete = |spawn: &PendingSpawn| spawn.data.len() as u64 == spawn.expected;
        if !pending.get(&request).is_some_and(complete) {
            return Ok(());
        }
        let spawn = pending.remove(&request).expect("it was found");
        self.run(scope, move |session| {
            let Ok(host) = session.host() else { return };
            let (data, count) = (spawn.expected, spawn.count);
            let stop = Arc::clone(&spawn.stop);
            let lines = lock(&session.lines).clone();
            let _span = span("service: spawn");
            let started = AtomicU32::new(0);
            spawn.run(&*host.engine, lines, &session.instances, &|with| {
                if let Reply::Pids { pids, .. } = &with {
                    started.fetch_add(pids.len() as u32, Ordering::AcqRel);
                    // A client that has gone needs no more of them.
                    let ending = session.ending.load(Ordering::Acquire);
                    stop.fetch_or(ending, Ordering::AcqRel);
                }
                session.reply(request, with);
            });
            let missing = count - started.load(Ordering::Acquire).min(count);
            session.live.fetch_sub(missing, Ordering::AcqRel);
            host.data.fetch_sub(data, Ordering::AcqRel);
            if session.ending.load(Ordering::Acquire) {
                // The last of them may have started after the others were killed.
                drop(host.engine.kill_all());
            }
        })
    }

    pub(super) fn wait<'s, 'e>(
        self: &Arc<Self>,
        pid: Pid,
        scope: &'s Scope<'s, 'e>,
    ) -> Result<(), Misbehaved> {
        let host = self.host()?;
        host.waits.add(pid);
        if host.waiting.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.run(scope, |session| {
            let Ok(host) = session.host() else { return };
            let poll_wait = |pid, cx: &mut Context<'_>| host.engine.poll_wait(pid, cx);
            host.waits.run(poll_wait, |pid, exit| {
                if let Ok(exit) = &exit {
                    session.waited([pid]);
                    send_captured(&session.sender, pid, exit, &session.budgets.output);
                }
                let exit = match &exit {
                    Ok(exit) => Ok(ProcessExit::from(exit)),
                    Err(error) => Err(HostFault::from(error)),
                };
                let message = FromEngine::Exited { pid, exit };
                drop(session.sender.send(&body(&message), &[]));
            });
        })
    }

    /// Notes that these processes have been waited for. Those that the client has started count no longer; it may also
    /// wait for their children, which never did.
    pub(super) fn waited(&self, pids: impl IntoIterator<Item = Pid>) {
        let mut instances = lock(&self.instances);
        let started = pids
            .into_iter()
            .filter(|pid| instances.remove(pid).is_some());
        let started = started.count() as u32;
        drop(instances);
        self.live.fetch_sub(started, Ordering::AcqRel);
    }

    pub(super) fn wait_each(&self, request: u32, pids: &[Pid]) {
        let Ok(host) = self.host() else { return };
        let _span = span("service: wait for processes");
        let (sender, output) = (&self.sender, &self.budgets.output);
        let waited = |exits: &[(Pid, everwarp_process::Exit)]| {
            self.waited(exits.iter().map(|(pid, _)| *pid))
        };
        let result = wait_each(&*host.engine, pids, sender, request, output, &waited);
        let result = result.map_err(|e| host_fault(&e));
        self.reply(request, Reply::WaitedEach { result });
    }
}

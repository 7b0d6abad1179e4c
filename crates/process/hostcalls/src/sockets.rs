//! The calls on listeners and connections.
//!
//! Each is tried at once. If it would wait, it becomes a [`Wait`], and is tried again by the thread that watches sockets
//! (`watched.rs`) when the socket is ready.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::lock;
use everwarp_io::{Connection, Interest, Lookup, Shutdown};
use everwarp_process::net::{LaunchError, address_words, read_launch, write_address};
use everwarp_process::sockets::{NONBLOCK, PEEK, SHUT_READ, SHUT_WRITE, WAIT_ALL};

use crate::errno::{Errno, Result};
use crate::open::{Descriptor, OpenConnection, OpenEndpoint};
use crate::openings::Openings;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::wait::{Served, Wait};
use crate::wasi;

/// A call on a socket that may wait.
pub(crate) struct SocketCall {
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) action: Action,
}

/// What a call on a socket does.
pub(crate) enum Action {
    Accept {
        openings: Arc<Openings>,
        nonblock: bool,
    },
    Receive {
        limit: usize,
        peek: bool,
        /// Wait until as many bytes have come, and the bytes that have.
        all: Option<Mutex<Vec<u8>>>,
    },
    Send(Vec<u8>),
    /// Takes the outcome of a connection attempt.
    Connect,
    SendTo {
        bytes: Vec<u8>,
        to: SocketAddr,
    },
    ReceiveFrom {
        limit: usize,
        peek: bool,
    },
    /// Takes the addresses of a name, once the socket of the descriptor says that they are there.
    LookUp {
        lookup: Lookup,
        most: usize,
    },
}

/// `None` instead of an error where a call would wait.
pub(crate) fn unless_waiting<T>(result: io::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(Errno::of_socket(&error)),
    }
}

/// Succeeds for a socket that may accept connections.
fn accepts(descriptor: &Descriptor) -> Result {
    match descriptor {
        Descriptor::Listener(_) | Descriptor::Endpoint(_) => Ok(()),
        Descriptor::Connection(_) => Err(Errno::INVAL),
        _ => Err(Errno::NOTSOCK),
    }
}

/// The connection; for a socket that the process has opened, the system knows whether it is connected.
fn connection(descriptor: &Descriptor) -> Result<&Connection> {
    match descriptor {
        Descriptor::Connection(open) => Ok(&open.connection),
        Descriptor::Endpoint(open) => Ok(open.endpoint.connection()),
        Descriptor::Listener(_) => Err(Errno::NOTCONN),
        _ => Err(Errno::NOTSOCK),
    }
}

/// The socket, if the process has opened it itself: only such a one connects, binds and listens.
pub(crate) fn endpoint(descriptor: &Descriptor) -> Result<&OpenEndpoint> {
    match descriptor {
        Descriptor::Endpoint(open) => Ok(open),
        Descriptor::Connection(_) => Err(Errno::ISCONN),
        Descriptor::Listener(_) => Err(Errno::INVAL),
        _ => Err(Errno::NOTSOCK),
    }
}

/// Accepts a connection, if there is one and the process may have another descriptor.
fn accept_now(
    process: &Process,
    descriptor: &Descriptor,
    openings: &Arc<Openings>,
    nonblock: bool,
) -> Result<Option<Fd>> {
    lock(&process.table).has_room()?;
    let permit = openings.take(&process.held)?.ok_or(Errno::NFILE)?;
    let accepted = match descriptor {
        Descriptor::Listener(open) => open.listener.accept(),
        other => endpoint(other)?.endpoint.accept(),
    };
    let Some(connection) = unless_waiting(accepted)? else {
        return Ok(None);
    };
    let open = Descriptor::Connection(OpenConnection {
        connection,
        nonblock: AtomicBool::new(nonblock),
        _permit: Some(permit),
    });
    lock(&process.table).insert(open).map(Some)
}

/// Receives bytes, if some have come or none will.
fn receive_now(
    connection: &Connection,
    limit: usize,
    peek: bool,
    data: &mut Vec<u8>,
) -> Result<bool> {
    data.resize(limit, 0);
    let received = unless_waiting(connection.receive(data, peek));
    data.truncate(received.ok().flatten().unwrap_or(0));
    Ok(received?.is_some())
}

/// Adds bytes to those that have come until there are `limit`, or no more come. An error counts only if there are none.
fn receive_all(connection: &Connection, limit: usize, got: &mut Vec<u8>) -> Result<bool> {
    let mut more = Vec::new();
    while got.len() < limit {
        match receive_now(connection, limit - got.len(), false, &mut more) {
            Ok(true) if more.is_empty() => return Ok(true),
            Ok(true) => got.append(&mut more),
            Ok(false) => return Ok(false),
            Err(error) if got.is_empty() => return Err(error),
            Err(_) => return Ok(true),
        }
    }
    Ok(true)
}

impl SocketCall {
    /// The socket that it waits for, and what for.
    pub(crate) fn interest(&self) -> Option<(Arc<everwarp_io::Socket>, Interest)> {
        let interest = match self.action {
            Action::Accept { .. }
            | Action::Receive { .. }
            | Action::ReceiveFrom { .. }
            | Action::LookUp { .. } => Interest::READ,
            Action::Send(_) | Action::SendTo { .. } | Action::Connect => Interest::WRITE,
        };
        self.descriptor
            .socket()
            .map(|socket| (Arc::clone(socket), interest))
    }

    /// Tries the call; `false` if it has to wait.
    pub(crate) fn attempt(&self, process: &Process, reply: &mut Reply) -> Result<bool> {
        match &self.action {
            Action::Accept { openings, nonblock } => {
                let from = &self.descriptor;
                let Some(fd) = accept_now(process, from, openings, *nonblock)? else {
                    return Ok(false);
                };
                reply.values[0] = fd.0.into();
            }
            Action::Receive { limit, peek, all } => {
                let connection = connection(&self.descriptor)?;
                let done = match all {
                    None => receive_now(connection, *limit, *peek, &mut reply.data)?,
                    Some(got) => {
                        let mut got = lock(got);
                        let done = receive_all(connection, *limit, &mut got)?;
                        if done {
                            reply.data.append(&mut got);
                        }
                        done
                    }
                };
                reply.count();
                return Ok(done);
            }
            Action::Send(bytes) => {
                let connection = connection(&self.descriptor)?;
                let Some(sent) = unless_waiting(connection.send(bytes))? else {
                    return Ok(false);
                };
                reply.values[0] = sent as u64;
            }
            Action::Connect => {
                let endpoint = &endpoint(&self.descriptor)?.endpoint;
                return Ok(unless_waiting(endpoint.finish_connect())?.is_some());
            }
            Action::SendTo { bytes, to } => {
                let endpoint = &endpoint(&self.descriptor)?.endpoint;
                let Some(sent) = unless_waiting(endpoint.send_to(bytes, *to))? else {
                    return Ok(false);
                };
                reply.values[0] = sent as u64;
            }
            Action::ReceiveFrom { limit, peek } => {
                let endpoint = &endpoint(&self.descriptor)?.endpoint;
                reply.data.resize(*limit, 0);
                let received = unless_waiting(endpoint.receive_from(&mut reply.data, *peek));
                let Some((bytes, from)) = received? else {
                    reply.data.clear();
                    return Ok(false);
                };
                reply.data.truncate(bytes);
                reply.values = from.map_or([0; 3], address_words);
            }
            Action::LookUp { lookup, most } => {
                let Some(found) = unless_waiting(lookup.addresses())? else {
                    return Ok(false);
                };
                let found = &found[..found.len().min(*most)];
                for address in found {
                    let address = SocketAddr::new(*address, 0);
                    reply.data.extend_from_slice(&write_address(address));
                }
                reply.values[0] = found.len() as u64;
            }
        }
        Ok(true)
    }

    /// Tries the call, and waits if it has to and may. The device sends a call that holds up neighbours again, patiently.
    pub(crate) fn serve(
        self,
        process: Arc<Process>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Served> {
        if self.attempt(&process, reply)? {
            return Ok(Served::Answered);
        }
        let nonblock = self.descriptor.nonblock();
        if nonblock.is_some_and(|nonblock| nonblock.load(Relaxed)) {
            return Err(Errno::AGAIN);
        }
        match request.patient {
            true => Ok(Served::Waits(Wait::for_socket(process, self))),
            false => Err(Errno::LATER),
        }
    }
}

pub(crate) fn accept(
    process: Arc<Process>,
    openings: &Arc<Openings>,
    (fd, flags): (Fd, u32),
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    accepts(&descriptor)?;
    let flags = wasi::flags(flags, NONBLOCK)?;
    let action = Action::Accept {
        openings: Arc::clone(openings),
        nonblock: flags & NONBLOCK != 0,
    };
    SocketCall { descriptor, action }.serve(process, request, reply)
}

pub(crate) fn receive(
    process: Arc<Process>,
    fd: Fd,
    (length, flags): (u32, u32),
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    connection(&descriptor)?;
    let flags = wasi::flags(flags, PEEK | WAIT_ALL)?;
    let peek = flags & PEEK != 0;
    let limit = request.length(length);
    if limit == 0 {
        return Ok(Served::Answered);
    }
    let action = Action::Receive {
        limit,
        peek,
        all: (flags & WAIT_ALL != 0 && !peek).then(Mutex::default),
    };
    SocketCall { descriptor, action }.serve(process, request, reply)
}

pub(crate) fn send(
    process: Arc<Process>,
    fd: Fd,
    flags: u32,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    connection(&descriptor)?;
    wasi::flags(flags, 0)?;
    let bytes = &*request.payload;
    if bytes.is_empty() {
        return Ok(Served::Answered);
    }
    let action = Action::Send(bytes.to_vec());
    SocketCall { descriptor, action }.serve(process, request, reply)
}

/// Starts a program, and gives the process a connection to it.
pub(crate) fn launch(
    process: &Process,
    openings: &Arc<Openings>,
    name_length: u32,
    bytes: &[u8],
    reply: &mut Reply,
) -> Result {
    let launcher = process.config.launcher.as_ref().ok_or(Errno::NOTCAPABLE)?;
    let (name, variables) = bytes
        .split_at_checked(name_length as usize)
        .ok_or(Errno::INVAL)?;
    let (name, variables) = read_launch(name, variables).ok_or(Errno::INVAL)?;
    lock(&process.table).has_room()?;
    let permit = openings.take(&process.held)?.ok_or(Errno::NFILE)?;
    let connection = launcher
        .launch(&name, variables)
        .map_err(|error| match error {
            LaunchError::Unknown => Errno::NOENT,
            LaunchError::System(error) => Errno::of_socket(&error),
        })?;
    let open = Descriptor::Connection(OpenConnection {
        connection,
        nonblock: AtomicBool::new(false),
        _permit: Some(permit),
    });
    reply.values[0] = lock(&process.table).insert(open)?.0.into();
    Ok(())
}

pub(crate) fn shut_down(process: &Process, fd: Fd, how: u32) -> Result {
    let descriptor = process.descriptor(fd)?;
    let open = connection(&descriptor)?;
    let how = match how {
        SHUT_READ => Shutdown::Read,
        SHUT_WRITE => Shutdown::Write,
        both if both == SHUT_READ | SHUT_WRITE => Shutdown::Both,
        _ => return Err(Errno::INVAL),
    };
    let shut = open.shut_down(how);
    shut.map_err(|error| Errno::of_socket(&error))
}

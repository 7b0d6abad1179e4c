//! An open socket, and the order of its requests.
//!
//! What comes in (connections, bytes) and what goes out (bytes, ends) are two lines. The requests of a line are done one after
//! the other, in the order in which they were made; the lines do not wait for each other. One thread at a time drives both
//! lines as far as they go without waiting. Then the socket is watched, and is driven again when it is ready.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_contract::{DevNetAddress, DevType, Layout};
use everwarp_io::{
    Connection, DATAGRAM_MOST, EVENT_BYTES, Endpoint, Interest, Listener, Shutdown, Socket,
    watch_request,
};

use crate::errno::FileErrno;
use crate::event_stream::EventStream;
use crate::lines::{Finish, Lines, Name, Named};
use crate::request::{After, Ended, OfSocket};
use crate::system::{SocketCall, System};

/// Bytes that move at a time.
pub(crate) const STAGE: usize = 256 << 10;
/// Bytes that a thread moves for a socket before others have their turn.
const TURN: usize = 1 << 20;

#[derive(Debug)]
enum Kind {
    /// One that the host has given.
    Listener(Listener),
    /// One that a task has opened.
    Endpoint(Endpoint),
    Connection(Connection),
    Events(EventStream),
}

/// A request in line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) op: OfSocket,
    /// How many bytes were sent.
    sent: usize,
    pub(crate) after: After,
}

impl Waiter {
    pub(crate) fn new(op: OfSocket, after: After) -> Self {
        Self { op, sent: 0, after }
    }
    fn is_input(&self) -> bool {
        matches!(
            self.op,
            OfSocket::Accept { .. }
                | OfSocket::Receive { .. }
                | OfSocket::ReceiveFrom { .. }
                | OfSocket::Events { .. }
        )
    }
    /// It will not be done. Bytes that were sent before count.
    fn given_up(self, error: FileErrno) -> (After, Result<u32, FileErrno>) {
        let result = match self.sent {
            0 => Err(error),
            sent => Ok(sent as u32),
        };
        (self.after, result)
    }
}

impl Named for Waiter {
    fn has_name(&self, name: Name) -> bool {
        self.after.has_name(name)
    }
}

/// An open socket.
#[derive(Debug)]
pub(crate) struct OpenSocket {
    kind: Kind,
    lines: Mutex<Lines<Waiter>>,
}

/// Why a request is not done.
pub(crate) enum Stop {
    /// It has to wait.
    Wait,
    /// It could go on, but others have their turn.
    Turn,
    Error(FileErrno),
}

impl From<FileErrno> for Stop {
    fn from(error: FileErrno) -> Self {
        Self::Error(error)
    }
}
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Wait,
            _ => Self::Error(error.into()),
        }
    }
}

/// Takes a connection that has come.
pub(crate) type TakeConnection<'t> = dyn Fn() -> io::Result<Connection> + 't;

/// A connection with its handle.
pub(crate) type Accepted = Result<(u32, Connection), Stop>;

/// Gives sockets their handles.
pub(crate) struct Givers<'g> {
    /// A handle for a connection, which is only taken if there is a handle for it.
    pub(crate) accepted: &'g dyn Fn(&TakeConnection<'_>) -> Accepted,
    /// A handle for the socket itself.
    pub(crate) connected: &'g dyn Fn() -> Result<u32, FileErrno>,
}

/// Whether a thread is done with driving a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driven {
    /// It is: the socket is watched, or nothing waits.
    Done,
    /// More has come: once more.
    Again,
}

/// What the caller has to do once requests are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum GivenUp {
    Nothing,
    /// Have the socket driven.
    Drive,
    /// Close the socket, whose connection is not made, and which no handle names.
    Connection,
}

impl From<Connection> for OpenSocket {
    fn from(connection: Connection) -> Self {
        Self::of(Kind::Connection(connection))
    }
}
impl From<Listener> for OpenSocket {
    fn from(listener: Listener) -> Self {
        Self::of(Kind::Listener(listener))
    }
}
impl From<EventStream> for OpenSocket {
    fn from(stream: EventStream) -> Self {
        Self::of(Kind::Events(stream))
    }
}
impl From<Endpoint> for OpenSocket {
    fn from(endpoint: Endpoint) -> Self {
        Self::of(Kind::Endpoint(endpoint))
    }
}

impl OpenSocket {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            lines: Mutex::default(),
        }
    }
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        match &self.kind {
            Kind::Listener(listener) => listener.socket(),
            Kind::Endpoint(endpoint) => endpoint.socket(),
            Kind::Connection(connection) => connection.socket(),
            Kind::Events(stream) => stream.connection().socket(),
        }
    }
    fn lines(&self) -> MutexGuard<'_, Lines<Waiter>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn connection(&self) -> Result<&Connection, FileErrno> {
        match &self.kind {
            Kind::Listener(_) => Err(FileErrno::NOTCONN),
            Kind::Events(_) => Err(FileErrno::NOTSUP),
            Kind::Endpoint(endpoint) => Ok(endpoint.connection()),
            Kind::Connection(connection) => Ok(connection),
        }
    }
    fn events(&self) -> Result<&EventStream, FileErrno> {
        match &self.kind {
            Kind::Events(stream) => Ok(stream),
            _ => Err(FileErrno::NOTSUP),
        }
    }
    fn endpoint(&self) -> Result<&Endpoint, FileErrno> {
        match &self.kind {
            Kind::Endpoint(endpoint) => Ok(endpoint),
            _ => Err(FileErrno::NOTSUP),
        }
    }

    /// Puts a request in line, unless the socket is closed: then an error says what goes on after it. Returns whether the caller must
    /// have the socket driven.
    pub(crate) fn push(&self, waiter: Waiter) -> Result<bool, After> {
        let line = usize::from(!waiter.is_input());
        let pushed = self.lines().push(line, waiter);
        pushed.map_err(|waiter| waiter.after)
    }
    /// It may be ready. Returns whether the caller must have it driven.
    pub(crate) fn is_ready(&self) -> bool {
        self.lines().ready()
    }
    /// Gives requests up before they are done.
    pub(crate) fn give_up(&self, name: Name, error: FileErrno, ended: &mut Ended) -> GivenUp {
        let (found, driven) = self.lines().strike(name, error);
        let connects = found.iter().any(|w| matches!(w.op, OfSocket::Connect));
        ended.extend(found.into_iter().map(|waiter| waiter.given_up(error)));
        match connects {
            true => GivenUp::Connection,
            false if driven => GivenUp::Drive,
            false => GivenUp::Nothing,
        }
    }
    /// Takes no more requests, and ends those that wait.
    pub(crate) fn close(&self, error: FileErrno, ended: &mut Ended) {
        let waiters = self.lines().close();
        ended.extend(waiters.into_iter().map(|waiter| waiter.given_up(error)));
        if let Kind::Endpoint(endpoint) = &self.kind {
            // Another thread may have it for a moment. The peer and the port do not wait for that. A socket that is not
            // connected refuses.
            let _ = endpoint.connection().shut_down(Shutdown::Both);
        }
    }

    /// Does what can be done now. The caller is the one thread that drives the socket. `end` gets what has ended. Returns whether
    /// more can be done: then the caller has it driven once more, after others.
    pub(crate) fn drive(
        &self,
        system: &System,
        stage: &mut Vec<u8>,
        givers: &Givers<'_>,
        mut end: impl FnMut((After, Result<u32, FileErrno>)),
    ) -> bool {
        let mut goes_on = false;
        for line in 0..2 {
            let mut moved = 0;
            loop {
                let next = self.lines().next(line);
                let Some(mut waiter) = next else { break };
                match self.attempt(&mut waiter, system, stage, givers, &mut moved) {
                    Ok(value) => end((waiter.after, Ok(value))),
                    Err(Stop::Error(error)) => end(waiter.given_up(error)),
                    Err(stop @ (Stop::Wait | Stop::Turn)) => {
                        let back = self.lines().put_back(line, waiter);
                        if let Err((waiter, error)) = back {
                            // What comes after it has its turn.
                            end(waiter.given_up(error));
                            continue;
                        }
                        goes_on |= matches!(stop, Stop::Turn);
                        break;
                    }
                }
            }
        }
        goes_on
    }
    /// Ends driving it. `watch` has the socket watched for what its lines wait for.
    pub(crate) fn driven(
        &self,
        watch: impl FnOnce(Interest) -> Result<(), FileErrno>,
        ended: &mut Ended,
    ) -> Driven {
        let mut lines = self.lines();
        match lines.finish() {
            Finish::Again => return Driven::Again,
            Finish::Idle => {}
            // With the lines locked no other thread can watch it for less.
            Finish::Watch([read, write]) => {
                if let Err(error) = watch(Interest { read, write }) {
                    let waiters = lines.fail();
                    ended.extend(waiters.into_iter().map(|waiter| waiter.given_up(error)));
                }
            }
        }
        Driven::Done
    }

    /// How many bytes a call moves at most, or its error. One that is to be reset is.
    fn fate(&self, system: &System, call: SocketCall, len: usize) -> Result<usize, Stop> {
        let fate = system.socket_fate(call, len);
        let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        if fate.as_ref().is_err_and(is_reset) {
            let connection = match &self.kind {
                Kind::Events(stream) => stream.connection(),
                _ => self.connection()?,
            };
            // One that has ended cannot be reset, and the error is the same.
            let _ = connection.reset();
        }
        Ok(fate?)
    }

    fn attempt(
        &self,
        waiter: &mut Waiter,
        system: &System,
        stage: &mut Vec<u8>,
        givers: &Givers<'_>,
        moved: &mut usize,
    ) -> Result<u32, Stop> {
        stage.resize(STAGE, 0);
        if *moved >= TURN {
            return Err(Stop::Turn);
        }
        match &waiter.op {
            OfSocket::Accept { peer } => {
                self.fate(system, SocketCall::Accepts, 0)?;
                let (handle, connection) = (givers.accepted)(&|| match &self.kind {
                    Kind::Listener(listener) => listener.accept(),
                    Kind::Endpoint(endpoint) => endpoint.accept(),
                    Kind::Connection(_) | Kind::Events(_) => {
                        Err(io::ErrorKind::InvalidInput.into())
                    }
                })?;
                if let (Some(to), Some(peer)) = (peer, connection.peer()) {
                    to.copy_in(DevNetAddress::from(peer).bytes())?;
                }
                Ok(handle)
            }
            OfSocket::Receive { to } => {
                let most = to.len().min(STAGE);
                if most == 0 {
                    return Err(FileErrno::INVAL.into());
                }
                let connection = self.connection()?;
                let most = self.fate(system, SocketCall::Receives, most)?;
                let bytes = connection.receive(&mut stage[..most], false)?;
                *moved += bytes;
                to.copy_in(&stage[..bytes])?;
                Ok(bytes as u32)
            }
            OfSocket::ReceiveFrom { to, from } => {
                let most = to.len().min(DATAGRAM_MOST);
                let endpoint = self.endpoint()?;
                self.fate(system, SocketCall::Datagram, most)?;
                let (bytes, sender) = endpoint.receive_from(&mut stage[..most], false)?;
                to.copy_in(&stage[..bytes])?;
                if let Some(from) = from {
                    let sender = sender.map_or(DevNetAddress::ZERO, DevNetAddress::from);
                    from.copy_in(sender.bytes())?;
                }
                Ok(bytes as u32)
            }
            OfSocket::Events { to } => {
                let most = to.len().min(STAGE);
                if most == 0 {
                    return Err(FileErrno::INVAL.into());
                }
                let part = &mut stage[..most];
                let fate = |most| self.fate(system, SocketCall::Receives, most);
                let bytes = self.events()?.receive(part, fate)?;
                to.copy_in(&stage[..bytes])?;
                Ok((bytes / EVENT_BYTES) as u32)
            }
            OfSocket::Watch { sources, signals } => {
                let connection = self.events()?.connection();
                let request = watch_request(*sources, *signals);
                while waiter.sent < request.len() {
                    let rest = &request[waiter.sent..];
                    // A request goes whole, so a cancel leaves none in the middle.
                    self.fate(system, SocketCall::Datagram, rest.len())?;
                    waiter.sent += connection.send(rest)?;
                }
                Ok(0)
            }
            OfSocket::Send { from } => {
                let connection = self.connection()?;
                while waiter.sent < from.len() {
                    if *moved >= TURN {
                        return Err(Stop::Turn);
                    }
                    let most = (from.len() - waiter.sent).min(STAGE);
                    let most = self.fate(system, SocketCall::Sends, most)?;
                    let part = &mut stage[..most];
                    from.copy_part_out(waiter.sent, part)?;
                    let sent = connection.send(part)?;
                    waiter.sent += sent;
                    *moved += sent;
                }
                Ok(waiter.sent as u32)
            }
            OfSocket::SendTo { from, address } => {
                if from.len() > DATAGRAM_MOST {
                    return Err(FileErrno::MSGSIZE.into());
                }
                let part = &mut stage[..from.len()];
                from.copy_part_out(0, part)?;
                self.fate(system, SocketCall::Datagram, part.len())?;
                Ok(self.endpoint()?.send_to(part, *address)? as u32)
            }
            OfSocket::Shut(how) => {
                self.connection()?.shut_down(*how)?;
                Ok(0)
            }
            OfSocket::Address { to } => {
                let address = self.socket().local_address()?;
                to.copy_in(DevNetAddress::from(address).bytes())?;
                Ok(0)
            }
            OfSocket::Peer { to } => {
                let address = self.socket().peer_address()?;
                to.copy_in(DevNetAddress::from(address).bytes())?;
                Ok(0)
            }
            OfSocket::SetOption { option, value } => {
                option.set(self.socket(), *value)?;
                Ok(0)
            }
            OfSocket::Option(option) => {
                let value = option.get(self.socket())?;
                Ok(u32::try_from(value).unwrap_or(u32::MAX))
            }
            OfSocket::Connect => {
                self.fate(system, SocketCall::Connects, 0)?;
                self.endpoint()?.finish_connect()?;
                Ok((givers.connected)()?)
            }
        }
    }
}

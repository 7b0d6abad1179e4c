//! Sockets of tasks: what they open, what they ask of them, and the threads that drive them.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use everwarp_io::{Endpoint, Family, Interest, Network, SocketOption, Transport};

use crate::errno::FileErrno;
use crate::handles::Open;
use crate::request::{After, OfNetwork, OfSocket};
use crate::server::{Job, Server};
use crate::socket::{Driven, Givers, OpenSocket, Stop, Waiter};

/// Requests whose completions are handed on together, at most.
const TOGETHER: usize = 64;

/// What became of a request to open a socket.
enum Opened {
    Now(OpenSocket),
    /// The connection is being made.
    Later(OpenSocket),
}

impl Server {
    fn network(&self) -> Arc<Network> {
        let network = self.network.lock();
        network.unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Opens a socket for a task.
    pub(crate) fn ask_network(&self, asked: &OfNetwork, after: After) {
        if !self.begin_wait(after) {
            return;
        }
        let result = match self.open_socket(asked) {
            Ok(Opened::Later(socket)) => {
                let waiter = Waiter::new(OfSocket::Connect, after);
                return self.put_in_line(&Arc::new(socket), waiter);
            }
            Ok(Opened::Now(socket)) => {
                let handle = self.handles.insert(Open::Socket(Arc::new(socket)));
                handle.ok_or(FileErrno::MFILE)
            }
            Err(error) => Err(error),
        };
        self.finish_waits(vec![(after, result)]);
    }
    fn open_socket(&self, asked: &OfNetwork) -> Result<Opened, FileErrno> {
        let open = |address: SocketAddr, transport| {
            let family = match address {
                SocketAddr::V4(_) => Family::V4,
                SocketAddr::V6(_) => Family::V6,
            };
            Endpoint::open(&self.network(), family, transport)
        };
        Ok(match *asked {
            OfNetwork::Listen(address) => {
                let endpoint = open(address, Transport::Stream)?;
                SocketOption::ReuseAddress.set(endpoint.socket(), 1)?;
                endpoint.bind(address)?;
                endpoint.listen(u32::MAX)?;
                Opened::Now(endpoint.into())
            }
            OfNetwork::Datagrams(address) => {
                let endpoint = open(address, Transport::Datagram)?;
                // Such a socket gets an address when it sends.
                if address.port() != 0 || !address.ip().is_unspecified() {
                    endpoint.bind(address)?;
                }
                Opened::Now(endpoint.into())
            }
            OfNetwork::Connect(address) => {
                let endpoint = open(address, Transport::Stream)?;
                SocketOption::NoDelay.set(endpoint.socket(), 1)?;
                match endpoint.connect(address)? {
                    true => Opened::Now(endpoint.into()),
                    false => Opened::Later(endpoint.into()),
                }
            }
        })
    }

    /// Takes a request of an open socket in.
    pub(crate) fn ask_socket(&self, socket: &Arc<OpenSocket>, op: OfSocket, after: After) {
        if self.begin_wait(after) {
            self.put_in_line(socket, Waiter::new(op, after));
        }
    }
    fn put_in_line(&self, socket: &Arc<OpenSocket>, waiter: Waiter) {
        match socket.push(waiter) {
            Ok(true) => self.set(|work| work.jobs.push_back(Job::Socket(socket.clone()))),
            Ok(false) => {}
            Err(waiter) => self.finish_waits(vec![(waiter.after, Err(FileErrno::BADF))]),
        }
    }
    /// Closes a socket, whose handle is gone. Requests that wait end.
    pub(crate) fn close_socket(&self, socket: &OpenSocket, after: After) {
        // However many wait: this one makes room.
        self.work().waiting += 1;
        let mut ended = Vec::new();
        socket.close(FileErrno::CANCELED, &mut ended);
        // From here on no thread has it watched again.
        self.waits.state().watched.remove(&socket.socket().number());
        ended.push((after, Ok(0)));
        self.finish_waits(ended);
    }
    /// Has a socket driven that is ready.
    pub(crate) fn drive_ready(&self, socket: Arc<OpenSocket>) {
        if socket.is_ready() {
            self.set(|work| work.jobs.push_back(Job::Socket(socket)));
        }
    }

    /// Does what a socket's lines have, as far as it goes without waiting.
    pub(crate) fn drive(&self, socket: &Arc<OpenSocket>, stage: &mut Vec<u8>) {
        let givers = Givers {
            accepted: &|take| {
                self.handles.insert_with(|| {
                    let connection = take()?;
                    let socket = Arc::new(OpenSocket::from(connection.clone()));
                    Ok::<_, Stop>((Open::Socket(socket), connection))
                })
            },
            connected: &|| {
                let handle = self.handles.insert(Open::Socket(socket.clone()));
                handle.ok_or(FileErrno::MFILE)
            },
        };
        loop {
            let mut ended = Vec::new();
            socket.drive(stage, &givers, |end| {
                ended.push(end);
                if ended.len() == TOGETHER {
                    self.finish_waits(std::mem::take(&mut ended));
                }
            });
            let driven = socket.driven(|interest| self.watch(socket, interest), &mut ended);
            self.finish_waits(ended);
            if driven == Driven::Done {
                return;
            }
        }
    }
    fn watch(&self, socket: &Arc<OpenSocket>, interest: Interest) -> Result<(), FileErrno> {
        let mut state = self.waits.state();
        if state.over {
            return Err(FileErrno::CANCELED);
        }
        // The thread that waits cannot look for it before it is there.
        state
            .watched
            .insert(socket.socket().number(), socket.clone());
        let watched = self.waits.reactor.watch(socket.socket(), interest);
        watched.map_err(|error| {
            state.watched.remove(&socket.socket().number());
            error.into()
        })
    }
}

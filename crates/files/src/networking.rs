//! Sockets of tasks: what they open, what they ask of them, and the threads that drive them.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use everwarp_io::{Endpoint, Family, Interest, Network, SocketOption, Transport};

use crate::driver::Driver;
use crate::errno::FileErrno;
use crate::handles::Open;
use crate::lines::Name;
use crate::request::{After, Ended, OfNetwork, OfSocket};
use crate::server::{Job, Server};
use crate::socket::{Driven, GivenUp, Givers, OpenSocket, Stop, Waiter};
use crate::system::SocketCall;
use crate::waiting::is_sooner;
use crate::waits::Limited;

/// Requests whose completions are noted together, at most.
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
    pub(crate) fn ask_network(&self, asked: &OfNetwork, after: After, driver: &mut Driver) {
        if !self.begin_wait(after) {
            return;
        }
        let result = match self.open_socket(asked) {
            Ok(Opened::Later(socket)) => {
                let socket = Arc::new(socket);
                let within = match asked {
                    OfNetwork::Connect { within, .. } => *within,
                    _ => 0,
                };
                let after = self.limited(after, within, || Limited::Socket(socket.clone()));
                let waiter = Waiter::new(OfSocket::Connect, after);
                return self.put_in_line(&socket, waiter, driver);
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
            OfNetwork::Connect { address, .. } => {
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
    pub(crate) fn ask_socket(
        &self,
        socket: &Arc<OpenSocket>,
        op: OfSocket,
        within: u64,
        after: After,
        driver: &mut Driver,
    ) {
        if self.begin_wait(after) {
            let after = self.limited(after, within, || Limited::Socket(socket.clone()));
            self.put_in_line(socket, Waiter::new(op, after), driver);
        }
    }
    /// Sets the deadline of a request that has a limit.
    pub(crate) fn limited(&self, after: After, within: u64, of: impl FnOnce() -> Limited) -> After {
        if within == 0 {
            return after;
        }
        let (deadline, sooner) = {
            let mut state = self.waits.state();
            let before = state.next();
            let deadline = state.limit(of(), within);
            (deadline, is_sooner(state.next(), before))
        };
        if sooner {
            self.waits.wake();
        }
        After { deadline, ..after }
    }
    /// Ends requests of a socket that wait and have a note.
    pub(crate) fn cancel(&self, socket: &Arc<OpenSocket>, note: u32, after: After) {
        // However many wait: this one makes room.
        self.work().waiting += 1;
        let mut ended = Vec::new();
        self.give_up(socket, Name::Note(note), FileErrno::CANCELED, &mut ended);
        ended.push((after, Ok(0)));
        self.finish_waits(ended);
    }
    /// Gives requests of a socket up, whose ends go to `ended`.
    pub(crate) fn give_up(
        &self,
        socket: &Arc<OpenSocket>,
        name: Name,
        error: FileErrno,
        ended: &mut Ended,
    ) {
        match socket.give_up(name, error, ended) {
            GivenUp::Nothing => {}
            GivenUp::Drive => {
                // The ends are noted before another thread ends what comes after them.
                self.finish_waits(std::mem::take(ended));
                self.push_jobs([Job::Socket(socket.clone())]);
            }
            GivenUp::Connection => {
                socket.close(error, ended);
                self.waits.state().watched.remove(&socket.socket().number());
            }
        }
    }
    fn put_in_line(&self, socket: &Arc<OpenSocket>, waiter: Waiter, driver: &mut Driver) {
        let deadline = waiter.after.deadline;
        match socket.push(waiter) {
            Ok(true) => self.have_driven(socket, driver),
            Ok(false) => {}
            Err(after) => return self.finish_waits(vec![(after, Err(FileErrno::BADF))]),
        }
        // The thread that waits may have looked for it before it was in line.
        if let Some((at, number)) = deadline
            && at <= Instant::now()
        {
            let mut ended = Vec::new();
            let name = Name::Deadline(number);
            self.give_up(socket, name, FileErrno::TIMEDOUT, &mut ended);
            self.finish_waits(ended);
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
    pub(crate) fn drive_ready(&self, socket: &Arc<OpenSocket>, driver: &mut Driver) {
        if socket.is_ready() {
            self.have_driven(socket, driver);
        }
    }
    fn have_driven(&self, socket: &Arc<OpenSocket>, driver: &mut Driver) {
        match driver.drives_itself() {
            true => self.drive(socket, driver),
            false => self.push_jobs([Job::Socket(socket.clone())]),
        }
    }

    /// Does what a socket's lines have, as far as it goes without waiting. A worker goes on if that is much.
    pub(crate) fn drive(&self, socket: &Arc<OpenSocket>, driver: &mut Driver) {
        let givers = Givers {
            accepted: &|take| {
                self.handles.insert_with(true, || {
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
            let stage = &mut driver.stage;
            let goes_on = socket.drive(&self.system, stage, &givers, |end| {
                ended.push(end);
                if ended.len() == TOGETHER {
                    self.finish_waits(std::mem::take(&mut ended));
                }
            });
            // They are noted before another thread may drive it, so that they stay in order.
            self.finish_waits(std::mem::take(&mut ended));
            if goes_on {
                return self.push_jobs([Job::Socket(socket.clone())]);
            }
            let driven = socket.driven(|interest| self.watch(socket, interest), &mut ended);
            self.finish_waits(ended);
            if driven == Driven::Done {
                return;
            }
        }
    }
    fn watch(&self, socket: &Arc<OpenSocket>, interest: Interest) -> Result<(), FileErrno> {
        self.system.socket_fate(SocketCall::Watches, 0)?;
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

//! Connections that no process serves, because they have nothing to be read.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use everwarp::process::Connection;
use everwarp_io::{Interest, Reactor, Socket};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long a connection may be idle before it is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Lets this program have as many descriptors as the system allows it: a server has one for each connection.
pub(super) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // With fewer, further connections wait for those that there are.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Descriptors that idle connections leave to the processes of those that have bytes.
pub(super) struct Spare {
    limit: usize,
    count: usize,
}

impl Spare {
    /// The most that are spared.
    const MOST: usize = 1024;

    /// A quarter of the descriptors that there may be, up to [`MOST`](Self::MOST).
    pub(super) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let count = (limit / 4).min(Self::MOST);
        Self { limit, count }
    }

    /// Whether there are enough descriptors to accept a connection. It has the lowest free number, which another one may have
    /// had for a moment. So this is to be asked before each: several could take all numbers above it as well.
    ///
    /// # Errors
    /// `EMFILE` if there are not.
    pub(super) fn check(&self, socket: &Socket) -> io::Result<()> {
        let lowest = fcntl_dupfd_cloexec(socket, 0)?;
        match (lowest.as_raw_fd() as usize) < self.limit - self.count {
            true => Ok(()),
            false => Err(Errno::MFILE.into()),
        }
    }
}

/// Idle connections.
#[derive(Default)]
pub(super) struct Idle {
    /// By the numbers of their sockets, with the time since when they are idle.
    waiting: HashMap<u64, (Connection, Instant)>,
    /// The same in the order of these times. An entry whose connection is not idle any more, or is again, is skipped.
    order: VecDeque<(Instant, u64)>,
    /// Connections that have something to be read, in the order in which it came.
    ready: VecDeque<Connection>,
}

impl Idle {
    /// Adds a connection.
    ///
    /// # Errors
    /// The system cannot watch it, because memory is short.
    pub(super) fn add(&mut self, connection: Connection, reactor: &Reactor) -> io::Result<()> {
        let now = Instant::now();
        self.watch(connection, now, reactor)
    }

    fn watch(
        &mut self,
        connection: Connection,
        since: Instant,
        reactor: &Reactor,
    ) -> io::Result<()> {
        reactor.watch(connection.socket(), Interest::READ)?;
        let number = connection.socket().number();
        self.order.push_back((since, number));
        self.waiting.insert(number, (connection, since));
        Ok(())
    }

    /// Notes that these sockets have something to be read.
    pub(super) fn note_ready(&mut self, numbers: &[u64]) {
        for number in numbers {
            // The others are listeners.
            if let Some((connection, _)) = self.waiting.remove(number) {
                self.ready.push_back(connection);
            }
        }
    }

    /// How many connections have something to be read.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes up to `most` connections that have bytes. Those whose peers have left without a word are closed.
    pub(super) fn take_ready(&mut self, most: usize, reactor: &Reactor) -> Vec<Connection> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(connection) = self.ready.pop_front()
        {
            match connection.receive(&mut [0], true) {
                Ok(0) => {}
                Ok(_) => taken.push(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // If it cannot be watched, it is closed.
                    drop(self.watch(connection, Instant::now(), reactor));
                }
                Err(_) => {}
            }
        }
        taken
    }

    /// Closes connections that have been idle for too long, and returns when the next one will have been.
    pub(super) fn close_old(&mut self, now: Instant) -> Option<Instant> {
        while let Some((since, number)) = self.order.front() {
            let is_idle = self
                .waiting
                .get(number)
                .is_some_and(|(_, from)| from == since);
            let until = *since + IDLE_LIMIT;
            match is_idle {
                true if until > now => return Some(until),
                true => drop(self.waiting.remove(number)),
                false => {}
            }
            self.order.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(reactor: &Reactor) -> Vec<u64> {
        let mut ready = Vec::new();
        reactor.wait(&mut ready).expect("something has come");
        ready
    }

    #[test]
    fn connections_are_taken_in_the_order_in_which_they_have_bytes_and_old_ones_are_closed() {
        let reactor = Reactor::new().expect("two descriptors");
        let mut idle = Idle::default();
        let pairs: Vec<_> = (0..3)
            .map(|_| Connection::pair().expect("two descriptors"))
            .collect();
        let numbers: Vec<_> = pairs.iter().map(|(own, _)| own.socket().number()).collect();
        let mut peers = Vec::new();
        for (own, peer) in pairs {
            idle.add(own, &reactor).expect("it is watched");
            peers.push(peer);
        }
        for number in [2, 0] {
            peers[number].send(b"x").expect("there is room");
            idle.note_ready(&ready(&reactor));
        }
        let none = idle.take_ready(0, &reactor);
        assert!(none.is_empty() && idle.ready() == 2);
        let taken = idle.take_ready(5, &reactor);
        let taken: Vec<_> = taken.iter().map(|own| own.socket().number()).collect();
        assert_eq!(taken, [numbers[2], numbers[0]]);
        // The second is idle, and closed after its time.
        let until = idle.close_old(Instant::now()).expect("one is idle");
        assert_eq!(idle.close_old(until), None);
        assert_eq!(peers[1].receive(&mut [0], false).expect("its end"), 0);
    }

    #[test]
    fn a_peer_that_leaves_without_a_word_starts_nothing() {
        let reactor = Reactor::new().expect("two descriptors");
        let mut idle = Idle::default();
        let (own, peer) = Connection::pair().expect("two descriptors");
        idle.add(own, &reactor).expect("it is watched");
        drop(peer);
        idle.note_ready(&ready(&reactor));
        assert!(idle.ready() == 1 && idle.take_ready(1, &reactor).is_empty());
        assert_eq!(idle.ready(), 0);
    }

    #[test]
    fn a_connection_that_is_idle_again_has_its_whole_time() {
        let reactor = Reactor::new().expect("two descriptors");
        let mut idle = Idle::default();
        let (own, peer) = Connection::pair().expect("two descriptors");
        idle.add(own, &reactor).expect("it is watched");
        let first = idle.close_old(Instant::now()).expect("it is idle");
        peer.send(b"x").expect("there is room");
        idle.note_ready(&ready(&reactor));
        let own = idle.take_ready(1, &reactor).pop().expect("it has a byte");
        assert_eq!(own.receive(&mut [0; 2], false).expect("a byte"), 1);
        idle.add(own, &reactor).expect("it is watched");
        let second = idle.close_old(first).expect("it is idle");
        assert!(second > first);
    }
}

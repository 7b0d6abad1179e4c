//! The sockets that requests wait for, and which requests wait for each.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use everwarp_io::{Interest, Reactor, Socket};

/// The requests that wait for one socket, in the order in which they came.
struct Watched {
    socket: Arc<Socket>,
    waiting: BTreeMap<u64, Interest>,
}

/// The sockets that requests wait for, by their numbers.
#[derive(Default)]
pub(crate) struct WatchedSockets(HashMap<u64, Watched>);

impl WatchedSockets {
    /// Notes that a request waits for a socket.
    pub(crate) fn add(
        &mut self,
        reactor: &Reactor,
        request: u64,
        socket: &Arc<Socket>,
        interest: Interest,
    ) -> io::Result<()> {
        let watched = self.0.entry(socket.number()).or_insert_with(|| Watched {
            socket: Arc::clone(socket),
            waiting: BTreeMap::new(),
        });
        let there = watched.waiting.entry(request).or_default();
        *there = there.and(interest);
        self.watch(reactor, socket.number())
    }

    /// Has the reactor report a socket when some request can go on, if any waits for it.
    pub(crate) fn watch(&self, reactor: &Reactor, number: u64) -> io::Result<()> {
        let Some(watched) = self.0.get(&number) else {
            return Ok(());
        };
        let interests = watched.waiting.values().copied();
        match interests.reduce(Interest::and) {
            Some(interest) => reactor.watch(&watched.socket, interest),
            None => Ok(()),
        }
    }

    /// The requests that wait for a socket, in order.
    pub(crate) fn waiting(&self, number: u64) -> Vec<u64> {
        let watched = self.0.get(&number);
        watched.map_or_else(Vec::new, |watched| {
            watched.waiting.keys().copied().collect()
        })
    }

    /// Forgets that a request waits for a socket.
    pub(crate) fn remove(&mut self, request: u64, socket: &Socket) {
        let number = socket.number();
        if let Some(watched) = self.0.get_mut(&number) {
            watched.waiting.remove(&request);
            if watched.waiting.is_empty() {
                self.0.remove(&number);
            }
        }
    }
}

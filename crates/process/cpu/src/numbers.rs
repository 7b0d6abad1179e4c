//! The descriptors of a process that has sockets, by the numbers that it sees.
//!
//! wasmtime's WASI has no sockets and no room for them, so a process with listeners, or with a connection as its standard
//! streams, sees numbers of its own: each stands for a descriptor of wasmtime's or for a socket. As on a GPU, a new
//! descriptor gets the lowest free number. A process without sockets has no such table and sees wasmtime's numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use everwarp_io::{Connection, Endpoint, Listener, Network, Socket};
use everwarp_process::net::Launcher;
use everwarp_process::sync::{ignore_poison, lock};
use everwarp_process::{Directory, HostBudgets};

use crate::cached_file::CachedFile;
use crate::host_input::HostStdin;
use crate::watch::Watch;

/// A listener that the processes of one request share.
#[derive(Clone)]
pub(crate) struct SharedListener {
    pub(crate) listener: Listener,
    /// Held by the process that waits for the next connection: the others wait for their turn, and a connection wakes one
    /// process and not a thousand.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

impl SharedListener {
    pub(crate) fn new(listener: &Listener) -> Self {
        Self {
            listener: listener.clone(),
            turn: Arc::default(),
        }
    }
}

/// What a socket is.
pub(crate) enum SocketKind {
    Listener(SharedListener),
    Connection(Connection),
    /// A socket that the process has opened itself.
    Endpoint(Endpoint),
}

/// A socket among a process's descriptors.
pub(crate) struct OpenSocket {
    pub(crate) kind: SocketKind,
    /// Whether calls that would wait return `EAGAIN`.
    pub(crate) nonblock: AtomicBool,
    /// Its place in the event queue; that of both standard streams, if it is these.
    pub(crate) watch: Arc<Watch>,
    /// If the process has opened or accepted it.
    _permit: Option<SocketPermit>,
}

/// The right to a socket, of those that the processes of a host may have together.
#[derive(Debug)]
pub(crate) struct SocketPermit(Option<Arc<HostBudgets>>);

impl Drop for SocketPermit {
    fn drop(&mut self) {
        if let Some(budgets) = &self.0 {
            budgets.sockets.give(1);
        }
    }
}

impl OpenSocket {
    /// A socket that the process was given.
    fn given(kind: SocketKind) -> Arc<Self> {
        Self::watched(kind, Arc::default())
    }

    fn watched(kind: SocketKind, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self {
            kind,
            nonblock: AtomicBool::new(false),
            watch,
            _permit: None,
        })
    }

    /// A socket that the process has opened or accepted.
    pub(crate) fn opened(kind: SocketKind, nonblock: bool, permit: SocketPermit) -> Arc<Self> {
        Arc::new(Self {
            kind,
            nonblock: AtomicBool::new(nonblock),
            watch: Arc::default(),
            _permit: Some(permit),
        })
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        match &self.kind {
            SocketKind::Listener(shared) => shared.listener.socket(),
            SocketKind::Connection(connection) => connection.socket(),
            SocketKind::Endpoint(endpoint) => endpoint.socket(),
        }
    }
}

/// What a number stands for.
#[derive(Clone)]
pub(crate) enum Numbered {
    /// wasmtime's descriptor with this number.
    Inner(u32),
    Socket(Arc<OpenSocket>),
    /// A file that the process reads on its own thread.
    File(Arc<CachedFile>),
}

/// The descriptors of a process by number.
pub(crate) struct Numbers {
    entries: Mutex<Vec<Option<Numbered>>>,
    limit: usize,
    /// The directories that the process was given and has not closed, by wasmtime's numbers.
    directories: Mutex<BTreeMap<u32, Arc<File>>>,
    /// Starts the programs that the process asks for by name.
    pub(crate) launcher: Option<Arc<dyn Launcher>>,
    /// What of the network the process may use.
    pub(crate) network: Option<Arc<Network>>,
    /// The host's standard input, if the process has it.
    pub(crate) stdin: Option<HostStdin>,
    /// What all processes of the host may have together, if that is limited.
    pub(crate) budgets: Option<Arc<HostBudgets>>,
}

/// No descriptor has the number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoDescriptor;

impl Numbers {
    /// The descriptors that a process starts with: three streams (a connection replaces the first two), as many
    /// directories, and listeners.
    pub(crate) fn new(
        connection: Option<Connection>,
        directories: usize,
        listeners: &[SharedListener],
        limit: Option<u32>,
        stdin: Option<HostStdin>,
    ) -> Self {
        let inner = 0..3 + directories as u32;
        let mut entries: Vec<_> = inner.map(|number| Some(Numbered::Inner(number))).collect();
        if let Some(connection) = connection {
            let watch = Arc::<Watch>::default();
            let open = |connection| {
                let kind = SocketKind::Connection(connection);
                OpenSocket::watched(kind, Arc::clone(&watch))
            };
            entries[0] = Some(Numbered::Socket(open(connection.clone())));
            entries[1] = Some(Numbered::Socket(open(connection)));
        }
        let sockets = listeners.iter().map(|listener| {
            let kind = SocketKind::Listener(listener.clone());
            Some(Numbered::Socket(OpenSocket::given(kind)))
        });
        entries.extend(sockets);
        Self {
            launcher: None,
            network: None,
            budgets: None,
            directories: Mutex::default(),
            // What a process is given counts, but is never too much.
            limit: limit.map_or(usize::MAX, |limit| (limit as usize).max(entries.len())),
            entries: Mutex::new(entries),
            stdin,
        }
    }

    /// Adds a connection that the process is given, after all others.
    pub(crate) fn give(&mut self, connection: Connection) {
        let kind = SocketKind::Connection(connection);
        let entries = self.entries.get_mut();
        let entries = entries.unwrap_or_else(std::sync::PoisonError::into_inner);
        entries.push(Some(Numbered::Socket(OpenSocket::given(kind))));
        self.limit = self.limit.max(entries.len());
    }

    /// Lets files be opened beneath the directories that the process was given without wasmtime's library.
    pub(crate) fn give_directories(&mut self, directories: &[Directory]) {
        let handles = directories.iter().map(|directory| directory.handle());
        *ignore_poison(self.directories.get_mut()) = (3..).zip(handles.cloned()).collect();
    }

    /// The directory with this number of wasmtime's, if the process was given it.
    pub(crate) fn directory(&self, inner: u32) -> Option<Arc<File>> {
        lock(&self.directories).get(&inner).cloned()
    }

    /// wasmtime's number stands for something else from now on.
    pub(crate) fn forget_directory(&self, inner: u32) {
        lock(&self.directories).remove(&inner);
    }

    /// The right to one more socket.
    ///
    /// # Errors
    /// `ENFILE`: the processes of the host have as many as they may.
    pub(crate) fn socket_permit(&self) -> io::Result<SocketPermit> {
        match &self.budgets {
            Some(budgets) if !budgets.sockets.take(1) => Err(rustix::io::Errno::NFILE.into()),
            budgets => Ok(SocketPermit(budgets.clone())),
        }
    }

    /// Replaces what a number stands for.
    pub(crate) fn replace(&self, number: i32, descriptor: Numbered) {
        if let Some(entry) = lock(&self.entries).get_mut(number as u32 as usize) {
            *entry = Some(descriptor);
        }
    }

    pub(crate) fn find(&self, number: i32) -> Option<Numbered> {
        let entries = lock(&self.entries);
        entries.get(number as u32 as usize).cloned().flatten()
    }

    /// Whether one more descriptor may be added.
    pub(crate) fn has_room(&self) -> bool {
        let entries = lock(&self.entries);
        entries.iter().flatten().count() < self.limit
    }

    /// Adds a descriptor under the lowest free number.
    pub(crate) fn insert(&self, descriptor: Numbered) -> u32 {
        let mut entries = lock(&self.entries);
        let free = entries.iter().position(Option::is_none);
        let number = free.unwrap_or(entries.len());
        match free {
            Some(free) => entries[free] = Some(descriptor),
            None => entries.push(Some(descriptor)),
        }
        number as u32
    }

    /// Takes a descriptor out.
    pub(crate) fn remove(&self, number: i32) -> Option<Numbered> {
        let mut entries = lock(&self.entries);
        entries
            .get_mut(number as u32 as usize)
            .and_then(Option::take)
    }

    /// Gives `from` the number `to`, and returns the descriptor that had it.
    pub(crate) fn renumber(&self, from: i32, to: i32) -> Result<Option<Numbered>, NoDescriptor> {
        let mut entries = lock(&self.entries);
        let there = |number: i32| {
            let number = number as u32 as usize;
            entries
                .get(number)
                .is_some_and(Option::is_some)
                .then_some(number)
        };
        let (from, to) = there(from).zip(there(to)).ok_or(NoDescriptor)?;
        if from == to {
            return Ok(None);
        }
        let moved = entries[from].take();
        Ok(std::mem::replace(&mut entries[to], moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(numbers: &Numbers, number: i32) -> Option<u32> {
        match numbers.find(number)? {
            Numbered::Inner(inner) => Some(inner),
            Numbered::Socket(_) | Numbered::File(_) => None,
        }
    }

    #[test]
    fn sockets_follow_directories_and_the_lowest_free_number_is_given_again() {
        let (connection, _peer) = Connection::pair().expect("two descriptors");
        let numbers = Numbers::new(Some(connection.clone()), 2, &[], Some(7), None);
        for (number, expected) in [
            (0, None),
            (1, None),
            (2, Some(2)),
            (3, Some(3)),
            (4, Some(4)),
            (5, None),
        ] {
            assert_eq!(inner(&numbers, number), expected, "{number}");
        }
        let socket = || {
            Numbered::Socket(OpenSocket::given(SocketKind::Connection(
                connection.clone(),
            )))
        };
        assert_eq!(numbers.insert(socket()), 5);
        assert!(matches!(numbers.remove(3), Some(Numbered::Inner(3))));
        assert!(numbers.remove(3).is_none() && numbers.remove(-1).is_none());
        assert_eq!(numbers.insert(Numbered::Inner(9)), 3);
        assert_eq!(inner(&numbers, 3), Some(9));
        assert!(numbers.has_room());
        assert_eq!(numbers.insert(socket()), 6);
        assert!(!numbers.has_room());
        assert!(matches!(
            numbers.renumber(3, 0),
            Ok(Some(Numbered::Socket(_)))
        ));
        assert_eq!((inner(&numbers, 0), inner(&numbers, 3)), (Some(9), None));
        assert_eq!(numbers.renumber(3, 0).err(), Some(NoDescriptor));
        assert!(matches!(numbers.renumber(0, 0), Ok(None)));
    }
}

//! A connection in the event queue of its process's thread.
//!
//! A connection enters the queue when its process waits for it the first time, and stays there: the queue then remembers
//! whether anything has come since the last attempt, so that most waits need no system call of their own. Only sockets that
//! one process uses on one thread are kept: the queue remembers for all that share it.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use everwarp_io::{Interest, Socket};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

struct Watched(Arc<Socket>);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A connection's place in the queue, once it has been waited for.
#[derive(Default)]
pub(crate) struct Watch(OnceLock<Option<AsyncFd<Watched>>>);

/// What the queue remembers of an interest in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The connection is not in the queue.
    Unknown,
    /// Nothing has happened since the last attempt that found nothing, as far as the queue has looked.
    Nothing,
    /// Something has happened.
    Happened {
        /// The peer sends no more.
        ended: bool,
    },
}

/// The queue's word for an interest.
pub(crate) fn queue_interest(interest: Interest) -> tokio::io::Interest {
    match (interest.read, interest.write) {
        (true, true) => tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE,
        (false, true) => tokio::io::Interest::WRITABLE,
        _ => tokio::io::Interest::READABLE,
    }
}

impl Watch {
    /// What the queue remembers of an interest; nothing if nothing has happened.
    fn remembered(&self, interest: Interest) -> Option<AsyncFdReadyGuard<'_, Watched>> {
        let watched = self.0.get()?.as_ref()?;
        let ready = pin!(watched.ready(queue_interest(interest)));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(guard)) => Some(guard),
            _ => None,
        }
    }

    /// What the queue remembers.
    pub(crate) fn memory(&self, interest: Interest) -> Memory {
        match (self.0.get(), self.remembered(interest)) {
            (None | Some(None), _) => Memory::Unknown,
            (Some(Some(_)), None) => Memory::Nothing,
            (Some(Some(_)), Some(guard)) => Memory::Happened {
                ended: guard.ready().is_read_closed(),
            },
        }
    }

    /// An attempt has found nothing more: the next wait is for what comes from now on. The thread that attempts is the one
    /// that takes events, so none can have come in between.
    pub(crate) fn found_nothing(&self, interest: Interest) {
        if let Some(mut guard) = self.remembered(interest) {
            guard.clear_ready();
        }
    }

    /// Waits until something has happened; `None` if the queue has no place for the socket.
    ///
    /// # Errors
    /// The thread's event queue has ended.
    pub(crate) async fn happened(
        &self,
        socket: &Arc<Socket>,
        interest: Interest,
    ) -> Option<io::Result<()>> {
        let enter = || {
            let both = tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE;
            // SAFETY: the registration owns a reference to the socket, which keeps its descriptor until it is dropped.
            unsafe { AsyncFd::register_with_interest(Watched(Arc::clone(socket)), both) }.ok()
        };
        let watched = self.0.get_or_init(enter).as_ref()?;
        Some(watched.ready(queue_interest(interest)).await.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everwarp_io::Connection;

    #[test]
    fn a_watch_remembers_events_until_nothing_is_found() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("an event queue");
        runtime.block_on(async {
            let (connection, peer) = Connection::pair().expect("two descriptors");
            let watch = Watch::default();
            assert_eq!(watch.memory(Interest::READ), Memory::Unknown);
            for round in 0..3 {
                peer.send(b"x").expect("there is room");
                let happened = watch.happened(connection.socket(), Interest::READ).await;
                happened.expect("there is room").expect("it is open");
                let happened = Memory::Happened { ended: false };
                assert_eq!(watch.memory(Interest::READ), happened);
                let read = connection.receive(&mut [0; 8], false);
                assert_eq!(read.expect("it has come"), 1, "{round}");
                watch.found_nothing(Interest::READ);
                assert_eq!(watch.memory(Interest::READ), Memory::Nothing);
            }
            // The end stays, however often it is looked at.
            drop(peer);
            for _ in 0..2 {
                let happened = watch.happened(connection.socket(), Interest::READ).await;
                happened.expect("there is room").expect("it is open");
                watch.found_nothing(Interest::READ);
                let ended = Memory::Happened { ended: true };
                assert_eq!(watch.memory(Interest::READ), ended);
            }
        });
    }
}

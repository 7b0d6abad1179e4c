//! Waits for many sockets with one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::socket::{Interest, Socket};

/// The number in an event of [`Reactor::wake`]; no socket has it.
const WAKE: u64 = 0;
/// Events that one call brings.
const EVENTS: usize = 256;

/// A set of sockets that are watched.
///
/// A socket is watched once: it is reported as soon as some of the interest is met, and then not again until
/// [`Reactor::watch`] is called with it anew. A socket that is closed is forgotten by itself.
#[derive(Debug)]
pub struct Reactor {
    epoll: OwnedFd,
    woken: OwnedFd,
}

impl Reactor {
    /// A set without sockets.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &woken, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self { epoll, woken })
    }

    /// Watches a socket, in the place of an earlier interest in it.
    ///
    /// # Errors
    /// The system refuses, because memory is short.
    pub fn watch(&self, socket: &Socket, interest: Interest) -> io::Result<()> {
        let mut flags = EventFlags::ONESHOT;
        flags.set(EventFlags::IN | EventFlags::RDHUP, interest.read);
        flags.set(EventFlags::OUT, interest.write);
        let data = EventData::new_u64(socket.number());
        match epoll::modify(&self.epoll, socket, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.epoll, socket, data, flags)?),
            modified => Ok(modified?),
        }
    }

    /// Waits until sockets are ready or [`Reactor::wake`] is called, and appends the numbers of these sockets.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&self, ready: &mut Vec<u64>) -> io::Result<()> {
        self.wait_until(ready, None)
    }

    /// As [`Reactor::wait`], until a time at the latest.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait_until(&self, ready: &mut Vec<u64>, deadline: Option<Instant>) -> io::Result<()> {
        let mut events = Vec::<Event>::with_capacity(EVENTS);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A time that the system cannot express is one that never comes.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut wait = |left: Option<&Timespec>| {
            let events = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&self.epoll, events, left)
        };
        let waited = match wait(left.as_ref()) {
            // Linux before 5.11 counts milliseconds.
            Err(rustix::io::Errno::NOSYS) => wait(left.map(later_millisecond).as_ref()),
            waited => waited,
        };
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            match event.data.u64() {
                WAKE => {
                    // The count only says that there was a wake.
                    let _ = rustix::io::read(&self.woken, &mut [0; 8]);
                }
                socket => ready.push(socket),
            }
        }
        Ok(())
    }

    /// Lets the thread that waits, or the next one to wait, return.
    pub fn wake(&self) {
        // It fails only if the count is full, and then the thread will wake.
        let _ = rustix::io::write(&self.woken, &1_u64.to_ne_bytes());
    }
}

/// A time in whole milliseconds that is not shorter.
fn later_millisecond(left: Timespec) -> Timespec {
    const MILLISECOND: i64 = 1_000_000;
    let milliseconds = (left.tv_nsec + MILLISECOND - 1) / MILLISECOND;
    Timespec {
        tv_sec: left.tv_sec + milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * MILLISECOND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Connection;

    #[test]
    fn a_ready_socket_is_reported_once_for_each_watch() {
        let reactor = Reactor::new().expect("two descriptors");
        let (a, b) = Connection::pair().expect("two descriptors");
        let mut ready = Vec::new();
        reactor
            .watch(a.socket(), Interest::READ)
            .expect("it can be watched");
        reactor.wake();
        reactor.wait(&mut ready).expect("woken");
        assert!(ready.is_empty(), "nothing has come");
        b.send(b"x").expect("there is room");
        reactor.wait(&mut ready).expect("ready");
        assert_eq!(ready, [a.socket().number()]);
        // The byte is still there, but the socket is not watched any more.
        reactor.wake();
        ready.clear();
        reactor.wait(&mut ready).expect("woken");
        assert!(ready.is_empty());
        reactor
            .watch(a.socket(), Interest::READ.and(Interest::WRITE))
            .expect("watched anew");
        reactor.wait(&mut ready).expect("ready");
        assert_eq!(ready, [a.socket().number()]);
    }

    #[test]
    fn a_deadline_ends_a_wait() {
        let reactor = Reactor::new().expect("two descriptors");
        let at = Instant::now() + std::time::Duration::from_millis(3);
        let mut ready = Vec::new();
        while Instant::now() < at {
            reactor
                .wait_until(&mut ready, Some(at))
                .expect("time passes");
        }
        reactor.wait_until(&mut ready, Some(at)).expect("at once");
        assert!(ready.is_empty());
    }

    #[test]
    fn a_wake_ends_a_wait_of_another_thread() {
        let reactor = Reactor::new().expect("two descriptors");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| reactor.wait(&mut Vec::new()));
            reactor.wake();
            waits.join().expect("no panic").expect("it returns");
        });
    }
}

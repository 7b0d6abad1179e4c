//! Events that arrive by themselves: timers, the terminal's keys, mouse and size, signals, and input devices.
//!
//! A process gets one descriptor, a connection to a thread of the host. It writes requests of 32 bytes to it and reads events
//! of 32 bytes from it, so it waits for events as it waits for any socket, on every engine. `guests/EVENTS.md` has the
//! records.
//!
//! Timers are each process's own. The terminal, the signals and the input device belong to the first process that asks for
//! them, until it ends.

mod keys;
mod pump;
mod record;
mod recording;
mod stream;
mod terminal;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pump::{Command, Pump};
pub use record::RECORD;
use record::Record;
pub use recording::Recording;
use terminal::Terminal;

use crate::reactor::Reactor;
use crate::socket::Connection;

/// The signal that says that the terminal has another size.
const SIGWINCH: i32 = 28;
/// The signals that a process may ask for, as bits: SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGTERM and SIGCONT.
const SIGNALS: u64 = 1 << 1 | 1 << 2 | 1 << 10 | 1 << 12 | 1 << 15 | 1 << 18;

/// The request for sources and signals, as bits, in the place of those from before.
pub fn watch_request(sources: u32, signals: u64) -> [u8; RECORD] {
    let request = Record {
        kind: record::request::WATCH,
        a: sources.into(),
        b: signals as i64,
        ..Record::default()
    };
    request.to_bytes()
}

/// What processes may ask for besides timers.
#[derive(Debug, Default)]
pub struct EventSources {
    /// The controlling terminal: keys, the mouse and the size.
    pub terminal: bool,
    /// Signals. The owner passes them on with [`Events::signal`].
    pub signals: bool,
    /// Events of an input device.
    pub recording: Option<Recording>,
}

/// What the thread and the owner share.
struct Shared {
    reactor: Reactor,
    /// The terminal, once a process has asked for it.
    terminal: Mutex<Option<Terminal>>,
    /// The signals that go to a process, as bits.
    signals: AtomicU64,
}

impl Shared {
    fn terminal(&self) -> std::sync::MutexGuard<'_, Option<Terminal>> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The streams of events of processes, and the thread that serves them.
pub struct Events(Origin);

/// Where the streams come from.
enum Origin {
    /// A thread of this program serves them.
    Own(Own),
    /// Another program serves them, and has opened these.
    Given(Mutex<Vec<Connection>>),
}

/// The thread that serves streams.
struct Own {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Events {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no descriptors, or no thread.
    pub fn new(sources: EventSources) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            reactor: Reactor::new()?,
            terminal: Mutex::default(),
            signals: AtomicU64::new(0),
        });
        let (commands, received) = channel();
        let pump = Pump::new(Arc::clone(&shared), received, sources);
        let thread = std::thread::Builder::new().name("events".to_owned());
        let thread = thread.spawn(move || pump.run())?;
        Ok(Arc::new(Self(Origin::Own(Own {
            shared,
            commands,
            thread: Some(thread),
        }))))
    }

    /// Streams that another program serves and has [opened](Self::open), one for each process.
    pub fn given(streams: Vec<Connection>) -> Arc<Self> {
        Arc::new(Self(Origin::Given(Mutex::new(streams))))
    }

    fn own(&self) -> Option<&Own> {
        match &self.0 {
            Origin::Own(own) => Some(own),
            Origin::Given(_) => None,
        }
    }

    /// A stream of events for a process: its end, which it reads and writes.
    ///
    /// # Errors
    /// The system gives no descriptors, or all [given](Self::given) streams have been taken.
    pub fn open(&self) -> io::Result<Connection> {
        match &self.0 {
            Origin::Own(own) => {
                let (host, process) = Connection::pair()?;
                own.send(Command::Open(host));
                Ok(process)
            }
            Origin::Given(streams) => {
                let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
                let none = || io::Error::other("all streams of events have been taken");
                streams.pop().ok_or_else(none)
            }
        }
    }

    /// Passes a signal on, and returns whether a process has asked for it. A change of the terminal's size (SIGWINCH) is
    /// always passed on.
    pub fn signal(&self, number: i32) -> bool {
        let Some(own) = self.own() else { return false };
        let bit = u32::try_from(number)
            .ok()
            .and_then(|n| 1_u64.checked_shl(n));
        let asked = own.shared.signals.load(SeqCst) & bit.unwrap_or(0) != 0;
        if number == SIGWINCH {
            own.send(Command::Resized);
            return true;
        }
        if asked {
            own.send(Command::Signal(number));
        }
        asked
    }

    /// Gives the terminal its settings from before the processes had it: before the program is stopped, or exits without
    /// dropping this.
    pub fn suspend(&self) {
        if let Some(own) = self.own() {
            own.suspend();
        }
    }

    /// Takes the terminal again after [`Events::suspend`].
    pub fn resume(&self) {
        let Some(own) = self.own() else { return };
        if let Some(terminal) = &mut *own.shared.terminal() {
            // A terminal that refuses has gone, which its reader learns.
            let _ = terminal.apply();
        }
        own.send(Command::Resized);
    }
}

impl Own {
    fn suspend(&self) {
        if let Some(terminal) = &mut *self.shared.terminal() {
            terminal.restore();
        }
    }

    fn send(&self, command: Command) {
        // Without the thread there is nothing left to serve.
        let _ = self.commands.send(command);
        self.shared.reactor.wake();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
        self.suspend();
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::record::{event, request};
    use super::*;

    fn events(signals: bool) -> Arc<Events> {
        let sources = EventSources {
            signals,
            ..EventSources::default()
        };
        Events::new(sources).expect("descriptors and a thread")
    }

    fn ask(to: &Connection, kind: u16, id: u32, a: i64, b: i64) {
        let record = Record {
            kind,
            id,
            a,
            b,
            ..Record::default()
        };
        assert_eq!(to.send(&record.to_bytes()).expect("it is open"), RECORD);
    }

    /// The next event, or `None` after the last.
    fn next(from: &Connection) -> Option<Record> {
        let mut bytes = [0; RECORD];
        let mut done = 0;
        let limit = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        while done < RECORD {
            let mut watched = [PollFd::new(&**from.socket(), PollFlags::IN)];
            assert_eq!(poll(&mut watched, Some(&limit)).expect("it is open"), 1);
            match from.receive(&mut bytes[done..], false) {
                Ok(0) => return None,
                Ok(count) => done += count,
                Err(error) => panic!("{error}"),
            }
        }
        Some(Record::of_bytes(&bytes))
    }

    fn brief(record: Option<Record>) -> Option<(u16, u32, i64, i64)> {
        record.map(|one| (one.kind, one.id, one.a, one.b))
    }

    #[test]
    fn each_process_has_timers_of_its_own_and_none_is_early() {
        let events = events(false);
        let streams: Vec<_> = (0..50)
            .map(|_| events.open().expect("descriptors"))
            .collect();
        let begin = Instant::now();
        for (number, stream) in streams.iter().enumerate() {
            let after = 1_000_000 * (1 + number as i64 % 7);
            ask(stream, request::SET_TIMER, number as u32, after, 0);
        }
        for (number, stream) in streams.iter().enumerate() {
            let expired = next(stream).expect("it expires");
            assert_eq!(
                (expired.kind, expired.id, expired.a),
                (event::TIMER, number as u32, 1)
            );
            let least = Duration::from_millis(1 + number as u64 % 7);
            assert!(begin.elapsed() >= least, "{number} is early");
        }
    }

    #[test]
    fn signals_belong_to_the_first_process_that_asks_until_it_ends() {
        let events = events(true);
        let first = events.open().expect("descriptors");
        let second = events.open().expect("descriptors");
        assert!(!events.signal(10));
        // SIGKILL, SIGSEGV and sources that are not there are left out.
        let bits = 1 << 9 | 1 << 10 | 1 << 11;
        ask(&first, request::WATCH, 0, 15, bits);
        assert_eq!(brief(next(&first)), Some((event::WATCHING, 0, 0, 1 << 10)));
        ask(&second, request::WATCH, 0, 0, bits);
        assert_eq!(brief(next(&second)), Some((event::WATCHING, 0, 0, 0)));
        assert!(events.signal(10) && !events.signal(12) && !events.signal(-1));
        assert_eq!(brief(next(&first)), Some((event::SIGNAL, 10, 1, 0)));
        drop(first);
        let begin = Instant::now();
        while events.signal(10) {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        ask(&second, request::WATCH, 0, 0, bits);
        assert_eq!(brief(next(&second)), Some((event::WATCHING, 0, 0, 1 << 10)));
        assert!(events.signal(10));
        assert_eq!(brief(next(&second)), Some((event::SIGNAL, 10, 1, 0)));
        // Without any, they are free.
        ask(&second, request::WATCH, 0, 0, 0);
        assert_eq!(brief(next(&second)), Some((event::WATCHING, 0, 0, 0)));
        assert!(!events.signal(10));
    }

    #[test]
    fn the_streams_end_with_the_events() {
        let events = events(false);
        let stream = events.open().expect("descriptors");
        ask(&stream, request::CANCEL_TIMER, 1, 0, 0);
        assert_eq!(brief(next(&stream)), Some((event::CANCELLED, 1, 0, 0)));
        drop(events);
        assert_eq!(next(&stream), None);
    }
}

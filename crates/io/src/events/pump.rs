//! The thread that serves the streams of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::keys::{Decoder, Pressed};
use super::record::{Record, errno, event, source};
use super::recording::Next;
use super::stream::{Sent, Stream, Wish};
use super::terminal::Terminal;
use super::{EventSources, SIGNALS, Shared};
use crate::socket::{Connection, Interest, Socket};

/// How long the rest of a key may take. Without it, an Escape key is one.
const KEY_TIME: Duration = Duration::from_millis(30);
/// How long the thread waits for a descriptor to be watched, if the system has no memory for it.
const PAUSE: Duration = Duration::from_millis(50);

/// An order of the owner.
pub(super) enum Command {
    Open(Connection),
    Signal(i32),
    Resized,
    Stop,
}

/// What one process has besides timers.
#[derive(Default)]
struct Owner {
    stream: u64,
    wish: Wish,
    /// Signals that have come, and how often.
    signals: BTreeMap<i32, i64>,
    resized: bool,
    /// When the bytes came that are not a whole key yet.
    partial_since: Option<Instant>,
    /// When the next event of a recording comes.
    input_at: Option<Instant>,
}

pub(super) struct Pump {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    sources: EventSources,
    /// The input device as something to wait for, if its events come when they happen.
    device: Option<Arc<Socket>>,
    streams: HashMap<u64, Stream>,
    deadlines: BTreeSet<(Instant, u64)>,
    owner: Option<Owner>,
    keys: Decoder,
}

impl Pump {
    pub(super) fn new(
        shared: Arc<Shared>,
        commands: Receiver<Command>,
        sources: EventSources,
    ) -> Self {
        let live = sources.recording.as_ref().filter(|one| one.is_live());
        let device = live.and_then(|one| one.as_fd().try_clone_to_owned().ok());
        Self {
            shared,
            commands,
            sources,
            device: device.map(Socket::new),
            streams: HashMap::new(),
            deadlines: BTreeSet::new(),
            owner: None,
            keys: Decoder::default(),
        }
    }

    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            if !self.obey(&mut ready) {
                return;
            }
            let now = Instant::now();
            while let Some((at, number)) = self.deadlines.first().copied()
                && at <= now
            {
                self.deadlines.pop_first();
                ready.push(number);
            }
            // What is not a stream belongs to the process that has the sources.
            let owner = self.owner.as_ref().map(|owner| owner.stream);
            for number in &mut ready {
                if !self.streams.contains_key(number) {
                    *number = owner.unwrap_or(0);
                }
            }
            ready.sort_unstable();
            ready.dedup();
            for number in ready.drain(..) {
                self.serve(number, now);
            }
            let next = self.deadlines.first().map(|(at, _)| *at);
            if self.shared.reactor.wait_until(&mut ready, next).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Takes the orders of the program; `false` at the end.
    fn obey(&mut self, ready: &mut Vec<u64>) -> bool {
        loop {
            match self.commands.try_recv() {
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Ok(Command::Open(connection)) => {
                    let number = connection.socket().number();
                    self.streams.insert(number, Stream::new(connection));
                    ready.push(number);
                }
                Ok(order) => {
                    if let Some(owner) = &mut self.owner {
                        match order {
                            Command::Signal(number) => {
                                *owner.signals.entry(number).or_default() += 1;
                            }
                            _ => owner.resized = true,
                        }
                        ready.push(owner.stream);
                    }
                }
            }
        }
    }

    /// Serves the requests of a process, sends what it is to be sent, and watches what it waits for.
    fn serve(&mut self, number: u64, now: Instant) {
        let Some(mut stream) = self.streams.remove(&number) else {
            return;
        };
        if let Some(at) = stream.deadline.take() {
            self.deadlines.remove(&(at, number));
        }
        let Ok(sent) = self.exchange(&mut stream, number, now) else {
            return self.disown(number);
        };
        let socket = Arc::clone(stream.connection().socket());
        let (interest, mut deadline) = match sent {
            // Until the process reads, nothing is made for it, and nothing asked.
            Sent::Full => (Interest::WRITE, None),
            Sent::All => {
                let timer = stream.next_timer();
                let sources = self.watch_sources(number, now);
                (Interest::READ, timer.into_iter().chain(sources).min())
            }
        };
        if self.shared.reactor.watch(&socket, interest).is_err() {
            deadline = Some(now + PAUSE);
        }
        if let Some(at) = deadline {
            stream.deadline = Some(at);
            self.deadlines.insert((at, number));
        }
        self.streams.insert(number, stream);
    }

    /// # Errors
    /// The process has ended, or sends no more requests.
    fn exchange(&mut self, stream: &mut Stream, number: u64, now: Instant) -> io::Result<Sent> {
        loop {
            let (wish, open) = stream.take_requests(now)?;
            if !open {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(wish) = wish {
                let granted = self.grant(number, wish);
                stream.answer(granted);
            }
            let sent = stream.send(now, || self.next(number, now))?;
            // Requests that were left wait for the answers to be read.
            if sent == Sent::Full || stream.connection().socket().available() == 0 {
                return Ok(sent);
            }
        }
    }

    /// Lets a process watch what it may, and returns what that is.
    fn grant(&mut self, number: u64, wish: Wish) -> Wish {
        let nothing = Wish::default();
        if self
            .owner
            .as_ref()
            .is_some_and(|owner| owner.stream != number)
        {
            return nothing;
        }
        let mut granted = Wish {
            sources: wish.sources & source::ALL,
            signals: wish.signals & SIGNALS,
        };
        if !self.sources.signals {
            granted.signals = 0;
        }
        if self.sources.recording.is_none() {
            granted.sources &= !source::INPUT;
        }
        let before = self.owner.as_ref().map_or(0, |owner| owner.wish.sources);
        if (before | granted.sources) & source::TERMINAL != 0
            && !self.watch_terminal(granted.sources & source::TERMINAL)
        {
            granted.sources &= !source::TERMINAL;
        }
        if granted == nothing {
            self.disown(number);
            return nothing;
        }
        let owner = self.owner.get_or_insert_with(|| Owner {
            stream: number,
            ..Owner::default()
        });
        // The size is the first event of its kind.
        owner.resized |= granted.sources & !before & source::RESIZE != 0;
        owner
            .signals
            .retain(|signal, _| granted.signals >> signal & 1 != 0);
        owner.wish = granted;
        self.shared.signals.store(granted.signals, SeqCst);
        granted
    }

    /// Has the terminal watched, if there is one.
    fn watch_terminal(&self, sources: u32) -> bool {
        if !self.sources.terminal {
            return false;
        }
        let mut terminal = self.shared.terminal();
        if terminal.is_none() {
            *terminal = Terminal::open().ok();
        }
        terminal
            .as_mut()
            .is_some_and(|terminal| terminal.watch(sources).is_ok())
    }

    /// Takes the sources from a process that has ended, or wants none.
    fn disown(&mut self, number: u64) {
        if self
            .owner
            .as_ref()
            .is_some_and(|owner| owner.stream == number)
        {
            self.owner = None;
            self.shared.signals.store(0, SeqCst);
            *self.shared.terminal() = None;
            self.keys = Decoder::default();
        }
    }

    /// The next event of the sources, if this process has them.
    fn next(&mut self, number: u64, now: Instant) -> Option<Record> {
        let owner = self.owner.as_mut().filter(|owner| owner.stream == number)?;
        if let Some((signal, count)) = owner.signals.pop_first() {
            return Some(Record::now(event::SIGNAL, signal as u32, count, 0));
        }
        if std::mem::take(&mut owner.resized) && owner.wish.sources & source::RESIZE != 0 {
            let size = self.shared.terminal().as_ref().map(Terminal::size);
            if let Some(Ok((columns, rows))) = size {
                return Some(Record::now(event::RESIZE, 0, columns, rows));
            }
        }
        self.next_key(now).or_else(|| self.next_input(now))
    }

    /// The next key, or event of the mouse.
    fn next_key(&mut self, now: Instant) -> Option<Record> {
        let owner = self.owner.as_mut()?;
        loop {
            let over = owner
                .partial_since
                .is_some_and(|partial_since| now >= partial_since + KEY_TIME);
            if let Some(pressed) = self.keys.next(over) {
                if !self.keys.is_pending() {
                    owner.partial_since = None;
                }
                match record_of(pressed, owner.wish.sources) {
                    Some(record) => return Some(record),
                    None => continue,
                }
            }
            let mut buffer = [0; 256];
            let read = {
                let terminal = self.shared.terminal();
                let terminal = terminal.as_ref().filter(|terminal| terminal.is_read())?;
                terminal.read(&mut buffer)
            };
            let errno = match read {
                Ok(bytes @ 1..) => {
                    self.keys.feed(&buffer[..bytes]);
                    owner.partial_since = Some(now);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Ok(_) => 0,
                Err(_) => errno::IO,
            };
            // The terminal has gone.
            let gone = owner.wish.sources & source::TERMINAL;
            owner.wish.sources &= !source::TERMINAL;
            *self.shared.terminal() = None;
            return Some(Record::now(event::END, gone, errno.into(), 0));
        }
    }

    /// The next event of the input device.
    fn next_input(&mut self, now: Instant) -> Option<Record> {
        let owner = self.owner.as_mut()?;
        if owner.wish.sources & source::INPUT == 0 {
            return None;
        }
        let recording = self.sources.recording.as_mut()?;
        owner.input_at = None;
        let errno = match recording.next(now) {
            Ok(Next::Event(record)) => return Some(record),
            Ok(Next::Later) => return None,
            Ok(Next::At(at)) => {
                owner.input_at = Some(at);
                return None;
            }
            Ok(Next::End) => 0,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => errno::INVAL,
            Err(_) => errno::IO,
        };
        owner.wish.sources &= !source::INPUT;
        self.sources.recording = None;
        Some(Record::now(event::END, source::INPUT, errno.into(), 0))
    }

    /// Watches the sources, if this process has them, and returns when to look again if nothing comes.
    fn watch_sources(&self, number: u64, now: Instant) -> Option<Instant> {
        let owner = self.owner.as_ref().filter(|owner| owner.stream == number)?;
        let reactor = &self.shared.reactor;
        let mut next = Vec::new();
        let mut watch = |socket: &Socket| {
            if reactor.watch(socket, Interest::READ).is_err() {
                next.push(now + PAUSE);
            }
        };
        if let Some(terminal) = self.shared.terminal().as_ref()
            && terminal.is_read()
        {
            watch(terminal.socket());
        }
        if owner.wish.sources & source::INPUT != 0
            && let Some(device) = &self.device
        {
            watch(device);
        }
        if self.keys.is_pending() {
            next.extend(
                owner
                    .partial_since
                    .map(|partial_since| partial_since + KEY_TIME),
            );
        }
        next.extend(owner.input_at);
        next.into_iter().min()
    }
}

/// The event of what was pressed, if the process watches that.
fn record_of(pressed: Pressed, sources: u32) -> Option<Record> {
    match pressed {
        Pressed::Key { key, modifiers } => (sources & source::KEYS != 0).then(|| Record {
            flags: modifiers,
            ..Record::now(event::KEY, key, 0, 0)
        }),
        Pressed::Mouse {
            button,
            flags,
            column,
            row,
        } => (sources & source::MOUSE != 0).then(|| Record {
            flags,
            ..Record::now(event::MOUSE, button, column, row)
        }),
    }
}

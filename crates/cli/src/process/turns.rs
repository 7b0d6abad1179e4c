//! The turns of connections that hand themselves back: while more of them have bytes than may be served at a time, those that have been
//! served for longest are asked for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp::process::Connection;
use everwarp_io::Socket;

/// How long a connection is served before it is asked for.
const TURN: Duration = Duration::from_millis(500);
/// How often it is looked for such connections.
const LOOK: Duration = Duration::from_millis(10);
/// Turns that are kept before those are forgotten whose connections are closed.
const KEPT: usize = 64;

/// A connection that a process serves. It is closed with the process, so it is not held here.
struct Turn {
    since: Instant,
    socket: Weak<Socket>,
    asked: bool,
}

/// The turns of connections that processes serve.
#[derive(Default)]
pub(super) struct Turns {
    /// By the numbers of their sockets. Some are of connections that are closed by now.
    serving: HashMap<u64, Turn>,
    /// How many there may be before the others of these are forgotten.
    most: usize,
    /// When to look again.
    next: Option<Instant>,
}

impl Turns {
    /// A process serves a connection from now on.
    pub(super) fn begin(&mut self, connection: &Connection, now: Instant) {
        if self.serving.len() >= self.most.max(KEPT) {
            self.forget_closed();
            self.most = 2 * self.serving.len();
        }
        let socket = connection.socket();
        socket.ask_back(false);
        let turn = Turn {
            since: now,
            socket: Arc::downgrade(socket),
            asked: false,
        };
        self.serving.insert(socket.number(), turn);
    }

    /// A process has handed a connection back.
    pub(super) fn end(&mut self, connection: &Connection) {
        self.serving.remove(&connection.socket().number());
    }

    fn forget_closed(&mut self) {
        self.serving
            .retain(|_, turn| turn.socket.strong_count() > 0);
    }

    /// Sees to it that as many connections are asked for as `waiting` ones need places, unless too few have been served for long
    /// enough. Returns when to do so again.
    pub(super) fn ask(&mut self, waiting: usize, now: Instant) -> Option<Instant> {
        if waiting == 0 {
            return None;
        }
        if let Some(next) = self.next.filter(|next| *next > now) {
            return Some(next);
        }
        self.forget_closed();
        let asked = self.serving.values().filter(|turn| turn.asked).count();
        let mut long: Vec<&mut Turn> = self
            .serving
            .values_mut()
            .filter(|turn| !turn.asked && now.saturating_duration_since(turn.since) >= TURN)
            .collect();
        long.sort_unstable_by_key(|turn| turn.since);
        for turn in long.into_iter().take(waiting.saturating_sub(asked)) {
            turn.ask();
        }
        self.next = Some(now + LOOK);
        self.next
    }

    /// Asks for all connections.
    pub(super) fn ask_for_all(&mut self) {
        self.serving.values_mut().for_each(Turn::ask);
    }
}

impl Turn {
    fn ask(&mut self) {
        self.asked = true;
        if let Some(socket) = self.socket.upgrade() {
            socket.ask_back(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(connections: &[Connection]) -> Vec<bool> {
        let socket = |connection: &Connection| connection.socket().is_asked_back();
        connections.iter().map(socket).collect()
    }

    #[test]
    fn those_that_have_been_served_for_longest_are_asked_for_and_no_more_than_wait() {
        let pairs: Vec<_> = (0..3)
            .map(|_| Connection::pair().expect("two descriptors"))
            .collect();
        let (own, _peers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let begin = Instant::now();
        let mut turns = Turns::default();
        for (at, connection) in own.iter().enumerate() {
            turns.begin(connection, begin + at as u32 * LOOK);
        }
        // Nothing waits, or none has been served for long enough.
        assert_eq!(turns.ask(0, begin + TURN), None);
        let next = turns.ask(2, begin).expect("two wait");
        assert_eq!(asked(&own), [false; 3]);
        // It is not looked again before.
        assert_eq!(turns.ask(2, begin), Some(next));
        let next = turns.ask(2, begin + TURN).expect("two wait");
        assert_eq!(asked(&own), [true, false, false]);
        let next = turns.ask(2, next).expect("two wait");
        assert_eq!(asked(&own), [true, true, false]);
        let next = turns.ask(2, next).expect("two wait");
        assert_eq!(asked(&own), [true, true, false]);
        // One has come back and gets another turn, and the one that waits now needs the place of the second.
        turns.end(&own[0]);
        turns.begin(&own[0], next);
        turns.ask(1, next + TURN);
        assert_eq!(asked(&own), [false, true, false]);
        turns.ask_for_all();
        assert_eq!(asked(&own), [true; 3]);
    }

    #[test]
    fn closed_connections_are_forgotten() {
        let mut turns = Turns::default();
        for _ in 0..10 * KEPT {
            let (own, _peer) = Connection::pair().expect("two descriptors");
            turns.begin(&own, Instant::now());
        }
        assert!(turns.serving.len() <= KEPT, "{}", turns.serving.len());
    }
}

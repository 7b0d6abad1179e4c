//! The stream of events of one process: what it has asked for, and what it has not been sent yet.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::record::{RECORD, Record, errno, event, request};
use crate::socket::Connection;
use crate::timers::{TimerError, Timers};

/// Timers that a process may have set at the same time.
const TIMERS_MOST: usize = 65_536;
/// Requests that are read at once.
const REQUESTS: usize = 64;

/// What a process wants to watch: sources, and signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) sources: u32,
    pub(super) signals: u64,
}

/// The host's end of a stream.
///
/// A record is made only when the one before it has been sent. So a process that does not read takes no memory of the host:
/// its timers and signals are counted, and its keys stay in the terminal.
pub(super) struct Stream {
    connection: Connection,
    /// The beginning of a request whose end has not come.
    partial: Vec<u8>,
    /// Bytes to send.
    unsent: Vec<u8>,
    /// Answers to its requests. Requests are read only while there is none to be sent.
    answers: VecDeque<Record>,
    timers: Timers,
    /// Where it is among the times that the thread waits for.
    pub(super) deadline: Option<Instant>,
}

/// How a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything has been sent.
    All,
    /// The process has to read first.
    Full,
}

impl Stream {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            partial: Vec::new(),
            unsent: Vec::new(),
            answers: VecDeque::new(),
            timers: Timers::new(TIMERS_MOST),
            deadline: None,
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads and serves requests, and returns the last wish among them. `false` if none can come any more.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn take_requests(&mut self, now: Instant) -> io::Result<(Option<Wish>, bool)> {
        let mut wish = None;
        if !self.answers.is_empty() || !self.unsent.is_empty() {
            return Ok((wish, true));
        }
        let mut buffer = [0; REQUESTS * RECORD];
        match self.connection.receive(&mut buffer, false) {
            Ok(0) => return Ok((None, false)),
            Ok(bytes) => self.partial.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((None, true)),
            Err(error) => return Err(error),
        }
        let partial = std::mem::take(&mut self.partial);
        let (requests, rest) = partial.as_chunks::<RECORD>();
        self.partial = rest.to_vec();
        for request in requests {
            self.serve(Record::of_bytes(request), now, &mut wish);
        }
        Ok((wish, true))
    }

    fn serve(&mut self, asked: Record, now: Instant, wish: &mut Option<Wish>) {
        let refused = |number: u32| Record {
            flags: asked.kind,
            ..Record::now(event::REFUSED, asked.id, number.into(), 0)
        };
        match asked.kind {
            request::SET_TIMER => {
                let (Ok(after), Ok(period)) = (u64::try_from(asked.a), u64::try_from(asked.b))
                else {
                    return self.answers.push_back(refused(errno::INVAL));
                };
                let period = Some(Duration::from_nanos(period)).filter(|period| !period.is_zero());
                let after = Duration::from_nanos(after);
                match self.timers.set(asked.id, now, after, period) {
                    Ok(()) => {}
                    Err(TimerError::Time) => self.answers.push_back(refused(errno::INVAL)),
                    Err(TimerError::Full) => self.answers.push_back(refused(errno::NOBUFS)),
                }
            }
            request::CANCEL_TIMER => {
                let was_set = self.timers.cancel(asked.id).into();
                let answer = Record::now(event::CANCELLED, asked.id, was_set, 0);
                self.answers.push_back(answer);
            }
            request::WATCH => {
                *wish = Some(Wish {
                    // Bits that stand for nothing are not watched, as the answer says.
                    sources: asked.a as u32,
                    signals: asked.b as u64,
                });
            }
            _ => self.answers.push_back(refused(errno::NOSYS)),
        }
    }

    /// Says what is watched.
    pub(super) fn answer(&mut self, wish: Wish) {
        let (sources, signals) = (i64::from(wish.sources), wish.signals as i64);
        let answer = Record::now(event::WATCHING, 0, sources, signals);
        self.answers.push_back(answer);
    }

    /// Sends what there is: answers, then timers, then what `further` has.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn send(
        &mut self,
        now: Instant,
        mut further: impl FnMut() -> Option<Record>,
    ) -> io::Result<Sent> {
        loop {
            while !self.unsent.is_empty() {
                match self.connection.send(&self.unsent) {
                    Ok(sent) => drop(self.unsent.drain(..sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Sent::Full);
                    }
                    Err(error) => return Err(error),
                }
            }
            let expired = || {
                let (id, count) = self.timers.expired(now)?;
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                Some(Record::now(event::TIMER, id, count, 0))
            };
            let next = self.answers.pop_front().or_else(expired);
            match next.or_else(&mut further) {
                Some(record) => self.unsent.extend_from_slice(&record.to_bytes()),
                None => return Ok(Sent::All),
            }
        }
    }

    /// When its next timer expires.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(peer: &Connection, kind: u16, id: u32, a: i64, b: i64) {
        let record = Record {
            kind,
            id,
            a,
            b,
            ..Record::default()
        };
        assert_eq!(
            peer.send(&record.to_bytes()).expect("there is room"),
            RECORD
        );
    }

    fn received(peer: &Connection) -> Vec<Record> {
        let mut bytes = vec![0; 1 << 20];
        let count = peer.receive(&mut bytes, false).unwrap_or(0);
        let (records, rest) = bytes[..count].as_chunks::<RECORD>();
        assert!(rest.is_empty());
        records.iter().map(Record::of_bytes).collect()
    }

    #[test]
    fn wrong_requests_are_refused_and_the_others_served() {
        let (host, peer) = Connection::pair().expect("two descriptors");
        let (mut stream, now) = (Stream::new(host), Instant::now());
        ask(&peer, request::SET_TIMER, 1, -1, 0);
        ask(&peer, request::SET_TIMER, 2, 0, 99_999);
        ask(&peer, 77, 3, 0, 0);
        ask(&peer, request::SET_TIMER, 4, 0, 0);
        ask(&peer, request::CANCEL_TIMER, 5, 0, 0);
        ask(&peer, request::WATCH, 6, 1, 2);
        let (wish, open) = stream.take_requests(now).expect("it is open");
        assert!(open);
        let expected = Wish {
            sources: 1,
            signals: 2,
        };
        assert_eq!(wish, Some(expected));
        assert_eq!(stream.send(now, || None).expect("it is open"), Sent::All);
        let all: Vec<_> = received(&peer)
            .iter()
            .map(|one| (one.kind, one.flags, one.id, one.a))
            .collect();
        assert_eq!(
            all,
            [
                (event::REFUSED, request::SET_TIMER, 1, 28),
                (event::REFUSED, request::SET_TIMER, 2, 28),
                (event::REFUSED, 77, 3, 52),
                (event::CANCELLED, 0, 5, 0),
                (event::TIMER, 0, 4, 1),
            ]
        );
    }

    #[test]
    fn requests_may_come_in_pieces() {
        let (host, peer) = Connection::pair().expect("two descriptors");
        let (mut stream, now) = (Stream::new(host), Instant::now());
        let asked = Record {
            kind: request::CANCEL_TIMER,
            id: 9,
            ..Record::default()
        };
        for byte in asked.to_bytes() {
            peer.send(&[byte]).expect("there is room");
            stream.take_requests(now).expect("it is open");
        }
        stream.send(now, || None).expect("it is open");
        assert_eq!(received(&peer).len(), 1);
    }

    /// However long a process does not read, its stream takes no more memory, and it learns how often a timer has expired.
    #[test]
    fn a_process_that_does_not_read_takes_no_memory() {
        let (host, peer) = Connection::pair().expect("two descriptors");
        let (mut stream, mut now) = (Stream::new(host), Instant::now());
        ask(&peer, request::SET_TIMER, 1, 0, 1_000_000);
        stream.take_requests(now).expect("it is open");
        let (mut sent, mut full) = (0, 0);
        while full < 1000 {
            sent += 1;
            now += Duration::from_millis(1);
            if stream.send(now, || None).expect("it is open") == Sent::Full {
                full += 1;
                // Requests wait as well.
                if full <= 10 {
                    ask(&peer, request::CANCEL_TIMER, 7, 0, 0);
                }
                assert_eq!(stream.take_requests(now).expect("it is open"), (None, true));
            }
        }
        assert!(stream.unsent.len() <= RECORD && stream.answers.is_empty());
        let mut total = 0;
        loop {
            let records = received(&peer);
            total += records.iter().map(|one| one.a).sum::<i64>();
            if stream.send(now, || None).expect("it is open") == Sent::All && records.is_empty() {
                break;
            }
        }
        assert_eq!(total, sent + 1);
    }

    #[test]
    fn a_process_that_has_gone_ends_its_stream() {
        let (host, peer) = Connection::pair().expect("two descriptors");
        let (mut stream, now) = (Stream::new(host), Instant::now());
        drop(peer);
        assert_eq!(stream.take_requests(now).expect("it ends"), (None, false));
        let record = Record::now(event::KEY, 1, 0, 0);
        stream.send(now, || Some(record)).expect_err("none reads");
    }
}

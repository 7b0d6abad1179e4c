//! A stream of events that tasks have: what `everwarp-io` sends to a process, as whole events.

use std::io;
use std::sync::{Mutex, PoisonError};

use everwarp_contract::DevEvent;
use everwarp_io::{Connection, EVENT_BYTES};

// Events go to tasks as they come.
const _: () = assert!(size_of::<DevEvent>() == EVENT_BYTES);

/// A stream of events.
#[derive(Debug)]
pub(crate) struct EventStream {
    connection: Connection,
    /// The beginning of an event whose end has not come.
    partial: Mutex<Vec<u8>>,
}

impl EventStream {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            partial: Mutex::default(),
        }
    }
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
    /// Receives whole events. `fate` says how many bytes may come of those that could. Returns how many bytes there are; 0: no event
    /// comes any more.
    ///
    /// # Errors
    /// As [`Connection::receive`], and those of `fate`.
    pub(crate) fn receive<E: From<io::Error>>(
        &self,
        buffer: &mut [u8],
        fate: impl Fn(usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let before = partial.len();
            let most = fate(buffer.len() - before)?;
            let came = &mut buffer[before..][..most];
            let count = self.connection.receive(came, false)?;
            if count == 0 {
                return Ok(0);
            }
            buffer[..before].copy_from_slice(&partial);
            let all = before + count;
            let whole = all - all % EVENT_BYTES;
            partial.clear();
            partial.extend_from_slice(&buffer[whole..all]);
            if whole > 0 {
                return Ok(whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_divided() {
        let (host, task) = Connection::pair().expect("two descriptors");
        let stream = EventStream::new(task);
        let sent: Vec<u8> = (0..10 * EVENT_BYTES).map(|at| at as u8).collect();
        let mut got = Vec::new();
        let (mut at, mut part) = (0, 1);
        while at < sent.len() {
            let end = sent.len().min(at + part);
            host.send(&sent[at..end]).expect("there is room");
            at = end;
            part = part * 3 % 71;
            let mut buffer = [0; 3 * EVENT_BYTES];
            // One byte or a few at a time.
            let came = stream.receive(&mut buffer, |most| {
                Ok::<_, io::Error>(most.min(part % 7 + 1))
            });
            match came {
                Ok(bytes) => {
                    assert!(bytes > 0 && bytes.is_multiple_of(EVENT_BYTES), "{bytes}");
                    got.extend_from_slice(&buffer[..bytes]);
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        let mut buffer = [0; 16 * EVENT_BYTES];
        loop {
            match stream.receive(&mut buffer, Ok::<_, io::Error>) {
                Ok(bytes) => got.extend_from_slice(&buffer[..bytes]),
                Err(error) => break assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(got == sent);
        drop(host);
        assert_eq!(
            stream
                .receive(&mut buffer, Ok::<_, io::Error>)
                .expect("it ends"),
            0
        );
    }
}

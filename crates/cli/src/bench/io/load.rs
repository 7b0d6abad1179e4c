//! Clients: many connections, each with one request at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// A round in which nothing happens for this long has failed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

/// The reply that a request has.
pub(super) struct Reply {
    /// Its bytes. Those of the fields that change from one reply to the next are not compared.
    bytes: Vec<u8>,
    /// Which of them are compared.
    fixed: Vec<bool>,
}

impl Reply {
    /// A reply whose every byte is known.
    pub(super) fn exact(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            fixed: vec![true; bytes.len()],
        }
    }

    /// A reply of HTTP, whose `Date` changes.
    pub(super) fn http(bytes: Vec<u8>) -> Self {
        let mut fixed = vec![true; bytes.len()];
        let name = b"\r\ndate: ";
        let found = bytes
            .windows(name.len())
            .position(|part| part.eq_ignore_ascii_case(name));
        if let Some(at) = found {
            let from = at + name.len();
            let line = bytes[from..].iter().position(|byte| *byte == b'\r');
            fixed[from..from + line.unwrap_or(0)].fill(false);
        }
        Self { bytes, fixed }
    }

    fn matches(&self, at: usize, received: &[u8]) -> bool {
        let expected = self.bytes.iter().zip(&self.fixed).skip(at);
        received.len() <= self.bytes.len() - at
            && received
                .iter()
                .zip(expected)
                .all(|(got, (byte, fixed))| !fixed || got == byte)
    }
}

struct Client {
    stream: TcpStream,
    sent: Instant,
    received: usize,
    left: usize,
}

/// What a round has taken.
pub(super) struct Round {
    pub(super) elapsed_s: f64,
    /// The time of each request.
    pub(super) requests_s: Vec<f64>,
    pub(super) right: bool,
}

/// Connections of one server.
pub(super) struct Load {
    epoll: OwnedFd,
    clients: Vec<Client>,
}

impl Load {
    pub(super) fn connect(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut clients = Vec::with_capacity(connections);
        for number in 0..connections {
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, EventFlags::IN)?;
            clients.push(Client {
                stream,
                sent: Instant::now(),
                received: 0,
                left: 0,
            });
        }
        Ok(Self { epoll, clients })
    }

    pub(super) fn connections(&self) -> usize {
        self.clients.len()
    }

    /// Each connection makes `each` requests, one after the other.
    ///
    /// # Errors
    /// A connection fails, or nothing comes.
    pub(super) fn round(
        &mut self,
        request: &[u8],
        reply: &Reply,
        each: usize,
    ) -> io::Result<Round> {
        let mut requests_s = Vec::with_capacity(self.clients.len() * each);
        let mut right = true;
        let mut open = self.clients.len();
        let begin = Instant::now();
        for client in &mut self.clients {
            client.left = each;
            client.send(request)?;
        }
        let mut buffer = vec![0; reply.bytes.len() + 1];
        let mut events = Vec::<Event>::with_capacity(256);
        while open > 0 {
            events.clear();
            let count = match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&PATIENCE))
            {
                Err(rustix::io::Errno::INTR) => continue,
                waited => waited?,
            };
            if count == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            for event in &events {
                let client = &mut self.clients[event.data.u64() as usize];
                let bytes = match client.stream.read(&mut buffer) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    read => read?,
                };
                right &= client.left > 0 && reply.matches(client.received, &buffer[..bytes]);
                if !right {
                    // What follows cannot be told apart.
                    return Err(io::ErrorKind::InvalidData.into());
                }
                client.received += bytes;
                if client.received < reply.bytes.len() {
                    continue;
                }
                requests_s.push(client.sent.elapsed().as_secs_f64());
                client.left -= 1;
                match client.left {
                    0 => open -= 1,
                    _ => client.send(request)?,
                }
            }
        }
        Ok(Round {
            elapsed_s: begin.elapsed().as_secs_f64(),
            requests_s,
            right,
        })
    }

    /// Whether no server has closed its connection.
    pub(super) fn all_open(&mut self) -> bool {
        self.clients.iter_mut().all(|client| {
            let read = client.stream.read(&mut [0]);
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        })
    }
}

impl Client {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.received = 0;
        self.sent = Instant::now();
        // The last reply has come, so there is room.
        self.stream.write_all(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_date_may_differ() {
        let reply = |date: &str| {
            format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nX: 1\r\n\r\nhello").into_bytes()
        };
        let expected = Reply::http(reply("Mon"));
        assert!(expected.matches(0, &reply("Tue")));
        assert!(expected.matches(5, &reply("Tue")[5..9]));
        let mut wrong = reply("Mon");
        let last = wrong.len() - 1;
        wrong[last] = b'x';
        assert!(!expected.matches(0, &wrong));
        wrong[last] = b'o';
        wrong.push(b'!');
        assert!(!expected.matches(0, &wrong));
        assert!(!Reply::exact(b"ab").matches(0, b"ac"));
    }
}

//! Listeners and connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, sockopt};

use crate::address::ListenAddress;

/// An open socket, shared by those that use it. It is closed when the last of them is dropped.
pub struct Socket {
    fd: OwnedFd,
    number: u64,
    asked_back: AtomicBool,
}

/// Numbers are never used again, unlike descriptors.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Arc<Self> {
        let number = NEXT.fetch_add(1, Relaxed);
        let asked_back = AtomicBool::new(false);
        Arc::new(Self {
            fd,
            number,
            asked_back,
        })
    }

    /// Asks the process that it was given to for it, or no longer. Nothing happens to the socket: the process learns of it when it
    /// waits for bytes, and may go on.
    pub fn ask_back(&self, asked: bool) {
        self.asked_back.store(asked, Relaxed);
    }

    /// Whether the process that it was given to is asked for it.
    pub fn is_asked_back(&self) -> bool {
        self.asked_back.load(Relaxed)
    }

    /// A number that no other socket of this program has, or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What can be done now without waiting.
    ///
    /// # Errors
    /// The system refuses to say.
    pub fn readiness(&self) -> io::Result<Readiness> {
        let mut watched = [PollFd::new(
            &self.fd,
            PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP,
        )];
        poll(&mut watched, Some(&Timespec::default()))?;
        let seen = watched[0].revents();
        let failed = seen.intersects(PollFlags::HUP | PollFlags::ERR);
        Ok(Readiness {
            readable: failed || seen.intersects(PollFlags::IN | PollFlags::RDHUP),
            writable: failed || seen.contains(PollFlags::OUT),
            hung_up: failed || seen.contains(PollFlags::RDHUP),
        })
    }

    /// The address that it has on this machine.
    ///
    /// # Errors
    /// It has none, as a connection within this program has none.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = net::getsockname(&self.fd)?;
        address.try_into().map_err(|_| no_address())
    }

    /// The address of its peer.
    ///
    /// # Errors
    /// It is not connected, or its peer has no address.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        let address = net::getpeername(&self.fd)?;
        let address = address.and_then(|address| address.try_into().ok());
        address.ok_or_else(no_address)
    }

    /// The bytes that can be read now.
    pub fn available(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.fd).unwrap_or(0)
    }
}

/// The socket is of a family without addresses that processes know.
fn no_address() -> io::Error {
    rustix::io::Errno::OPNOTSUPP.into()
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a caller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, their end, or for a listener a connection.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

impl Interest {
    /// Only to read.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// Only to write.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
    };

    /// Both this and another interest.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
        }
    }
}

/// What can be done with a socket without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes, their end or an error can be read, or a connection can be accepted.
    pub readable: bool,
    /// Bytes or an error can be written.
    pub writable: bool,
    /// The peer sends no more.
    pub hung_up: bool,
}

impl Readiness {
    /// Whether some of an interest is met.
    pub fn meets(self, interest: Interest) -> bool {
        (interest.read && self.readable) || (interest.write && self.writable)
    }
}

/// Which directions of a connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more is received.
    Read,
    /// Nothing more is sent: the peer sees the end of the stream.
    Write,
    /// Both.
    Both,
}

/// A listener that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program, or another listener of this one, has the address.
    #[error("{address}: another program listens there: stop it, or use another port")]
    InUse {
        /// The address.
        address: String,
    },
    /// This user may not use the port.
    #[error("{address}: this user may not listen there: use a port from 1024 on")]
    Denied {
        /// The address.
        address: String,
    },
    /// The system refuses for another reason.
    #[error("{address}: {source}")]
    System {
        /// The address.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl ListenError {
    fn new(address: &ListenAddress, source: io::Error) -> Self {
        let address = address.to_string();
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied => Self::Denied { address },
            _ => Self::System { address, source },
        }
    }
}

/// A socket that accepts connections. Clones are the same socket.
#[derive(Clone, Debug)]
pub struct Listener {
    socket: Arc<Socket>,
    local: SocketAddr,
}

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`ListenError`] says what to do.
    pub fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        let bound = TcpListener::bind(address.addresses());
        bound
            .and_then(Self::from_std)
            .map_err(|error| ListenError::new(address, error))
    }

    /// Takes over a listener that the caller has opened.
    ///
    /// # Errors
    /// The system refuses a setting.
    pub fn from_std(listener: TcpListener) -> io::Result<Self> {
        let local = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        // A listener of the standard library has a short queue, and a burst of clients would wait a second for each other.
        net::listen(&listener, QUEUE)?;
        Ok(Self {
            socket: Socket::new(listener.into()),
            local,
        })
    }

    /// The address that it listens on.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The socket.
    pub fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Stops listening: peers that come from now on are refused, and those that wait are reset.
    ///
    /// # Errors
    /// The system refuses.
    pub fn close(&self) -> io::Result<()> {
        Ok(net::shutdown(&self.socket, net::Shutdown::Both)?)
    }

    /// Takes a connection that has come. Small writes are sent at once, since most guests cannot ask for that.
    ///
    /// # Errors
    /// `WouldBlock`: none has come; or the system refuses one, because too many files are open or memory is short.
    pub fn accept(&self) -> io::Result<Connection> {
        Connection::accept(&self.socket)
    }
}

/// Connections that the system keeps for a listener until they are accepted; it may keep fewer.
const QUEUE: i32 = 4096;

/// A connected socket. Clones are the same connection, which ends when the last is dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    socket: Arc<Socket>,
    peer: Option<SocketAddr>,
}

impl Connection {
    pub(crate) fn of(socket: Arc<Socket>, peer: Option<SocketAddr>) -> Self {
        Self { socket, peer }
    }

    /// Takes a connection that has come to a socket that listens.
    pub(crate) fn accept(listening: &Socket) -> io::Result<Self> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match net::acceptfrom_with(listening, flags) {
                Ok((fd, peer)) => {
                    // A connection that has ended meanwhile refuses the setting; its reader learns of the end.
                    let _ = sockopt::set_tcp_nodelay(&fd, true);
                    let peer = peer.and_then(|peer| peer.try_into().ok());
                    return Ok(Self::of(Socket::new(fd), peer));
                }
                // The peer has given up, or a signal came: the next connection may be there.
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Two ends of a connection within this machine.
    ///
    /// # Errors
    /// The system gives no sockets.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixStream::pair()?;
        let end = |stream: UnixStream| {
            stream.set_nonblocking(true)?;
            Ok(Self {
                socket: Socket::new(stream.into()),
                peer: None,
            })
        };
        let [a, b]: [io::Result<Self>; 2] = [end(a), end(b)];
        Ok((a?, b?))
    }

    /// Takes over a connected stream within this machine.
    ///
    /// # Errors
    /// The descriptor is no such stream.
    pub fn from_local_stream(stream: OwnedFd) -> io::Result<Self> {
        let is_stream = sockopt::socket_type(&stream)? == net::SocketType::STREAM;
        if !is_stream || sockopt::socket_domain(&stream)? != net::AddressFamily::UNIX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A socket without a peer, or one that listens, is no stream.
        net::getpeername(&stream)?;
        rustix::io::ioctl_fionbio(&stream, true)?;
        Ok(Self {
            socket: Socket::new(stream),
            peer: None,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The peer's address, if the connection came through a listener.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Receives up to as many bytes as the buffer holds; 0 means that the peer sends no more.
    ///
    /// # Errors
    /// `WouldBlock`: none have come; or the connection has failed.
    pub fn receive(&self, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
        let flags = if peek {
            RecvFlags::PEEK
        } else {
            RecvFlags::empty()
        };
        loop {
            match net::recv(&self.socket, &mut *buffer, flags | RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => return Ok(bytes.min(buffer.len())),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends bytes, or the first of them.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room for any; or the connection has failed. No signal is raised.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match net::send(
                &self.socket,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Resets the connection, so that its peer sees an error. A connection within this machine only ends.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn reset(&self) -> io::Result<()> {
        match net::connect_unspec(&self.socket) {
            Ok(()) => Ok(()),
            Err(_) => self.shut_down(Shutdown::Both),
        }
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => net::Shutdown::Read,
            Shutdown::Write => net::Shutdown::Write,
            Shutdown::Both => net::Shutdown::Both,
        };
        Ok(net::shutdown(&self.socket, how)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn listener() -> Listener {
        Listener::bind(&"0".parse().expect("any port")).expect("a free port")
    }

    /// Waits for readiness without a fixed pause.
    fn until(socket: &Socket, interest: Interest) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        let limit = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(&socket.fd, flags)], Some(&limit));
        assert_eq!(ready.expect("the descriptor is open"), 1);
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let listener = listener();
        let mut peer = TcpStream::connect(listener.local_address()).expect("it listens");
        until(listener.socket(), Interest::READ);
        let connection = listener.accept().expect("a peer has come");
        connection.reset().expect("it is connected");
        let error = peer.read(&mut [0; 1]).expect_err("it is reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let (a, b) = Connection::pair().expect("two descriptors");
        a.reset().expect("it is connected");
        assert_eq!(b.receive(&mut [0; 1], false).expect("it has ended"), 0);
    }

    #[test]
    fn nothing_waits_and_bytes_go_both_ways() {
        let listener = listener();
        let none = listener.accept().expect_err("no peer has come");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        let mut peer = TcpStream::connect(listener.local_address()).expect("it listens");
        until(listener.socket(), Interest::READ);
        let connection = listener.accept().expect("a peer has come");
        let mut buffer = [0; 8];
        let none = connection
            .receive(&mut buffer, false)
            .expect_err("nothing has come");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        let ready = connection.socket().readiness().expect("it is open");
        assert!(ready.writable && !ready.readable && !ready.hung_up);
        peer.write_all(b"ask").expect("it is connected");
        until(connection.socket(), Interest::READ);
        assert_eq!(connection.receive(&mut buffer, true).expect("peeked"), 3);
        assert_eq!(connection.socket().available(), 3);
        assert_eq!(connection.receive(&mut buffer, false).expect("received"), 3);
        assert_eq!(&buffer[..3], b"ask");
        assert_eq!(connection.send(b"answer").expect("there is room"), 6);
        connection
            .shut_down(Shutdown::Write)
            .expect("it is connected");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("it ends");
        assert_eq!(answer, "answer");
        assert_eq!(connection.peer(), peer.local_addr().ok());
        drop(peer);
        until(connection.socket(), Interest::READ);
        assert_eq!(connection.receive(&mut buffer, false).expect("the end"), 0);
        assert!(connection.socket().readiness().expect("it is open").hung_up);
    }

    #[test]
    fn a_full_connection_takes_part_and_then_nothing() {
        let (a, _b) = Connection::pair().expect("two descriptors");
        let bytes = vec![0; 1 << 20];
        let sent = a.send(&bytes).expect("there is some room");
        assert!(sent < bytes.len());
        while let Ok(more) = a.send(&bytes) {
            assert!(more > 0);
        }
        let full = a.send(&bytes).expect_err("no room");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn only_a_connected_local_stream_is_taken_over() {
        let refused = |fd: OwnedFd| Connection::from_local_stream(fd).expect_err("it is none");
        let file = std::fs::File::open("/dev/null").expect("it exists");
        refused(file.into());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        refused(TcpStream::connect(address).expect("it listens").into());
        refused(listener.into());
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("two descriptors");
        let own = Connection::from_local_stream(a.into()).expect("it is a stream");
        let none = own.receive(&mut [0; 4], false).expect_err("nothing came");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        (&b).write_all(b"word").expect("there is room");
        until(own.socket(), Interest::READ);
        assert_eq!(own.receive(&mut [0; 4], false).expect("it came"), 4);
    }

    #[test]
    fn a_closed_listener_refuses_peers() {
        let listener = listener();
        listener.close().expect("it listens");
        let refused = TcpStream::connect(listener.local_address()).expect_err("it is closed");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_closed_peer_is_an_error_and_no_signal() {
        let (a, b) = Connection::pair().expect("two descriptors");
        drop(b);
        let closed = a.send(b"x").expect_err("the peer has gone");
        assert_eq!(closed.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_port_in_use_says_what_to_do() {
        let first = listener();
        let port = first.local_address().port().to_string();
        let second = Listener::bind(&port.parse().expect("a port"));
        let error = second.expect_err("the port is taken").to_string();
        assert_eq!(
            error,
            format!("{port}: another program listens there: stop it, or use another port")
        );
    }
}

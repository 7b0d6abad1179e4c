//! Sockets that processes open themselves, as their network allows.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::network::Network;
use crate::socket::{Connection, Socket};

/// The family of a socket's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A stream of bytes: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// Bytes of a datagram: as many as a GPU's host call holds, on every engine.
pub const DATAGRAM_MOST: usize = 8192;
/// Peers whose datagrams a socket has received last, which it may answer.
const HEARD_MOST: usize = 1024;
/// The longest queue of connections that a process may ask for.
const BACKLOG_MOST: u32 = 4096;

/// A socket that a process has opened. Nothing waits: a call that would have to returns `WouldBlock`.
#[derive(Debug)]
pub struct Endpoint {
    connection: Connection,
    network: Arc<Network>,
    family: Family,
    transport: Transport,
    /// It has an address that a rule allows to bind.
    bound: AtomicBool,
    heard: Mutex<VecDeque<SocketAddr>>,
}

impl Endpoint {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`NotGranted`](crate::NotGranted): the network has no rules; or the system gives no socket.
    pub fn open(network: &Arc<Network>, family: Family, transport: Transport) -> io::Result<Self> {
        network.check_any()?;
        let domain = match family {
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        let kind = match transport {
            Transport::Stream => SocketType::STREAM,
            Transport::Datagram => SocketType::DGRAM,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(domain, kind, flags, None)?;
        Ok(Self {
            connection: Connection::of(Socket::new(fd), None),
            network: Arc::clone(network),
            family,
            transport,
            bound: AtomicBool::new(false),
            heard: Mutex::default(),
        })
    }

    /// The socket as a connection, for what works on both. The system says if it is not connected.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The socket.
    pub fn socket(&self) -> &Arc<Socket> {
        self.connection.socket()
    }

    /// What it carries.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Gives it a local address.
    ///
    /// # Errors
    /// [`NotGranted`](crate::NotGranted), or the system's refusal.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.network.check_local(address)?;
        net::bind(self.socket(), &address)?;
        self.bound.store(true, Relaxed);
        Ok(())
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// [`NotGranted`](crate::NotGranted), or the system's refusal.
    pub fn listen(&self, backlog: u32) -> io::Result<()> {
        if self.transport == Transport::Stream && !self.bound.load(Relaxed) {
            // The system would bind it to every address of the machine.
            let any = match self.family {
                Family::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                Family::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            self.network.check_local(any)?;
        }
        Ok(net::listen(
            self.socket(),
            backlog.min(BACKLOG_MOST) as i32,
        )?)
    }

    /// Takes a connection that has come.
    ///
    /// # Errors
    /// `WouldBlock`: none has come; or it does not listen.
    pub fn accept(&self) -> io::Result<Connection> {
        Connection::accept(self.socket())
    }

    /// Begins to connect; returns whether that is done.
    ///
    /// # Errors
    /// [`NotGranted`](crate::NotGranted), or the system's refusal.
    pub fn connect(&self, address: SocketAddr) -> io::Result<bool> {
        self.network.check_peer(address)?;
        match net::connect(self.socket(), &address) {
            Ok(()) => Ok(true),
            // After a signal it goes on by itself.
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the outcome of [`Endpoint::connect`].
    ///
    /// # Errors
    /// `WouldBlock`: there is none yet; or the connection was refused.
    pub fn finish_connect(&self) -> io::Result<()> {
        if !self.socket().readiness()?.writable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        sockopt::socket_error(self.socket())??;
        if let Ok(peer) = self.socket().peer_address() {
            // Linux takes the outcome into account with this call. Without it the process's next `connect` would succeed
            // instead of finding a connection. It has nothing to say here.
            let _ = net::connect(self.socket(), &peer);
        }
        Ok(())
    }

    /// Sends a datagram to an address, or bytes to the peer of a stream, which must be connected.
    ///
    /// # Errors
    /// [`NotGranted`](crate::NotGranted); `WouldBlock`; or the system's refusal.
    pub fn send_to(&self, bytes: &[u8], address: SocketAddr) -> io::Result<usize> {
        if self.transport == Transport::Stream {
            return self.connection.send(bytes);
        }
        if bytes.len() > DATAGRAM_MOST {
            return Err(Errno::MSGSIZE.into());
        }
        if !self.has_heard(address) {
            self.network.check_peer(address)?;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match net::sendto(self.socket(), bytes, flags, &address) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Receives a datagram with its sender, or bytes of a stream. What does not fit the buffer is lost, unless it is left
    /// there (`peek`).
    ///
    /// # Errors
    /// `WouldBlock`: none has come; or the system's refusal.
    pub fn receive_from(
        &self,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, Option<SocketAddr>)> {
        if self.transport == Transport::Stream {
            return Ok((self.connection.receive(buffer, peek)?, None));
        }
        let mut flags = RecvFlags::DONTWAIT;
        flags.set(RecvFlags::PEEK, peek);
        loop {
            match net::recvfrom(self.socket(), &mut *buffer, flags) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok((_, bytes, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    from.into_iter().for_each(|from| self.hear(from));
                    return Ok((bytes.min(buffer.len()), from));
                }
            }
        }
    }

    /// Whether it may answer a peer without a rule: a server answers its clients.
    fn has_heard(&self, peer: SocketAddr) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.contains(&peer)
    }

    fn hear(&self, peer: SocketAddr) {
        if !self.bound.load(Relaxed) {
            return;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.back() == Some(&peer) {
            return;
        }
        heard.retain(|there| *there != peer);
        if heard.len() == HEARD_MOST {
            heard.pop_front();
        }
        heard.push_back(peer);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::network::NotGranted;
    use crate::options::SocketOption;
    use crate::socket::Shutdown;

    fn network(connect: &str, bind: &str) -> Arc<Network> {
        let rules = |text: &str| {
            let rules = text.split(' ').filter(|rule| !rule.is_empty());
            rules.map(|rule| rule.parse().expect("a rule")).collect()
        };
        Arc::new(Network::new(rules(connect), rules(bind)))
    }

    fn until(socket: &Socket, flags: PollFlags) {
        let limit = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let mut watched = [PollFd::new(socket, flags)];
        assert_eq!(poll(&mut watched, Some(&limit)).expect("it is open"), 1);
    }

    fn connected(endpoint: &Endpoint, to: SocketAddr) -> io::Result<()> {
        if endpoint.connect(to)? {
            return Ok(());
        }
        until(endpoint.socket(), PollFlags::OUT);
        endpoint.finish_connect()
    }

    fn any(family: Family) -> SocketAddr {
        match family {
            Family::V4 => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Family::V6 => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        }
    }

    #[test]
    fn a_stream_connects_where_a_rule_allows_it_in_both_families() {
        for family in [Family::V4, Family::V6] {
            let peer = TcpListener::bind(any(family)).expect("a free port");
            let to = peer.local_addr().expect("it is bound");
            let network = network(&to.port().to_string(), "");
            let endpoint = Endpoint::open(&network, family, Transport::Stream).expect("a socket");
            connected(&endpoint, to).expect("it listens");
            let (mut accepted, from) = peer.accept().expect("a connection");
            assert_eq!(Some(from), endpoint.socket().local_address().ok());
            assert_eq!(endpoint.socket().peer_address().expect("connected"), to);
            let again = endpoint.connect(to).expect_err("it is connected");
            assert_eq!(again.raw_os_error(), Some(Errno::ISCONN.raw_os_error()));
            endpoint.connection().send(b"ask").expect("there is room");
            endpoint
                .connection()
                .shut_down(Shutdown::Write)
                .expect("connected");
            let mut text = String::new();
            accepted.read_to_string(&mut text).expect("it ends");
            accepted.write_all(b"answer").expect("half is open");
            drop(accepted);
            until(endpoint.socket(), PollFlags::IN);
            let mut buffer = [0; 10];
            let (bytes, _) = endpoint.receive_from(&mut buffer, false).expect("bytes");
            assert_eq!((text.as_str(), &buffer[..bytes]), ("ask", &b"answer"[..]));
        }
    }

    #[test]
    fn a_refused_connection_says_so() {
        let unused = TcpListener::bind(any(Family::V4)).expect("a free port");
        let to = unused.local_addr().expect("it is bound");
        drop(unused);
        let network = network("*:*", "");
        let endpoint = Endpoint::open(&network, Family::V4, Transport::Stream).expect("a socket");
        let error = connected(&endpoint, to).expect_err("nothing listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn nothing_is_reached_without_a_rule() {
        let none = Endpoint::open(&network("", ""), Family::V4, Transport::Stream);
        assert!(NotGranted::is(&none.expect_err("no rules")));
        let network = network("1", "2");
        let to: SocketAddr = "127.0.0.1:3".parse().expect("an address");
        let stream = Endpoint::open(&network, Family::V4, Transport::Stream).expect("a socket");
        assert!(NotGranted::is(&stream.connect(to).expect_err("refused")));
        assert!(NotGranted::is(&stream.bind(to).expect_err("refused")));
        assert!(NotGranted::is(&stream.listen(1).expect_err("refused")));
        let datagrams =
            Endpoint::open(&network, Family::V4, Transport::Datagram).expect("a socket");
        assert!(NotGranted::is(
            &datagrams.send_to(b"x", to).expect_err("refused")
        ));
        assert!(NotGranted::is(&datagrams.connect(to).expect_err("refused")));
    }

    #[test]
    fn a_listener_of_its_own_accepts() {
        let network = network("", "0");
        let endpoint = Endpoint::open(&network, Family::V4, Transport::Stream).expect("a socket");
        let early = endpoint.accept().expect_err("it does not listen");
        assert_eq!(early.kind(), io::ErrorKind::InvalidInput);
        endpoint.bind(any(Family::V4)).expect("allowed");
        endpoint.listen(u32::MAX).expect("bound");
        let address = endpoint.socket().local_address().expect("bound");
        let peer = TcpStream::connect(address).expect("it listens");
        until(endpoint.socket(), PollFlags::IN);
        let accepted = endpoint.accept().expect("a connection");
        assert_eq!(accepted.peer(), peer.local_addr().ok());
        assert_eq!(
            SocketOption::Listening
                .get(endpoint.socket())
                .expect("known"),
            1
        );
    }

    #[test]
    fn a_server_of_datagrams_answers_its_clients_and_no_others() {
        let network = network("", "0");
        let server = Endpoint::open(&network, Family::V4, Transport::Datagram).expect("a socket");
        server.bind(any(Family::V4)).expect("allowed");
        let client = UdpSocket::bind(any(Family::V4)).expect("a free port");
        let limit = Some(std::time::Duration::from_secs(20));
        client.set_read_timeout(limit).expect("a limit");
        let to = client.local_addr().expect("it is bound");
        assert!(NotGranted::is(
            &server.send_to(b"x", to).expect_err("not heard")
        ));
        let at = server.socket().local_address().expect("bound");
        client.send_to(b"question", at).expect("it is sent");
        until(server.socket(), PollFlags::IN);
        let mut buffer = [0; 5];
        let (bytes, from) = server.receive_from(&mut buffer, true).expect("it has come");
        assert_eq!((&buffer[..bytes], from), (&b"quest"[..], Some(to)));
        // It was left there; now the rest is lost.
        assert_eq!(
            server.receive_from(&mut buffer, false).expect("it stays").0,
            5
        );
        let none = server
            .receive_from(&mut buffer, false)
            .expect_err("no more");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(server.send_to(b"answer", to).expect("heard"), 6);
        let mut answer = [0; 10];
        assert_eq!(client.recv(&mut answer).expect("it comes"), 6);
        let long = vec![0; DATAGRAM_MOST + 1];
        let error = server.send_to(&long, to).expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(Errno::MSGSIZE.raw_os_error()));
    }

    #[test]
    fn peers_that_were_heard_are_bounded() {
        let network = network("", "0");
        let server = Endpoint::open(&network, Family::V4, Transport::Datagram).expect("a socket");
        server.bind(any(Family::V4)).expect("allowed");
        let peer = |number: u32| SocketAddr::from((Ipv4Addr::from_bits(number), 9));
        (0..3000).for_each(|number| server.hear(peer(number)));
        assert_eq!(server.heard.lock().expect("no panic").len(), HEARD_MOST);
        assert!(server.has_heard(peer(2999)) && !server.has_heard(peer(0)));
    }
}

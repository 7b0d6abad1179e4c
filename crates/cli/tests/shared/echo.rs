//! Servers of a test, which return what they get.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// Servers that return what they get, on the same port of both families; and a port where none listens.
pub(crate) struct Echo {
    pub(crate) stream: u16,
    pub(crate) datagrams: u16,
    pub(crate) closed: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Two sockets with the same port, one for each family.
fn of_both_families<S>(
    bind: impl Fn(&str) -> std::io::Result<S>,
    port: impl Fn(&S) -> u16,
) -> (S, S, u16) {
    for _ in 0..100 {
        let v4 = bind("127.0.0.1:0").expect("a free port");
        let number = port(&v4);
        // Another program may have it for the other family.
        if let Ok(v6) = bind(&format!("[::1]:{number}")) {
            return (v4, v6, number);
        }
    }
    panic!("no port is free for both families");
}

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

fn echo_streams(listener: &TcpListener, stop: &AtomicBool) {
    let mut clients = Vec::new();
    loop {
        let (mut client, _) = listener.accept().expect("a client");
        if stop.load(SeqCst) {
            break;
        }
        clients.push(std::thread::spawn(move || {
            client.set_read_timeout(LIMIT).expect("a limit");
            let mut buffer = [0; 65_536];
            // A client that has gone is the client's business.
            while let Ok(bytes @ 1..) = client.read(&mut buffer) {
                if client.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
        }));
    }
    clients
        .into_iter()
        .for_each(|client| client.join().expect("no panic"));
}

fn echo_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 65_536];
    loop {
        let (bytes, from) = socket.recv_from(&mut buffer).expect("a datagram");
        if stop.load(SeqCst) {
            return;
        }
        socket.send_to(&buffer[..bytes], from).expect("it is bound");
    }
}

impl Echo {
    pub(crate) fn start() -> Self {
        let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
        let (stream4, stream6, stream) = of_both_families(|at| TcpListener::bind(at), port);
        let port = |socket: &UdpSocket| socket.local_addr().expect("it is bound").port();
        let (datagrams4, datagrams6, datagrams) = of_both_families(|at| UdpSocket::bind(at), port);
        let unused = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let closed = unused.local_addr().expect("it is bound").port();
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for listener in [stream4, stream6] {
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || echo_streams(&listener, &stop)));
        }
        for socket in [datagrams4, datagrams6] {
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || echo_datagrams(&socket, &stop)));
        }
        Self {
            stream,
            datagrams,
            closed,
            stop,
            threads,
        }
    }

    /// The arguments that name the servers.
    pub(crate) fn args(&self) -> [String; 3] {
        [self.stream, self.datagrams, self.closed].map(|port| port.to_string())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let knock = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let knock6 = UdpSocket::bind("[::1]:0").expect("a free port");
        drop(std::net::TcpStream::connect((
            Ipv4Addr::LOCALHOST,
            self.stream,
        )));
        drop(std::net::TcpStream::connect((
            Ipv6Addr::LOCALHOST,
            self.stream,
        )));
        drop(knock.send_to(b"", (Ipv4Addr::LOCALHOST, self.datagrams)));
        drop(knock6.send_to(b"", (Ipv6Addr::LOCALHOST, self.datagrams)));
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic");
            }
        }
    }
}

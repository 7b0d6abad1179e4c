//! Uses the network as its command allows: `dial STREAM DATAGRAMS CLOSED FORBIDDEN`. The arguments are ports of this machine:
//! of a server that returns what it gets on a stream, of one that does so with datagrams, one where none listens, and one
//! that is not granted.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use everwarp_guest_net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
    UdpSocket,
};

fn say(what: &str, result: io::Result<impl Debug>) {
    match result {
        Ok(value) => println!("{what}: {value:?}"),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::AddrInUse
            | io::ErrorKind::NotConnected
            | io::ErrorKind::WouldBlock => println!("{what}: {:?}", error.kind()),
            _ => println!("{what}: error {:?}", error.raw_os_error()),
        },
    }
}

/// Sends a text on a stream, ends it, and returns what comes back.
fn echo(stream: &mut TcpStream, text: &str) -> io::Result<String> {
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn streams(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_ttl(33)?;
    let right = stream.peer_addr()? == address
        && stream.local_addr()?.ip() == address.ip()
        && stream.nodelay()?
        && stream.ttl()? == 33
        && stream.take_error()?.is_none();
    let mut waits = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
    waits.set_read_timeout(Some(Duration::from_millis(20)))?;
    let silent = waits.read(&mut [0]).expect_err("nothing was sent").kind();
    waits.write_all(b"x")?;
    waits.set_read_timeout(Some(Duration::from_secs(20)))?;
    let peeked = waits.peek(&mut [0; 5])?;
    let text = echo(&mut stream, &"a long text; ".repeat(20_000))?;
    Ok(format!("{right} {silent:?} {peeked} {}", text.len()))
}

fn datagrams(address: SocketAddr) -> io::Result<String> {
    let limit = Some(Duration::from_secs(20));
    let socket = UdpSocket::unbound(&address)?;
    socket.set_read_timeout(limit)?;
    socket.send_to(b"some text", address)?;
    let mut buffer = [0; 4];
    let peeked = socket.peek_from(&mut buffer)?;
    let (bytes, from) = socket.recv_from(&mut buffer)?;
    let right = peeked == (bytes, from) && from == address;
    socket.connect(address)?;
    let mut long = [7; 8192];
    socket.send(&long)?;
    let whole = socket.recv(&mut long)?;
    let too_long = socket.send_to(&[0; 8193], address).expect_err("too long");
    Ok(format!(
        "{right} {bytes} {whole} {:?}",
        too_long.raw_os_error()
    ))
}

/// A server and its client in one process.
fn both_sides(ip: IpAddr) -> io::Result<String> {
    let listener = TcpListener::bind((ip, 0))?;
    let address = listener.local_addr()?;
    let again = TcpListener::bind(address).expect_err("it is taken").kind();
    listener.set_nonblocking(true)?;
    let none = listener.accept().expect_err("none has come").kind();
    listener.set_nonblocking(false)?;
    let mut client = TcpStream::connect(address)?;
    let (mut server, from) = listener.accept()?;
    let right = from == client.local_addr()?;
    client.write_all(b"ask")?;
    client.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    server.read_to_string(&mut text)?;
    // The client has ended its half, and is answered all the same.
    server.write_all(b"answer")?;
    drop(server);
    client.read_to_string(&mut text)?;
    Ok(format!("{right} {again:?} {none:?} {text}"))
}

fn names() -> io::Result<String> {
    let found: Vec<SocketAddr> = "localhost:9".to_socket_addrs()?.collect();
    let all = found
        .iter()
        .all(|address| address.ip().is_loopback() && address.port() == 9);
    Ok(format!("{}", all && !found.is_empty()))
}

fn run() -> Option<()> {
    let ports: Vec<u16> = std::env::args()
        .skip(1)
        .map(|port| port.parse().ok())
        .collect::<Option<_>>()?;
    let [stream, datagram, closed, forbidden] = ports[..] else {
        return None;
    };
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for ip in [v4, v6] {
        say("stream", streams(SocketAddr::new(ip, stream)));
        say("datagrams", datagrams(SocketAddr::new(ip, datagram)));
        say("both sides", both_sides(ip));
    }
    say("names", names());
    say("closed", TcpStream::connect((v4, closed)).map(drop));
    say("forbidden", TcpStream::connect((v4, forbidden)).map(drop));
    say(
        "forbidden name",
        ("example.com", 80).to_socket_addrs().map(drop),
    );
    say(
        "forbidden address",
        TcpListener::bind("0.0.0.0:0").map(drop),
    );
    let socket = UdpSocket::unbound(&SocketAddr::new(v4, 0))
        .and_then(|socket| socket.send_to(b"x", (v4, forbidden)));
    say("forbidden datagram", socket);
    Some(())
}

fn main() -> ExitCode {
    match run() {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!("dial: use STREAM DATAGRAMS CLOSED FORBIDDEN, which are ports");
            ExitCode::from(2)
        }
    }
}

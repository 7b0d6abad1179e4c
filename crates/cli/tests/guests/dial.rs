//! Guests that open sockets themselves: in Rust and in C, as guests on either engine, and in C as a program of this machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use everwarp_testkit::{Running, cases};

use crate::sockets::{ended, engines, refused};
use crate::{Case, Ended, alone, folder};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] = cases![a_rule_that_is_none_names_the_forms_to_use];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    c_prints_what_it_prints_natively,
    rust_uses_what_is_granted_and_nothing_else,
    a_refusal_names_the_option_that_would_allow_it
];

/// Servers that return what they get, on the same port of both families; and a port where none listens.
struct Echo {
    stream: u16,
    datagrams: u16,
    closed: u16,
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
    fn start() -> Self {
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
    fn args(&self) -> [String; 3] {
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

fn as_guest(engine: &str, guest: &str, options: &[&str], args: &[String]) -> Ended {
    let mut command = alone(engine, guest, options, args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ended(Running::start(&mut command))
}

/// Compiles the C program for this machine, and runs it.
fn natively(args: &[String]) -> Ended {
    let to = tempfile::tempdir().expect("a temporary folder");
    let program = to.path().join("dial");
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-O1", "-o"])
        .arg(&program)
        .arg(folder().join(Path::new("c/dial.c")));
    let output = everwarp_testkit::output(&mut command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ended(Running::start(&mut command))
}

fn c_prints_what_it_prints_natively() {
    let echo = Echo::start();
    let args = echo.args();
    let natively = natively(&args);
    assert_eq!((natively.code, natively.err.as_str()), (0, ""));
    for line in [
        "recv before connect: ENOTCONN",
        "echo: 85000",
        "send after the end: EPIPE",
        "sendto: 9",
        "peek: 4",
        "bind what is taken: EADDRINUSE",
        "recv: 6",
        "connect to nothing: ECONNREFUSED",
        "localhost: 1",
    ] {
        assert!(natively.out.contains(line), "{line}:\n{}", natively.out);
    }
    let options = ["--connect", "*:*", "--bind", "*:*"];
    for engine in engines() {
        let guest = as_guest(engine, "c/dial", &options, &args);
        assert_eq!((guest.code, guest.err.as_str()), (0, ""), "{engine}");
        assert_eq!(guest.out, natively.out, "{engine}");
    }
}

/// The arguments of the guest in Rust, and its grants: everything but a port that it tries too.
fn granted(echo: &Echo) -> (Vec<String>, String) {
    let mut args = echo.args().to_vec();
    let forbidden =
        (1..u16::MAX).find(|port| ![echo.stream, echo.datagrams, echo.closed].contains(port));
    let forbidden = forbidden.expect("there are more than three ports");
    args.push(forbidden.to_string());
    // What it binds has a port from the system's range, which begins far above the first.
    let rule = format!(
        "{},{},{},1024-65535",
        echo.stream, echo.datagrams, echo.closed
    );
    (args, rule)
}

fn rust_uses_what_is_granted_and_nothing_else() {
    let echo = Echo::start();
    let (args, rule) = granted(&echo);
    let bytes = "a long text; ".len() * 20_000;
    let of_family = format!(
        "stream: \"true WouldBlock 1 {bytes}\"\n\
         datagrams: \"true 4 8192 Some(35)\"\n\
         both sides: \"true AddrInUse WouldBlock askanswer\"\n"
    );
    let expected = format!(
        "{of_family}{of_family}\
         names: \"true\"\n\
         closed: ConnectionRefused\n\
         forbidden: error Some(76)\n\
         forbidden name: error Some(76)\n\
         forbidden address: error Some(76)\n\
         forbidden datagram: error Some(76)\n"
    );
    for engine in engines() {
        let options = ["--connect", &rule, "--bind", "0,1024-65535"];
        let ended = as_guest(engine, "dial", &options, &args);
        assert_eq!(ended, Ended::new(0, &expected, ""), "{engine}");
    }
}

fn a_refusal_names_the_option_that_would_allow_it() {
    let echo = Echo::start();
    let (args, rule) = granted(&echo);
    let forbidden = &args[3];
    for engine in engines() {
        let options = ["--connect", &rule, "--bind", "0,1024-65535", "--verbose"];
        let ended = as_guest(engine, "dial", &options, &args);
        for sentence in [
            format!("everwarp: a process may not connect to 127.0.0.1:{forbidden}: --connect 127.0.0.1:{forbidden} would allow it"),
            "everwarp: a process may not look up example.com: --connect example.com:PORTS would allow it".to_owned(),
            "everwarp: a process may not bind 0.0.0.0:0: --bind 0.0.0.0:0 would allow it".to_owned(),
        ] {
            let said = ended.err.lines().filter(|line| **line == sentence).count();
            assert_eq!(said, 1, "{engine}: {sentence}\n{}", ended.err);
        }
        let nothing = as_guest(engine, "dial", &["--verbose"], &args);
        let sentence = "a process may not open a socket: --connect HOST:PORTS or --bind ADDRESS:PORTS would allow it";
        assert!(nothing.err.contains(sentence), "{engine}: {}", nothing.err);
        assert!(
            nothing.out.contains("stream: error Some(76)"),
            "{engine}: {}",
            nothing.out
        );
    }
}

fn a_rule_that_is_none_names_the_forms_to_use() {
    for (options, says) in [
        (["--connect", "example.com"], "HOST:PORTS"),
        (["--connect", "http://example.com:80"], "HOST:PORTS"),
        (["--bind", "1-"], "HOST:PORTS"),
        (
            ["--bind", "example.com:80"],
            "a name cannot be bound: use PORTS, or ADDRESS:PORTS",
        ),
    ] {
        let (code, message) = refused("dial", &options);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(says), "{message}");
    }
}

//! Processes, and whole hosts, that are killed while they wait for peers: every socket comes back, and every peer learns it.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Server, guest};

const PATIENCE: Duration = Duration::from_secs(60);
/// Peers in each of the three states.
const EACH: usize = 4;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server that echoes, with a folder for its sockets of control.
struct Echo {
    server: Server,
    folder: tempfile::TempDir,
}

impl Echo {
    fn start(listen: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .env("XDG_RUNTIME_DIR", folder.path())
            .arg("run")
            .arg(guest("built/echo.wasm"))
            .args([
                "--engine",
                "cpu",
                "--alone",
                "--verbose",
                "--per-connection",
            ])
            .args(["--listen", listen]);
        let server = Server::run(command);
        Self { server, folder }
    }

    fn everwarp(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .args(args);
        everwarp_testkit::output(&mut command)
    }

    /// The processes that run.
    fn pids(&self) -> Vec<String> {
        let output = self.everwarp(&["ps", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let listed: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let rows = listed["engines"][0]["processes"].as_array();
        let rows = rows.into_iter().flatten();
        rows.filter_map(|row| row["pid"].as_str().map(str::to_owned))
            .collect()
    }

    /// Sends text and gets it back.
    fn is_served(&self) -> TcpStream {
        let mut peer = self.server.connect();
        peer.write_all(b"text").expect("it reads");
        let mut text = [0; 4];
        peer.read_exact(&mut text).expect("it answers");
        assert_eq!(&text, b"text");
        peer
    }

    /// Peers whose processes wait: for their first bytes, for further ones, and for room to write.
    fn peers(&self) -> Vec<TcpStream> {
        let mut peers = Vec::new();
        for _ in 0..EACH {
            peers.push(self.server.connect());
            peers.push(self.is_served());
            let mut deaf = self.server.connect();
            deaf.set_nonblocking(true).expect("a setting");
            let begin = Instant::now();
            // Until the process reads no more, because its own writes wait.
            let mut full = None;
            while full.is_none_or(|since: Instant| since.elapsed() < Duration::from_millis(300)) {
                assert!(begin.elapsed() < PATIENCE, "it takes everything");
                match deaf.write(&[b'x'; 1 << 16]) {
                    Ok(bytes) => {
                        assert!(bytes > 0, "the connection is open");
                        full = None;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        full.get_or_insert_with(Instant::now);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
            deaf.set_nonblocking(false).expect("a setting");
            peers.push(deaf);
        }
        peers
    }
}

/// Reads until a peer's connection has ended, in whatever way.
fn ends(mut peer: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match peer.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("it does not end: {error}"),
        }
    }
}

#[test]
fn processes_killed_while_they_wait_for_peers_leave_no_socket() {
    let echo = Echo::start("0");
    drop(echo.is_served());
    until("the first process ends", || echo.pids().is_empty());
    let own = echo.server.sockets();
    for _ in 0..2 {
        let peers = echo.peers();
        let pids = echo.pids();
        assert_eq!(pids.len(), peers.len());
        for pid in &pids {
            let killed = echo.everwarp(&["kill", pid]);
            assert!(killed.status.success(), "{killed:?}");
        }
        peers.into_iter().for_each(ends);
        until("every socket comes back", || echo.server.sockets() == own);
    }
    drop(echo.is_served());
    echo.server.signal(Signal::TERM);
    let said = String::from_utf8(echo.server.output().stderr).expect("it is text");
    assert!(said.contains(&format!("{} killed", 6 * EACH)), "{said}");
}

#[test]
fn a_host_killed_while_it_serves_ends_every_connection_and_frees_its_port() {
    let echo = Echo::start("0");
    let address = echo.server.address;
    let peers = echo.peers();
    echo.server.signal(Signal::KILL);
    let output = echo.server.output();
    assert_eq!(output.status.code(), None, "no exit code after SIGKILL");
    peers.into_iter().for_each(ends);
    drop(TcpListener::bind(address).expect("the port is free"));
    let again = Echo::start(&address.to_string());
    drop(again.is_served());
}

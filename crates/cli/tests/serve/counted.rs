//! After hostile peers everything is there again: sockets and memory are counted, and others are served as before.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::server::{Server, body, site, statuses};

const PLAIN: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// No state is waited for any longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory by which a server may grow between two rounds of the same peers: what an allocator keeps.
const GROWTH_MOST: u64 = 64 << 20;

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The sockets of a server without connections. It has some of its own, which it opens while it starts.
fn own_sockets(server: &Server) -> usize {
    assert_eq!(server.status(PLAIN), 200);
    let last = std::cell::Cell::new(0);
    until("the number of sockets stays", || {
        let before = last.replace(server.sockets());
        std::thread::sleep(Duration::from_millis(300));
        before == server.sockets()
    });
    server.sockets()
}

/// Ends a connection so that the other side sees a reset, whatever it has read.
fn reset(peer: TcpStream) {
    let now = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&peer, now).expect("it is open");
    drop(peer);
}

/// Resets at every step of a request, a body and an answer.
fn resets(server: &Server) {
    let post = b"POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nnot all";
    for request in [PLAIN, post] {
        for cut in (0..request.len()).step_by(3) {
            let mut peer = server.connect();
            peer.write_all(&request[..cut]).expect("it reads");
            reset(peer);
        }
    }
    for read in [0, 1, 100, 10_000] {
        let mut peer = server.connect();
        let large = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
        peer.write_all(&large).expect("it reads");
        let mut some = vec![0; read];
        peer.read_exact(&mut some).expect("it answers");
        reset(peer);
    }
}

/// A request in segments of one byte.
fn byte_by_byte(server: &Server) {
    let mut peer = server.connect();
    for byte in PLAIN {
        peer.write_all(&[*byte]).expect("it reads");
    }
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it answers");
    assert_eq!(body(&answer), "0123456789");
}

/// A thousand requests in one segment, all answered in order.
fn pipelined(server: &Server) {
    const REQUESTS: usize = 1000;
    let some = b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS);
    let answer = server.exchange(&some);
    let all = statuses(&answer);
    assert_eq!(
        (all.len(), all.iter().all(|status| *status == 200)),
        (REQUESTS, true)
    );
}

/// Peers that leave halfway: in a head, in a body, and with an answer that they do not read.
fn leaving(server: &Server) {
    let halfway: Vec<_> = [
        &b"GET / HTTP/1.1\r\nHost: "[..],
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    .into_iter()
    .cycle()
    .take(80)
    .map(|bytes| {
        let mut peer = server.connect();
        peer.write_all(bytes).expect("it reads");
        peer
    })
    .collect();
    // Meanwhile others are served.
    assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    drop(halfway);
}

/// What is too large, or what two servers could read differently, with more bytes behind it.
fn refused(server: &Server) {
    let long = "x".repeat(70_000);
    for (status, head) in [
        (414, format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        (
            431,
            format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"),
        ),
        (
            413,
            format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{long}"),
        ),
        (
            400,
            format!(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{long}"
            ),
        ),
    ] {
        assert_eq!(server.status(head), status);
    }
}

#[test]
fn every_socket_and_the_memory_come_back() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let own = own_sockets(&server);
    let mut memory = Vec::new();
    for _ in 0..3 {
        resets(&server);
        byte_by_byte(&server);
        pipelined(&server);
        leaving(&server);
        refused(&server);
        until("all connections have ended", || server.sockets() == own);
        memory.push(server.memory());
    }
    assert!(memory[2] < memory[0] + GROWTH_MOST, "{memory:?}");
    assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    let report = server.end();
    assert!(!report.contains("trap"), "{report}");
}

#[test]
fn descriptors_run_out_and_come_back() {
    let folder = site();
    let server = Server::with_descriptors(160, folder.path());
    let own = own_sockets(&server);
    let mut first = server.connect();
    first
        .write_all(b"GET /empty HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it reads");
    let mut some = [0; 12];
    first.read_exact(&mut some).expect("it answers");
    // More than there are descriptors: the system keeps the rest.
    let idle: Vec<_> = (0..300).map(|_| server.connect()).collect();
    let most = || server.sockets() > own + 50;
    until("the descriptors are used", most);
    // A refused listener stays ready. A server that asked it again and again would compute all the time.
    let before = server.ticks();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = server.ticks() - before;
    assert!(ticks < 60, "it spins: {ticks} ticks in a second");
    // Those that it has are answered, if only that a file cannot be opened.
    let mut rest = Vec::new();
    first.write_all(PLAIN).expect("it reads");
    first.read_to_end(&mut rest).expect("it ends");
    let rest = String::from_utf8_lossy(&rest);
    assert!(matches!(statuses(&rest)[..], [200 | 500 | 503]), "{rest}");
    drop(idle);
    assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    until("all connections have ended", || server.sockets() == own);
    let said = server.end();
    assert!(said.contains("no further connection for now"), "{said}");
}

/// A peer that has sent requests for small answers, more than the system keeps, and reads none of them.
fn pile_up(server: &Server) -> TcpStream {
    const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut peer = server.connect();
    let limit = Some(Duration::from_secs(1));
    peer.set_write_timeout(limit).expect("a limit");
    for _ in 0..2000 {
        // Once the server waits for its reader, it reads nothing either.
        if peer.write_all(&REQUEST.repeat(1000)).is_err() {
            return peer;
        }
    }
    panic!("it has read everything");
}

/// Answers follow each other whole, whatever is missing at the end: after a part that could not be sent nothing may come.
fn check_without_hole(mut answers: &[u8]) {
    const BEGIN: &[u8] = b"HTTP/1.1 200 OK\r\n";
    const END: &[u8] = b"\r\n\r\n0123456789";
    let mut whole = 0;
    while let Some(at) = answers.windows(END.len()).position(|part| part == END) {
        let (answer, rest) = answers.split_at(at + END.len());
        let begins = answer
            .windows(BEGIN.len())
            .filter(|part| *part == BEGIN)
            .count();
        assert!(answer.starts_with(BEGIN) && begins == 1, "after {whole}");
        answers = rest;
        whole += 1;
    }
    assert!(
        whole > 0 && answers.len() < 1000,
        "{whole}, {}",
        answers.len()
    );
}

/// The limits of the table in docs/server.md for bodies and readers. The peers wait together.
#[test]
fn slow_bodies_and_peers_that_do_not_read_are_cut_off() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let own = own_sockets(&server);
    let mut deaf = server.connect();
    let many = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(40);
    deaf.write_all(&many).expect("it reads");
    let mut piling = pile_up(&server);
    let mut slow = server.connect();
    slow.write_all(b"POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        .expect("it reads");
    slow.set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a limit");
    // A byte now and then does not help: the limit is for the whole body.
    let begin = Instant::now();
    let mut answer = Vec::new();
    loop {
        assert!(begin.elapsed() < 2 * PATIENCE, "it waits for ever");
        // The last byte may come too late.
        let _ = slow.write(b"b");
        let mut some = [0; 1000];
        match slow.read(&mut some) {
            Ok(0) => break,
            Ok(bytes) => answer.extend(&some[..bytes]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(_) => break,
        }
    }
    assert_eq!(statuses(&String::from_utf8_lossy(&answer)), [408]);
    // Its connection has ended long ago: it gets no more than was on its way.
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest);
    assert!(rest.len() < 40 << 20, "{} bytes", rest.len());
    let mut rest = Vec::new();
    let _ = piling.read_to_end(&mut rest);
    check_without_hole(&rest);
    drop((deaf, piling, slow));
    until("all connections have ended", || server.sockets() == own);
    server.end();
}

#[test]
fn a_peer_that_ends_its_half_gets_all_of_a_long_answer() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let mut peer = server.connect();
    let two = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    peer.write_all(&two).expect("it reads");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).expect("it answers");
    assert!(answer.len() > 2 << 20, "{} bytes", answer.len());
    server.end();
}

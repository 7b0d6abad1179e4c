//! Peers that are wrong, slow or malicious: each gets one answer, and its neighbours notice nothing.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::server::{Server, body, guest, site, statuses};

/// An ordinary request, to see that the server is well.
const PLAIN: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn what_two_servers_could_read_differently_is_refused() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    for (status, request) in [
        // Two lengths, or a length and chunks.
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            501,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            400,
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        ),
        (
            413,
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ),
        // Lines that end otherwise, go on, or hold what they may not.
        (400, "GET / HTTP/1.1\nHost: x\n\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost : x\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"),
        (400, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, "GET / HTTP/1.1 \r\nHost: x\r\n\r\n"),
        (400, "GET /\tx HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, "GET x HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, "G@T / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (505, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"),
        (400, "GET / HTP/1.1\r\nHost: x\r\n\r\n"),
        // The host that is meant.
        (400, "GET / HTTP/1.1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: x y\r\n\r\n"),
        // Chunks.
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        ),
        (
            413,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ),
        (
            413,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1ffffffffffffffff\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
        ),
    ] {
        let answer = server.exchange(request.as_bytes());
        assert_eq!(statuses(&answer), [status], "{request:?}");
        assert!(answer.contains("Connection: close"), "{request:?}");
    }
    assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    server.end();
}

#[test]
fn what_is_too_large_has_its_status() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let long = "x".repeat(20_000);
    assert_eq!(
        server.status(format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        414
    );
    assert_eq!(server.status(format!("GET /{long}{long}")), 414);
    assert_eq!(
        server.status(format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n")),
        431
    );
    let fields = "A: b\r\n".repeat(200);
    assert_eq!(
        server.status(format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")),
        431
    );
    assert_eq!(
        server.status("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"),
        413
    );
    assert_eq!(server.status(PLAIN), 200);
    server.end();
}

#[test]
fn a_peer_that_ends_its_half_is_answered_and_one_that_leaves_is_forgotten() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    // `exchange` ends its half.
    assert_eq!(
        statuses(&server.exchange(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n")),
        [200]
    );
    assert_eq!(server.exchange(b""), "");
    assert_eq!(statuses(&server.exchange(b"GET /a.t")), [400]);
    // Peers that leave at every step.
    for cut in 0..PLAIN.len() {
        let mut peer = server.connect();
        peer.write_all(&PLAIN[..cut]).expect("it reads");
        drop(peer);
    }
    for _ in 0..20 {
        let mut peer = server.connect();
        peer.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("it reads");
        let mut some = [0; 100];
        peer.read_exact(&mut some).expect("it answers");
        // With unread bytes, so the connection is reset.
        drop(peer);
    }
    assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    let report = server.end();
    assert!(!report.contains("trap"), "{report}");
}

#[test]
fn slow_peers_do_not_delay_others_and_are_cut_off() {
    let folder = site();
    let server = Server::with_files(folder.path(), &["--connections", "200"]);
    let begin = Instant::now();
    let mut slow: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for peer in &mut slow {
        peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
            .expect("it reads");
    }
    // Peers that never read what they have asked for.
    let deaf: Vec<_> = (0..20)
        .map(|_| {
            let mut peer = server.connect();
            let many = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(10);
            peer.write_all(&many).expect("it reads");
            peer
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(body(&server.exchange(PLAIN)), "0123456789");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(9),
        "{:?}",
        begin.elapsed()
    );
    // A byte now and then does not help.
    for peer in &mut slow {
        drop(peer.write_all(b"b"));
    }
    for mut peer in slow {
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("it ends");
        assert_eq!(statuses(&answer), [408]);
    }
    drop(deaf);
    server.end();
}

#[test]
fn more_connections_than_are_served_wait_for_their_turn() {
    let folder = site();
    let server = Server::with_files(folder.path(), &["--connections", "3"]);
    // They keep their processes: half of the head of their second request has come.
    let busy: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for mut peer in &busy {
        peer.write_all(b"GET /empty HTTP/1.1\r\nHost: x\r\n\r\nGET /")
            .expect("it reads");
        let mut first = [0; 12];
        peer.read_exact(&mut first).expect("it answers");
    }
    let mut fourth = server.connect();
    fourth.write_all(PLAIN).expect("the system keeps it");
    fourth
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a limit");
    let waits = fourth.read(&mut [0; 1]).expect_err("it is not served yet");
    assert!(matches!(
        waits.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    ));
    drop(busy);
    fourth
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    let mut answer = String::new();
    fourth.read_to_string(&mut answer).expect("it ends");
    assert_eq!(body(&answer), "0123456789");
    server.end();
}

/// A connection without a request needs no process, whether it has had one before or not.
#[test]
fn many_idle_connections_are_served_by_few_processes() {
    const IDLE: usize = 400;
    let folder = site();
    let server = Server::with_files(folder.path(), &["--connections", "3"]);
    let silent: Vec<_> = (0..IDLE).map(|_| server.connect()).collect();
    let ask = |mut peer: &std::net::TcpStream| {
        peer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"0123456789") {
            let mut some = [0; 1000];
            let bytes = peer.read(&mut some).expect("it answers");
            assert!(bytes > 0, "it has ended");
            answer.extend(&some[..bytes]);
        }
        assert_eq!(statuses(&String::from_utf8_lossy(&answer)), [200]);
    };
    let asking: Vec<_> = (0..12).map(|_| server.connect()).collect();
    // All of them at a time are four times as many as are served, and each comes back after the others.
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for peer in &asking {
                scope.spawn(|| ask(peer));
            }
        });
    }
    for peer in silent.iter().step_by(100) {
        ask(peer);
    }
    drop((silent, asking));
    let report = server.end();
    assert!(!report.contains("ended:"), "{report}");
}

/// Clients that are never idle share fewer processes than there are clients.
#[test]
fn clients_that_never_pause_take_turns() {
    const CLIENTS: usize = 6;
    let folder = site();
    let server = Server::with_files(folder.path(), &["--connections", "2"]);
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut peer = server.connect();
                let mut first = true;
                while answered.load(SeqCst) < CLIENTS {
                    peer.write_all(b"GET /empty HTTP/1.1\r\nHost: x\r\n\r\n")
                        .expect("it reads");
                    let mut answer = Vec::new();
                    while !answer.ends_with(b"\r\n\r\n") {
                        let mut some = [0; 1000];
                        let bytes = peer.read(&mut some).expect("its turn comes");
                        assert!(bytes > 0, "it has ended");
                        answer.extend(&some[..bytes]);
                    }
                    if std::mem::take(&mut first) {
                        answered.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    server.end();
}

/// A client that never pauses is answered until its connection is asked for, and loses no answer.
#[test]
fn a_signal_ends_a_connection_that_is_never_idle_between_two_answers() {
    let folder = site();
    let server = Server::with_files(folder.path(), &["--drain", "600"]);
    let mut peer = server.connect();
    let mut answered = 0;
    // A request that comes after the last answer is lost.
    let ends = |error: &std::io::Error| {
        matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe
        )
    };
    'requests: loop {
        if answered == 100 {
            server.signal(Signal::TERM);
        }
        if let Err(error) = peer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n") {
            assert!(ends(&error), "{error}");
            break;
        }
        let mut answer = String::new();
        while !answer.ends_with("0123456789") {
            let mut some = [0; 1000];
            let bytes = match peer.read(&mut some) {
                Ok(bytes) => bytes,
                Err(error) if ends(&error) => 0,
                Err(error) => panic!("{error}"),
            };
            if bytes == 0 {
                assert_eq!(answer, "", "a part of an answer");
                break 'requests;
            }
            answer += std::str::from_utf8(&some[..bytes]).expect("it is text");
        }
        assert_eq!(statuses(&answer), [200]);
        answered += 1;
    }
    assert!(answered > 100, "{answered} answers");
    assert_eq!(server.output().status.code(), Some(0));
}

/// More processes wait for their clients than the CPU engine has room for by default.
#[test]
fn fifteen_hundred_busy_connections_have_a_process_each() {
    const BUSY: usize = 1500;
    raise_descriptors(BUSY as u64 + 100);
    let folder = site();
    let server = Server::with_files(folder.path(), &["--connections", "2000"]);
    let mut busy: Vec<_> = (0..BUSY).map(|_| server.connect()).collect();
    for peer in &mut busy {
        let head =
            b"POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        peer.write_all(head).expect("it reads");
    }
    // The word comes from a process, which then waits for the body.
    const WORD: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    for peer in &mut busy {
        let mut word = [0; WORD.len()];
        peer.read_exact(&mut word).expect("it has a process");
        assert_eq!(word, WORD);
    }
    for peer in &mut busy {
        peer.write_all(b"body").expect("it reads");
        peer.shutdown(Shutdown::Write).expect("it is connected");
    }
    for peer in &mut busy {
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("it answers");
        assert_eq!(statuses(&answer), [405]);
    }
    server.end();
}

/// Lets this program have more descriptors.
fn raise_descriptors(least: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    assert!(most >= least, "a hard limit of {most} open files");
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("it is not above the hard limit");
}

/// A program that only exits leaves its connection to no other process, and the server is not to hold it while it waits.
#[test]
fn a_connection_ends_with_a_process_that_does_not_hand_it_back() {
    let words = guest("built/words.wasm");
    let words = words.to_str().expect("the path is text");
    let options = ["--alone", "--engine", "cpu", "--verbose", "--listen", "0"];
    let per_connection = ["--per-connection", "--idle-status", "75"];
    let server = Server::start(&[&["run", words], &options[..], &per_connection].concat());
    assert_eq!(server.exchange(b"three short words"), "0 3 17 -\n");
    // Both come together, and one of the processes goes on.
    let mut peers = [server.connect(), server.connect()];
    for peer in &mut peers {
        peer.write_all(b"two words").expect("it reads");
    }
    let [mut ends, stays] = peers;
    ends.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = String::new();
    ends.read_to_string(&mut answer).expect("it ends");
    assert_eq!(answer, "0 2 9 -\n");
    drop(stays);
    server.end();
}

/// More than there is room for is refused before anything is served.
#[test]
fn too_many_connections_are_refused_with_the_limit() {
    let folder = site();
    let files = folder.path().to_str().expect("the path is text");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.args(["serve", "--engine", "cpu", "--listen", "0"]);
    command.args(["--files", files, "--connections", "60000"]);
    let output = everwarp_testkit::output(&mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("vm.max_map_count"), "{said}");
}

#[test]
fn a_signal_lets_connections_end_and_refuses_new_ones() {
    let folder = site();
    let server = Server::with_files(folder.path(), &["--drain", "60"]);
    let mut peer = server.connect();
    peer.write_all(&PLAIN[..20]).expect("it reads");
    // The connection is accepted when another one, which came later, has been answered.
    assert_eq!(server.status(PLAIN), 200);
    server.signal(Signal::TERM);
    let begin = Instant::now();
    while std::net::TcpStream::connect(server.address).is_ok() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it still listens"
        );
        std::thread::yield_now();
    }
    peer.write_all(&PLAIN[20..]).expect("it is still served");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it ends");
    assert_eq!(body(&answer), "0123456789");
    let output = server.output();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn any_filter_is_a_server() {
    let module = guest("built/words.wasm");
    let module = module.to_str().expect("the path is text");
    let server = Server::start(&[
        "run",
        module,
        "--engine",
        "cpu",
        "--alone",
        "--verbose",
        "--listen",
        "0",
        "--per-connection",
    ]);
    let mut peers: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.write_all("word ".repeat(number).as_bytes())
            .expect("it reads");
    }
    // The other way round, so that none waits for another.
    for (number, mut peer) in peers.into_iter().enumerate().rev() {
        peer.shutdown(Shutdown::Write).expect("it is connected");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("it ends");
        let words = answer.split_whitespace().nth(1).expect("the second number");
        assert_eq!(words, number.to_string(), "{answer}");
    }
    assert!(server.end().contains("10 exit code 0"));
}

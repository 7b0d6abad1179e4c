//! Sockets of native tasks.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::files::{
    Connection, DevNetAddress, FileErrno, Files, FilesConfig, Listener, Network, Rights,
    SHUT_RECEIVING, SHUT_SENDING, SOCKET_KEEP_ALIVE, SOCKET_NO_DELAY, SOCKET_SEND_BUFFER,
    SOCKET_TIME_TO_LIVE,
};
use everwarp::{Buffer, DevType, Device, Engine, Layout, Pending, Select};
use everwarp_programs::echo::{self, Echo};
use everwarp_programs::file_probe::{DevFileStep, Op, Script};
use everwarp_testkit::cases;

use crate::files::{Results, address, chain, files, noise, run, script, shared, start};
use crate::support::{Case, least_size, random, wait_until};

pub(crate) const ALL: &[Case] = cases![
    sockets_echo_in_both_families,
    sockets_outlast_hostile_peers,
    sockets_connect_send_and_end_half,
    sockets_listen_where_a_rule_allows_it,
    sockets_carry_datagrams,
    sockets_keep_the_order_of_a_line,
    sockets_that_are_closed_end_their_requests,
    sockets_of_dropped_files_are_closed,
    sockets_without_a_free_handle_leave_peers_in_the_queue,
    sockets_refuse_wrong_requests,
    sockets_outlast_a_park,
    sockets_give_up_at_a_deadline,
    sockets_cancel_requests_that_wait,
    sockets_have_settings_and_peers,
    sockets_reply_to_requests_of_http,
    sockets_are_no_more_than_there_may_be,
];

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

/// The families, by an address of this machine with any port.
pub(crate) fn families() -> [SocketAddr; 2] {
    [
        (Ipv4Addr::LOCALHOST, 0).into(),
        (Ipv6Addr::LOCALHOST, 0).into(),
    ]
}

fn network(connect: &str, bind: &str) -> Network {
    let rules = |text: &str| {
        let rules = text.split_whitespace();
        rules.map(|rule| rule.parse().expect("a rule")).collect()
    };
    Network::new(rules(connect), rules(bind))
}

fn listen(at: SocketAddr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(at).expect("a free port");
    let at = listener.local_addr().expect("it is bound");
    (listener, at)
}

/// A listener whose queue is full, so that a further connection is never made, and the peers in its queue.
fn full_listener() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
    let (listener, at) = listen(families()[0]);
    rustix::net::listen(&listener, 0).expect("it has no room");
    let mut peers = Vec::new();
    while let Ok(peer) = TcpStream::connect_timeout(&at, Duration::from_millis(100)) {
        peers.push(peer);
        assert!(peers.len() < 100, "it takes all of them");
    }
    (listener, at, peers)
}

/// A listener for tasks.
pub(crate) fn listener(at: SocketAddr) -> (Listener, SocketAddr) {
    let (listener, at) = listen(at);
    (Listener::from_std(listener).expect("it listens"), at)
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(LIMIT).expect("a limit");
    stream.set_write_timeout(LIMIT).expect("a limit");
    stream.set_nodelay(true).expect("a setting");
    stream
}

/// A connection that tasks have, and its peer.
pub(crate) fn pair(files: &Files) -> (u32, TcpStream) {
    let (listener, at) = listener(families()[0]);
    let peer = connect(at);
    let mut connection = None;
    wait_until("the connection comes", || {
        connection = listener.accept().ok();
        connection.is_some()
    });
    let connection: Connection = connection.expect("it has come");
    let handle = files.give_connection(&connection).expect("a free handle");
    (handle.0, peer)
}

/// A place in shared memory for an address.
fn place(files: &Files, at: Option<SocketAddr>) -> Arc<Buffer<u8>> {
    let at = at.map_or(DevNetAddress::ZERO, DevNetAddress::from);
    shared(files, at.bytes())
}

fn placed(place: &Buffer<u8>) -> Option<SocketAddr> {
    let bytes = place.read().expect("it can be read");
    DevNetAddress::from_bytes(&bytes).socket_address()
}

pub(crate) fn open(files: &Files) -> usize {
    files.stats().expect("there are counters").open
}

pub(crate) fn in_flight(files: &Files, count: u64) {
    wait_until("the requests are on their way", || {
        files.stats().expect("there are counters").in_flight == count
    });
}

fn results(script: &Script) -> Results {
    script.results().expect("they can be read")
}

fn handle(results: &Results, step: usize) -> u32 {
    match results[step] {
        Some(Ok(handle)) if handle > 0 => handle,
        other => panic!("step {step}: {other:?}"),
    }
}

const fn step(op: Op, handle: u32, address: u64, len: u32) -> DevFileStep {
    DevFileStep::new(op, handle, 0, address, len)
}

fn error(error: FileErrno) -> Option<Result<u32, FileErrno>> {
    Some(Err(error))
}

/// A receive has brought these bytes, or under faults the first of them. Returns how many.
fn brought(result: Option<Result<u32, FileErrno>>, all: u32) -> usize {
    let least = match std::env::var_os("EVERWARP_FILE_FAULTS") {
        None => all,
        Some(_) => 1,
    };
    match result {
        Some(Ok(bytes)) if (least..=all).contains(&bytes) => bytes as usize,
        other => panic!("{other:?} instead of {all} bytes"),
    }
}

/// A server with a port of its own.
pub(crate) struct Server {
    engine: Engine,
    pub(crate) echo: Echo,
    pub(crate) at: SocketAddr,
    pending: Pending,
}

pub(crate) fn server(select: Select, at: SocketAddr, slots: u32, piece: u32) -> Server {
    replying(select, at, (slots, piece), &[])
}

/// A server that replies to requests, unless the reply is empty.
fn replying(select: Select, at: SocketAddr, (slots, piece): (u32, u32), reply: &[u8]) -> Server {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&echo::PROGRAM).size(2).start();
    let engine = engine.expect("the engine starts");
    let (listener, at) = listener(at);
    let echo = Echo::answering(&engine, &listener, slots, piece, reply);
    let echo = echo.expect("there is memory");
    let pending = echo.start(&engine).expect("there is room");
    Server {
        engine,
        echo,
        at,
        pending,
    }
}

impl Server {
    /// Waits until only the listener is open, ends the server, and returns how many bytes it has sent back.
    pub(crate) fn end(mut self) -> u64 {
        wait_until("every handle is given back", || {
            self.echo.stats().expect("there are counters").open == 1
        });
        self.echo.stop();
        let sent = self.pending.wait().expect("all slots end").value;
        let stats = self.echo.stats().expect("there are counters");
        assert_eq!((stats.open, stats.in_flight), (0, 0));
        drop(self.engine);
        sent
    }
}

/// Sends bytes in pieces of random lengths while it receives them, and ends its half.
pub(crate) fn talk(to: SocketAddr, bytes: usize, mut seed: u64) {
    let stream = connect(to);
    let sent = noise(bytes, seed | 1);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut received = Vec::new();
            (&stream).read_to_end(&mut received).expect("it ends");
            received
        });
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let part = (random(&mut seed) as usize % 20_000 + 1).min(rest.len());
            (&stream).write_all(&rest[..part]).expect("it is received");
            rest = &rest[part..];
        }
        stream.shutdown(Shutdown::Write).expect("it is connected");
        assert!(receiver.join().expect("no panic") == sent);
    });
}

fn sockets_echo_in_both_families(select: Select) {
    for at in families() {
        let server = server(select, at, 4, 10_000);
        let to = server.at;
        // More peers than slots.
        std::thread::scope(|scope| {
            for peer in 0..12 {
                scope.spawn(move || talk(to, 100_000 + peer * 7, peer as u64 + 1));
            }
        });
        talk(to, 0, 1);
        assert_eq!(
            server.end(),
            (0..12).map(|peer| 100_000 + peer * 7).sum::<u64>()
        );
    }
}

/// Ends a connection with a reset: the system resets one that is closed while bytes have not been read.
fn reset(to: SocketAddr, bytes: &[u8]) {
    let mut stream = connect(to);
    stream.write_all(bytes).expect("it is connected");
    stream.peek(&mut [0; 1]).expect("an echo comes");
}

fn sockets_outlast_hostile_peers(select: Select) {
    let server = server(select, families()[0], 8, 1000);
    let to = server.at;
    // It sends for as long as it can, and never reads: its slot waits, and others go on.
    let deaf = connect(to);
    deaf.set_nonblocking(true).expect("a setting");
    let bytes = [7; 100_000];
    let mut idle = 0;
    while idle < 200 {
        match (&deaf).write(&bytes) {
            Ok(sent) => {
                assert!(sent > 0, "it is connected");
                idle = 0;
            }
            Err(_) => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    // It never says anything.
    let mute = connect(to);
    for round in 0..20 {
        reset(to, &noise(1 + round * 300, 3));
        // It ends before a byte is sent.
        drop(connect(to));
        talk(to, 5_000, round as u64 + 1);
    }
    // One byte a segment.
    let mut slow = connect(to);
    for byte in 0..200_u8 {
        slow.write_all(&[byte]).expect("it is received");
        let mut echo = [0];
        slow.read_exact(&mut echo).expect("it comes back");
        assert_eq!(echo, [byte]);
    }
    // It ends its half and goes on reading.
    slow.write_all(b"last").expect("it is received");
    slow.shutdown(Shutdown::Write).expect("it is connected");
    let mut last = String::new();
    slow.read_to_string(&mut last).expect("it ends");
    assert_eq!(last, "last");
    drop((deaf, mute));
    // No slot is lost.
    std::thread::scope(|scope| {
        for peer in 0..8 {
            scope.spawn(move || talk(to, 50_000, peer + 1));
        }
    });
    server.end();
}

fn sockets_connect_send_and_end_half(select: Select) {
    let engine = start(select);
    for at in families() {
        let files = files(&engine, FilesConfig::default());
        let (listener, at) = listen(at);
        // A port at which no program listens.
        let (unused, refused) = listen(at_any_port(at));
        drop(unused);
        let rules = format!("{} {}", at.port(), refused.port());
        files.allow(network(&rules, ""));
        let [to, closed] = [at, refused].map(|at| place(&files, Some(at)));
        let denied = place(&files, Some(SocketAddr::new(at.ip(), 1)));
        let own = place(&files, None);
        let bytes = noise(3_000_000, 5);
        let (source, target) = (shared(&files, &bytes), shared(&files, &[0; 16]));
        let both = u64::from(SHUT_RECEIVING | SHUT_SENDING);
        let steps = chain(&[
            step(Op::Connect, 0, address(&to), 0),
            step(Op::Address, 0, address(&own), 0).of(0),
            step(Op::Send, 0, address(&source), 3_000_000).of(0),
            DevFileStep::new(Op::Shut, 0, SHUT_SENDING.into(), 0, 0).of(0),
            step(Op::Receive, 0, address(&target), 16).of(0),
            step(Op::Receive, 0, address(&target) + 8, 8).of(0),
            step(Op::Send, 0, address(&source), 1).of(0),
            DevFileStep::new(Op::Shut, 0, both, 0, 0).of(0),
            step(Op::Close, 0, 0, 0).of(0),
            step(Op::Connect, 0, address(&closed), 0),
            step(Op::Connect, 0, address(&denied), 0),
        ]);
        let script = script(&engine, &files, &steps);
        let server = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("a task connects");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("its half ends");
            stream.write_all(b"answer").expect("the other half is open");
            (received, from)
        });
        let results = run(&engine, &script, 1);
        let (received, from) = server.join().expect("no panic");
        assert!(received == bytes);
        assert_eq!(placed(&own), Some(from));
        handle(&results, 0);
        assert_eq!(results[1..4], [0, 3_000_000, 0].map(|n| Some(Ok(n))));
        let came = brought(results[4], 6);
        // The rest of the answer, or its end.
        let rest = match came {
            6 => results[5],
            _ => Some(Ok(0)).filter(|_| brought(results[5], 6 - came as u32) > 0),
        };
        assert_eq!(rest, Some(Ok(0)));
        assert_eq!(results[6], error(FileErrno::PIPE));
        // The system refuses to end what both sides have ended.
        let ended = [Some(Ok(0)), error(FileErrno::NOTCONN)];
        assert!(ended.contains(&results[7]), "{results:?}");
        assert_eq!(results[8], Some(Ok(0)));
        assert_eq!(results[9], error(FileErrno::CONNREFUSED));
        assert_eq!(results[10], error(FileErrno::NOTCAPABLE));
        let target = target.read().expect("it can be read");
        assert_eq!(target[..came], b"answer"[..came]);
        assert_eq!(open(&files), 0);
    }
}

fn at_any_port(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip(), 0)
}

fn sockets_listen_where_a_rule_allows_it(select: Select) {
    let engine = start(select);
    for at in families() {
        let files = files(&engine, FilesConfig::default());
        let (taken, taken_at) = listen(at);
        let bind = format!("0,{}", taken_at.port());
        files.allow(network("", &bind));
        let [any, in_use] = [at, taken_at].map(|at| place(&files, Some(at)));
        let denied = place(&files, Some(SocketAddr::new(at.ip(), 1)));
        let no_port = DevNetAddress {
            port: 65_536,
            ..DevNetAddress::ZERO
        };
        let no_port = shared(&files, no_port.bytes());
        let (own, peer) = (place(&files, None), place(&files, None));
        let bytes = shared(&files, b"hello...");
        let mut steps = vec![
            step(Op::Listen, 0, address(&any), 0).then(1),
            step(Op::Address, 0, address(&own), 0).of(0),
            step(Op::Accept, 0, address(&peer), 0).of(0).then(3),
            step(Op::Send, 0, address(&bytes), 5).of(2).then(4),
            step(Op::Close, 0, 0, 0).of(2),
            step(Op::Receive, 0, address(&bytes), 5).of(0).then(6),
            step(Op::Close, 0, 0, 0).of(0),
        ];
        steps.extend([&in_use, &denied, &no_port].map(|at| step(Op::Listen, 0, address(at), 0)));
        let script = script(&engine, &files, &steps);
        assert_eq!(run(&engine, &script, 1)[1], Some(Ok(0)));
        let listens = placed(&own).expect("it has an address");
        assert!(listens.ip() == at.ip() && listens.port() != 0);
        let mut accepting = script.submit(&engine, 2, 1).expect("there is room");
        let mut client = connect(listens);
        let mut text = String::new();
        client.read_to_string(&mut text).expect("it is closed");
        assert_eq!(accepting.wait().expect("it runs").value, 3);
        assert_eq!(text, "hello");
        assert_eq!(placed(&peer), client.local_addr().ok());
        for (first, count, done) in [(5, 1, 2), (7, 3, 3)] {
            let mut rest = script.submit(&engine, first, count);
            let rest = rest.as_mut().expect("there is room");
            assert_eq!(rest.wait().expect("it runs").value, done);
        }
        let results = results(&script);
        assert_eq!(results[5], error(FileErrno::NOTCONN));
        assert_eq!(results[6], Some(Ok(0)));
        assert_eq!(results[7], error(FileErrno::ADDRINUSE));
        assert_eq!(results[8], error(FileErrno::NOTCAPABLE));
        assert_eq!(results[9], error(FileErrno::INVAL));
        assert_eq!(open(&files), 0);
        assert!(TcpStream::connect(listens).is_err(), "it listens no more");
        drop(taken);
    }
}

fn sockets_carry_datagrams(select: Select) {
    let engine = start(select);
    for at in families() {
        let files = files(&engine, FilesConfig::default());
        let client = UdpSocket::bind(at).expect("a free port");
        client.set_read_timeout(LIMIT).expect("a limit");
        let stranger = UdpSocket::bind(at).expect("a free port");
        let to_client = client.local_addr().expect("it is bound");
        let unspecified = match at {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        files.allow(network("", "0"));
        let [any, at_client, at_stranger, none] = [
            at,
            to_client,
            stranger.local_addr().expect("it is bound"),
            unspecified,
        ]
        .map(|at| place(&files, Some(at)));
        let (own, sender) = (place(&files, None), place(&files, None));
        let (target, source) = (shared(&files, &[0; 100]), shared(&files, &noise(9000, 1)));
        let to = |op, len, at: &Buffer<u8>| {
            DevFileStep::new(op, 0, at.ptr().address(), address(&source), len)
        };
        let steps = [
            step(Op::Datagrams, 0, address(&any), 0).then(1),
            step(Op::Address, 0, address(&own), 0).of(0).then(2),
            // It has not heard the client yet.
            to(Op::SendTo, 10, &at_client).of(0),
            DevFileStep::new(Op::ReceiveFrom, 0, address(&sender), address(&target), 4)
                .of(0)
                .then(4),
            to(Op::SendTo, 8192, &at_client).of(0).then(5),
            to(Op::SendTo, 0, &at_client).of(0).then(6),
            to(Op::SendTo, 8193, &at_client).of(0).then(7),
            to(Op::SendTo, 1, &at_stranger).of(0).then(8),
            step(Op::Close, 0, 0, 0).of(0),
            // A client, which is not bound.
            step(Op::Datagrams, 0, address(&none), 0).then(10),
            to(Op::SendTo, 9, &at_client).of(9).then(11),
            step(Op::ReceiveFrom, 0, address(&target) + 50, 50)
                .of(9)
                .then(12),
            step(Op::Close, 0, 0, 0).of(9),
        ];
        let script = script(&engine, &files, &steps);
        assert_eq!(
            run(&engine, &script, 1)[1..3],
            [Some(Ok(0)), error(FileErrno::NOTCAPABLE)]
        );
        let to_task = placed(&own).expect("it has an address");
        let mut task = script.submit(&engine, 3, 1).expect("there is room");
        client.send_to(b"question", to_task).expect("it is sent");
        assert_eq!(task.wait().expect("it answers").value, 6);
        let mut answer = [0; 10_000];
        assert_eq!(
            client.recv_from(&mut answer).expect("it comes"),
            (8192, to_task)
        );
        assert!(answer[..8192] == source.read().expect("it can be read")[..8192]);
        assert_eq!(
            client.recv_from(&mut answer).expect("an empty one"),
            (0, to_task)
        );
        assert_eq!(placed(&sender), Some(to_client));
        assert!(
            target
                .read()
                .expect("it can be read")
                .starts_with(b"ques\0")
        );
        // Now a rule lets a task begin.
        let rule = network(&to_client.port().to_string(), "");
        files.allow(rule);
        let mut task = script.submit(&engine, 9, 1).expect("there is room");
        let (len, from) = client.recv_from(&mut answer).expect("it comes");
        client.send_to(&answer[..len], from).expect("it is sent");
        assert_eq!(task.wait().expect("it ends").value, 4);
        let results = results(&script);
        assert_eq!(results[3..6], [4, 8192, 0].map(|n| Some(Ok(n))));
        assert_eq!(results[6], error(FileErrno::MSGSIZE));
        assert_eq!(results[7], error(FileErrno::NOTCAPABLE));
        assert_eq!(results[10..13], [9, 9, 0].map(|n| Some(Ok(n))));
        assert_eq!(open(&files), 0);
    }
}

fn sockets_keep_the_order_of_a_line(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let (handle, mut peer) = pair(&files);
    let bytes = noise(60 * 5000, 8);
    let (source, target) = (shared(&files, &bytes), shared(&files, &[0; 6000]));
    // Receives that wait keep no send from being done. All are asked for by one task.
    let mut steps: Vec<_> = (0..30)
        .map(|at| step(Op::Receive, handle, address(&target) + at * 100, 100))
        .collect();
    steps.extend((0..30).map(|at| step(Op::Send, handle, address(&source) + at * 5000, 5000)));
    let script = script(&engine, &files, &steps);
    let mut pending = script.submit(&engine, 0, 60).expect("there is room");
    let mut received = vec![0; 30 * 5000];
    peer.read_exact(&mut received).expect("all is sent");
    assert!(received == bytes[..30 * 5000]);
    peer.write_all(&bytes[..3000]).expect("it is received");
    assert_eq!(pending.wait().expect("it runs").value, 60);
    let results = results(&script);
    assert!(results[30..].iter().all(|sent| *sent == Some(Ok(5000))));
    // A receive may get fewer bytes, but they are in order.
    let target = target.read().expect("it can be read");
    let mut joined = Vec::<u8>::new();
    for (at, result) in results[..30].iter().enumerate() {
        let Some(Ok(len @ 1..=100)) = *result else {
            panic!("{result:?}");
        };
        joined.extend(&target[at * 100..][..len as usize]);
    }
    assert!(joined == bytes[..joined.len()]);
}

fn sockets_that_are_closed_end_their_requests(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let (listener, _at) = listener(families()[0]);
    let listens = files.give_listener(&listener).expect("a free handle").0;
    let (talks, peer) = pair(&files);
    let much = shared(&files, &vec![1; 64 << 20]);
    let bytes = shared(&files, &[0; 10]);
    let steps = [
        step(Op::Accept, listens, 0, 0),
        step(Op::Accept, listens, 0, 0),
        step(Op::Receive, talks, address(&bytes), 10),
        // The peer does not read, and no system has so much room.
        step(Op::Send, talks, address(&much), 64 << 20),
        step(Op::Send, talks, address(&bytes), 10),
        step(Op::Close, talks, 0, 0),
        step(Op::Close, listens, 0, 0),
    ];
    let script = script(&engine, &files, &steps);
    let mut waiting = script.submit(&engine, 0, 5).expect("there is room");
    in_flight(&files, 5);
    let mut closing = script.submit(&engine, 5, 2).expect("there is room");
    assert_eq!(closing.wait().expect("nothing keeps it").value, 2);
    assert_eq!(waiting.wait().expect("they end").value, 5);
    let results = results(&script);
    let canceled = error(FileErrno::CANCELED);
    assert_eq!(results[..3], [canceled; 3]);
    // What was sent before is said, if there was any.
    let part = matches!(results[3], Some(Ok(1..0x400_0000)));
    assert!(part || results[3] == canceled, "{:?}", results[3]);
    assert_eq!(results[4..], [canceled, Some(Ok(0)), Some(Ok(0))]);
    assert_eq!(open(&files), 0);
    drop(peer);
}

fn sockets_of_dropped_files_are_closed(select: Select) {
    let engine = start(select);
    for round in 0..10 {
        let files = files(&engine, FilesConfig::default());
        let (listener, at) = listener(families()[round % 2]);
        files.allow(network("*:*", ""));
        let listens = files.give_listener(&listener).expect("a free handle").0;
        let (talks, mut peer) = pair(&files);
        let bytes = shared(&files, &[0; 10]);
        let to = place(&files, Some(at));
        let mut steps = vec![step(Op::Connect, 0, address(&to), 0); 20];
        steps.extend([step(Op::Accept, listens, 0, 0); 15]);
        steps.extend([step(Op::Receive, talks, address(&bytes), 10); 15]);
        let script = script(&engine, &files, &steps);
        let mut pending = script.submit(&engine, 0, 50).expect("there is room");
        if round > 3 {
            // Some are accepted, and all others wait.
            in_flight(&files, 15);
        }
        files.close();
        assert_eq!(pending.wait().expect("all is answered").value, 50);
        for (step, result) in results(&script).into_iter().enumerate() {
            let opened = step < 35 && matches!(result, Some(Ok(1..)));
            assert!(
                opened || result == error(FileErrno::CANCELED),
                "{step}: {result:?}"
            );
        }
        let stats = files.stats().expect("there are counters");
        assert_eq!((stats.open, stats.in_flight), (0, 0));
        // Its connections are closed, whether or not the files are still there.
        assert_eq!(peer.read(&mut [0; 1]).expect("it ends"), 0);
    }
}

fn sockets_without_a_free_handle_leave_peers_in_the_queue(select: Select) {
    let engine = start(select);
    let config = FilesConfig {
        handles: 2,
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let (listener, at) = listener(families()[0]);
    let listens = files.give_listener(&listener).expect("a free handle").0;
    let bytes = shared(&files, b"served");
    let steps = [
        step(Op::Accept, listens, 0, 0),
        step(Op::Accept, listens, 0, 0),
        step(Op::Close, 0, 0, 0).of(0).then(3),
        step(Op::Accept, listens, 0, 0).then(4),
        step(Op::Send, 0, address(&bytes), 6).of(3).then(5),
        step(Op::Close, 0, 0, 0).of(3),
    ];
    let script = script(&engine, &files, &steps);
    let (_first, mut second) = (connect(at), connect(at));
    for at in 0..2 {
        let mut accept = script.submit(&engine, at, 1).expect("there is room");
        assert_eq!(accept.wait().expect("it ends").value, 1);
    }
    assert_eq!(results(&script)[1], error(FileErrno::MFILE));
    let mut rest = script.submit(&engine, 2, 1).expect("there is room");
    let mut text = String::new();
    second.read_to_string(&mut text).expect("it is served");
    assert_eq!(text, "served");
    assert_eq!(rest.wait().expect("it runs").value, 4);
    assert_eq!(open(&files), 1);
}

fn sockets_refuse_wrong_requests(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let (talks, mut peer) = pair(&files);
    let file = tempfile::tempfile().expect("a temporary file");
    let file = files.give(file, Rights::ReadWrite, false);
    let file = file.expect("a free handle").0;
    let bytes = shared(&files, &[9; 100]);
    let at = address(&bytes);
    let any = place(&files, Some(families()[0]));
    let cases = [
        (step(Op::Receive, file, at, 10), FileErrno::NOTSOCK),
        (step(Op::Read, talks, at, 10), FileErrno::BADF),
        (step(Op::Sync, talks, 0, 0), FileErrno::BADF),
        (step(Op::Tick, talks, 0, 0), FileErrno::NOTSUP),
        (step(Op::Receive, talks ^ 1 << 20, at, 10), FileErrno::BADF),
        (step(Op::Receive, talks, at + 91, 10), FileErrno::FAULT),
        (step(Op::Send, talks, at, 101), FileErrno::FAULT),
        (step(Op::Send, talks, at, u32::MAX), FileErrno::INVAL),
        (step(Op::Receive, talks, at, 0), FileErrno::INVAL),
        (step(Op::Accept, talks, 0, 0), FileErrno::INVAL),
        (step(Op::Accept, talks, at + 90, 0), FileErrno::FAULT),
        (step(Op::ReceiveFrom, talks, at, 10), FileErrno::NOTSUP),
        (step(Op::Address, talks, at + 90, 0), FileErrno::FAULT),
        (DevFileStep::new(Op::Shut, talks, 4, 0, 0), FileErrno::INVAL),
        (DevFileStep::new(Op::Shut, talks, 0, 0, 0), FileErrno::INVAL),
        // No rule was given.
        (step(Op::Listen, 0, address(&any), 0), FileErrno::NOTCAPABLE),
        (
            step(Op::Connect, 0, address(&any), 0),
            FileErrno::NOTCAPABLE,
        ),
        (
            step(Op::Datagrams, 0, address(&any), 0),
            FileErrno::NOTCAPABLE,
        ),
    ];
    let steps: Vec<_> = cases.iter().map(|(step, _)| *step).collect();
    let wrong = script(&engine, &files, &steps);
    let expected: Results = cases.iter().map(|(_, wrong)| error(*wrong)).collect();
    assert_eq!(run(&engine, &wrong, cases.len() as u32), expected);
    assert_eq!(open(&files), 2);
    // The connection is none the worse for it.
    drop((wrong, files));
    assert_eq!(peer.read(&mut [0; 1]).expect("it ends"), 0);
}

fn sockets_outlast_a_park(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let (handle, mut peer) = pair(&files);
    let bytes = shared(&files, &[0; 64]);
    let steps: Vec<_> = (0..60)
        .flat_map(|at| {
            let receive = step(Op::Receive, handle, address(&bytes), 64).then(2 * at + 1);
            let send = step(Op::Send, handle, address(&bytes), 1);
            [receive, if at < 59 { send.then(2 * at + 2) } else { send }]
        })
        .collect();
    let script = script(&engine, &files, &steps);
    let mut pending = script.submit(&engine, 0, 1).expect("there is room");
    let mut echo = [0; 1];
    for round in 0..60_u8 {
        if round % 20 == 10 {
            engine.park().expect("it parks");
        }
        peer.write_all(&[round]).expect("it is received");
        if round % 20 == 10 {
            let size = least_size(engine.kind()) + u32::from(round == 30);
            engine.resume_with(size).expect("it resumes");
        }
        peer.read_exact(&mut echo).expect("a task answers");
        assert_eq!(echo, [round]);
    }
    assert_eq!(pending.wait().expect("it runs").value, 120);
}

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

fn sockets_give_up_at_a_deadline(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    files.allow(network("*:*", ""));
    let (listener, at) = listener(families()[0]);
    let listens = files.give_listener(&listener).expect("a free handle").0;
    let (talks, mut peer) = pair(&files);
    let much = shared(&files, &vec![1; 64 << 20]);
    let bytes = shared(&files, &[0; 10]);
    let to = place(&files, Some(at));
    let (_full, nowhere, _peers) = full_listener();
    let nowhere = place(&files, Some(nowhere));
    let within = |op, handle, nanos, at: &Buffer<u8>, len| {
        DevFileStep::new(op, handle, nanos, address(at), len)
    };
    let steps = [
        DevFileStep::new(Op::AcceptWithin, listens, 5 * MS, 0, 0),
        within(Op::ReceiveWithin, talks, 5 * MS, &bytes, 10),
        // The peer does not read, and no system has so much room.
        within(Op::SendWithin, talks, 20 * MS, &much, 64 << 20),
        within(Op::SendWithin, talks, 5 * MS, &much, 64 << 20),
        within(Op::ConnectWithin, 0, 5 * MS, &nowhere, 0),
        // Those that are done in time.
        within(Op::ConnectWithin, 0, HOUR, &to, 0),
        DevFileStep::new(Op::AcceptWithin, listens, HOUR, 0, 0),
        within(Op::ReceiveWithin, talks, HOUR, &bytes, 10),
        // One that no clock reaches.
        within(Op::ReceiveWithin, talks, u64::MAX, &bytes, 10),
    ];
    let script = script(&engine, &files, &steps);
    let begin = Instant::now();
    let mut pending = script.submit(&engine, 0, 5).expect("there is room");
    assert_eq!(pending.wait().expect("they end").value, 5);
    assert!(begin.elapsed() >= Duration::from_millis(20));
    let mut pending = script.submit(&engine, 5, 2).expect("there is room");
    assert_eq!(pending.wait().expect("they meet").value, 2);
    in_flight(&files, 0);
    let mut pending = script.submit(&engine, 7, 2).expect("there is room");
    in_flight(&files, 2);
    peer.write_all(b"bytes").expect("it is connected");
    wait_until("the first receive has ended", || {
        files.stats().expect("there are counters").in_flight < 2
    });
    peer.write_all(b"more").expect("it is connected");
    assert_eq!(pending.wait().expect("they end").value, 2);
    let results = results(&script);
    let late = error(FileErrno::TIMEDOUT);
    assert_eq!(results[..2], [late; 2]);
    let part = matches!(results[2], Some(Ok(1..0x400_0000)));
    assert!(part || results[2] == late, "{:?}", results[2]);
    assert_eq!(results[3], late);
    assert_eq!(results[4], late);
    assert!(handle(&results, 5) != handle(&results, 6));
    let came = brought(results[7], 5);
    // The rest of what came first, or what came then.
    brought(results[8], if came == 5 { 4 } else { 9 - came as u32 });
    assert_eq!(open(&files), 4);
}

fn sockets_cancel_requests_that_wait(select: Select) {
    let engine = start(select);
    let config = FilesConfig {
        timers: 10,
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let (listener, _at) = listener(families()[0]);
    let listens = files.give_listener(&listener).expect("a free handle").0;
    let (talks, mut peer) = pair(&files);
    let file = tempfile::tempfile().expect("a temporary file");
    let file = files.give(file, Rights::ReadWrite, false);
    let file = file.expect("a free handle").0;
    let bytes = shared(&files, &[0; 20]);
    let cancel = |handle, note| DevFileStep::new(Op::Cancel, handle, note, 0, 0);
    let steps = [
        step(Op::Accept, listens, 0, 0),
        step(Op::Receive, talks, address(&bytes), 10),
        step(Op::Receive, talks, address(&bytes) + 10, 10),
        DevFileStep::new(Op::Timer, 0, HOUR, HOUR, 0),
        step(Op::Tick, 0, 0, 0).of(3),
        cancel(listens, 0),
        cancel(talks, 1),
        cancel(0, 4).of(3),
        // No request has such a note.
        cancel(talks, 77),
        cancel(file, 1),
        cancel(talks ^ 1 << 20, 1),
        step(Op::Close, 0, 0, 0).of(3),
    ];
    let script = script(&engine, &files, &steps);
    let mut timer = script.submit(&engine, 3, 1).expect("there is room");
    assert_eq!(timer.wait().expect("it is set").value, 1);
    // Its own request is not counted with those that wait.
    in_flight(&files, 0);
    let mut waiting = script.submit(&engine, 0, 3).expect("there is room");
    let mut ticks = script.submit(&engine, 4, 1).expect("there is room");
    in_flight(&files, 4);
    let mut cancels = script.submit(&engine, 5, 6).expect("there is room");
    assert_eq!(cancels.wait().expect("nothing keeps them").value, 6);
    in_flight(&files, 1);
    peer.write_all(b"bytes").expect("it is connected");
    assert_eq!(waiting.wait().expect("they end").value, 3);
    assert_eq!(ticks.wait().expect("it is cancelled").value, 1);
    let mut close = script.submit(&engine, 11, 1).expect("there is room");
    assert_eq!(close.wait().expect("it is open").value, 1);
    let results = results(&script);
    let canceled = error(FileErrno::CANCELED);
    assert_eq!(results[..2], [canceled, canceled]);
    let came = brought(results[2], 5);
    assert_eq!(results[4], canceled);
    assert_eq!(results[5..9], [Some(Ok(0)); 4]);
    // No request of a file has that note.
    assert_eq!(results[9], Some(Ok(0)));
    assert_eq!(results[10], error(FileErrno::BADF));
    assert_eq!(results[11], Some(Ok(0)));
    let bytes = bytes.read().expect("it can be read");
    assert_eq!(bytes[10..][..came], b"bytes"[..came]);
}

fn sockets_have_settings_and_peers(select: Select) {
    let engine = start(select);
    for at in families() {
        let files = files(&engine, FilesConfig::default());
        let (tcp, at) = listen(at);
        files.allow(network(&at.port().to_string(), "0"));
        let to = place(&files, Some(at));
        let any = place(&files, Some(at_any_port(at)));
        let (peer, none) = (place(&files, None), place(&files, None));
        let set =
            |option: u32, value| DevFileStep::new(Op::SetOption, 0, option.into(), value, 0).of(0);
        let get = |option: u32| DevFileStep::new(Op::Option, 0, option.into(), 0, 0).of(0);
        let steps = chain(&[
            step(Op::Connect, 0, address(&to), 0),
            step(Op::Peer, 0, address(&peer), 0).of(0),
            set(SOCKET_NO_DELAY, 0),
            get(SOCKET_NO_DELAY),
            set(SOCKET_KEEP_ALIVE, 1),
            get(SOCKET_KEEP_ALIVE),
            set(SOCKET_TIME_TO_LIVE, 9),
            get(SOCKET_TIME_TO_LIVE),
            set(SOCKET_SEND_BUFFER, 50_000),
            get(SOCKET_SEND_BUFFER),
            set(SOCKET_NO_DELAY, 2),
            set(99, 1),
            // What has failed can only be read.
            set(9, 1),
            step(Op::Listen, 0, address(&any), 0),
            step(Op::Peer, 0, address(&none), 0).of(13),
        ]);
        let script = script(&engine, &files, &steps);
        let results = run(&engine, &script, 1);
        handle(&results, 0);
        assert_eq!(placed(&peer), Some(at));
        assert_eq!(results[1..9], [0, 0, 0, 0, 1, 0, 9, 0].map(|n| Some(Ok(n))));
        // The system may make it larger.
        assert!(matches!(results[9], Some(Ok(50_000..))), "{results:?}");
        let wrong = [FileErrno::INVAL, FileErrno::INVAL, FileErrno::NOTSUP];
        assert_eq!(results[10..13], wrong.map(error));
        assert_eq!(results[14], error(FileErrno::NOTCONN));
        drop(tcp);
    }
}

fn sockets_reply_to_requests_of_http(select: Select) {
    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = replying(select, families()[0], (3, 16), REPLY);
    let mut expected = 0;
    // The end of a request comes in parts, several requests come at once, and what only looks like an end is none.
    for parts in [
        &["GET / HTTP/1.1\r\n", "\r", "\n"][..],
        &["GET /a HTTP/1.1\r\nHost: b\r\n\r\nGET /c HTTP/1.1\r\n\r\nGET /d"],
        &["a\r\r\n\rb\r\n\n\r\n", "\r\n\r\n\r\n"],
        &["no request"],
    ] {
        let mut stream = connect(server.at);
        for part in parts {
            stream.write_all(part.as_bytes()).expect("it is sent");
        }
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("it ends");
        let text = parts.concat();
        let (mut rest, mut ends) = (&text[..], 0);
        while let Some(at) = rest.find("\r\n\r\n") {
            (rest, ends) = (&rest[at + 4..], ends + 1);
        }
        assert_eq!(got, REPLY.repeat(ends), "{text:?}");
        expected += ends * REPLY.len();
    }
    assert_eq!(server.end(), expected as u64);
}

fn sockets_are_no_more_than_there_may_be(select: Select) {
    let engine = start(select);
    let files = files(
        &engine,
        FilesConfig {
            sockets: 2,
            ..FilesConfig::default()
        },
    );
    files.allow(network("", "0"));
    let any = place(&files, Some(families()[0]));
    let open = step(Op::Datagrams, 0, address(&any), 0);
    let steps = chain(&[
        open,
        open,
        open,
        // Files are not counted among them.
        step(Op::Close, 0, 0, 0).of(0),
        open,
        step(Op::Listen, 0, address(&any), 0),
        step(Op::Close, 0, 0, 0).of(1),
        step(Op::Close, 0, 0, 0).of(4),
        step(Op::Listen, 0, address(&any), 0),
    ]);
    let file = tempfile::tempfile().expect("a temporary file");
    files
        .give(file, Rights::Read, false)
        .expect("a free handle");
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    let handles = [0, 1, 4, 8].map(|step| handle(&results, step));
    assert!(handles.iter().all(|&handle| handle > 0));
    assert_eq!(results[2], error(FileErrno::MFILE));
    assert_eq!(results[5], error(FileErrno::MFILE));
    assert_eq!([3, 6, 7].map(|step| results[step]), [Some(Ok(0)); 3]);
}

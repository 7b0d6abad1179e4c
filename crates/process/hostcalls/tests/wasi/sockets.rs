//! Listeners and connections, through the ring.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{HOSTCALL_LATER, HOSTCALL_PATIENT, number};
use everwarp_hostcalls::{Config, ExitReason, GivenConnection, Own};
use everwarp_process::net::{LaunchError, Launcher};
use everwarp_process::sockets::ASKED_BACK;
use everwarp_process::{Connection, EventSources, Events, Listener, Pid};

use crate::world::{DIR, Process, World};

/// The flag of a caller that holds up no other process.
const PATIENT: u32 = HOSTCALL_PATIENT;
const NONBLOCK: u64 = 4;
const PEEK: u64 = 1;
const WAIT_ALL: u64 = 2;
/// The descriptor of the first listener of a process with one directory.
const LISTENER: u64 = DIR + 1;

fn listener() -> Listener {
    let any = "0".parse().expect("any port");
    Listener::bind(&any).expect("a free port")
}

fn connect(to: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(to).expect("it listens");
    let limit = Some(Duration::from_secs(20));
    peer.set_read_timeout(limit).expect("a limit");
    peer
}

/// A world with process 1.1, which has a directory and a listener.
fn world() -> (World, Process, SocketAddr) {
    let world = World::new(2048, 4096, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let listener = listener();
    let address = listener.local_address();
    let config = Config {
        listeners: vec![listener],
        ..world.config()
    };
    let process = world.open(1, 1, config);
    (world, process, address)
}

/// A world with process 1.1 and a connection that it has accepted, with the peer's end.
fn connected() -> (World, Process, u64, TcpStream) {
    let (world, process, address) = world();
    let peer = connect(address);
    let accepted = process.get(number::SOCK_ACCEPT | PATIENT, &[LISTENER, 0], "");
    (world, process, accepted.values[0], peer)
}

#[test]
fn listeners_follow_directories_and_connections_get_the_lowest_number() {
    let (_world, process, fd, _peer) = connected();
    assert_eq!(fd, LISTENER + 1);
    // The directory keeps its number, and a listener is none.
    process.get(number::FD_PRESTAT_GET, &[DIR], "");
    process.fails(e::ERRNO_BADF, number::FD_PRESTAT_GET, &[LISTENER], "");
    let stat = process.get(number::FD_FDSTAT_GET, &[LISTENER], "");
    assert_eq!(stat.values[0], 6, "a stream socket without flags");
    assert!(stat.values[1] & 1 << 29 != 0 && stat.values[2] & 1 << 28 != 0);
    let stat = process.get(number::FD_FILESTAT_GET, &[fd], "");
    assert_eq!((stat.data.len(), stat.data[16]), (64, 6));
    process.get(number::FD_CLOSE, &[fd], "");
    process.fails(e::ERRNO_BADF, number::FD_READ, &[fd, 1], "");
}

#[test]
fn bytes_go_both_ways_and_each_half_ends_by_itself() {
    let (_world, process, fd, mut peer) = connected();
    peer.write_all(b"one two").expect("it is connected");
    let peeked = process.get(number::SOCK_RECV | PATIENT, &[fd, 3, PEEK], "");
    assert_eq!((peeked.values[0], &peeked.data[..]), (3, &b"one"[..]));
    let read = process.get(number::FD_READ | PATIENT, &[fd, 100], "");
    assert_eq!((read.values[0], &read.data[..]), (7, &b"one two"[..]));
    let sent = process.get(number::SOCK_SEND, &[fd, 0], "three");
    assert_eq!(sent.values[0], 5);
    assert_eq!(process.get(number::FD_WRITE, &[fd], " four").values[0], 5);
    process.get(number::SOCK_SHUTDOWN, &[fd, 2], "");
    let mut text = String::new();
    peer.read_to_string(&mut text).expect("it ends");
    assert_eq!(text, "three four");
    // The peer may still send.
    peer.write_all(b"five").expect("it is connected");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    let all = process.get(number::SOCK_RECV | PATIENT, &[fd, 100, WAIT_ALL], "");
    assert_eq!(
        all.data, b"five",
        "the stream ends before the buffer is full"
    );
    let end = process.get(number::SOCK_RECV | PATIENT, &[fd, 100, 0], "");
    assert_eq!((end.values[0], end.data.len()), (0, 0));
    process.fails(e::ERRNO_PIPE, number::SOCK_SEND, &[fd, 0], "six");
}

#[test]
fn waiting_for_all_bytes_takes_them_piece_by_piece() {
    let (world, process, fd, mut peer) = connected();
    let sent =
        world
            .device
            .send(&process.request(number::SOCK_RECV | PATIENT, &[fd, 6, WAIT_ALL], b""));
    for piece in [b"ab", b"cd"] {
        peer.write_all(piece).expect("it is connected");
        // The piece arrives, and is not the answer.
        assert_eq!(process.get(number::NOP, &[1, 2, 3], "").values[0], 1);
        assert!(!world.device.is_answered(&sent));
    }
    peer.write_all(b"ef").expect("it is connected");
    assert_eq!(world.device.receive(sent).data, b"abcdef");
}

#[test]
fn a_caller_that_holds_up_others_is_to_call_again() {
    let (_world, process, address) = world();
    process.fails(HOSTCALL_LATER, number::SOCK_ACCEPT, &[LISTENER, 0], "");
    let _peer = connect(address);
    let fd = process
        .get(number::SOCK_ACCEPT | PATIENT, &[LISTENER, 0], "")
        .values[0];
    process.fails(HOSTCALL_LATER, number::FD_READ, &[fd, 1], "");
    process.fails(HOSTCALL_LATER, number::SOCK_RECV, &[fd, 1, 0], "");
    let piece = vec![0; 8192];
    let full = loop {
        let reply = process.ask(number::FD_WRITE, &[fd], &piece);
        if reply.errno != 0 {
            break reply.errno;
        }
    };
    assert_eq!(full, HOSTCALL_LATER, "the peer does not read");
}

#[test]
fn a_socket_that_does_not_wait_says_so() {
    let (_world, process, address) = world();
    process.get(number::FD_FDSTAT_SET_FLAGS, &[LISTENER, NONBLOCK], "");
    let accept = number::SOCK_ACCEPT | PATIENT;
    process.fails(e::ERRNO_AGAIN, accept, &[LISTENER, NONBLOCK], "");
    let _peer = connect(address);
    process.get(number::FD_FDSTAT_SET_FLAGS, &[LISTENER, 0], "");
    let fd = process.get(accept, &[LISTENER, NONBLOCK], "").values[0];
    assert_eq!(
        process.get(number::FD_FDSTAT_GET, &[fd], "").values[0],
        6 | NONBLOCK << 16
    );
    process.fails(e::ERRNO_AGAIN, number::FD_READ | PATIENT, &[fd, 1], "");
    process.fails(e::ERRNO_INVAL, number::FD_FDSTAT_SET_FLAGS, &[fd, 1], "");
}

#[test]
fn wrong_descriptors_and_flags_have_their_errors() {
    let (_world, process, fd, _peer) = connected();
    let accept = number::SOCK_ACCEPT | PATIENT;
    for (errno, call, args) in [
        (e::ERRNO_INVAL, accept, [fd, 0, 0]),
        (e::ERRNO_NOTSOCK, accept, [DIR, 0, 0]),
        (e::ERRNO_NOTSOCK, number::SOCK_RECV, [0, 1, 0]),
        (e::ERRNO_BADF, number::SOCK_RECV, [99, 1, 0]),
        (e::ERRNO_INVAL, accept, [LISTENER, 1, 0]),
        (e::ERRNO_NOTCONN, number::SOCK_RECV, [LISTENER, 1, 0]),
        (e::ERRNO_NOTCONN, number::FD_READ, [LISTENER, 1, 0]),
        (e::ERRNO_INVAL, number::SOCK_RECV, [fd, 1, 4]),
        (e::ERRNO_NOTCONN, number::SOCK_SHUTDOWN, [LISTENER, 1, 0]),
        (e::ERRNO_INVAL, number::SOCK_SHUTDOWN, [fd, 0, 0]),
        (e::ERRNO_INVAL, number::SOCK_SHUTDOWN, [fd, 4, 0]),
        (e::ERRNO_SPIPE, number::FD_SEEK, [fd, 0, 0]),
        (e::ERRNO_SPIPE, number::FD_TELL, [LISTENER, 0, 0]),
        (e::ERRNO_SPIPE, number::FD_PREAD, [fd, 1, 0]),
        (e::ERRNO_BADF, number::FD_SYNC, [fd, 0, 0]),
    ] {
        process.fails(errno, call, &args, "");
    }
    process.fails(e::ERRNO_INVAL, number::SOCK_SEND, &[fd, 1], "x");
    process.fails(e::ERRNO_SPIPE, number::FD_PWRITE, &[fd, 0], "x");
}

#[test]
fn a_thousand_processes_wait_for_one_listener_and_each_gets_a_connection() {
    const PROCESSES: u32 = 1000;
    let world = World::new(2048, 4096, std::io::empty());
    let listener = listener();
    let address = listener.local_address();
    let config = Config {
        listeners: vec![listener],
        ..Config::default()
    };
    let processes: Vec<_> = (1..=PROCESSES)
        .map(|slot| world.open(slot, 1, config.clone()))
        .collect();
    let request = |process: &Process| {
        let ask = process.request(number::SOCK_ACCEPT | PATIENT, &[3, 0], b"");
        world.device.send(&ask)
    };
    let waiting: Vec<_> = processes.iter().map(request).collect();
    // The workers are free meanwhile.
    assert_eq!(
        processes[0].get(number::FD_FDSTAT_GET, &[3], "").values[0],
        6
    );
    let peers: Vec<_> = (0..PROCESSES).map(|_| connect(address)).collect();
    for (process, sent) in processes.iter().zip(waiting) {
        let reply = world.device.receive(sent);
        assert_eq!((reply.errno, reply.values[0]), (0, 4));
        process.get(number::FD_WRITE | PATIENT, &[4], process.slot.to_string());
        process.get(number::FD_CLOSE, &[4], "");
    }
    let mut got: Vec<u32> = peers
        .into_iter()
        .map(|mut peer| {
            let mut text = String::new();
            peer.read_to_string(&mut text).expect("it ends");
            text.parse().expect("a process has answered")
        })
        .collect();
    got.sort_unstable();
    assert_eq!(got, (1..=PROCESSES).collect::<Vec<_>>());
}

/// A subscription to a descriptor; kind 1 is to read, 2 to write.
fn ready(userdata: u64, kind: u8, fd: u64) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[8] = kind;
    bytes[16..20].copy_from_slice(&(fd as u32).to_le_bytes());
    bytes
}

/// User data, kind, bytes and flags of each event.
fn events(data: &[u8]) -> Vec<(u64, u8, u64, u16)> {
    let (events, _) = data.as_chunks::<32>();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let flags = |b: &[u8; 32]| u16::from_le_bytes([b[24], b[25]]);
    let event = |b: &[u8; 32]| (word(&b[..8]), b[10], word(&b[16..24]), flags(b));
    events.iter().map(event).collect()
}

/// A request for events: kind, number and two values.
fn request(kind: u16, id: u32, a: i64, b: i64) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&id.to_le_bytes());
    bytes[16..24].copy_from_slice(&a.to_le_bytes());
    bytes[24..].copy_from_slice(&b.to_le_bytes());
    bytes
}

#[test]
fn events_follow_listeners_and_are_waited_for_with_them() {
    let world = World::new(2048, 4096, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let events_of_host = Events::new(EventSources::default()).expect("a thread");
    let listener = listener();
    let address = listener.local_address();
    let config = Config {
        listeners: vec![listener],
        events: Some(events_of_host),
        ..world.config()
    };
    let process = world.open(1, 1, config);
    let fd = LISTENER + 1;
    // An hour, and then a millisecond in its place.
    let hour = request(1, 7, 3_600_000_000_000, 0);
    let soon = request(1, 7, 1_000_000, 0);
    let poll = |subscriptions: &[Vec<u8>]| {
        let (count, all) = (subscriptions.len() as u64, subscriptions.concat());
        let ask = process.request(number::POLL_ONEOFF | PATIENT, &[count], &all);
        let sent = world.device.send(&ask);
        let device = &world.device;
        move || events(&device.receive(sent).data)
    };
    assert_eq!(process.get(number::FD_WRITE, &[fd], &hour).values[0], 32);
    let ready_first = poll(&[ready(1, 1, LISTENER), ready(2, 1, fd)]);
    process.get(number::FD_WRITE, &[fd], &soon);
    assert_eq!(ready_first(), [(2, 1, 32, 0)]);
    let read = process.get(number::FD_READ | PATIENT, &[fd, 320], "");
    assert_eq!(read.values[0], 32);
    assert_eq!((read.data[0], read.data[4], read.data[16]), (1, 7, 1));
    let ready_first = poll(&[ready(1, 1, LISTENER), ready(2, 1, fd)]);
    let _peer = connect(address);
    assert_eq!(ready_first(), [(1, 1, 1, 0)]);
    process.get(number::FD_CLOSE, &[fd], "");
    process.fails(e::ERRNO_BADF, number::FD_READ, &[fd, 32], "");
}

#[test]
fn poll_reports_connections_bytes_room_and_ends() {
    let (world, process, address) = world();
    let poll = |subscriptions: &[Vec<u8>]| {
        let all = subscriptions.concat();
        let count = subscriptions.len() as u64;
        let ask = process.request(number::POLL_ONEOFF | PATIENT, &[count], &all);
        world.device.send(&ask)
    };
    let sent = poll(&[ready(1, 1, LISTENER)]);
    let mut peer = connect(address);
    assert_eq!(events(&world.device.receive(sent).data), [(1, 1, 1, 0)]);
    let fd = process
        .get(number::SOCK_ACCEPT | PATIENT, &[LISTENER, 0], "")
        .values[0];
    let sent = poll(&[ready(2, 1, fd), ready(3, 2, fd)]);
    assert_eq!(events(&world.device.receive(sent).data), [(3, 2, 1, 0)]);
    let sent = poll(&[ready(4, 1, LISTENER), ready(5, 1, fd)]);
    peer.write_all(b"four").expect("it is connected");
    assert_eq!(events(&world.device.receive(sent).data), [(5, 1, 4, 0)]);
    process.get(number::FD_READ | PATIENT, &[fd, 10], "");
    let sent = poll(&[ready(6, 1, fd)]);
    drop(peer);
    assert_eq!(events(&world.device.receive(sent).data), [(6, 1, 0, 1)]);
    process.fails(
        e::ERRNO_BADF,
        number::POLL_ONEOFF,
        &[1],
        ready(7, 2, LISTENER),
    );
}

#[test]
fn a_process_learns_with_its_events_that_its_connection_is_asked_for() {
    let world = World::new(2048, 4096, std::io::empty());
    let (own, peer) = Connection::pair().expect("two descriptors");
    let config = Config {
        own: vec![Own {
            connection: GivenConnection::new(Some(own.clone())),
            ..Own::default()
        }],
        ..Config::default()
    };
    let process = world.open(1, 1, config);
    let poll = |userdata| {
        let input = ready(userdata, 1, 0);
        let ask = process.request(number::POLL_ONEOFF | PATIENT, &[1], &input);
        events(&world.device.receive(world.device.send(&ask)).data)
    };
    peer.send(b"four").expect("there is room");
    assert_eq!(poll(1), [(1, 1, 4, 0)]);
    own.socket().ask_back(true);
    assert_eq!(poll(2), [(2, 1, 4, ASKED_BACK)]);
    own.socket().ask_back(false);
    assert_eq!(poll(3), [(3, 1, 4, 0)]);
}

#[test]
fn an_end_cancels_the_wait_and_closes_the_connections() {
    let (world, process, fd, mut peer) = connected();
    let waited = world.service.counts().waited;
    let sent = world
        .device
        .send(&process.request(number::FD_READ | PATIENT, &[fd, 10], b""));
    // A request that has not been served yet would get `ESRCH`.
    let begin = std::time::Instant::now();
    while world.service.counts().waited <= waited {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it does not wait"
        );
        std::thread::yield_now();
    }
    let exit = world.service.close(Pid::new(1, 1), ExitReason::Killed);
    assert!(exit.is_some());
    assert_eq!(world.device.receive(sent).errno, e::ERRNO_CANCELED);
    assert_eq!(peer.read(&mut [0; 1]).expect("it ends"), 0);
}

#[test]
fn a_connection_takes_the_place_of_input_and_output_and_ends_with_its_process() {
    let world = World::new(16, 32, std::io::empty());
    let (own, peer) = Connection::pair().expect("two descriptors");
    let (silent, other) = Connection::pair().expect("two descriptors");
    let given = |connection| Own {
        connection: GivenConnection::new(Some(connection)),
        ..Own::default()
    };
    let config = std::sync::Arc::new(Config {
        own: vec![given(own), given(silent)],
        ..Config::default()
    });
    let pids = [Pid::new(1, 1), Pid::new(2, 1)];
    for (number, pid) in (0..).zip(pids) {
        let opened = world
            .service
            .open_as(pid, std::sync::Arc::clone(&config), number, 0);
        opened.expect("a free slot");
    }
    let process = world.child(1, 1);
    peer.send(b"in").expect("there is room");
    let read = process.get(number::FD_READ | PATIENT, &[0, 10], "");
    assert_eq!(read.data, b"in");
    process.get(number::FD_WRITE | PATIENT, &[1], "out");
    let mut buffer = [0; 10];
    assert_eq!(peer.receive(&mut buffer, false).expect("it was sent"), 3);
    let waiting = peer.receive(&mut buffer, false).expect_err("it is open");
    assert_eq!(waiting.kind(), std::io::ErrorKind::WouldBlock);
    // The second process has never called, and its connection ends as well, though they share a configuration.
    for (pid, end) in pids.into_iter().zip([&peer, &other]) {
        world.service.close(pid, ExitReason::Killed);
        assert_eq!(end.receive(&mut buffer, false).expect("the end"), 0);
    }
    assert_eq!(config.own.len(), 2, "the configuration is still there");
}

#[test]
fn a_reset_is_an_error_and_the_listener_goes_on() {
    let (_world, process, fd, peer) = connected();
    process.get(number::FD_WRITE, &[fd], "unread");
    // Closing with unread bytes resets the connection.
    let mut one = [0; 1];
    let mut reading = &peer;
    reading.read_exact(&mut one).expect("it was sent");
    drop(peer);
    let reply = process.ask(number::FD_READ | PATIENT, &[fd, 1], "");
    assert_eq!(reply.errno, e::ERRNO_CONNRESET);
    process.get(number::FD_CLOSE, &[fd], "");
    let stat = process.get(number::FD_FDSTAT_GET, &[LISTENER], "");
    assert_eq!(stat.values[0], 6);
}

/// A name and variables that were asked for, and the other end of the connection that was given.
type Asked = (String, Vec<(String, String)>, Connection);

/// Keeps what was asked for.
#[derive(Debug, Default)]
struct Started(std::sync::Mutex<Vec<Asked>>);

impl Launcher for Started {
    fn launch(
        &self,
        name: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Connection, LaunchError> {
        if name != "/known" {
            return Err(LaunchError::Unknown);
        }
        let (own, other) = Connection::pair()?;
        let mut started = self.0.lock().expect("no test panics there");
        started.push((name.to_owned(), variables, other));
        Ok(own)
    }
}

#[test]
fn a_process_starts_the_programs_that_it_may_and_no_others() {
    let world = World::new(16, 32, std::io::empty());
    let started = std::sync::Arc::new(Started::default());
    let config = Config {
        launcher: Some(std::sync::Arc::clone(&started) as _),
        ..Config::default()
    };
    let process = world.open(1, 1, config);
    let launch = number::NET_LAUNCH;
    let fd = process.get(launch, &[6], "/knownA=1\0B=\0").values[0];
    assert_eq!(fd, 3);
    process.get(number::FD_WRITE | PATIENT, &[fd], "body");
    let kept = started.0.lock().expect("no test panics there");
    let (name, variables, other) = &kept[0];
    let expected = [("A", "1"), ("B", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!((name.as_str(), &variables[..]), ("/known", &expected[..]));
    let mut buffer = [0; 10];
    assert_eq!(other.receive(&mut buffer, false).expect("it was sent"), 4);
    drop(kept);
    process.fails(e::ERRNO_NOENT, launch, &[8], "/unknown");
    process.fails(e::ERRNO_INVAL, launch, &[6], "/knownA=1");
    process.fails(e::ERRNO_INVAL, launch, &[60], "/known");
    let bare = world.open(2, 1, Config::default());
    bare.fails(e::ERRNO_NOTCAPABLE, launch, &[6], "/known");
}

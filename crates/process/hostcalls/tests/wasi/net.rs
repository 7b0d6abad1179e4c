//! `everwarp:net` through the ring: what device code sends, with every argument in its place.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{HOSTCALL_LATER, HOSTCALL_PATIENT, number};
use everwarp_hostcalls::Config;
use everwarp_process::Network;
use everwarp_process::net::{address_of_words, address_words, read_address};

use crate::world::{DIR, Process, World};

/// The flag of a caller that holds up no other process.
const PATIENT: u32 = HOSTCALL_PATIENT;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

fn network(connect: &[String], bind: &[String]) -> Arc<Network> {
    let rules = |texts: &[String]| {
        let rules = texts.iter().map(|text| text.parse().expect("a rule"));
        rules.collect()
    };
    Arc::new(Network::new(rules(connect), rules(bind)))
}

/// A world with process 1.1, which may use these addresses.
fn world(connect: &[String], bind: &[String]) -> (World, Process) {
    let world = World::new(64, 128, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let config = Config {
        network: Some(network(connect, bind)),
        ..world.config()
    };
    let process = world.open(1, 1, config);
    (world, process)
}

fn socket(process: &Process, family: u64, kind: u64) -> u64 {
    process.get(number::NET_SOCKET, &[family, kind], "").values[0]
}

/// The arguments of a call with a descriptor and an address.
fn with_address(fd: u64, address: SocketAddr) -> [u64; 4] {
    let [first, second, third] = address_words(address);
    [fd, first, second, third]
}

fn address(process: &Process, fd: u64, which: u64) -> SocketAddr {
    let values = process.get(number::NET_ADDRESS, &[fd, which], "").values;
    address_of_words(values).expect("an address")
}

fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

#[test]
fn a_process_connects_where_it_may() {
    let peer = TcpListener::bind(any()).expect("a free port");
    let to = peer.local_addr().expect("it is bound");
    let (_world, process) = world(&[to.port().to_string()], &[]);
    let fd = socket(&process, 4, STREAM);
    assert_eq!(fd, DIR + 1, "the lowest free number");
    let stat = process.get(number::FD_FDSTAT_GET, &[fd], "");
    assert_eq!(stat.values[0], 6, "a stream socket");
    let ask = with_address(fd, to);
    process.fails(HOSTCALL_LATER, number::NET_CONNECT, &ask, "");
    process.get(number::NET_CONNECT | PATIENT, &ask, "");
    let (accepted, from) = peer.accept().expect("it has connected");
    assert_eq!(
        (address(&process, fd, 0), address(&process, fd, 1)),
        (from, to)
    );
    process.get(number::SOCK_SEND, &[fd, 0], "ask");
    let mut buffer = [0; 8];
    accepted.set_read_timeout(LIMIT).expect("a limit");
    assert_eq!(accepted.peek(&mut buffer).expect("it was sent"), 3);
    process.fails(e::ERRNO_ISCONN, number::NET_CONNECT | PATIENT, &ask, "");
    process.get(number::FD_CLOSE, &[fd], "");
    process.fails(e::ERRNO_BADF, number::NET_ADDRESS, &[fd, 0], "");
}

#[test]
fn a_connection_that_is_refused_or_not_granted_says_which() {
    let unused = TcpListener::bind(any()).expect("a free port");
    let closed = unused.local_addr().expect("it is bound");
    drop(unused);
    let (world, process) = world(&[closed.port().to_string()], &[]);
    let fd = socket(&process, 4, STREAM);
    let connect = number::NET_CONNECT | PATIENT;
    process.fails(e::ERRNO_CONNREFUSED, connect, &with_address(fd, closed), "");
    let other = "192.0.2.1:80".parse().expect("an address");
    process.fails(e::ERRNO_NOTCAPABLE, connect, &with_address(fd, other), "");
    process.fails(
        e::ERRNO_NOTCAPABLE,
        number::NET_BIND,
        &with_address(fd, any()),
        "",
    );
    process.fails(e::ERRNO_NOTCAPABLE, number::NET_LISTEN, &[fd, 1], "");
    process.fails(e::ERRNO_AFNOSUPPORT, connect, &[fd, 5, 0, 0], "");
    let bare = world.open(2, 1, Config::default());
    bare.fails(e::ERRNO_NOTCAPABLE, number::NET_SOCKET, &[4, STREAM], "");
    bare.fails(
        e::ERRNO_NOTCAPABLE,
        number::NET_LOOK_UP | PATIENT,
        &[1],
        "localhost",
    );
    let none = world.open(
        3,
        1,
        Config {
            network: Some(network(&[], &[])),
            ..Config::default()
        },
    );
    none.fails(e::ERRNO_NOTCAPABLE, number::NET_SOCKET, &[4, STREAM], "");
}

#[test]
fn connecting_without_waiting_returns_in_progress() {
    let peer = TcpListener::bind(any()).expect("a free port");
    let to = peer.local_addr().expect("it is bound");
    let (world, process) = world(&[to.port().to_string()], &[]);
    let fd = socket(&process, 4, STREAM);
    process.get(number::FD_FDSTAT_SET_FLAGS, &[fd, 4], "");
    let reply = process.ask(number::NET_CONNECT, &with_address(fd, to), "");
    // Within one machine it may be done at once.
    assert!([0, e::ERRNO_INPROGRESS].contains(&reply.errno), "{reply:?}");
    let mut subscription = vec![0; 48];
    subscription[8] = 2;
    subscription[16..20].copy_from_slice(&(fd as u32).to_le_bytes());
    let poll = process.request(number::POLL_ONEOFF | PATIENT, &[1], &subscription);
    let sent = world.device.send(&poll);
    assert_eq!(world.device.receive(sent).values[0], 1);
    let error = process.get(number::NET_OPTION, &[fd, 9], "");
    assert_eq!(error.values[0], 0);
    assert_eq!(address(&process, fd, 1), to);
}

#[test]
fn a_listener_of_its_own_accepts() {
    let (_world, process) = world(&["*:*".to_owned()], &["0,1024-65535".to_owned()]);
    let fd = socket(&process, 4, STREAM);
    process.fails(e::ERRNO_INVAL, number::SOCK_ACCEPT | PATIENT, &[fd, 0], "");
    process.get(number::NET_SET_OPTION, &[fd, 2, 1], "");
    process.get(number::NET_BIND, &with_address(fd, any()), "");
    process.get(number::NET_LISTEN, &[fd, 10], "");
    let at = address(&process, fd, 0);
    assert_eq!(process.get(number::NET_OPTION, &[fd, 11], "").values[0], 1);
    let second = socket(&process, 4, STREAM);
    process.fails(
        e::ERRNO_ADDRINUSE,
        number::NET_BIND,
        &[second, address_words(at)[0], 0, 0],
        "",
    );
    process.get(number::NET_CONNECT | PATIENT, &with_address(second, at), "");
    let accepted = process
        .get(number::SOCK_ACCEPT | PATIENT, &[fd, 0], "")
        .values[0];
    assert_eq!(address(&process, accepted, 1), address(&process, second, 0));
    process.fails(e::ERRNO_ISCONN, number::NET_LISTEN, &[accepted, 1], "");
    // What is granted as an open listener or a connection can be asked for its addresses, and no more.
    process.fails(e::ERRNO_NOTSOCK, number::NET_ADDRESS, &[DIR, 0], "");
    process.fails(e::ERRNO_NOTSOCK, number::NET_LISTEN, &[0, 1], "");
}

#[test]
fn datagrams_go_both_ways_with_their_addresses() {
    let peer = UdpSocket::bind(any()).expect("a free port");
    peer.set_read_timeout(LIMIT).expect("a limit");
    let to = peer.local_addr().expect("it is bound");
    let (world, process) = world(&[to.port().to_string()], &[]);
    let fd = socket(&process, 4, DATAGRAM);
    assert_eq!(process.get(number::FD_FDSTAT_GET, &[fd], "").values[0], 5);
    assert_eq!(process.get(number::FD_FILESTAT_GET, &[fd], "").data[16], 5);
    let sent = process.get(
        number::NET_SEND_TO | PATIENT,
        &with_address(fd, to),
        "question",
    );
    assert_eq!(sent.values[0], 8);
    let mut buffer = [0; 100];
    let (bytes, from) = peer.recv_from(&mut buffer).expect("it was sent");
    assert_eq!(
        (&buffer[..bytes], from.port()),
        (&b"question"[..], address(&process, fd, 0).port())
    );
    // The process waits before the answer comes.
    let ask = process.request(number::NET_RECEIVE_FROM | PATIENT, &[fd, 4, 0], b"");
    let waiting = world.device.send(&ask);
    peer.send_to(b"answer", from).expect("it is bound");
    let reply = world.device.receive(waiting);
    assert_eq!((reply.errno, &reply.data[..]), (0, &b"answ"[..]));
    assert_eq!(address_of_words(reply.values), Some(to));
    process.fails(HOSTCALL_LATER, number::NET_RECEIVE_FROM, &[fd, 4, 0], "");
    process.fails(
        e::ERRNO_INVAL,
        number::NET_RECEIVE_FROM | PATIENT,
        &[fd, 4, 2],
        "",
    );
    let other = "127.0.0.1:1".parse().expect("an address");
    process.fails(
        e::ERRNO_NOTCAPABLE,
        number::NET_SEND_TO | PATIENT,
        &with_address(fd, other),
        "x",
    );
}

#[test]
fn settings_are_read_back_and_wrong_ones_refused() {
    let (_world, process) = world(&["1".to_owned()], &[]);
    for family in [4, 6] {
        let fd = socket(&process, family, STREAM);
        for (option, value) in [(1, 1), (2, 1), (3, 1), (7, 17)] {
            process.get(number::NET_SET_OPTION, &[fd, option, value], "");
            assert_eq!(
                process.get(number::NET_OPTION, &[fd, option], "").values[0],
                value
            );
        }
        process.fails(e::ERRNO_INVAL, number::NET_SET_OPTION, &[fd, 1, 2], "");
        process.fails(
            e::ERRNO_NOPROTOOPT,
            number::NET_SET_OPTION,
            &[fd, 10, 1],
            "",
        );
        process.fails(e::ERRNO_NOPROTOOPT, number::NET_OPTION, &[fd, 99], "");
        process.fails(e::ERRNO_INVAL, number::NET_ADDRESS, &[fd, 2], "");
        process.fails(e::ERRNO_NOTCONN, number::NET_ADDRESS, &[fd, 1], "");
    }
    process.fails(e::ERRNO_AFNOSUPPORT, number::NET_SOCKET, &[5, STREAM], "");
    process.fails(e::ERRNO_AFNOSUPPORT, number::NET_SOCKET, &[4, 3], "");
    process.fails(e::ERRNO_NOTSOCK, number::NET_SET_OPTION, &[DIR, 1, 1], "");
}

#[test]
fn a_name_is_looked_up_while_others_are_served() {
    let (world, process) = world(&["localhost:80".to_owned()], &[]);
    process.fails(HOSTCALL_LATER, number::NET_LOOK_UP, &[8], "localhost");
    let ask = process.request(number::NET_LOOK_UP | PATIENT, &[8], b"localhost");
    let waiting = world.device.send(&ask);
    assert_eq!(process.get(number::NOP, &[7, 0, 0], "").values[0], 7);
    let reply = world.device.receive(waiting);
    let (found, rest) = reply.data.as_chunks::<24>();
    assert_eq!((reply.errno, rest.len()), (0, 0));
    assert!(!found.is_empty() && found.len() as u64 == reply.values[0]);
    for bytes in found {
        let address = read_address(bytes).expect("an address");
        assert!(address.ip().is_loopback() && address.port() == 0);
    }
    let look_up = number::NET_LOOK_UP | PATIENT;
    assert_eq!(process.get(look_up, &[1], "::1").values[0], 1);
    assert_eq!(process.get(look_up, &[0], "::1").values[0], 0);
    process.fails(e::ERRNO_NOTCAPABLE, look_up, &[1], "example.com");
    process.fails(e::ERRNO_INVAL, look_up, &[1], "");
    process.fails(e::ERRNO_ILSEQ, look_up, &[1], [0xff]);
}

#[test]
fn sockets_count_as_descriptors_and_close_with_their_process() {
    let peer = TcpListener::bind(any()).expect("a free port");
    let to = peer.local_addr().expect("it is bound");
    let world = World::new(64, 128, std::io::empty());
    let config = Config {
        network: Some(network(&["*:*".to_owned()], &[])),
        handles: 4,
        ..Config::default()
    };
    let process = world.open(1, 1, config);
    let fd = socket(&process, 4, STREAM);
    process.fails(e::ERRNO_MFILE, number::NET_SOCKET, &[4, STREAM], "");
    process.get(number::NET_CONNECT | PATIENT, &with_address(fd, to), "");
    let (mut accepted, _) = peer.accept().expect("it has connected");
    accepted.set_read_timeout(LIMIT).expect("a limit");
    let pid = everwarp_process::Pid::new(1, 1);
    assert!(
        world
            .service
            .close(pid, everwarp_hostcalls::ExitReason::Killed)
            .is_some()
    );
    assert_eq!(
        std::io::Read::read(&mut accepted, &mut [0]).expect("the end"),
        0
    );
}

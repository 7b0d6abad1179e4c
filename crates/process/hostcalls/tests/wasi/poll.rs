//! Waiting for clocks and for standard input.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{self as call, EntryFields, number};
use everwarp_hostcalls::{Config, DATA_BYTES, ExitReason, Input, Reply, Request};
use everwarp_process::Pid;

use crate::world::{DIR, READ, World};

const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
const ABSOLUTE: u16 = 1;

fn clock(userdata: u64, id: u32, timeout: Duration, flags: u16) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[16..20].copy_from_slice(&id.to_le_bytes());
    bytes[24..32].copy_from_slice(
        &u64::try_from(timeout.as_nanos())
            .expect("64 bits")
            .to_le_bytes(),
    );
    bytes[40..42].copy_from_slice(&flags.to_le_bytes());
    bytes
}

fn ready(userdata: u64, kind: u8, fd: u32) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[8] = kind;
    bytes[16..20].copy_from_slice(&fd.to_le_bytes());
    bytes
}

/// User data, error number, type, bytes and flags of each event.
fn events(data: &[u8]) -> Vec<(u64, u16, u8, u64, u16)> {
    let (events, rest) = data.as_chunks::<32>();
    assert!(rest.is_empty());
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let half = |bytes: &[u8]| u16::from_le_bytes(bytes.try_into().expect("2 bytes"));
    let event = |bytes: &[u8; 32]| {
        (
            word(&bytes[..8]),
            half(&bytes[8..10]),
            bytes[10],
            word(&bytes[16..24]),
            half(&bytes[24..26]),
        )
    };
    events.iter().map(event).collect()
}

#[test]
fn clocks_come_due_in_their_time() {
    let (_world, process) = World::with_process();
    let poll = number::POLL_ONEOFF;
    let ms = Duration::from_millis;
    for (subscription, at_least) in [
        (clock(7, MONOTONIC, ms(20), 0), ms(20)),
        (clock(7, REALTIME, ms(20), 0), ms(20)),
        (clock(7, MONOTONIC, ms(2020), ABSOLUTE), ms(20)),
        (clock(7, REALTIME, ms(1030), ABSOLUTE), ms(30)),
        // That time has passed.
        (clock(7, MONOTONIC, ms(1000), ABSOLUTE), ms(0)),
        (clock(7, REALTIME, ms(0), 0), ms(0)),
    ] {
        let start = Instant::now();
        // By the process's clocks it is 1 second past 1970, and 2 seconds after its start.
        let reply = process.get(poll, &[1, 1_000_000_000, 2_000_000_000], subscription);
        assert!(start.elapsed() >= at_least);
        assert_eq!(events(&reply.data), [(7, 0, 0, 0, 0)]);
        assert_eq!(reply.values[0], 1);
    }
    // The earliest comes alone.
    let both = [
        clock(1, MONOTONIC, Duration::from_secs(3600), 0),
        clock(2, MONOTONIC, ms(5), 0),
    ]
    .concat();
    assert_eq!(
        events(&process.get(poll, &[2], both).data),
        [(2, 0, 0, 0, 0)]
    );

    process.fails(e::ERRNO_INVAL, poll, &[0], "");
    process.fails(e::ERRNO_INVAL, poll, &[2], clock(1, MONOTONIC, ms(1), 0));
    process.fails(
        e::ERRNO_INVAL,
        poll,
        &[1],
        &clock(1, MONOTONIC, ms(1), 0)[..47],
    );
    process.fails(e::ERRNO_INVAL, poll, &[1], clock(1, 2, ms(1), 0));
    process.fails(e::ERRNO_INVAL, poll, &[1], clock(1, REALTIME, ms(1), 2));
    process.fails(e::ERRNO_INVAL, poll, &[1], ready(1, 3, 0));
}

#[test]
fn files_and_streams_are_ready() {
    let (_world, process) = World::with_process();
    let fd = process.create("file");
    process.get(number::FD_WRITE, &[fd], "12345");
    process.get(number::FD_SEEK, &[fd, 2, 0], "");
    let fd = fd as u32;
    let hour = clock(9, MONOTONIC, Duration::from_secs(3600), 0);
    let all = [
        hour,
        ready(1, 1, fd),
        ready(2, 2, fd),
        ready(3, 1, 0),
        ready(4, 2, 1),
        ready(5, 2, 2),
    ]
    .concat();
    let reply = process.get(number::POLL_ONEOFF, &[6], all);
    let expected = [
        (1, 0, 1, 3, 0),
        (2, 0, 2, 1, 0),
        (3, 0, 1, 5, 0),
        (4, 0, 2, 1, 0),
        (5, 0, 2, 1, 0),
    ];
    assert_eq!(events(&reply.data), expected);
    assert_eq!(reply.values[0], 5);

    process.get(number::FD_SEEK, &[u64::from(fd), 0, 2], "");
    assert_eq!(process.get(number::FD_READ, &[0, 99], "").data, b"typed");
    let ends = [ready(1, 1, fd), ready(2, 1, 0)].concat();
    let reply = process.get(number::POLL_ONEOFF, &[2], ends);
    assert_eq!(events(&reply.data), [(1, 0, 1, 0, 1), (2, 0, 1, 0, 1)]);
    for bad in [
        ready(0, 1, 1),
        ready(0, 2, 0),
        ready(0, 1, DIR as u32),
        ready(0, 2, 50),
    ] {
        process.fails(e::ERRNO_BADF, number::POLL_ONEOFF, &[1], bad);
    }
    // As many as fit.
    let many = ready(8, 2, 1).repeat(call::HOSTCALL_POLL_MAX as usize);
    let reply = process.get(
        number::POLL_ONEOFF,
        &[u64::from(call::HOSTCALL_POLL_MAX)],
        many,
    );
    assert_eq!(
        events(&reply.data),
        [(8, 0, 2, 1, 0); call::HOSTCALL_POLL_MAX as usize]
    );
}

/// More processes than workers wait for time and for input; meanwhile a neighbour of each is served.
#[test]
fn waiting_requests_do_not_hold_up_others() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let world = World::new(16, 16, reader);
    let inherit = Config {
        stdin: Input::Inherit,
        ..Config::default()
    };
    let processes: Vec<_> = (0..6)
        .map(|slot| world.open(slot, 1, inherit.clone()))
        .collect();
    let hour = clock(1, MONOTONIC, Duration::from_secs(3600), 0);
    let sleeper = world
        .device
        .send(&processes[0].request(number::POLL_ONEOFF, &[1], &hour));
    let either = [hour.clone(), ready(2, 1, 0)].concat();
    let watcher = world
        .device
        .send(&processes[1].request(number::POLL_ONEOFF, &[2], &either));
    for process in &processes {
        assert_eq!(process.get(number::FD_FDSTAT_GET, &[0], "").values[1], READ);
    }
    assert!(!world.device.is_answered(&sleeper) && !world.device.is_answered(&watcher));

    writer.write_all(b"first").expect("the pipe has a reader");
    let reply = world.device.receive(watcher);
    assert_eq!(events(&reply.data), [(2, 0, 1, 5, 0)]);
    assert_eq!(processes[2].get(number::FD_READ, &[0, 2], "").data, b"fi");
    assert_eq!(processes[1].get(number::FD_READ, &[0, 99], "").data, b"rst");

    let readers: Vec<_> = processes[2..5]
        .iter()
        .map(|of| {
            world
                .device
                .send(&of.request(number::FD_READ, &[0, 4], b""))
        })
        .collect();
    processes[5].get(number::NOP, &[], "");
    assert!(
        readers
            .iter()
            .all(|reader| !world.device.is_answered(reader))
    );
    // Reads of different processes take what comes in the order in which they began to wait, which that of
    // different workers does not fix; together they get every byte once.
    writer
        .write_all(b"aaaabbbbcccc")
        .expect("the pipe has a reader");
    let mut got: Vec<_> = readers
        .into_iter()
        .map(|reader| world.device.receive(reader).data)
        .collect();
    got.sort();
    assert_eq!(got, [b"aaaa", b"bbbb", b"cccc"]);

    let at_end = world
        .device
        .send(&processes[3].request(number::FD_READ, &[0, 4], b""));
    drop(writer);
    let reply = world.device.receive(at_end);
    assert_eq!((reply.errno, reply.values[0]), (0, 0));
    assert_eq!(processes[4].get(number::FD_READ, &[0, 4], "").values[0], 0);

    // Who ends while it waits is answered, so that its slot comes back.
    world
        .service
        .close(Pid::new(0, 1), ExitReason::Killed)
        .expect("it is there");
    assert_eq!(world.device.receive(sleeper).errno, e::ERRNO_CANCELED);
}

#[test]
fn a_server_that_stops_answers_waiting_requests() {
    let (reader, _writer) = io::pipe().expect("a pipe");
    let mut world = World::new(4, 4, reader);
    let process = world.open(
        0,
        1,
        Config {
            stdin: Input::Inherit,
            ..Config::default()
        },
    );
    let hour = clock(1, MONOTONIC, Duration::from_secs(3600), 0);
    let sleeper = world
        .device
        .send(&process.request(number::POLL_ONEOFF, &[1], &hour));
    let never = Duration::from_nanos(u64::MAX);
    let forever = clock(1, MONOTONIC, never, 0);
    let forever = world
        .device
        .send(&process.request(number::POLL_ONEOFF, &[1], &forever));
    let read = world
        .device
        .send(&process.request(number::FD_READ, &[0, 1], b""));
    while world.service.counts().waited < 3 {
        std::thread::yield_now();
    }
    world.server = None;
    for sent in [sleeper, forever, read] {
        assert!(
            world.device.is_answered(&sent),
            "the server answered before it was gone"
        );
        assert_eq!(world.device.receive(sent).errno, e::ERRNO_CANCELED);
    }
    assert_eq!(world.service.counts().failed, 3);
}

/// A callback may panic. The other requests are answered all the same.
#[test]
fn a_panic_of_one_callback_does_not_lose_other_answers() {
    let (world, _) = World::with_process();
    let soon = clock(1, MONOTONIC, Duration::from_millis(1), 0);
    let request = Request::of_entry(
        &EntryFields {
            process: 1,
            generation: 1,
            call: number::POLL_ONEOFF,
            args: [1, 0, 0, 0, 0, 0],
            ..EntryFields::default()
        },
        DATA_BYTES,
    );
    let request = request.with_payload(&soon);
    let (sender, answers) = mpsc::channel();
    let mut reply = Reply::default();
    for panics in [true, false] {
        let sender = sender.clone();
        let wait = world
            .service
            .answer(&request, &mut reply)
            .expect("a millisecond is to pass");
        let later = move |reply: &Reply| {
            sender.send(reply.values[0]).expect("the test waits");
            assert!(!panics, "this panic is meant");
            None
        };
        world.service.wait_for(wait, Box::new(later));
        assert_eq!(answers.recv_timeout(Duration::from_secs(60)), Ok(1));
    }
    world.service.cancel_waits();
}

/// Without a ring: a request has to wait, its event occurs, and only then it begins to wait.
#[test]
fn an_event_before_the_wait_begins_is_not_missed() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let world = World::new(4, 4, reader);
    let inherit = Config {
        stdin: Input::Inherit,
        ..Config::default()
    };
    world.open(0, 1, inherit);
    let readable = ready(1, 1, 0);
    let request = |call: u32, args: [u64; 6], payload| {
        let fields = EntryFields {
            generation: 1,
            call,
            args,
            ..EntryFields::default()
        };
        Request::of_entry(&fields, DATA_BYTES).with_payload(payload)
    };
    let mut reply = Reply::default();
    let read = request(number::FD_READ, [0, 9, 0, 0, 0, 0], &[]);
    let read = world
        .service
        .answer(&read, &mut reply)
        .expect("nothing has been typed");
    let poll = request(number::POLL_ONEOFF, [1, 0, 0, 0, 0, 0], &readable);
    let poll = world
        .service
        .answer(&poll, &mut reply)
        .expect("nothing has been typed");
    let (sender, answers) = mpsc::channel();
    let later = || {
        let sender = sender.clone();
        Box::new(move |reply: &Reply| {
            drop(sender.send(reply.clone()));
            None
        })
    };
    // The answer of this request shows that the input has been reported.
    world.service.wait_for(poll, later());
    writer.write_all(b"typed").expect("the pipe has a reader");
    let answer = answers
        .recv_timeout(Duration::from_secs(60))
        .expect("an answer");
    assert_eq!(events(&answer.data), [(1, 0, 1, 5, 0)]);
    world.service.wait_for(read, later());
    let answer = answers
        .recv_timeout(Duration::from_secs(60))
        .expect("an answer");
    assert_eq!(
        (answer.errno, answer.values[0], &*answer.data),
        (0, 5, &b"typed"[..])
    );
}

/// Neighbours may wait for a process that reads a file. So a read of standard input under a file's number must say that
/// it is patient.
#[test]
fn input_under_another_number_is_waited_for_only_with_patience() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let world = World::new(4, 4, reader);
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let inherit = Config {
        stdin: Input::Inherit,
        ..world.config()
    };
    let process = world.open(0, 1, inherit);
    let file = process.create("file");
    process.get(number::FD_RENUMBER, &[0, file], "");
    process.fails(call::HOSTCALL_LATER, number::FD_READ, &[file, 9], "");
    let patient = number::FD_READ | call::HOSTCALL_WAKE | call::HOSTCALL_PATIENT;
    let ask = process.request(patient, &[file, 9], b"");
    let sent = world.device.send(&ask);
    assert!(!world.device.is_answered(&sent));
    writer.write_all(b"typed").expect("the pipe has a reader");
    let reply = world.device.receive(sent);
    assert_eq!((reply.errno, reply.data), (0, b"typed".to_vec()));
}

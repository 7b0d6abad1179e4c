//! Sockets and timers of native tasks when the system fails, when peers are hostile, and when requests race with their ends.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everwarp::files::{DevNetAddress, Faults, FileErrno, FilesConfig, SHUT_SENDING};
use everwarp::{Layout, Select};
use everwarp_programs::echo::PAUSE_NANOS;
use everwarp_programs::file_probe::{DevFileStep, MANY, Op};
use everwarp_testkit::cases;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::files::{Results, address, files, noise, script, shared, start};
use crate::sockets::{connect, families, in_flight, listener, open, pair, server, talk};
use crate::support::{Case, random, wait_until};

pub(crate) const ALL: &[Case] = cases![
    sockets_under_faults_answer_every_request_once,
    sockets_are_accepted_after_refusals,
    sockets_outlast_resets_at_every_step,
    sockets_pause_accepting_without_descriptors,
    sockets_refuse_stale_and_forged_handles,
    timers_that_are_closed_as_they_expire_end_once,
];

const MS: u64 = 1_000_000;

/// The sockets, and the descriptors to wait with, that this program has open. Threads of the engine open
/// files for moments.
fn descriptors() -> Vec<(String, PathBuf)> {
    let all = std::fs::read_dir("/proc/self/fd").expect("it can be read");
    let all = all.filter_map(|entry| {
        let path = entry.ok()?.path();
        let link = std::fs::read_link(&path).ok()?;
        let text = link.to_string_lossy();
        let counts = text.starts_with("socket:") || text.starts_with("anon_inode:");
        let number = path.file_name()?.to_string_lossy().into_owned();
        counts.then_some((number, link))
    });
    all.collect()
}

/// Waits until no more descriptors are open than before.
fn all_are_back(before: usize) {
    let begin = Instant::now();
    loop {
        let now = descriptors();
        if now.len() == before {
            return;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{before} descriptors before, now {now:?}"
        );
        std::thread::yield_now();
    }
}

fn step(op: Op, handle: u32, offset: u64, address: u64, len: u32) -> DevFileStep {
    DevFileStep::new(op, handle, offset, address, len)
}

/// What a peer has received before the end of its connection, or before an error.
fn received(mut peer: &TcpStream) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match peer.read(&mut part) {
            Ok(0) => return all,
            Ok(bytes) => all.extend(&part[..bytes]),
            Err(error) => {
                let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(kinds.contains(&error.kind()), "{error}");
                return all;
            }
        }
    }
}

/// The faults of a seed: some have errors, too.
fn faults(seed: u64) -> Faults {
    let errors = [0, 30, 10][seed as usize % 3];
    Faults {
        again: 150,
        delayed: 20,
        delay: Duration::from_micros(200),
        failed: errors,
        full: errors,
        reset: errors,
        ..Faults::hidden(seed)
    }
}

const PIECE: u32 = 3000;
const PEERS: usize = 5;

/// Random requests of several connections, whose peers send and receive, with cancels and closes among them. Each request ends
/// once, and what came is what was sent, up to the first loss.
fn sockets_under_faults_answer_every_request_once(select: Select) {
    let engine = start(select);
    let before = descriptors().len();
    let (mut moved, mut ends) = (0, HashSet::new());
    for seed in 1..=12_u64 {
        let config = FilesConfig {
            faults: Some(faults(seed)),
            ..FilesConfig::default()
        };
        let files = files(&engine, config);
        let pairs: Vec<_> = (0..PEERS).map(|_| pair(&files)).collect();
        let sent = noise(MANY as usize * PIECE as usize, seed);
        let (source, target) = (
            shared(&files, &sent),
            shared(&files, &vec![0; PEERS * sent.len()]),
        );
        let mut state = seed * 77 + 1;
        let mut steps = Vec::new();
        for (number, (handle, _)) in pairs.iter().enumerate() {
            let first = steps.len() as u64;
            for at in 0..u64::from(MANY) {
                let place = at * u64::from(PIECE);
                let to =
                    address(&target) + (number as u64 * u64::from(MANY)) * u64::from(PIECE) + place;
                let len = 1 + random(&mut state) as u32 % PIECE;
                let limit = [0, MS / 2, 1000 * MS][random(&mut state) as usize % 3];
                steps.push(match random(&mut state) % 10 {
                    0..4 => step(Op::ReceiveWithin, *handle, limit, to, len),
                    4..8 => step(
                        Op::SendWithin,
                        *handle,
                        limit,
                        address(&source) + place,
                        len,
                    ),
                    8 => step(
                        Op::Cancel,
                        *handle,
                        first + random(&mut state) % MANY as u64,
                        0,
                        0,
                    ),
                    // Half of the connections are closed in the middle, and all at the end.
                    _ if at > 40 && number % 2 == 0 => step(Op::Close, *handle, 0, 0, 0),
                    _ => step(Op::ReceiveWithin, *handle, MS, to, len),
                });
            }
        }
        let all = steps.len() as u32;
        steps.extend(
            pairs
                .iter()
                .map(|(handle, _)| step(Op::Close, *handle, 0, 0, 0)),
        );
        let script = script(&engine, &files, &steps);
        let peers: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let peers: Vec<_> = pairs
                .iter()
                .map(|(_, peer)| {
                    let sent = &sent;
                    scope.spawn(move || {
                        let receiver = scope.spawn(move || received(peer));
                        // A task may close first.
                        let _ = (&*peer).write_all(sent);
                        let _ = peer.shutdown(Shutdown::Write);
                        receiver.join().expect("no panic")
                    })
                })
                .collect();
            let tasks = (0..PEERS as u32).map(|number| script.task(number * MANY, MANY));
            let mut pending = engine
                .submit_batch(&tasks.collect::<Vec<_>>())
                .expect("there is room");
            assert_eq!(pending.wait().expect("all end").value, u64::from(all));
            let mut closes = script.submit(&engine, all, PEERS as u32).expect("room");
            assert_eq!(closes.wait().expect("they end").value, PEERS as u64);
            peers
                .into_iter()
                .map(|peer| peer.join().expect("no panic"))
                .collect()
        });
        let results: Results = script.results().expect("they can be read");
        assert!(results.iter().all(Option::is_some), "each has ended");
        let target = target.read().expect("it can be read");
        for (number, got) in peers.iter().enumerate() {
            let (mut out, mut came) = (Vec::new(), Vec::new());
            for at in 0..MANY as usize {
                let index = number * MANY as usize + at;
                let Some(Ok(bytes)) = results[index] else {
                    continue;
                };
                let bytes = bytes as usize;
                let place = at * PIECE as usize;
                let op = steps[index].op;
                if op == Op::SendWithin as u32 {
                    out.extend(&sent[place..][..bytes]);
                } else if op == Op::ReceiveWithin as u32 {
                    came.extend(&target[index * PIECE as usize..][..bytes]);
                }
            }
            assert!(
                out.starts_with(got),
                "seed {seed}, peer {number}: what it received"
            );
            assert!(
                sent.starts_with(&came),
                "seed {seed}, peer {number}: what it sent"
            );
        }
        moved += peers.iter().map(Vec::len).sum::<usize>();
        ends.extend(results.into_iter().flatten().filter_map(Result::err));
        in_flight(&files, 0);
        assert_eq!(open(&files), 0, "seed {seed}");
        drop((script, files, pairs));
        all_are_back(before);
    }
    for error in [
        FileErrno::CANCELED,
        FileErrno::CONNRESET,
        FileErrno::IO,
        FileErrno::NOBUFS,
    ] {
        assert!(ends.contains(&error), "no request has ended with: {error}");
    }
    assert!(moved > 100_000, "{moved} bytes have come to peers");
}

/// Accepts that fail for want of descriptors and memory leave the peers in the queue.
fn sockets_are_accepted_after_refusals(select: Select) {
    const CLIENTS: usize = 10;
    let engine = start(select);
    let before = descriptors().len();
    let config = FilesConfig {
        faults: Some(Faults {
            full: 400,
            failed: 50,
            ..faults(3)
        }),
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let (listens, at) = listener(families()[0]);
    let handle = files.give_listener(&listens).expect("a free handle").0;
    // As long as peers wait, an accept ends.
    let steps = vec![step(Op::AcceptWithin, handle, 50 * MS, 0, 0); MANY as usize];
    let script = script(&engine, &files, &steps);
    let clients: Vec<_> = (0..CLIENTS).map(|_| connect(at)).collect();
    for at in 0..MANY {
        let mut one = script.submit(&engine, at, 1).expect("there is room");
        assert_eq!(one.wait().expect("it ends").value, 1);
    }
    let results = script.results().expect("they can be read");
    let accepted = results
        .iter()
        .filter(|result| matches!(result, Some(Ok(1..))));
    let failed = |error: FileErrno| results.contains(&Some(Err(error)));
    let count = accepted.count();
    assert_eq!(count, CLIENTS, "{results:?}");
    assert!(
        failed(FileErrno::NFILE) && failed(FileErrno::NOBUFS),
        "{results:?}"
    );
    assert_eq!(open(&files), count + 1);
    drop((script, files, clients, listens));
    all_are_back(before);
}

/// Resets a connection: its peer sees an error, not an end.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a setting");
    drop(stream);
}

/// A peer resets at each step of a talk with the server.
fn sockets_outlast_resets_at_every_step(select: Select) {
    for at in families() {
        let server = server(select, at, 4, 1000);
        let to = server.at;
        let before = descriptors().len();
        let bytes = noise(5000, 9);
        let mut echo = vec![0; bytes.len()];
        for round in 0..20 {
            // It may not be accepted yet.
            reset(connect(to));
            let mut one = connect(to);
            one.write_all(&bytes[..1 + round]).expect("it is connected");
            reset(one);
            // Some of the echo is read.
            let mut one = connect(to);
            one.write_all(&bytes).expect("it is received");
            one.read_exact(&mut echo[..1 + round * 100])
                .expect("it comes back");
            reset(one);
            // All of it.
            let mut one = connect(to);
            one.write_all(&bytes).expect("it is received");
            one.read_exact(&mut echo).expect("it comes back");
            assert!(echo == bytes);
            reset(one);
            // After its half has ended, before it reads.
            let mut one = connect(to);
            one.write_all(&bytes).expect("it is received");
            one.shutdown(Shutdown::Write).expect("it is connected");
            reset(one);
            talk(to, 3000, round as u64 + 1);
        }
        // While the server's send waits.
        let deaf = connect(to);
        deaf.set_nonblocking(true).expect("a setting");
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(100) {
            if (&deaf).write(&[1; 100_000]).is_ok() {
                quiet = Instant::now();
            }
            std::thread::yield_now();
        }
        reset(deaf);
        talk(to, 3000, 99);
        all_are_back(before);
        server.end();
    }
}

/// Takes all descriptors but a few, until it is dropped.
struct Scarce {
    limit: Rlimit,
    taken: Vec<OwnedFd>,
}

impl Scarce {
    fn new() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let taken = vec![OwnedFd::from(
            std::fs::File::open("/dev/null").expect("it is there"),
        )];
        let numbers = std::fs::read_dir("/proc/self/fd").expect("it can be read");
        let numbers =
            numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
        let most = numbers.max().expect("there are some") + 1;
        let few = Rlimit {
            current: Some(most),
            ..limit
        };
        setrlimit(Resource::Nofile, few).expect("it may be lowered");
        let mut all = Self { limit, taken };
        all.take();
        all
    }
    /// Takes what there is: other threads of a driver may have given descriptors back.
    fn take(&mut self) {
        while let Ok(one) = self.taken[0].try_clone() {
            self.taken.push(one);
        }
    }
}

impl Drop for Scarce {
    fn drop(&mut self) {
        self.taken.clear();
        setrlimit(Resource::Nofile, self.limit).expect("it may be raised again");
    }
}

/// Without descriptors, the server tries again now and then, and serves once there are some.
fn sockets_pause_accepting_without_descriptors(select: Select) {
    const SLOTS: u32 = 4;
    let server = server(select, families()[0], SLOTS, 1000);
    let stats = || server.echo.stats().expect("there are counters");
    // These have their descriptors before they become scarce.
    let sockets: Vec<OwnedFd> = (0..SLOTS)
        .map(|_| {
            use rustix::net::{AddressFamily, SocketType, socket};
            socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket")
        })
        .collect();
    let mut scarce = Scarce::new();
    for socket in &sockets {
        rustix::net::connect(socket, &server.at).expect("it listens");
    }
    wait_until("accepts fail", || stats().failed > 0);
    scarce.take();
    let (begin, first) = (Instant::now(), stats());
    std::thread::sleep(Duration::from_millis(500));
    let (last, waited) = (stats(), begin.elapsed());
    // Each slot accepts and pauses in turns.
    let pauses = u64::from(SLOTS) * (waited.as_nanos() as u64 / PAUSE_NANOS + 2);
    let failed = last.failed - first.failed;
    assert!(
        (1..=pauses).contains(&failed),
        "{failed} accepts in {waited:?}"
    );
    assert!(last.served - first.served <= pauses, "{first:?} {last:?}");
    assert_eq!(last.open, first.open, "none is accepted");
    assert!(last.open <= SLOTS as usize, "{last:?}");
    drop(scarce);
    for socket in sockets {
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"now").expect("it is connected");
        stream.shutdown(Shutdown::Write).expect("it is connected");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it is served");
        assert_eq!(text, "now");
    }
    assert_eq!(server.end(), 3 * u64::from(SLOTS));
}

/// Handles that were never given, or that were given back, name nothing in any request, and harm no other.
fn sockets_refuse_stale_and_forged_handles(select: Select) {
    let engine = start(select);
    let config = FilesConfig {
        handles: 3,
        timers: 3,
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let (stale, gone) = pair(&files);
    let close = script(&engine, &files, &[step(Op::Close, stale, 0, 0, 0)]);
    assert_eq!(crate::files::run(&engine, &close, 1), [Some(Ok(0))]);
    drop(close);
    drop((files, gone));
    let files = self::files(&engine, config);
    let (talks, mut peer) = pair(&files);
    let bytes = shared(&files, b"harmless..");
    let any = DevNetAddress::from(families()[0]);
    let any = shared(&files, any.bytes());
    let at = address(&bytes);
    // A place that was never used, a generation that never was, other bits, and the extremes.
    let forged = [
        0,
        1,
        2,
        talks + 1,
        talks ^ 1 << 16,
        talks ^ 1 << 30,
        1 << 31 | talks,
        u32::MAX,
    ];
    let mut steps = Vec::new();
    for handle in forged {
        for op in [
            Op::Accept,
            Op::Receive,
            Op::Send,
            Op::Shut,
            Op::Tick,
            Op::Close,
            Op::Cancel,
        ] {
            let (offset, len) = match op {
                Op::Shut => (SHUT_SENDING.into(), 0),
                Op::Cancel | Op::Tick | Op::Accept => (0, 0),
                _ => (0, 10),
            };
            let place = if op == Op::Accept { 0 } else { at };
            steps.push(step(op, handle, offset, place, len));
        }
        steps.push(step(Op::SendTo, handle, address(&any), at, 10));
        steps.push(step(Op::Peer, handle, 0, address(&any), 0));
        steps.push(step(Op::Option, handle, 1, 0, 0));
    }
    let count = steps.len() as u32;
    steps.push(step(Op::Send, talks, 0, at, 8));
    let script = script(&engine, &files, &steps);
    let tasks = (0..count).step_by(MANY as usize);
    let tasks = tasks.map(|first| script.task(first, MANY.min(count - first)));
    let mut pending = engine
        .submit_batch(&tasks.collect::<Vec<_>>())
        .expect("there is room");
    assert_eq!(pending.wait().expect("all end").value, u64::from(count));
    let mut last = script.submit(&engine, count, 1).expect("there is room");
    assert_eq!(last.wait().expect("it ends").value, 1);
    let results = script.results().expect("they can be read");
    for (step, result) in steps.iter().zip(&results[..count as usize]) {
        assert_eq!(*result, Some(Err(FileErrno::BADF)), "{step:?}");
    }
    assert_eq!(
        results[count as usize],
        Some(Ok(8)),
        "the connection is unharmed"
    );
    let mut echo = [0; 8];
    peer.read_exact(&mut echo).expect("it is sent");
    assert_eq!(&echo, b"harmless");
    assert_eq!(open(&files), 1);
}

/// Timers expire, are cancelled and are closed at the same moment: each wait ends once.
fn timers_that_are_closed_as_they_expire_end_once(select: Select) {
    const TIMERS: u32 = 20;
    let engine = start(select);
    let before = descriptors().len();
    for seed in 1..=10 {
        let config = FilesConfig {
            timers: 1000,
            faults: Some(faults(seed * 3)),
            ..FilesConfig::default()
        };
        let files = self::files(&engine, config);
        let mut state = seed * 5 + 3;
        let mut steps = Vec::new();
        for _ in 0..TIMERS {
            let after = random(&mut state) % (2 * MS);
            let period = [0, MS / 10, MS][random(&mut state) as usize % 3];
            steps.push(step(Op::Timer, 0, after, period, 0));
        }
        // The waits, then what ends them after about as long.
        for timer in 0..TIMERS {
            steps.push(step(Op::Tick, 0, 0, 0, 0).of(timer));
        }
        for timer in 0..TIMERS {
            let nanos = random(&mut state) % (2 * MS);
            let at = steps.len() as u32;
            steps.push(step(Op::Sleep, 0, nanos, 0, 0).then(at + 1));
            let ends = match random(&mut state) % 2 {
                0 => step(Op::Cancel, 0, u64::from(TIMERS + timer), 0, 0)
                    .of(timer)
                    .then(at + 2),
                _ => step(Op::Tick, 0, 0, 0, 0).of(timer).then(at + 2),
            };
            steps.extend([ends, step(Op::Close, 0, 0, 0, 0).of(timer)]);
        }
        let script = script(&engine, &files, &steps);
        let mut set = script.submit(&engine, 0, TIMERS).expect("there is room");
        assert_eq!(set.wait().expect("they are set").value, u64::from(TIMERS));
        let mut ticks = script
            .submit(&engine, TIMERS, TIMERS)
            .expect("there is room");
        let sleeps = (0..TIMERS).map(|at| script.task(2 * TIMERS + 3 * at, 1));
        let mut ends = engine
            .submit_batch(&sleeps.collect::<Vec<_>>())
            .expect("there is room");
        assert_eq!(ends.wait().expect("they end").value, 3 * u64::from(TIMERS));
        assert_eq!(ticks.wait().expect("they end").value, u64::from(TIMERS));
        let results = script.results().expect("they can be read");
        for (step, result) in steps.iter().zip(&results) {
            let ended = match result {
                Some(Ok(count)) => step.op != Op::Tick as u32 || *count > 0,
                Some(Err(error)) => {
                    let ends = [FileErrno::CANCELED, FileErrno::BUSY, FileErrno::INVAL];
                    step.op == Op::Tick as u32 && ends.contains(error)
                }
                None => false,
            };
            assert!(ended, "seed {seed}: {step:?}: {result:?}");
        }
        in_flight(&files, 0);
        assert_eq!(open(&files), 0, "seed {seed}");
        drop((script, files));
        all_are_back(before);
    }
}

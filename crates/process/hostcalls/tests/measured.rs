//! The times of host calls, with a mock device. In a program of its own, because measuring is turned on for a whole program.
#![cfg(target_os = "linux")]

#[path = "wasi/device.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod device;
#[path = "wasi/world.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod world;

use std::time::{Duration, Instant};

use everwarp_contract::hostcall::{EXIT_NORMAL, number};
use everwarp_telemetry::hosted::HostedProcess;
use everwarp_telemetry::{Level, clock, raise, trace};

use crate::world::World;

const READS: everwarp_hostcalls::Reads = everwarp_hostcalls::Reads::Batched(1);
/// What a `poll_oneoff` waits for.
const WAIT: Duration = Duration::from_millis(30);

/// A subscription to the monotonic clock, some time from now.
fn clock_subscription(after: Duration) -> [u8; 48] {
    let mut subscription = [0; 48];
    subscription[16] = 1;
    subscription[24..32].copy_from_slice(&(after.as_nanos() as u64).to_le_bytes());
    subscription
}

fn written_trace() -> Vec<u8> {
    let mut written = Vec::new();
    let tracer = trace::tracer().expect("it was started");
    tracer.write(&mut written).expect("memory is writable");
    written
}

fn contains(bytes: &[u8], word: &str) -> bool {
    let mut windows = bytes.windows(word.len());
    windows.any(|part| part == word.as_bytes())
}

#[test]
fn calls_are_measured_by_kind_from_the_ring_to_the_answer_if_that_is_asked_for() {
    // Nothing is asked for yet.
    let (silent, process) = World::with_process();
    process.get(number::NOP, &[1, 2, 3], b"");
    assert!(silent.service.times().is_none());

    raise(Level::Measure);
    assert!(
        silent.service.times().is_none(),
        "it is fixed when a service starts"
    );
    trace::start(trace::LEAST_LIMIT).expect("the only trace");

    let (mut world, process) = World::with_process();
    let begin = Instant::now();
    let file = process.create("file");
    for _ in 0..20 {
        process.get(number::FD_WRITE, &[file], b"sixteen bytes...");
        process.get(number::FD_PREAD, &[file, 16, 0], b"");
    }
    // One that fails, and one that is none.
    process.ask(number::FD_CLOSE, &[99], b"");
    process.ask(9, &[], b"");
    // Waiting is a part of the time of a call.
    process.get(number::POLL_ONEOFF, &[1, 0, 0], clock_subscription(WAIT));
    process.get(number::NOP, &[1, 2, 3], b"");
    process.get(number::EXIT, &[EXIT_NORMAL.into(), 0], b"");
    // An answer is written before its time is recorded.
    drop(world.server.take());
    let most = begin.elapsed();

    let times = world.service.times().expect("it was asked for");
    let totals = times.totals();
    let counts = totals.by_kind.iter();
    let mut counts: Vec<_> = counts.map(|k| (&*k.call, k.times.count)).collect();
    counts.sort_unstable();
    let expected = [
        ("exit", 1),
        ("fd_close", 1),
        ("fd_pread", 20),
        ("fd_write", 20),
        ("nop", 1),
        ("path_open", 1),
        ("poll_oneoff", 1),
        ("unknown", 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!((totals.calls, totals.call.count), (46, 46));
    for kind in &totals.by_kind {
        let times = &kind.times;
        assert!(times.sum > 0, "{} took no time", kind.call);
        assert!(
            times.most <= most.as_nanos() as u64,
            "{times:?} of {most:?}"
        );
        if kind.call == "poll_oneoff" {
            assert!(times.most >= WAIT.as_nanos() as u64, "{times:?}");
        }
    }

    // The same calls are slices of the trace, and a process that the owner reports is one on the track of its place.
    let now = clock::now();
    times.started(&[now], now);
    let hosted = HostedProcess {
        place: 1,
        began: now,
    };
    times.ended(&[(hosted, true)], now + 1000);
    drop((world, process));
    let written = written_trace();
    for name in ["fd_pread", "poll_oneoff", "place 1"] {
        assert!(contains(&written, name), "{name} is in the trace");
    }
    assert!(!contains(&written, "fd_readdir"));
}

//! Events that arrive by themselves, as tasks of a handler.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use everwarp::files::{
    DevEvent, EVENT_END, EVENT_INPUT, EVENT_KEY, EVENT_MOUSE, EVENT_SIGNAL, EVENT_SIZE,
    EVENT_WATCHING, EventSources, Events, FileErrno, FilesConfig, Recording, SHUT_SENDING,
    SOCKET_NO_DELAY, SOURCE_INPUT, SOURCE_KEYS, SOURCE_MOUSE, SOURCE_SIZE,
};
use everwarp::{DevType, Device, Engine, Select};
use everwarp_programs::arrivals::{self, Arrivals, Watched};
use everwarp_programs::file_probe::{DevFileStep, Op};
use everwarp_testkit::cases;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use signal_hook::consts::{SIGUSR1, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::files::{address, files, run, script, shared, start};
use crate::sockets::{in_flight, open, pair};
use crate::support::{Case, wait_until};

pub(crate) const ALL: &[Case] = cases![
    events_of_a_terminal_come_in_order,
    events_of_a_recording_come_in_order,
    events_belong_to_the_first_stream_until_it_is_closed,
    events_outlast_a_park,
    events_refuse_wrong_requests,
];

/// The variable that makes a case the program on a terminal.
const ON_TERMINAL: &str = "EVERWARP_CASE_ON_TERMINAL";

fn engine(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&arrivals::PROGRAM).size(2).start();
    engine.expect("the engine starts")
}

/// Kind, flags, number and the two values.
fn brief(event: &DevEvent) -> (u32, u16, u32, i64, i64) {
    (event.kind.into(), event.flags, event.id, event.a, event.b)
}

/// The program on the terminal: it prints how many events have come whenever more have.
fn watch_terminal(select: Select) {
    let engine = engine(select);
    let sources = EventSources {
        terminal: true,
        signals: true,
        recording: None,
    };
    let events = Events::new(sources).expect("a thread");
    let mut signals = Signals::new([SIGUSR1, SIGWINCH]).expect("they can be caught");
    let passes_on = signals.handle();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            signals
                .forever()
                .for_each(|signal| assert!(events.signal(signal)))
        });
        let watched = Watched {
            sources: SOURCE_KEYS | SOURCE_MOUSE | SOURCE_SIZE | SOURCE_INPUT,
            signals: 1 << SIGUSR1 | 1 << 9,
            last_key: 'q'.into(),
        };
        let arrivals = Arrivals::new(&engine, &events, watched, 100).expect("there is memory");
        let mut pending = arrivals.start(&engine).expect("there is room");
        let mut seen = 0;
        let all = loop {
            let count = arrivals.count().expect("it can be read");
            if count > seen {
                seen = count;
                println!("{count} events.");
            }
            match pending.wait_timeout(Duration::from_millis(5)) {
                Ok(done) => break done.value,
                Err(everwarp::Error::Timeout { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let came = arrivals.since(0).expect("it can be read");
        assert_eq!(all, came.len() as u64);
        let terminal = SOURCE_KEYS | SOURCE_MOUSE | SOURCE_SIZE;
        // There is no input device, and no program gets signal 9.
        let expected = [
            (EVENT_WATCHING, 0, 0, terminal.into(), 1 << SIGUSR1),
            (EVENT_SIZE, 0, 0, 80, 24),
            (EVENT_KEY, 0, 'a'.into(), 0, 0),
            (EVENT_KEY, 0, 0x11_0001, 0, 0),
            (EVENT_MOUSE, 0x100, 0, 4, 6),
            (EVENT_SIZE, 0, 0, 100, 30),
            (EVENT_SIGNAL, 0, SIGUSR1 as u32, 1, 0),
            (EVENT_KEY, 0, 'q'.into(), 0, 0),
        ];
        assert_eq!(came.iter().map(brief).collect::<Vec<_>>(), expected);
        assert!(
            came.iter()
                .all(|event| event.time > 1_600_000_000_000_000_000)
        );
        let stats = arrivals.stats().expect("there are counters");
        assert_eq!(stats.open, 0);
        passes_on.close();
    });
}

/// Reads what a program prints on its terminal, until a text comes.
fn read_until(terminal: &mut File, all: &mut String, text: &str) {
    let begin = Instant::now();
    while !all.contains(text) {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{text}: not in {all}"
        );
        let mut part = [0; 1000];
        match terminal.read(&mut part) {
            Ok(bytes) => all.push_str(&String::from_utf8_lossy(&part[..bytes])),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}: {all}"),
        }
    }
}

/// A user at a terminal, and the program in a process of its own.
fn events_of_a_terminal_come_in_order(select: Select) {
    if std::env::var_os(ON_TERMINAL).is_some() {
        return watch_terminal(select);
    }
    let size = |ws_col, ws_row| Winsize {
        ws_col,
        ws_row,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&user).expect("it is ours");
    unlockpt(&user).expect("it is ours");
    tcsetwinsize(&user, size(80, 24)).expect("it has a size");
    let name = ptsname(&user, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("it is text");
    let end = File::options().read(true).write(true).open(name);
    let end: OwnedFd = end.expect("it can be opened").into();
    let copy = || Stdio::from(end.try_clone().expect("it can be duplicated"));
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.env(ON_TERMINAL, "1");
    command.stdin(copy()).stdout(copy());
    // SAFETY: between fork and exec this makes two calls, which are safe in a signal handler.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            let stdin = std::io::stdin();
            Ok(rustix::process::ioctl_tiocsctty(stdin.as_fd())?)
        });
    }
    let mut program = command.spawn().expect("it starts");
    drop((command, end));
    let flags = rustix::fs::fcntl_getfl(&user).expect("it has flags");
    rustix::fs::fcntl_setfl(&user, flags | rustix::fs::OFlags::NONBLOCK).expect("it can be");
    let mut terminal = File::from(user);
    let mut output = String::new();
    read_until(&mut terminal, &mut output, "2 events.");
    for (at, keys) in [(3, "a"), (4, "\x1b[A"), (5, "\x1b[<0;5;7M")] {
        terminal.write_all(keys.as_bytes()).expect("it is read");
        read_until(&mut terminal, &mut output, &format!("{at} events."));
    }
    tcsetwinsize(&terminal, size(100, 30)).expect("it has a size");
    read_until(&mut terminal, &mut output, "6 events.");
    let process = Pid::from_child(&program);
    kill_process(process, Signal::USR1).expect("it runs");
    read_until(&mut terminal, &mut output, "7 events.");
    terminal.write_all(b"q").expect("it is read");
    assert!(program.wait().expect("it ends").success(), "{output}");
}

/// A recording of an input device: events with these types, codes and values, 20 us from each other.
fn recording(events: impl Iterator<Item = (u16, u16, i32)>) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for (at, (kind, code, value)) in (0_u64..).zip(events) {
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend((at * 20).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&bytes).expect("it is writable");
    file
}

fn events_of_a_recording_come_in_order(select: Select) {
    const EVENTS: u32 = 5000;
    let engine = engine(select);
    let made = |at: u32| (at as u16 % 4, at as u16, at as i32 - 1000);
    let file = recording((0..EVENTS).map(made));
    let sources = EventSources {
        recording: Some(Recording::open(file.path()).expect("it is one")),
        ..EventSources::default()
    };
    let events = Events::new(sources).expect("a thread");
    let watched = Watched {
        sources: SOURCE_INPUT,
        ..Watched::default()
    };
    let arrivals = Arrivals::new(&engine, &events, watched, 8192).expect("there is memory");
    let mut pending = arrivals.start(&engine).expect("there is room");
    assert_eq!(
        pending.wait().expect("it ends").value,
        u64::from(EVENTS) + 2
    );
    let came = arrivals.since(0).expect("it can be read");
    assert_eq!(
        brief(&came[0]),
        (EVENT_WATCHING, 0, 0, SOURCE_INPUT.into(), 0)
    );
    let mut times = came[1..=EVENTS as usize].iter().map(|event| event.time);
    assert!(times.all(|time| (7_000_000_000..8_000_000_000).contains(&time)));
    for (at, event) in (0..EVENTS).zip(&came[1..]) {
        let (kind, code, value) = made(at);
        assert_eq!(
            brief(event),
            (EVENT_INPUT, kind, code.into(), value.into(), 0)
        );
    }
    let last = came.last().expect("there are some");
    assert_eq!(brief(last), (EVENT_END, 0, 0, 0, 0).with_id(SOURCE_INPUT));
    // Far fewer requests than events: they come in batches.
    let served = arrivals.stats().expect("there are counters").served;
    eprintln!("{EVENTS} events in {served} requests");
    assert!(served < u64::from(EVENTS), "{served} requests");
}

trait WithId {
    fn with_id(self, id: u32) -> Self;
}
impl WithId for (u32, u16, u32, i64, i64) {
    fn with_id(mut self, id: u32) -> Self {
        self.2 = id;
        self
    }
}

/// What a place in shared memory holds.
fn events_at(bytes: &[u8], at: usize, count: usize) -> Vec<(u32, u16, u32, i64, i64)> {
    let events = bytes.as_chunks::<32>().0[at..][..count].iter();
    events
        .map(|bytes| brief(&DevEvent::from_bytes(bytes)))
        .collect()
}

fn events_belong_to_the_first_stream_until_it_is_closed(select: Select) {
    let engine = start(select);
    let sources = EventSources {
        signals: true,
        ..EventSources::default()
    };
    let events = Events::new(sources).expect("a thread");
    let files = files(&engine, FilesConfig::default());
    let [first, second] = [0, 1].map(|_| files.give_events(&events).expect("a free handle").0);
    let target = shared(&files, &[0; 32 * 40]);
    let watch = |handle| DevFileStep::new(Op::Watch, handle, 0, 1 << SIGUSR1, 0);
    let wait = |handle, at: u64, most| {
        DevFileStep::new(Op::Events, handle, 0, address(&target) + at * 32, most)
    };
    let steps = [
        watch(first).then(1),
        wait(first, 0, 1),
        watch(second).then(3),
        wait(second, 1, 1),
        // Waits that are cancelled, and ended by a close.
        wait(first, 2, 10),
        DevFileStep::new(Op::Cancel, first, 4, 0, 0),
        wait(first, 2, 10),
        wait(first, 12, 10),
        DevFileStep::new(Op::Close, first, 0, 0, 0),
        watch(second).then(10),
        wait(second, 22, 1),
        wait(second, 23, 10),
        DevFileStep::new(Op::Close, second, 0, 0, 0),
    ];
    let script = script(&engine, &files, &steps);
    let done = |first, count, steps: u64| {
        let mut pending = script.submit(&engine, first, count).expect("there is room");
        assert_eq!(pending.wait().expect("they end").value, steps);
    };
    done(0, 1, 2);
    done(2, 1, 2);
    let mut waits = script.submit(&engine, 4, 1).expect("there is room");
    in_flight(&files, 1);
    done(5, 1, 1);
    assert_eq!(waits.wait().expect("it is cancelled").value, 1);
    // Nothing is lost by that.
    assert!(events.signal(SIGUSR1), "the first stream has it");
    done(6, 1, 1);
    let mut waits = script.submit(&engine, 7, 1).expect("there is room");
    in_flight(&files, 1);
    done(8, 1, 1);
    assert_eq!(waits.wait().expect("it is cancelled").value, 1);
    wait_until("the signals are free", || !events.signal(SIGUSR1));
    done(9, 1, 2);
    let mut waits = script.submit(&engine, 11, 1).expect("there is room");
    assert!(events.signal(SIGUSR1), "the second stream has it");
    assert_eq!(waits.wait().expect("it comes").value, 1);
    // With the events the stream ends.
    done(12, 1, 1);
    let results = script.results().expect("they can be read");
    let canceled = Some(Err(FileErrno::CANCELED));
    let ok = |value| Some(Ok(value));
    assert_eq!(results[..6], [ok(0), ok(1), ok(0), ok(1), canceled, ok(0)]);
    assert_eq!(
        results[6..],
        [ok(1), canceled, ok(0), ok(0), ok(1), ok(1), ok(0)]
    );
    let target = target.read().expect("it can be read");
    let watching = |signals| (EVENT_WATCHING, 0, 0, 0, signals);
    let signal = (EVENT_SIGNAL, 0, SIGUSR1 as u32, 1, 0);
    assert_eq!(
        events_at(&target, 0, 3),
        [watching(1 << SIGUSR1), watching(0), signal]
    );
    assert_eq!(events_at(&target, 22, 2), [watching(1 << SIGUSR1), signal]);
    assert_eq!(open(&files), 0);
}

/// What comes while the engine is parked is kept, and signals are counted.
fn events_outlast_a_park(select: Select) {
    let engine = engine(select);
    let sources = EventSources {
        signals: true,
        ..EventSources::default()
    };
    let events = Events::new(sources).expect("a thread");
    let watched = Watched {
        signals: 1 << SIGUSR1,
        ..Watched::default()
    };
    let arrivals = Arrivals::new(&engine, &events, watched, 1000).expect("there is memory");
    let mut pending = arrivals.start(&engine).expect("there is room");
    wait_until("the signal is watched", || {
        arrivals.count().expect("it can be read") == 1
    });
    let mut sent = 0;
    for _ in 0..5 {
        engine.park().expect("it parks");
        for _ in 0..20 {
            assert!(events.signal(SIGUSR1));
            sent += 1;
        }
        engine.resume().expect("it resumes");
    }
    let came = || -> i64 {
        let all = arrivals.since(1).expect("it can be read");
        all.iter().map(|event| event.a).sum()
    };
    wait_until("all have come", || came() == sent);
    // The end of the events is that of the stream.
    drop(events);
    let all = pending.wait().expect("it ends").value;
    assert_eq!(all, arrivals.count().expect("it can be read"));
    assert_eq!(came(), sent);
    assert_eq!(arrivals.stats().expect("there are counters").open, 0);
}

fn events_refuse_wrong_requests(select: Select) {
    let engine = start(select);
    let events = Events::new(EventSources::default()).expect("a thread");
    let files = files(&engine, FilesConfig::default());
    let (talks, _peer) = pair(&files);
    let handle = files.give_events(&events).expect("a free handle").0;
    let target = shared(&files, &[0; 100]);
    let at = address(&target);
    let step =
        |op, handle, offset, address, len| DevFileStep::new(op, handle, offset, address, len);
    let cases = [
        (step(Op::Events, talks, 0, at, 1), FileErrno::NOTSUP),
        (step(Op::Watch, talks, 0, 0, 0), FileErrno::NOTSUP),
        (
            step(Op::Events, handle ^ 1 << 20, 0, at, 1),
            FileErrno::BADF,
        ),
        (step(Op::Events, handle, 0, at, 0), FileErrno::INVAL),
        (step(Op::Events, handle, 0, at, 4), FileErrno::FAULT),
        (step(Op::Events, handle, 0, at, u32::MAX), FileErrno::FAULT),
        (step(Op::Receive, handle, 0, at, 10), FileErrno::NOTSUP),
        (step(Op::Send, handle, 0, at, 10), FileErrno::NOTSUP),
        (step(Op::Accept, handle, 0, 0, 0), FileErrno::INVAL),
        (
            step(Op::Shut, handle, SHUT_SENDING.into(), 0, 0),
            FileErrno::NOTSUP,
        ),
        (step(Op::ReceiveFrom, handle, 0, at, 10), FileErrno::NOTSUP),
        (step(Op::Read, handle, 0, at, 10), FileErrno::BADF),
        (step(Op::Tick, handle, 0, 0, 0), FileErrno::NOTSUP),
        (
            step(Op::Option, handle, SOCKET_NO_DELAY.into(), 0, 0),
            FileErrno::NOTSUP,
        ),
    ];
    let steps: Vec<_> = cases.iter().map(|(step, _)| *step).collect();
    let wrong = script(&engine, &files, &steps);
    let results = run(&engine, &wrong, cases.len() as u32);
    for ((step, error), result) in cases.iter().zip(results) {
        assert_eq!(result, Some(Err(*error)), "{step:?}");
    }
    assert_eq!(open(&files), 2);
}

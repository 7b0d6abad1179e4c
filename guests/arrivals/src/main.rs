//! Prints what arrives: `arrivals timers`, `arrivals watch SOURCES SIGNALS` (bits of both), or `arrivals mixed` with a
//! listener. In C, `guests/c/arrivals.c` does the first two, and prints the same.

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::ExitCode;
use std::time::Duration;

use everwarp_guest_events::{Event, Events};

const MS: Duration = Duration::from_millis(1);

/// Prints a line at once, for the reader at the other end.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// One timer that expires once, one that does so again and again, one that is cancelled, and one that is refused.
fn timers() -> io::Result<()> {
    let mut events = Events::open()?;
    events.set_timer(1, 60 * MS, None)?;
    events.set_timer(2, 10 * MS, Some(10 * MS))?;
    events.set_timer(3, 600_000 * MS, None)?;
    events.cancel_timer(3)?;
    events.cancel_timer(4)?;
    events.set_timer(5, MS, Some(Duration::from_nanos(99_999)))?;
    let (mut times, mut once) = (0, false);
    while times < 10 || !once {
        match events.next()?.event {
            Event::Timer { id: 1, count } => {
                once = true;
                say(&format!("timer 1 expired {count} time"))?;
            }
            Event::Timer { id: 2, count } => times += count,
            Event::Cancelled { id, was_set } => {
                say(&format!("timer {id} cancelled: {was_set}"))?;
            }
            Event::Refused { request, id, errno } => {
                say(&format!("request {request} for {id} refused: {errno}"))?;
            }
            other => say(&format!("unexpected: {other:?}"))?,
        }
    }
    say("timer 2 expired ten times")
}

/// Prints everything until `q` is pressed, SIGTERM comes, or a source ends.
fn watch(sources: u32, signals: u64) -> io::Result<()> {
    let mut events = Events::open()?;
    let numbers: Vec<u32> = (0..64).filter(|bit| signals >> bit & 1 != 0).collect();
    events.watch(sources, &numbers)?;
    loop {
        let event = events.next()?.event;
        match event {
            Event::Watching { sources, signals } => {
                say(&format!("watching {sources} {signals}"))?;
                if sources == 0 && signals == 0 {
                    return Ok(());
                }
            }
            Event::Key { key, modifiers } => say(&format!("key {key:#x} {modifiers}"))?,
            Event::Mouse {
                button,
                flags,
                column,
                row,
            } => say(&format!("mouse {button} {flags:#x} {column} {row}"))?,
            Event::Resize { columns, rows } => say(&format!("size {columns} {rows}"))?,
            Event::Signal { number, count } => say(&format!("signal {number} {count}"))?,
            Event::Input { kind, code, value } => say(&format!("input {kind} {code} {value}"))?,
            Event::End { sources, errno } => say(&format!("end {sources} {errno}"))?,
            other => say(&format!("unexpected: {other:?}"))?,
        }
        let quit = matches!(event, Event::Key { key, .. } if key == 'q'.into());
        let ended = matches!(event, Event::End { .. } | Event::Signal { number: 15, .. });
        if quit || ended {
            return Ok(());
        }
    }
}

/// Waits for a time, for a timer, and for a connection, each with all of them.
fn mixed() -> io::Result<()> {
    let mut events = Events::open()?;
    let first = std::env::var("LISTEN_FDS_FIRST").ok();
    let first = first.and_then(|first| first.parse().ok());
    let first = first.ok_or(io::ErrorKind::NotFound)?;
    // SAFETY: the host has given the process this listener.
    let listener = unsafe { TcpListener::from_raw_fd(first) };
    let others = [listener.as_raw_fd()];
    say(&format!("{:?}", events.wait(&others, Some(2 * MS))?))?;
    events.set_timer(1, MS, None)?;
    say(&format!("{:?}", events.wait(&others, Some(60_000 * MS))?))?;
    say(&format!("{:?}", events.next()?.event))?;
    // The reader of this line connects.
    say("ready")?;
    say(&format!("{:?}", events.wait(&others, None)?))?;
    let (mut peer, _) = listener.accept()?;
    peer.write_all(b"welcome\n")?;
    // The peer ends, and a timer goes on meanwhile.
    events.set_timer(2, MS, Some(MS))?;
    let mut heard = false;
    loop {
        let ready = events.wait(&[peer.as_raw_fd()], None)?;
        if ready.events {
            heard |= matches!(events.next()?.event, Event::Timer { id: 2, .. });
        }
        if ready.others == [true] && heard {
            return say("gone");
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = match args[..] {
        ["timers"] => timers(),
        ["mixed"] => mixed(),
        ["watch", sources, signals] => match (sources.parse(), signals.parse()) {
            (Ok(sources), Ok(signals)) => watch(sources, signals),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        },
        _ => {
            eprintln!("arrivals: use timers, mixed, or watch SOURCES SIGNALS");
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arrivals: {error}");
            ExitCode::FAILURE
        }
    }
}

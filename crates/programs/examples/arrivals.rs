//! A native program that watches the terminal, on the CPU engine:
//!
//! `cargo run --release -p everwarp-programs --example arrivals`
//!
//! It prints the keys, the mouse and the size of the terminal until `q` is pressed. With the path of a recording of an input device
//! (`cat /dev/input/event0 > FILE`) it plays that one instead.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use everwarp::files::{
    DevEvent, EVENT_END, EVENT_INPUT, EVENT_KEY, EVENT_MOUSE, EVENT_SIGNAL, EVENT_SIZE,
    EVENT_WATCHING, EventSources, Events, Recording, SOURCE_INPUT, SOURCE_KEYS, SOURCE_MOUSE,
    SOURCE_SIZE,
};
use everwarp::{Device, Select};
use everwarp_programs::arrivals::{self, Arrivals, Watched};
use signal_hook::consts::{SIGCONT, SIGWINCH};
use signal_hook::iterator::Signals;

fn text(event: &DevEvent) -> String {
    let DevEvent {
        flags, id, a, b, ..
    } = event;
    match event.kind.into() {
        EVENT_KEY => match char::from_u32(*id).filter(|key| !key.is_control()) {
            Some(key) => format!("key {key:?}, modifiers {flags}"),
            None => format!("key {id:#x}, modifiers {flags}"),
        },
        EVENT_MOUSE => format!("mouse: button {id}, {flags:#x}, column {a}, row {b}"),
        EVENT_SIZE => format!("{a} columns, {b} rows"),
        EVENT_SIGNAL => format!("signal {id}, {a} times"),
        EVENT_INPUT => format!("input: type {flags}, code {id}, value {a}"),
        EVENT_END => format!("sources {id} have ended"),
        EVENT_WATCHING => format!("watching sources {a}"),
        other => format!("event {other}"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let recording = std::env::args().nth(1);
    let sources = match recording {
        Some(_) => SOURCE_INPUT,
        None => SOURCE_KEYS | SOURCE_MOUSE | SOURCE_SIZE,
    };
    let watched = Watched {
        sources,
        signals: 1 << SIGCONT,
        last_key: 'q'.into(),
    };
    let recording = recording.map(|path| Recording::open(Path::new(&path)));
    let events = Events::new(EventSources {
        terminal: true,
        signals: true,
        recording: recording.transpose()?,
    })?;
    let device = Device::open(Select::Cpu)?;
    let engine = device.engine().program(&arrivals::PROGRAM).start()?;
    let program = Arrivals::new(&engine, &events, watched, 1024)?;
    // The program that has the handlers of signals passes them on.
    let mut signals = Signals::new([SIGCONT, SIGWINCH])?;
    let listener = signals.handle();
    let to = events.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            to.signal(signal);
        }
    });
    let mut pending = program.start(&engine)?;
    let mut printed = 0;
    let count = loop {
        let ended = pending.wait_timeout(Duration::from_millis(20));
        for event in program.since(printed)? {
            println!("{}", text(&event));
        }
        printed = program.count()?;
        match ended {
            Ok(done) => break done.value,
            Err(everwarp::Error::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    };
    listener.close();
    println!("{count} events have come");
    Ok(())
}

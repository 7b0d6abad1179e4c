//! What is measured in this program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The variable that turns measurements on for a program that does not ask for them: `on`.
pub const VARIABLE: &str = "EVERWARP_TELEMETRY";

/// How much engines measure. It is fixed for an engine when that starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Only the counters that engines keep anyway.
    #[default]
    Off = 1,
    /// Calls of each function, and histograms of their times from samples.
    Measure = 2,
    /// The same, and each task, handler, process and host call becomes an event of a trace.
    Trace = 3,
}

/// 0 as long as the variable was not looked at.
static LEVEL: AtomicU8 = AtomicU8::new(0);

fn of_variable() -> Level {
    match std::env::var_os(VARIABLE) {
        Some(value) if value == "on" => Level::Measure,
        Some(value) if value != "off" && !value.is_empty() => {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                eprintln!(
                    "everwarp: warning: {VARIABLE} is on or off, not {value:?}: nothing is measured"
                );
            });
            Level::Off
        }
        _ => Level::Off,
    }
}

/// Says, once in a program, that an engine measures no times although the variable asks for them.
pub fn warn_unmeasured(engine: &str) {
    static SAID: Once = Once::new();
    if of_variable() == Level::Measure {
        SAID.call_once(|| {
            eprintln!("everwarp: warning: {VARIABLE}=on, but the {engine} engine measures no times: only the cpu and cuda engines do");
        });
    }
}

/// The level for engines that start now.
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        0 => {
            let level = of_variable();
            raise(level);
            level
        }
        1 => Level::Off,
        2 => Level::Measure,
        _ => Level::Trace,
    }
}

/// Makes engines that start from now on measure at least this much.
pub fn raise(level: Level) {
    LEVEL.fetch_max(level as u8, Ordering::Relaxed);
}

/// Whether an engine of this program has measured so far.
static RECORDED: AtomicBool = AtomicBool::new(false);

/// An engine measures from now on, whatever the level is for others.
pub(crate) fn recorded() {
    RECORDED.store(true, Ordering::Relaxed);
}

/// Whether an engine of this program has measured so far.
#[inline]
pub(crate) fn any() -> bool {
    RECORDED.load(Ordering::Relaxed)
}

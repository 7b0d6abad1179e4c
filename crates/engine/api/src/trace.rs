//! Where the time of a whole command goes: named spans, written to the file that `EVERWARP_TRACE` names.
//!
//! Without the variable a span costs one load. Spans may nest and overlap, on any threads; each is a line of JSON with
//! its name, its thread, its begin in nanoseconds since 1970, and its length in nanoseconds. The begin is absolute, so that
//! the program that started the command can add what came before the first span and after the last one.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::sync::lock;

/// The variable that names the file.
pub const VARIABLE: &str = "EVERWARP_TRACE";

#[derive(Debug)]
struct Recorder {
    file: PathBuf,
    lines: Mutex<String>,
}

fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    let recorder = RECORDER.get_or_init(|| {
        let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty())?;
        Some(Recorder {
            file: file.into(),
            lines: Mutex::default(),
        })
    });
    recorder.as_ref()
}

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// A span of time, which ends when it is dropped.
#[derive(Debug)]
#[must_use = "the span ends when it is dropped"]
pub struct Span {
    name: &'static str,
    begin: Option<(u64, Instant)>,
    /// The same in a trace of the whole program.
    _traced: everwarp_telemetry::trace::Span,
}

/// Begins a span.
pub fn span(name: &'static str) -> Span {
    let begin = recorder().map(|_| (now(), Instant::now()));
    let _traced = everwarp_telemetry::trace::span("host", name);
    Span {
        name,
        begin,
        _traced,
    }
}

/// Records how long a call takes.
pub fn spanned<T>(name: &'static str, call: impl FnOnce() -> T) -> T {
    let _span = span(name);
    call()
}

impl Drop for Span {
    fn drop(&mut self) {
        let (Some((at, begin)), Some(recorder)) = (self.begin, recorder()) else {
            return;
        };
        let nanoseconds = begin.elapsed().as_nanos();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let line = line(self.name, thread, at, nanoseconds);
        lock(&recorder.lines).push_str(&line);
    }
}

fn line(name: &str, thread: &str, begin: u64, nanoseconds: u128) -> String {
    let mut line = String::new();
    // Names of spans and threads are ours and need no escapes beyond those of Rust.
    let written = writeln!(
        line,
        r#"{{"span":{name:?},"thread":{thread:?},"begin_ns":{begin},"ns":{nanoseconds}}}"#
    );
    written.expect("writing to a string cannot fail");
    line
}

/// Writes the spans that have ended to the file, if there is one. To be called once, at the end of a command.
pub fn write() {
    let Some(recorder) = recorder() else {
        return;
    };
    let lines = lock(&recorder.lines);
    if let Err(e) = std::fs::write(&recorder.file, &*lines) {
        let file = recorder.file.display();
        eprintln!(
            "everwarp: warning: {VARIABLE}: {file}: {e}; name a file in a folder that exists"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_object_of_json() {
        assert_eq!(
            line("a span", "main", 7, 12),
            "{\"span\":\"a span\",\"thread\":\"main\",\"begin_ns\":7,\"ns\":12}\n"
        );
    }

    #[test]
    fn a_span_passes_the_result_of_its_call_on() {
        assert_eq!(spanned("a span", || 5), 5);
        assert!(now() > 1_700_000_000_000_000_000);
    }
}

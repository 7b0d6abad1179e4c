//! Processes that exit at about the same time: their last output is written in one piece, and their exits are reported
//! together.
//!
//! Most of many processes never call. They compute, and their last output comes with the exit. To open streams for
//! each, to write each line by itself and to take one of the embedder's locks for each exit would cost more than the
//! processes themselves.

use everwarp_process::{Captured, HostBudgets, Output, Pid, tag_into};

use crate::events::Ended;
use crate::process::StartConfig;
use crate::streams::Streams;

/// Bytes of lines that are kept until they are written.
const KEPT_MOST: usize = 256 << 10;

/// Processes that have exited, and whose exits have not been reported.
#[derive(Default)]
pub(crate) struct Endings {
    /// Whole lines for the host's two streams.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    pub(crate) ended: Vec<Ended>,
    /// Requests and bytes of payload that have not been counted yet.
    pub(crate) exits: usize,
    pub(crate) bytes: usize,
}

impl Endings {
    pub(crate) fn count(&mut self, payload: &[u8]) {
        self.exits += 1;
        self.bytes += payload.len();
    }

    /// Takes the last output of a process that has never called, and returns its captured streams.
    pub(crate) fn last_output(
        &mut self,
        process: Pid,
        start: &StartConfig,
        last: &[u8],
        streams: &Streams,
    ) -> [Option<Captured>; 2] {
        let config = &start.config;
        let stdout = match config.stdout {
            _ if last.is_empty() => captured(config.stdout, b"", streams),
            Output::Inherit => {
                // An error is recorded; the process has exited, so it cannot get it.
                drop(streams.stdout.write(last));
                None
            }
            Output::Lines { tag, to_stderr } => {
                let lines = last.strip_suffix(b"\n").unwrap_or(last);
                let kept = match to_stderr {
                    true => &mut self.stderr,
                    false => &mut self.stdout,
                };
                match tag {
                    true => tag_into(kept, &format!("[{}] ", start.name(process)), lines),
                    false => tag_into(kept, "", lines),
                }
                if kept.len() >= KEPT_MOST {
                    self.write(streams);
                }
                None
            }
            Output::Capture { .. } => captured(config.stdout, last, streams),
        };
        [stdout, captured(config.stderr, b"", streams)]
    }

    /// Writes the lines that are kept. Errors are recorded.
    fn write(&mut self, streams: &Streams) {
        for (kept, stream) in [
            (&mut self.stdout, &streams.stdout),
            (&mut self.stderr, &streams.stderr),
        ] {
            if !kept.is_empty() {
                drop(stream.write(kept));
                kept.clear();
            }
        }
    }

    /// Writes all output of the processes that have exited, also lines that wait, so that errors are recorded before the
    /// exits are reported.
    pub(crate) fn settle(&mut self, streams: &Streams) {
        self.write(streams);
        if !self.ended.is_empty() {
            streams.stdout.settle();
            streams.stderr.settle();
        }
    }
}

/// The captured stream of a process that has written these bytes and nothing else.
fn captured(output: Output, bytes: &[u8], streams: &Streams) -> Option<Captured> {
    let Output::Capture { limit } = output else {
        return None;
    };
    let budgets = streams.budgets().map(AsRef::as_ref);
    let fits = HostBudgets::take_output(budgets, bytes.len().min(limit));
    Some(Captured {
        bytes: bytes[..fits].to_vec(),
        refused: bytes.len() > fits,
    })
}

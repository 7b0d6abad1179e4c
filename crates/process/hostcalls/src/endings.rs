//! Processes that end together: what they leave is passed on in one piece, and of their ends others hear at once.
//!
//! Most processes of many ask for nothing. They compute, and their last output comes with the end. To open streams for
//! each, to write each line by itself and to take a lock of the embedder's for each end would cost more than they do.

use std::mem::take;

use everwarp_contract::hostcall::number;
use everwarp_process::{Captured, Output, tag_into};

use crate::counters::Counters;
use crate::process::Given;
use crate::service::{Ended, Service};
use crate::streams::Streams;

/// Bytes of lines that are kept until they are passed on.
const KEPT_MOST: usize = 256 << 10;

/// What has ended and has not been told.
#[derive(Default)]
pub(crate) struct Endings {
    /// Whole lines for the host's two streams.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    pub(crate) ended: Vec<Ended>,
    /// What the counters have not heard of.
    exits: usize,
    bytes: usize,
}

impl Endings {
    pub(crate) fn count(&mut self, payload: &[u8]) {
        self.exits += 1;
        self.bytes += payload.len();
    }

    /// The end of a process that has asked for nothing before: what it wrote last, and what of both streams was kept.
    pub(crate) fn last_words(
        &mut self,
        (process, generation): (u32, u32),
        given: &Given,
        last: &[u8],
        streams: &Streams,
    ) -> [Option<Captured>; 2] {
        let config = &given.config;
        let stdout = match config.stdout {
            _ if last.is_empty() => captured(config.stdout, b""),
            Output::Inherit => {
                // Nobody is left to be told of a closed pipe.
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
                    true => {
                        let name = given.name(process, generation);
                        tag_into(kept, &format!("[{name}] "), lines);
                    }
                    false => tag_into(kept, "", lines),
                }
                if kept.len() >= KEPT_MOST {
                    self.pass_on(streams);
                }
                None
            }
            Output::Capture { .. } => captured(config.stdout, last),
        };
        [stdout, captured(config.stderr, b"")]
    }

    fn pass_on(&mut self, streams: &Streams) {
        for (kept, stream) in [
            (&mut self.stdout, &streams.stdout),
            (&mut self.stderr, &streams.stderr),
        ] {
            if !kept.is_empty() {
                // As above.
                drop(stream.write_lines(kept));
                kept.clear();
            }
        }
    }
}

/// What is kept of a stream to which this alone was written.
fn captured(output: Output, bytes: &[u8]) -> Option<Captured> {
    let Output::Capture { limit } = output else {
        return None;
    };
    Some(Captured {
        bytes: bytes[..bytes.len().min(limit)].to_vec(),
        refused: bytes.len() > limit,
    })
}

impl Service {
    /// Passes on what is left of those that have ended, and says that they have.
    pub(crate) fn tell_of_ends(&self, endings: &mut Endings) {
        endings.pass_on(self.streams());
        Counters::add(
            &self.counters.calls[number::EXIT as usize],
            take(&mut endings.exits),
        );
        Counters::add(&self.counters.bytes_in, take(&mut endings.bytes));
        if !endings.ended.is_empty() {
            self.events().exited(&mut endings.ended);
            endings.ended.clear();
        }
    }
}

//! The client's side.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};

use everwarp_process::{Bytes, Connection, InputLines, SpawnError, StartWriter};

use super::lines::RemoteLines;
use super::{LENGTH_MOST, SAME_ARGS, SAME_ENV, STDIN_BYTES, STDIN_LINE};
use crate::wire::codec::{Wire, put_bytes};

/// The records of the processes of one request.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) bytes: Vec<u8>,
    /// What the last process has got.
    args: Vec<u8>,
    env: Vec<u8>,
    next: Writer,
}

/// What the next process gets.
#[derive(Default)]
struct Writer {
    args: Vec<u8>,
    env: Vec<u8>,
    stdin: Option<GivenInput>,
    /// Lines of another host were given.
    foreign: bool,
    /// A connection was given.
    connected: bool,
}

enum GivenInput {
    Bytes(Bytes),
    Line { set: u32, number: u32 },
}

fn put_parts(parts: &[&str], to: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    length.put(to);
    parts
        .iter()
        .for_each(|part| to.extend_from_slice(part.as_bytes()));
}

impl StartWriter for Writer {
    fn arg(&mut self, parts: &[&str]) {
        put_parts(parts, &mut self.args);
    }

    fn variable(&mut self, name: &str, parts: &[&str]) {
        put_parts(&[name], &mut self.env);
        put_parts(parts, &mut self.env);
    }

    fn stdin(&mut self, bytes: Bytes) {
        self.stdin = Some(GivenInput::Bytes(bytes));
    }

    fn connection(&mut self, _: Connection) {
        self.connected = true;
    }

    fn stdin_line(&mut self, lines: &InputLines, number: u32) {
        match lines.source().line(number) {
            Some(line) => self.stdin(line),
            None => match lines.source().as_any().downcast_ref::<RemoteLines>() {
                Some(remote) => {
                    let set = remote.set;
                    self.stdin = Some(GivenInput::Line { set, number });
                }
                None => self.foreign = true,
            },
        }
    }
}

/// The processes whose records a thread writes at a time.
const TOGETHER: u32 = 1 << 12;
/// The most threads that write records.
const THREADS: usize = 8;

/// The error for connections, and for programs that processes ask for by name, which do not travel to a service yet.
pub(crate) fn no_sockets() -> SpawnError {
    let text = "a service takes listeners, rules for addresses and events, but no connections yet: start the host on a device of your own, or add --alone";
    SpawnError::Service(text.to_owned())
}

impl Records {
    /// The records of `count` processes in their order, in parts that several threads write.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn of_all(
        count: u32,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
    ) -> Result<Vec<Self>, SpawnError> {
        let part = |number: u32| {
            let mut records = Self::default();
            let end = count.min((number + 1).saturating_mul(TOGETHER));
            (number * TOGETHER..end)
                .try_for_each(|number| records.add(|start| write(number, start)))?;
            Ok(records)
        };
        let parts = count.div_ceil(TOGETHER);
        if parts <= 1 {
            // Counting the cores reads files of the system, which takes longer than a few records.
            return (0..parts).map(part).collect();
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (cores / 2).clamp(1, THREADS).min(parts as usize);
        if threads <= 1 {
            return (0..parts).map(part).collect();
        }
        let next = AtomicU32::new(0);
        let work = || {
            let mut written = Vec::new();
            loop {
                // The number orders nothing else.
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= parts {
                    return written;
                }
                written.push((number, part(number)));
            }
        };
        let mut written = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut written = work();
            for other in others {
                written.extend(other.join().unwrap_or_else(|e| resume_unwind(e)));
            }
            written
        });
        written.sort_unstable_by_key(|(number, _)| *number);
        written.into_iter().map(|(_, records)| records).collect()
    }

    /// Adds the record of a process, whose values `write` writes.
    ///
    /// # Errors
    /// The values are too long, or lines of another host.
    pub(crate) fn add(
        &mut self,
        write: impl FnOnce(&mut dyn StartWriter),
    ) -> Result<(), SpawnError> {
        let next = &mut self.next;
        next.args.clear();
        next.env.clear();
        next.stdin = None;
        let first = self.bytes.is_empty();
        write(next);
        let stdin = match &next.stdin {
            Some(GivenInput::Bytes(bytes)) => bytes.len(),
            _ => 0,
        };
        let bytes = (next.args.len() + next.env.len()).max(stdin);
        if bytes >= LENGTH_MOST {
            return Err(SpawnError::TooLong { bytes });
        }
        if next.foreign {
            let text = "lines of another host were given to a process";
            return Err(SpawnError::Service(text.to_owned()));
        }
        if next.connected {
            return Err(no_sockets());
        }
        let (same_args, same_env) = (next.args == self.args, next.env == self.env);
        let (same_args, same_env) = (same_args && !first, same_env && !first);
        let stdin = match &next.stdin {
            None => 0,
            Some(GivenInput::Bytes(_)) => STDIN_BYTES,
            Some(GivenInput::Line { .. }) => STDIN_LINE,
        };
        let flag = |set: bool, flag| if set { flag } else { 0 };
        let flags = stdin | flag(same_args, SAME_ARGS) | flag(same_env, SAME_ENV);
        self.bytes.push(flags);
        if !same_args {
            put_bytes(&next.args, &mut self.bytes);
            std::mem::swap(&mut self.args, &mut next.args);
        }
        if !same_env {
            put_bytes(&next.env, &mut self.bytes);
            std::mem::swap(&mut self.env, &mut next.env);
        }
        match &next.stdin {
            None => {}
            Some(GivenInput::Bytes(bytes)) => put_bytes(bytes, &mut self.bytes),
            Some(GivenInput::Line { set, number }) => {
                set.put(&mut self.bytes);
                number.put(&mut self.bytes);
            }
        }
        Ok(())
    }
}

//! What a thread does by way of the arena: it reads into places, has tasks of the door copy the bytes, and gives the places back.
//!
//! The copies of all reads that have come since the last time are submitted together. While they are on their way the thread reads
//! more, up to a second batch; it waits for them when it has nothing else to do. A place is given back when the tasks that copy from it
//! have ended, and not before: an engine that is parked meanwhile, or loaded with another image, has them still.

use std::collections::VecDeque;
use std::time::Instant;

use everwarp_contract::files::{FILE_COPY_MOST, FILE_COPY_ZEROS, FILE_DOOR_COPY};
use everwarp_contract::{DevFileCopy, Layout};
use everwarp_runtime::{DevTask, Error, Pending};

use crate::arena::{Arena, BATCHES, Place, RECORD, RECORDS, Region};
use crate::port::Port;
use crate::server::Server;
use crate::table_words::words_of;

/// Records of one task of the door, and how many bytes they have together at most, unless one alone has more. A task for each page or
/// two lets many warps copy at a time.
const RECORDS_EACH: usize = 8;
const BYTES_EACH: u32 = 8 << 10;
/// What both addresses of a copy have in common.
const ALIGNMENT: u64 = 16;

/// Bytes that are read into a place.
#[derive(Debug)]
pub(crate) struct Piece {
    place: Place,
    /// Bytes of the place that are not used, so that the bytes have the alignment of where they go.
    skew: usize,
    /// Bytes that have come.
    pub(crate) got: usize,
}

/// Copies that are on their way, and the reads that end with them.
#[derive(Debug)]
struct Batch<T> {
    pending: Pending,
    reads: Vec<T>,
}

/// A thread's part of the arena, and its reads that the system does not have.
#[derive(Debug)]
pub(crate) struct Staging<'a, T> {
    arena: &'a Arena,
    region: Region,
    port: Port,
    /// The first of the thread's records.
    first: usize,
    /// Which batch of them is used next.
    turn: usize,
    /// The oldest comes first.
    batches: VecDeque<Batch<T>>,
    /// Reads whose bytes were copied.
    copied: Vec<T>,
    /// Reads whose bytes have come.
    pub(crate) arrived: Vec<T>,
    /// Reads that have found no room. Others hold places then.
    pub(crate) blocked: Vec<T>,
}

impl<'a, T> Staging<'a, T> {
    /// That of a thread.
    pub(crate) fn new(arena: &'a Arena, port: Port, thread: usize) -> Self {
        Self {
            arena,
            region: arena.region(thread),
            port,
            first: thread * BATCHES * RECORDS,
            turn: 0,
            batches: VecDeque::new(),
            copied: Vec::new(),
            arrived: Vec::new(),
            blocked: Vec::new(),
        }
    }
    /// Takes room for up to `len` bytes that go to this address. Returns the piece, its first byte, and how many bytes it has.
    pub(crate) fn take(&mut self, to: u64, len: usize) -> Option<(Piece, *mut u8, usize)> {
        let skew = (to % ALIGNMENT) as usize;
        let place = self.region.take(skew + len)?;
        let (first, room) = (self.arena.at(&place), place.len() - skew);
        let piece = Piece {
            place,
            skew,
            got: 0,
        };
        Some((piece, first.wrapping_add(skew), len.min(room)))
    }
    /// Gives a piece back.
    pub(crate) fn give(&mut self, piece: Piece) {
        self.region.give(piece.place);
    }
    /// Whether copies are on their way.
    pub(crate) fn copies(&self) -> bool {
        !self.batches.is_empty()
    }
    /// Has everything copied for these reads. It waits for earlier copies while there are too many.
    pub(crate) fn send(
        &mut self,
        server: &Server,
        records: &[DevFileCopy],
        reads: Vec<T>,
    ) -> Result<(), Error> {
        let mut sent = false;
        for part in records.chunks(RECORDS) {
            if self.batches.len() == BATCHES {
                self.wait_for_one(server)?;
            }
            let first = self.first + self.turn * RECORDS;
            self.turn = (self.turn + 1) % BATCHES;
            let mut words = Vec::with_capacity(part.len() * RECORD);
            for record in part {
                words.extend_from_slice(&words_of::<RECORD>(record.bytes()));
            }
            self.arena.copies.write_at(first * RECORD, &words)?;
            let task = |(first, count): (u32, u32)| {
                let task = self.port.task(FILE_DOOR_COPY);
                task.args(first, count)
            };
            let pending = match tasks(first, part).as_slice() {
                &[one] => server.engine.submit(task(one))?,
                all => {
                    let all: Vec<DevTask> = all.iter().map(|&one| task(one).build()).collect();
                    server.engine.submit_batch(&all)?
                }
            };
            server.counters.copies.add(part.len() as u64);
            server.counters.copy_batches.add(1);
            let reads = Vec::new();
            self.batches.push_back(Batch { pending, reads });
            sent = true;
        }
        // Batches are waited for in their order, so the last part ends last.
        match self.batches.back_mut().filter(|_| sent) {
            Some(last) => last.reads = reads,
            None => self.copied.extend(reads),
        }
        Ok(())
    }
    fn wait_for_one(&mut self, server: &Server) -> Result<(), Error> {
        if let Some(mut oldest) = self.batches.pop_front() {
            let begin = Instant::now();
            server.wait(&mut oldest.pending)?;
            server.counters.copy_wait.add_since(begin);
            self.copied.append(&mut oldest.reads);
        }
        Ok(())
    }
    /// Takes the reads whose bytes were copied. With `waits` it waits for the oldest batch first.
    pub(crate) fn take_copied(&mut self, server: &Server, waits: bool) -> Result<Vec<T>, Error> {
        if waits {
            self.wait_for_one(server)?;
        }
        while let Some(oldest) = self.batches.front()
            && oldest.pending.is_done()
        {
            self.wait_for_one(server)?;
        }
        Ok(std::mem::take(&mut self.copied))
    }
}

/// The first record and the number of records of each task, for records from number `first` on.
fn tasks(first: usize, records: &[DevFileCopy]) -> Vec<(u32, u32)> {
    let mut tasks: Vec<(u32, u32)> = Vec::new();
    let mut bytes = u32::MAX;
    for (at, record) in records.iter().enumerate() {
        bytes = bytes.saturating_add(record.len);
        match tasks.last_mut() {
            Some((_, count)) if bytes <= BYTES_EACH && (*count as usize) < RECORDS_EACH => {
                *count += 1;
            }
            _ => {
                tasks.push(((first + at) as u32, 1));
                bytes = record.len;
            }
        }
    }
    tasks
}

impl Piece {
    /// Adds the records for `len` of its bytes, from number `at` on, which go to this address.
    pub(crate) fn copy(&self, at: usize, len: usize, to: u64, records: &mut Vec<DevFileCopy>) {
        let from = (self.place.offset() + self.skew + at) as u32;
        cut(from, len, to, records);
    }
}

/// Adds the records that write zeros.
pub(crate) fn clear(len: usize, to: u64, records: &mut Vec<DevFileCopy>) {
    cut(FILE_COPY_ZEROS, len, to, records);
}

fn cut(from: u32, len: usize, to: u64, records: &mut Vec<DevFileCopy>) {
    let most = FILE_COPY_MOST as usize;
    for at in (0..len).step_by(most) {
        records.push(DevFileCopy {
            from: match from {
                FILE_COPY_ZEROS => from,
                from => from + at as u32,
            },
            len: most.min(len - at) as u32,
            to: to + at as u64,
            page: 0,
            bits: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_copies_are_cut_and_zeros_stay_zeros() {
        let mut records = Vec::new();
        let most = FILE_COPY_MOST;
        cut(4096, 2 * most as usize + 5, 1 << 40, &mut records);
        clear(most as usize + 1, 77, &mut records);
        let found: Vec<_> = records.iter().map(|r| (r.from, r.len, r.to)).collect();
        let to = 1_u64 << 40;
        assert_eq!(
            found,
            [
                (4096, most, to),
                (4096 + most, most, to + u64::from(most)),
                (4096 + 2 * most, 5, to + 2 * u64::from(most)),
                (FILE_COPY_ZEROS, most, 77),
                (FILE_COPY_ZEROS, 1, 77 + u64::from(most)),
            ]
        );
        records.clear();
        clear(0, 5, &mut records);
        assert!(records.is_empty());
    }
}

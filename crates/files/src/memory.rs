//! The buffers that requests may name, and the way of bytes between them and files.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use everwarp_runtime::Buffer;

use crate::errno::FileErrno;
use crate::system::System;

/// Bytes that go through the host's memory at a time, where the host cannot reach a buffer.
const STAGE: usize = 1 << 20;

/// Counters of each buffer, and how many ranges in a row use one of them.
const COUNTERS: usize = 16;
const IN_A_ROW: usize = 16;

/// Shared buffers, by their first address.
#[derive(Debug)]
pub(crate) struct Memory {
    buffers: RwLock<BTreeMap<u64, [Arc<Held>; COUNTERS]>>,
    /// Whether the host reaches buffers by their addresses.
    reaches: bool,
    /// Counts ranges.
    ranges: AtomicUsize,
}

/// A buffer, with a counter of those that have it. Each buffer has several counters in cache lines of their own: the thread that takes
/// requests counts ranges up, and those that do them count them down. With one counter they would all wait for its line.
#[derive(Debug)]
#[repr(align(128))]
struct Held(Arc<Buffer<u8>>);

/// Bytes of a shared buffer, which stays while a request has them.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    buffer: Arc<Held>,
    start: usize,
    len: usize,
    reaches: bool,
}

impl Memory {
    /// `reaches`: the host reads and writes buffers by their addresses.
    pub(crate) fn new(reaches: bool) -> Self {
        Self {
            buffers: RwLock::default(),
            reaches,
            ranges: AtomicUsize::new(0),
        }
    }
    pub(crate) fn share(&self, buffer: Arc<Buffer<u8>>) {
        let buffers = self.buffers.write();
        let mut buffers = buffers.unwrap_or_else(PoisonError::into_inner);
        let first = buffer.ptr().address();
        let counters = std::array::from_fn(|_| Arc::new(Held(buffer.clone())));
        buffers.insert(first, counters);
    }
    /// The range that a request names.
    pub(crate) fn range(&self, address: u64, len: u64) -> Result<Range, FileErrno> {
        let buffers = self.buffers.read();
        let buffers = buffers.unwrap_or_else(PoisonError::into_inner);
        let found = buffers.range(..=address).next_back();
        let (first, counters) = found.ok_or(FileErrno::FAULT)?;
        let number = self.ranges.fetch_add(1, Ordering::Relaxed);
        let buffer = &counters[number / IN_A_ROW % COUNTERS];
        let start = address - first;
        match start.checked_add(len) {
            Some(end) if end <= buffer.0.len() as u64 => Ok(Range {
                buffer: buffer.clone(),
                start: start as usize,
                len: len as usize,
                reaches: self.reaches,
            }),
            _ => Err(FileErrno::FAULT),
        }
    }
}

impl Range {
    /// The first byte, where the host reaches it.
    pub(crate) fn bytes(&self) -> Option<*mut u8> {
        let first = self.buffer.0.ptr().address() as *mut u8;
        // SAFETY: the range was checked to be inside the buffer.
        self.reaches.then(|| unsafe { first.add(self.start) })
    }
    /// Where its first byte is for tasks.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.0.ptr().address() + self.start as u64
    }
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Copies the bytes out.
    pub(crate) fn copy_out(&self) -> Result<Vec<u8>, FileErrno> {
        let mut bytes = vec![0; self.len];
        self.out(0, &mut bytes)?;
        Ok(bytes)
    }
    /// Copies the bytes from number `at` on out.
    pub(crate) fn copy_part_out(&self, at: usize, bytes: &mut [u8]) -> Result<(), FileErrno> {
        self.out(at, bytes)
    }
    /// Copies bytes in, from the range's first on.
    pub(crate) fn copy_in(&self, bytes: &[u8]) -> Result<(), FileErrno> {
        self.put(0, &bytes[..bytes.len().min(self.len)])
    }
    /// Copies bytes in, from number `at` on.
    fn put(&self, at: usize, bytes: &[u8]) -> Result<(), FileErrno> {
        let copied = self.buffer.0.write_at(self.start + at, bytes);
        copied.map_err(|_| FileErrno::IO)
    }
    fn out(&self, at: usize, bytes: &mut [u8]) -> Result<(), FileErrno> {
        let copied = self.buffer.0.read_at(self.start + at, bytes);
        copied.map_err(|_| FileErrno::IO)
    }

    /// Fills the range from a file, if the system has the bytes in its cache; `None` if that would wait, or the file ends before.
    pub(crate) fn read_now(
        &self,
        system: &System,
        file: &File,
        from: u64,
    ) -> Option<Result<usize, FileErrno>> {
        if let Some(to) = self.bytes() {
            // SAFETY: the range is inside a live buffer, which `self` keeps.
            return unsafe { system.read_now(file, &[(to, self.len)], from) }.map(Ok);
        }
        let mut stage = vec![0; self.len];
        // SAFETY: the range is that of the vector.
        let len = unsafe { system.read_now(file, &[(stage.as_mut_ptr(), self.len)], from) }?;
        Some(self.put(0, &stage).map(|()| len))
    }
    /// Fills the range from a file. Returns how many bytes there were.
    pub(crate) fn read(&self, system: &System, file: &File, from: u64) -> Result<usize, FileErrno> {
        if let Some(to) = self.bytes() {
            // SAFETY: the range is inside a live buffer, which `self` keeps.
            return unsafe { system.read(file, to, self.len, from) };
        }
        self.in_stages(|stage, at| {
            // SAFETY: the range is that of the slice.
            let got =
                unsafe { system.read(file, stage.as_mut_ptr(), stage.len(), from + at as u64) }?;
            self.put(at, &stage[..got])?;
            Ok(got)
        })
    }
    /// Writes the range to a file; without an offset after its last byte. Returns how many bytes were written.
    pub(crate) fn write(
        &self,
        system: &System,
        file: &File,
        to: Option<u64>,
    ) -> Result<usize, FileErrno> {
        if let Some(from) = self.bytes() {
            // SAFETY: as above.
            return unsafe { system.write(file, from, self.len, to) };
        }
        self.in_stages(|stage, at| {
            self.out(at, stage)?;
            let to = to.map(|to| to + at as u64);
            // SAFETY: the range is that of the slice.
            unsafe { system.write(file, stage.as_ptr(), stage.len(), to) }
        })
    }
    /// Moves the range in pieces, until a piece does not move as a whole.
    fn in_stages(
        &self,
        mut step: impl FnMut(&mut [u8], usize) -> Result<usize, FileErrno>,
    ) -> Result<usize, FileErrno> {
        let mut stage = vec![0; self.len.min(STAGE)];
        let mut done = 0;
        while done < self.len {
            let part = (self.len - done).min(STAGE);
            match step(&mut stage[..part], done) {
                Ok(moved) => {
                    done += moved;
                    if moved < part {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

//! `FD_READ` and `FD_PREAD`, whichever way they are done.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, MutexGuard};

use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::{lock, try_lock};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::disk::Disk;
use crate::errno::{Errno, Result};
use crate::open::{Descriptor, OpenFile};
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sockets;
use crate::wait::{Served, Wait};

/// A read of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRead {
    pub(crate) fd: Fd,
    /// Bytes that the process asks for.
    pub(crate) length: u32,
    /// Where in the file; `None` for the descriptor's offset, which the read moves.
    pub(crate) at: Option<u64>,
}

impl FileRead {
    /// Reads from the page cache, without waiting for anything. Where that gives fewer bytes than asked for, or
    /// anything else is unusual, it does nothing and returns `None`.
    pub(crate) fn try_cache(
        &self,
        process: &Process,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Option<()> {
        let length = request.length(self.length);
        let descriptor = process.descriptor(self.fd).ok()?;
        let file = descriptor.file().ok()?;
        match self.at {
            Some(at) => read_cached(&file.file, length, at, reply)?,
            None => {
                let mut offset = try_lock(&file.offset)?;
                let after = offset.checked_add(length as u64)?;
                read_cached(&file.file, length, *offset, reply)?;
                *offset = after;
            }
        }
        reply.count();
        Some(())
    }

    /// Finds the file for an io_uring; `None` if the descriptor is no regular file.
    pub(crate) fn batched(&self, process: &Process, request: &Request<'_>) -> Option<BatchedRead> {
        let descriptor = process.descriptor(self.fd).ok()?;
        let length = u32::try_from(request.length(self.length)).ok()?;
        let regular = descriptor.file().is_ok_and(|file| file.regular);
        regular.then_some(BatchedRead {
            descriptor,
            at: self.at,
            length,
        })
    }

    /// Reads by a plain call, or waits for standard input.
    pub(crate) fn plain(
        &self,
        process: Arc<Process>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Served> {
        let length = request.length(self.length);
        let descriptor = process.descriptor(self.fd)?;
        match (&*descriptor, self.at) {
            (
                Descriptor::Input
                | Descriptor::Listener(_)
                | Descriptor::Connection(_)
                | Descriptor::Endpoint(_),
                Some(_),
            ) => return Err(Errno::SPIPE),
            (
                Descriptor::Listener(_) | Descriptor::Connection(_) | Descriptor::Endpoint(_),
                None,
            ) => {
                let how = (self.length, 0);
                return sockets::receive(process, self.fd, how, request, reply);
            }
            (Descriptor::Input, None) => {
                if !process.stdin.read(length, &mut reply.data)? {
                    // A read of a file is answered soon, so that neighbours may wait for it.
                    if self.fd.0 > 2 && !request.patient {
                        return Err(Errno::LATER);
                    }
                    return Ok(Served::Waits(Wait::for_input(process, length)));
                }
            }
            (Descriptor::File(file), Some(at)) => {
                read_at(&file.file, length, at, reply)?;
            }
            (Descriptor::File(file), None) => {
                let mut offset = lock(&file.offset);
                let read = read_at(&file.file, length, *offset, reply)?;
                *offset = offset.checked_add(read as u64).ok_or(Errno::OVERFLOW)?;
            }
            _ => return Err(Errno::BADF),
        }
        reply.count();
        Ok(Served::Answered)
    }
}

fn read_at(file: &File, length: usize, offset: u64, reply: &mut Reply) -> Result<usize> {
    reply.data.resize(length, 0);
    let read = file.read_at(&mut reply.data, offset)?;
    reply.data.truncate(read);
    Ok(read)
}

/// Reads from the page cache, and only if that has all bytes that were asked for.
fn read_cached(file: &File, length: usize, offset: u64, reply: &mut Reply) -> Option<()> {
    // For the system -1 is the file's own position, which is not used here.
    i64::try_from(offset).ok()?;
    reply.data.resize(length, 0);
    let into = &mut [std::io::IoSliceMut::new(&mut reply.data)];
    let read = preadv2(file, into, offset, ReadWriteFlags::NOWAIT).ok()?;
    (read == length).then_some(())
}

/// A read of a regular file that is to be done together with others.
pub(crate) struct BatchedRead {
    descriptor: Arc<Descriptor>,
    at: Option<u64>,
    length: u32,
}

impl BatchedRead {
    fn file(&self) -> Option<&OpenFile> {
        self.descriptor.file().ok()
    }

    /// Gives the read to an io_uring as the one of `place`. The descriptor's offset, if it is needed, is locked until the
    /// guard is dropped. Returns `None` if the read cannot be done this way now.
    pub(crate) fn begin(
        &self,
        disk: &mut Disk,
        place: usize,
    ) -> Option<Option<MutexGuard<'_, u64>>> {
        let file = self.file()?;
        let (at, held) = match self.at {
            Some(at) => (at, None),
            None => {
                let held = try_lock(&file.offset)?;
                (*held, Some(held))
            }
        };
        disk.begin(place, &file.file, i64::try_from(at).ok()?, self.length);
        Some(held)
    }
}

/// Moves an offset by the bytes that were read.
pub(crate) fn advance(offset: Option<&mut u64>, bytes: usize) -> Result<usize> {
    if let Some(offset) = offset {
        *offset = offset.checked_add(bytes as u64).ok_or(Errno::OVERFLOW)?;
    }
    Ok(bytes)
}

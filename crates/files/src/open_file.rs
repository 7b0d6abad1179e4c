//! An open file, and the order of its requests.
//!
//! The requests of a handle are done one after the other, in the order in which they were made. Of an unordered handle,
//! reads, writes and stats are done together; the others wait for all earlier ones, and later ones wait for them, so a sync
//! still covers every write that was asked for before it.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_pages::CachedFile;

use crate::errno::FileErrno;
use crate::grants::How;
use crate::lines::Name;
use crate::request::Request;

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Request>,
    /// Requests that are being done.
    doing: u32,
    /// Whether the one that is being done must be alone.
    alone: bool,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) is_regular: bool,
    how: How,
    line: Mutex<Line>,
    /// Its number in the cache.
    pub(crate) cached: Option<CachedFile>,
    /// A cached file's handle that was closed while requests were in line.
    closed: AtomicBool,
    /// The first failed sync. The system forgets which bytes it could not write, and a later sync would succeed.
    lost: Mutex<Option<FileErrno>>,
}

/// The file of a job, as the thread that does the job shares it among its reads: the file's own counter, which all threads change, changes
/// once for all of them.
#[derive(Debug)]
pub(crate) struct OfJob<F>(pub(crate) Arc<F>);

impl<F> Deref for OfJob<F> {
    type Target = Arc<F>;

    fn deref(&self) -> &Arc<F> {
        &self.0
    }
}

impl OpenFile {
    pub(crate) fn new(file: File, how: How) -> Self {
        Self {
            is_regular: file.metadata().is_ok_and(|facts| facts.is_file()),
            file,
            how,
            line: Mutex::default(),
            cached: None,
            closed: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }
    /// The same file, whose pages are cached.
    pub(crate) fn cached_as(self, file: CachedFile) -> Self {
        Self {
            cached: Some(file),
            ..self
        }
    }
    /// Whether an io_uring may read it. From other files than regular ones the system would read where they are, and not at an offset.
    pub(crate) fn is_for_ring(&self) -> bool {
        self.cached.is_none() && self.is_regular && self.how.read
    }
    pub(crate) fn set_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
    pub(crate) fn may_read(&self) -> Result<&File, FileErrno> {
        if self.how.read {
            Ok(&self.file)
        } else {
            Err(FileErrno::BADF)
        }
    }
    pub(crate) fn may_write(&self) -> Result<&File, FileErrno> {
        if self.how.write {
            Ok(&self.file)
        } else {
            Err(FileErrno::BADF)
        }
    }
    /// The result of a sync: it fails for good once it has failed.
    pub(crate) fn synced(&self, result: Result<(), FileErrno>) -> Result<(), FileErrno> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Err(error)) = (&*lost, result) {
            *lost = Some(error);
        }
        lost.map_or(Ok(()), Err)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes requests in, and puts those that can be done now into `ready`.
    pub(crate) fn push(
        &self,
        requests: impl IntoIterator<Item = Request>,
        ready: &mut Vec<Request>,
    ) {
        let mut line = self.line();
        line.waiting.extend(requests);
        self.advance(&mut line, ready);
    }
    /// Notes that some requests are done, and puts those that can be done now into `ready`.
    pub(crate) fn done(&self, count: usize, ready: &mut Vec<Request>) {
        let mut line = self.line();
        line.doing -= count as u32;
        if line.doing == 0 {
            line.alone = false;
        }
        self.advance(&mut line, ready);
    }
    /// Takes out requests with a name that wait in line, except closes, and puts those that can be done now into `ready`.
    pub(crate) fn strike(&self, name: Name, ready: &mut Vec<Request>) -> Vec<Request> {
        let mut line = self.line();
        let is = |request: &Request| request.may_be_struck(name);
        if !line.waiting.iter().any(is) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut line.waiting);
        let (struck, rest): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is);
        line.waiting = rest;
        self.advance(&mut line, ready);
        struck.into()
    }
    fn advance(&self, line: &mut Line, ready: &mut Vec<Request>) {
        while let Some(first) = line.waiting.front() {
            let alone = !self.how.unordered || first.wants_order();
            let may = if alone { line.doing == 0 } else { !line.alone };
            if !may {
                return;
            }
            line.doing += 1;
            line.alone = alone;
            ready.extend(line.waiting.pop_front());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{After, Op};

    fn request(op: Op, note: u32) -> Request {
        let after = After {
            note,
            ..After::default()
        };
        Request { op, after }
    }
    fn notes(ready: &mut Vec<Request>) -> Vec<u32> {
        ready.drain(..).map(|r| r.after.note).collect()
    }
    fn file(unordered: bool) -> OpenFile {
        let how = How {
            unordered,
            ..How::default()
        };
        OpenFile::new(tempfile::tempfile().expect("a temporary file"), how)
    }

    #[test]
    fn requests_of_an_ordered_handle_take_turns() {
        let (file, mut ready) = (file(false), Vec::new());
        for note in 0..3 {
            file.push([request(Op::Truncate { size: 1 }, note)], &mut ready);
        }
        assert_eq!(notes(&mut ready), [0]);
        for next in 1..3 {
            file.done(1, &mut ready);
            assert_eq!(notes(&mut ready), [next]);
        }
        file.done(1, &mut ready);
        assert!(ready.is_empty());
    }

    #[test]
    fn a_sync_of_an_unordered_handle_waits_for_earlier_requests_and_keeps_later_ones_back() {
        let (file, mut ready) = (file(true), Vec::new());
        for (note, sync) in [false, false, true, false, false].into_iter().enumerate() {
            let op = if sync { Op::Sync } else { Op::Nothing };
            file.push([request(op, note as u32)], &mut ready);
        }
        assert_eq!(notes(&mut ready), [0, 1]);
        file.done(1, &mut ready);
        assert!(ready.is_empty());
        file.done(1, &mut ready);
        assert_eq!(notes(&mut ready), [2]);
        file.done(1, &mut ready);
        assert_eq!(notes(&mut ready), [3, 4]);
    }

    #[test]
    fn struck_requests_leave_the_line_and_closes_stay() {
        let (file, mut ready) = (file(false), Vec::new());
        for (note, op) in [Op::Sync, Op::Nothing, Op::Close(7), Op::Nothing]
            .into_iter()
            .enumerate()
        {
            file.push([request(op, note as u32)], &mut ready);
        }
        assert_eq!(notes(&mut ready), [0]);
        let mut struck = file.strike(Name::Note(1), &mut ready);
        assert_eq!(notes(&mut struck), [1]);
        assert!(file.strike(Name::Note(2), &mut ready).is_empty());
        assert!(ready.is_empty(), "the first one is being done");
        for next in 2..4 {
            file.done(1, &mut ready);
            assert_eq!(notes(&mut ready), [next]);
        }
    }

    #[test]
    fn a_failed_sync_stays_failed() {
        let file = file(false);
        assert_eq!(file.synced(Ok(())), Ok(()));
        assert_eq!(file.synced(Err(FileErrno::IO)), Err(FileErrno::IO));
        assert_eq!(file.synced(Ok(())), Err(FileErrno::IO));
        assert_eq!(file.synced(Err(FileErrno::NOSPC)), Err(FileErrno::IO));
    }
}

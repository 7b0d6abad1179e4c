//! Files as the CPU twin of a task sees them. Device source has the same names in `everwarp/files/files.cuh`.

use std::fmt;

use everwarp_contract::files::{
    FILE_APPEND, FILE_CACHED, FILE_CLASS_SHIFT, FILE_CLOSE, FILE_COPY_MOST, FILE_COPY_ZEROS,
    FILE_DOOR_CLOSE, FILE_DOOR_COPY, FILE_DOOR_COUNT, FILE_DOOR_DELIVER, FILE_DOOR_ORDERS,
    FILE_DOOR_WAIT, FILE_ENDED, FILE_LIST, FILE_OPEN, FILE_READ, FILE_STAT, FILE_SYNC,
    FILE_THEN_PRIORITY_SHIFT, FILE_TRUNCATE, FILE_WRITE,
};
use everwarp_contract::task::TASK_FN_BITS;
use everwarp_contract::{
    DevFileCopy, DevFileRequest, DevFileStat, DevFiles, DevPtr, DevType, GroupId, Priority,
};
use everwarp_runtime::TaskCx;

use crate::class::RequestClass;
use crate::errno::FileErrno;
use crate::ring::{Posted, Ring};
use crate::table::PageTable;

/// Room in `max_spawn` that one request takes: for the task that goes on, and for the host's bell.
pub const FILE_SPAWNS: u16 = 2;

/// The task that goes on when a request is done: a function of the same program. Its argument is the note, then the result;
/// [`FileEnd`] reads both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Then {
    /// The function's number.
    pub function: u32,
    /// The task's tag.
    pub tag: u8,
    /// The lower half of its argument.
    pub note: u32,
}

impl Then {
    /// A task of this function.
    pub const fn new(function: u32, tag: u8, note: u32) -> Self {
        Self {
            function,
            tag,
            note,
        }
    }
    fn word(self, priority: Priority) -> u32 {
        (priority.level() as u32) << FILE_THEN_PRIORITY_SHIFT
            | self.function << 8
            | u32::from(self.tag)
    }
    fn of_word(word: u32) -> (Priority, u32, u8) {
        let function = word >> 8 & ((1 << TASK_FN_BITS) - 1);
        let priority = Priority::from_bits(word >> FILE_THEN_PRIORITY_SHIFT);
        (priority, function, word as u8)
    }
}

/// The argument of a task that goes on after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// The request's note.
    pub note: u32,
    /// The result: bytes that were moved, or the handle of an opened file; else 0.
    pub result: Result<u32, FileErrno>,
}

impl FileEnd {
    /// Decodes a task's argument.
    pub const fn of(arg: u64) -> Self {
        let result = (arg >> 32) as u32 as i32;
        Self {
            note: arg as u32,
            result: match result >= 0 {
                true => Ok(result as u32),
                false => Err(FileErrno(result.unsigned_abs())),
            },
        }
    }
}

/// The files of the running task's instance.
///
/// Each method makes one request and returns at once. It returns `false` if the ring of requests is full: then nothing was
/// asked, and the task may spawn a task that tries again; the function of that task is declared `breadth_first`, since newer
/// tasks would else keep older ones, which make room, from running. The function that calls is declared with room for [`FILE_SPAWNS`] tasks
/// for each request, and holds its group open for the task that goes on.
///
/// Until the request is done, the range that it names belongs to it: no task may write there, and of a read no task may look.
pub struct FileTask<'t> {
    task: &'t mut (dyn TaskCx + 't),
    files: &'t DevFiles,
    door: u32,
    class: u32,
    /// How many nanoseconds each request of a file may take; 0: without a limit.
    within: u64,
}

impl fmt::Debug for FileTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTask").finish_non_exhaustive()
    }
}

impl<'t> FileTask<'t> {
    /// The files in the parameters of the task's instance, whose door is the function number `door`.
    ///
    /// # Safety
    /// - `files` is what `Files::tables` has returned for the engine that runs the task.
    pub unsafe fn new(task: &'t mut (dyn TaskCx + 't), files: &'t DevFiles, door: u32) -> Self {
        Self {
            task,
            files,
            door,
            class: RequestClass::Normal.number(),
            within: 0,
        }
    }
    fn ring(&self) -> Ring<'t> {
        // SAFETY: by the word of the caller of `new`.
        unsafe { Ring::new(self.files) }
    }
    /// Makes its requests in this class.
    #[must_use]
    pub fn in_class(self, class: RequestClass) -> Self {
        self.in_class_number(class.number())
    }
    /// The same by its number; a request in a class that there is not ends with `INVAL`.
    #[must_use]
    pub fn in_class_number(self, class: u32) -> Self {
        Self { class, ..self }
    }
    /// Lets each of its reads, writes, appends, truncates, stats and syncs of open files take this many nanoseconds at most, from
    /// when the host takes the request; 0 is no limit. One that is not done by then ends with `TIMEDOUT`, or with the bytes that have
    /// moved.
    #[must_use]
    pub fn within(self, nanos: u64) -> Self {
        Self {
            within: nanos,
            ..self
        }
    }
    pub(crate) fn files(&self) -> &'t DevFiles {
        self.files
    }
    pub(crate) fn post(&mut self, request: DevFileRequest, then: Then) -> bool {
        self.post_some(request, then) != Posted::Full
    }
    /// Makes a request. If the ring is closed, the task that goes on learns it.
    pub(crate) fn post_some(&mut self, request: DevFileRequest, then: Then) -> Posted {
        let request = DevFileRequest {
            op: request.op | self.class << FILE_CLASS_SHIFT,
            then: then.word(self.task.task().priority()),
            note: then.note,
            ..request
        };
        let posted = self.ring().post(request, || self.task.hold().0);
        match posted {
            Posted::Full => {}
            Posted::Taken => self.ring_bell(),
            Posted::Closed => {
                let canceled = (FileErrno::CANCELED.0 as i32).wrapping_neg() as u32;
                let arg = u64::from(canceled) << 32 | u64::from(then.note);
                self.task.spawn(then.function, then.tag, arg);
            }
        }
        posted
    }
    /// Makes a request that no task goes on after.
    pub(crate) fn post_alone(&mut self, request: DevFileRequest) -> Posted {
        let posted = self.ring().post(request, || u32::MAX);
        if posted == Posted::Taken {
            self.ring_bell();
        }
        posted
    }
    fn ring_bell(&mut self) {
        if let Some(group) = self.ring().take_bell() {
            let count = FILE_DOOR_COUNT as u8;
            let group = GroupId(group);
            self.task
                .spawn_held_at(Priority::URGENT, group, self.door, count, 0);
        }
    }

    /// Opens the file at a path beneath granted directory number `dir`, as the flags say (`FILE_FOR_READING`, …). The path
    /// is UTF-8 in a shared buffer. The result is the handle.
    pub fn open(&mut self, dir: u32, path: DevPtr<u8>, len: u32, flags: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_OPEN,
            handle: dir,
            offset: flags.into(),
            address: path.address(),
            len,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Opens a file whose pages are cached: see [`acquire`](Self::acquire). The flags are those of [`open`](Self::open). The file
    /// may grow to `room` bytes, by [`truncate`](Self::truncate).
    pub fn open_cached(
        &mut self,
        dir: u32,
        path: DevPtr<u8>,
        len: u32,
        flags: u32,
        room: u64,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op: FILE_OPEN,
            handle: dir,
            offset: (flags | FILE_CACHED).into(),
            address: path.address(),
            len,
            to: room,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Reads `len` bytes at an offset. The result is how many there were: fewer only where the file ends.
    pub fn read(&mut self, handle: u32, offset: u64, to: DevPtr<u8>, len: u32, then: Then) -> bool {
        self.move_bytes(FILE_READ, handle, offset, to, len, then)
    }
    /// Writes `len` bytes at an offset. The result is how many were written; fewer if an error came after them, which the
    /// next request gets.
    pub fn write(
        &mut self,
        handle: u32,
        offset: u64,
        from: DevPtr<u8>,
        len: u32,
        then: Then,
    ) -> bool {
        self.move_bytes(FILE_WRITE, handle, offset, from, len, then)
    }
    /// Writes `len` bytes after the file's last byte, wherever that is by then. The result is as of a write.
    pub fn append(&mut self, handle: u32, from: DevPtr<u8>, len: u32, then: Then) -> bool {
        self.move_bytes(FILE_APPEND, handle, 0, from, len, then)
    }
    fn move_bytes(
        &mut self,
        op: u32,
        handle: u32,
        offset: u64,
        bytes: DevPtr<u8>,
        len: u32,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op,
            handle,
            offset,
            address: bytes.address(),
            len,
            room: self.within,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Sets the file's size.
    pub fn truncate(&mut self, handle: u32, size: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_TRUNCATE,
            handle,
            offset: size,
            room: self.within,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Writes the file's size, time and kind into a shared buffer.
    pub fn stat(&mut self, handle: u32, to: DevPtr<DevFileStat>, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_STAT,
            handle,
            address: to.address(),
            room: self.within,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Waits until everything that was written is on the device. Once it has failed, it fails for the handle's life: the
    /// system forgets the bytes that it could not write.
    pub fn sync(&mut self, handle: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_SYNC,
            handle,
            room: self.within,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Lists the directory at a path beneath granted directory number `dir`, with all that is beneath it, into `room` bytes
    /// of a shared buffer: a [`DevFileList`](everwarp_contract::DevFileList), then the entries with their paths, in order.
    /// Links are not followed. The result is the bytes of the listing, or `NOBUFS` if there is too little room for it; the
    /// `DevFileList` then says how much it takes.
    pub fn list(
        &mut self,
        dir: u32,
        path: DevPtr<u8>,
        len: u32,
        to: DevPtr<u8>,
        room: u64,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op: FILE_LIST,
            handle: dir,
            address: path.address(),
            len,
            to: to.address(),
            room,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Closes the handle when its earlier requests are done. From the next request on it names nothing.
    pub fn close(&mut self, handle: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_CLOSE,
            handle,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
}

/// The twin of the door: the function through which the host and the tasks of an instance meet. A program has one, declared
/// as a warp with `.spawns(FILE_DOOR_STEP as u16)`, that does nothing but call this with its own number.
///
/// # Safety
/// - As [`FileTask::new`].
pub unsafe fn door(task: &mut dyn TaskCx, files: &DevFiles, number: u32) {
    let (tag, arg) = (u32::from(task.tag()), task.arg());
    // SAFETY: by the caller's word.
    let (ring, pages) = unsafe { (Ring::new(files), PageTable::new(&files.pages)) };
    let report = |task: &mut dyn TaskCx| match ring.count() {
        0 if ring.ended() => task.report_add(FILE_ENDED.into()),
        count => {
            ring.copy_out(count);
            task.report_add(count);
        }
    };
    match tag {
        FILE_DOOR_WAIT => {
            ring.set_taken(arg);
            let is_there = || ring.count() != 0 || ring.ended();
            if is_there() {
                return report(task);
            }
            let group = task.hold();
            ring.hang(group.0);
            // A request that came in between, whose task may have seen no bell.
            if is_there() && ring.take_back(group.0) {
                task.spawn_held(group, number, FILE_DOOR_COUNT as u8, 0);
            }
        }
        FILE_DOOR_COUNT => report(task),
        FILE_DOOR_DELIVER => {
            let (first, count) = (task.lo(), task.hi());
            for index in 0..count {
                let done = ring.done(first.wrapping_add(index));
                if let Some(page) = done.page.checked_sub(1).and_then(|page| pages.word(page)) {
                    match done.word {
                        0 => page.release(),
                        bits => page.fill(bits),
                    }
                }
                let (priority, function, tag) = Then::of_word(done.then);
                let group = GroupId(done.group);
                task.spawn_held_at(priority, group, function, tag, done.arg);
            }
        }
        FILE_DOOR_ORDERS => {
            let (first, count) = (task.lo(), task.hi());
            (first..first + count).for_each(|index| pages.carry_out(index));
        }
        FILE_DOOR_COPY => {
            let (first, count) = (task.lo(), task.hi());
            // SAFETY: the host submits this for bytes that are in the arena, and for memory of the engine that waits for them.
            if !(first..first + count).all(|number| unsafe { copy(files, pages, number) }) {
                task.fault(arg);
            }
        }
        FILE_DOOR_CLOSE => {
            ring.close();
            if let Some(group) = ring.take_bell() {
                task.spawn_held(GroupId(group), number, FILE_DOOR_COUNT as u8, 0);
            }
        }
        _ => task.fault(arg),
    }
}

/// Does what a record says. False if that cannot be.
///
/// # Safety
/// - The tables are those of a live `Files`, and what the record names is memory that no task uses.
unsafe fn copy(files: &DevFiles, pages: PageTable<'_>, number: u32) -> bool {
    if number >= files.copy_slots {
        return false;
    }
    let at = (files.copies.address() as *const DevFileCopy).wrapping_add(number as usize);
    // SAFETY: inside the live table; the host wrote it before it submitted the task that reads it, and does not write it again before
    // that task has ended.
    let record = unsafe { at.read() };
    let DevFileCopy { from, len, to, .. } = record;
    let end = u64::from(from) + u64::from(len);
    let zeros = from == FILE_COPY_ZEROS;
    let congruent = (u64::from(from) ^ to) % 16 == 0;
    if len > FILE_COPY_MOST || !zeros && (end > files.arena_bytes.into() || !congruent) {
        return false;
    }
    let to = to as *mut u8;
    let source = (files.arena.address() as *const u8).wrapping_add(from as usize);
    // SAFETY: by the caller's word; the source was checked to be in the arena.
    unsafe {
        match zeros {
            true => to.write_bytes(0, len as usize),
            false => to.copy_from_nonoverlapping(source, len as usize),
        }
    }
    let page = record.page.checked_sub(1);
    if let Some(page) = page.and_then(|page| pages.word(page)) {
        page.fill(record.bits);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_carry_counts_and_errors() {
        let end = |result: i32| FileEnd::of(u64::from(result as u32) << 32 | 7);
        assert_eq!((end(5).note, end(5).result), (7, Ok(5)));
        assert_eq!(end(-51).result, Err(FileErrno::NOSPC));
        assert_eq!(end(i32::MAX).result, Ok(i32::MAX as u32));
        let then = Then::new(0x3ff, 0xab, 0);
        for priority in [Priority::URGENT, Priority::NORMAL, Priority::LOW] {
            let word = then.word(priority);
            assert_eq!(Then::of_word(word), (priority, 0x3ff, 0xab));
        }
    }
}

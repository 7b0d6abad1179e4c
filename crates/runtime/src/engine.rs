//! The engine's handle.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everwarp_contract::task::PARAM_BYTES;
use everwarp_contract::{DevTask, Layout};
use everwarp_engine::{DevNone, EngineKind, Footprint, Pools, ProgramRef};

use crate::buffer::{Buffer, Element};
use crate::core::EngineCore;
use crate::error::Error;
use crate::instance::{Instance, TaskBuilder, check_batch};
use crate::pending::{Completion, Pending};
use crate::retired::Region;
use crate::sync::lock;
use crate::wait::WaitLoop;

/// An engine that is resident on a device. Handles are cheap to clone; the last one ends the engine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) core: Arc<EngineCore>,
    /// The region of what is made through this handle; none is the common one.
    pub(crate) region: Option<Arc<Region>>,
}

/// Which engine it is. Unlike a handle, it does not keep the engine running.
#[derive(Clone, Debug)]
pub struct EngineMark(pub(crate) Weak<EngineCore>);

impl Engine {
    /// What tells this engine from others; see [`Buffer::is_marked`].
    pub fn mark(&self) -> EngineMark {
        EngineMark(Arc::downgrade(&self.core))
    }
    /// Which kind of engine this is.
    pub fn kind(&self) -> EngineKind {
        self.core.engine.kind()
    }
    /// The device's name.
    pub fn device_name(&self) -> String {
        self.core.engine.device_name()
    }
    /// How many workers are resident: warps on a GPU, threads on a CPU.
    pub fn worker_count(&self) -> u32 {
        self.core.engine.worker_count()
    }
    /// The engine's size: blocks on a GPU, threads on a CPU.
    pub fn size(&self) -> u32 {
        self.core.engine.size()
    }
    /// The engine's largest size.
    pub fn max_size(&self) -> u32 {
        self.core.engine.max_size()
    }
    /// The sizes of the engine's rings and pools.
    pub fn pools(&self) -> Pools {
        self.core.engine.pools()
    }
    /// The memory that the engine occupies, without buffers.
    pub fn footprint(&self) -> Footprint {
        self.core.engine.footprint()
    }
    /// How long the engine's start took, from an open device and compiled image to its first answer.
    pub fn start_time(&self) -> Duration {
        self.core.engine.start_time()
    }

    /// Allocates a zeroed buffer of `len` elements; works while the engine runs.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.core.check()?;
        Buffer::new(&self.core, self.region.as_ref(), len, true)
    }
    /// Allocates a zeroed buffer in memory of the host that tasks reach over the bus, so that neither side copies. Tasks read
    /// and write it with the scope of the system. Where the engine has no such memory, it is a buffer as any other.
    ///
    /// # Errors
    /// The system gives no more page-locked memory.
    pub fn near_buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.core.check()?;
        Buffer::new_near(&self.core, self.region.as_ref(), len)
    }
    /// Allocates a buffer that may hold any values, for a buffer that a task will clear: clearing from the host goes
    /// over the bus.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn buffer_uncleared<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.core.check()?;
        Buffer::new(&self.core, self.region.as_ref(), len, false)
    }
    /// Allocates a buffer and fills it.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn buffer_from<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = self.buffer(data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Makes an instance of a program: the program with these parameters.
    ///
    /// # Safety
    /// - The memory that the parameters point to is as the program's documentation asks, and stays so until the instance
    ///   is dropped. (A dropped buffer stays until everything that was submitted before is done.)
    /// - If the host reads or writes a buffer while tasks of the instance access it, the tasks do so with atomics of the
    ///   size of the buffer's elements.
    ///
    /// # Errors
    /// The engine does not hold the program, it takes other parameters, or there are 256 instances.
    pub unsafe fn instance<P: Layout>(
        &self,
        program: impl Into<ProgramRef>,
        params: &P,
    ) -> Result<Instance, Error> {
        const {
            assert!(
                size_of::<P>() <= PARAM_BYTES as usize,
                "parameters have at most 256 bytes"
            )
        };
        let program = program.into();
        if P::NAME != program.params.name {
            return Err(Error::WrongParams {
                program: program.name.to_string(),
                expected: program.params.name.to_string(),
                given: P::NAME.to_owned(),
            });
        }
        Instance::new(&self.core, self.region.as_ref(), program, params.bytes())
    }
    /// Makes an instance of a program that has no parameters.
    ///
    /// # Errors
    /// As [`instance`](Self::instance).
    pub fn plain_instance(&self, program: impl Into<ProgramRef>) -> Result<Instance, Error> {
        // SAFETY: there are no parameters, so nothing that they point to.
        unsafe { self.instance(program, &DevNone::NEW) }
    }

    /// Runs one task: submits it and waits until it has completed, with all tasks that it has spawned.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`Pending::wait`].
    pub fn run(&self, task: TaskBuilder<'_>) -> Result<Completion, Error> {
        self.submit(task)?.wait()
    }
    /// Submits one task, waiting for room if there is none.
    ///
    /// # Errors
    /// [`Error::Stopped`], or whatever ended the engine.
    pub fn submit(&self, task: TaskBuilder<'_>) -> Result<Pending, Error> {
        self.patiently(|| self.try_submit(task))
    }
    /// Submits one task.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room: nothing was submitted. Else as [`submit`](Self::submit).
    pub fn try_submit(&self, task: TaskBuilder<'_>) -> Result<Pending, Error> {
        self.try_submit_one(task, false)
    }
    /// Submits one task, which may last as long as the engine.
    pub(crate) fn try_submit_one(
        &self,
        task: TaskBuilder<'_>,
        lasts: bool,
    ) -> Result<Pending, Error> {
        self.core.check()?;
        task.check(&self.core)?;
        let (descriptor, counted) = (task.build(), task.spawns());
        let submit = || lock(&self.core.producer).task(&self.core, descriptor, counted, lasts);
        let token = self.reaping(submit)?;
        self.core.engine.doorbell();
        Ok(Pending::new(self.core.clone(), token))
    }
    /// Submits tasks of one instance at once. They complete together, with all tasks that they spawn.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], [`Error::BatchEmpty`], [`Error::BatchMixed`],
    /// [`Error::BadTask`]; else as [`submit`](Self::submit).
    pub fn submit_batch(&self, tasks: &[DevTask]) -> Result<Pending, Error> {
        self.check_batch(tasks)?;
        // The tasks are checked once; only the engine's state may change between two attempts.
        self.patiently(|| {
            self.core.check()?;
            self.submit_checked(tasks)
        })
    }
    fn submit_checked(&self, tasks: &[DevTask]) -> Result<Pending, Error> {
        let reserved = self.reaping(|| lock(&self.core.producer).reserve(&self.core, tasks))?;
        let filled = reserved.fill();
        let token = lock(&self.core.producer).announce(filled);
        self.core.engine.doorbell();
        Ok(Pending::new(self.core.clone(), token))
    }
    /// Submits a batch.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room; else as [`submit_batch`](Self::submit_batch).
    pub fn try_submit_batch(&self, tasks: &[DevTask]) -> Result<Pending, Error> {
        self.check_batch(tasks)?;
        self.submit_checked(tasks)
    }
    fn check_batch(&self, tasks: &[DevTask]) -> Result<(), Error> {
        self.core.check()?;
        let limit = self.pools().arena_tasks;
        if tasks.len() > limit as usize {
            return Err(Error::BatchTooLarge {
                tasks: tasks.len(),
                limit,
            });
        }
        check_batch(&self.core, tasks)
    }
    /// Streams any number of tasks of one instance through the engine and waits for all of them.
    ///
    /// # Errors
    /// As [`submit_batch`](Self::submit_batch) and [`Pending::wait`].
    pub fn submit_all(&self, tasks: &[DevTask]) -> Result<(), Error> {
        // Pieces are large enough to be worth an announcement and small enough for several to be in flight: with 16
        // pieces of an arena of 16 MiB an H200 took 327 M tasks a second, and 286 with 8 pieces, from the same thread of
        // the same host.
        let piece = (self.pools().arena_tasks as usize / 16).max(1);
        let mut pending = VecDeque::<Pending>::new();
        for part in tasks.chunks(piece) {
            // The rings may be full of this call's own pieces, which only this call takes.
            let piece = loop {
                match self.try_submit_batch(part) {
                    Err(Error::Full { .. }) => match pending.pop_front() {
                        Some(mut oldest) => {
                            oldest.wait()?;
                        }
                        None => break self.submit_batch(part)?,
                    },
                    other => break other?,
                }
            };
            pending.push_back(piece);
            while pending.front().is_some_and(Pending::is_done) {
                pending.pop_front();
            }
        }
        pending.into_iter().try_for_each(|mut p| p.wait().map(drop))
    }

    /// The function and the detail of the fault that the engine has ended with, for a library that explains the faults of its functions:
    /// of several threads that wait, one gets the fault, and the others that the engine is lost. Not a stable API.
    #[doc(hidden)]
    pub fn fault(&self) -> Option<(&str, u64)> {
        let (function, detail) = self.core.fault.get()?;
        Some((function, *detail))
    }
    /// Counts things outside the engine that its tasks begin to wait for. Until [`end_outside`](Self::end_outside) an engine
    /// in which nothing moves is idle and not stuck. Not a stable API.
    #[doc(hidden)]
    pub fn begin_outside(&self, count: u64) {
        self.core.outside.fetch_add(count, Ordering::AcqRel);
    }
    /// Counts things for which no task waits any more. Not a stable API.
    #[doc(hidden)]
    pub fn end_outside(&self, count: u64) {
        self.core.outside.fetch_sub(count, Ordering::AcqRel);
    }
    pub(crate) fn patiently<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut wait = WaitLoop::default();
        loop {
            match attempt() {
                Err(Error::Full { .. }) => {
                    if self.core.reap() == 0 {
                        wait.pause(&self.core, None)?;
                    }
                }
                other => return other,
            }
        }
    }

    /// Tries once more after a reap: if no thread waits, a full ring may only need to be reaped.
    fn reaping<T>(&self, attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match attempt() {
            Err(Error::Full { .. }) if self.core.reap() > 0 => attempt(),
            other => other,
        }
    }
}

//! The engine's handle.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_backend::{EngineKind, Footprint, PoolState, Pools, Program};
use everwarp_contract::{DevTask, DevWorker, Layout};

use crate::buffer::{Buffer, Element};
use crate::core::{Core, lock};
use crate::error::Error;
use crate::instance::{Instance, TaskBuilder};
use crate::pending::Pending;

/// How long a task may go on once the engine was asked to park.
const PARK_GRACE: Duration = Duration::from_secs(10);

/// An engine that is resident on a device. Handles are cheap to clone; the last one ends the engine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// What an engine has done so far.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Tasks run to completion, continuations included.
    pub executed: u64,
    /// Batches in which they ran.
    pub batches: u64,
    /// Continuations fired.
    pub fired: u64,
    /// Tasks that moved from one worker to another.
    pub received: u64,
    /// How often a worker could not run for want of room.
    pub starved: u64,
    /// How the pools fare.
    pub pools: PoolState,
    /// Every worker's counters.
    pub workers: Vec<DevWorker>,
}

impl Engine {
    /// Which kind of engine this is.
    pub fn kind(&self) -> EngineKind {
        self.core.backend.kind()
    }
    /// The device's name.
    pub fn device_name(&self) -> String {
        self.core.backend.device_name()
    }
    /// How many workers are resident: warps on a GPU, threads on a CPU.
    pub fn worker_count(&self) -> u32 {
        self.core.backend.worker_count()
    }
    /// Its size now: blocks on a GPU, threads on a CPU.
    pub fn size(&self) -> u32 {
        self.core.backend.size()
    }
    /// Its largest size.
    pub fn max_size(&self) -> u32 {
        self.core.backend.max_size()
    }
    /// The sizes of its rings and pools.
    pub fn pools(&self) -> Pools {
        self.core.backend.pools()
    }
    /// The memory that it occupies, buffers apart.
    pub fn footprint(&self) -> Footprint {
        self.core.backend.footprint()
    }
    /// How long its start took, from an open device and compiled image to its first answer.
    pub fn start_time(&self) -> Duration {
        self.core.backend.start_time()
    }

    /// Allocates a zeroed buffer of `len` elements; works while the engine runs.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.core.check()?;
        Buffer::new(&self.core, len)
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
    /// - What the parameters point to is as the program's documentation asks, and stays so until the
    ///   instance is dropped. (Buffers dropped while anything is in flight live on until nothing is.)
    ///
    /// # Errors
    /// The engine does not hold the program, it takes other parameters, or there are 256 instances.
    pub unsafe fn instance<P: Layout>(&self, program: &'static Program, params: &P) -> Result<Instance, Error> {
        if P::NAME != program.params_name {
            return Err(Error::WrongParams {
                program: program.name.to_owned(),
                expected: program.params_name.to_owned(),
                given: P::NAME.to_owned(),
            });
        }
        Instance::new(&self.core, program, params.bytes())
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
        self.core.check()?;
        task.check(&self.core)?;
        let token = lock(&self.core.producer).task(&self.core, task.build(), task.spawns())?;
        self.core.backend.doorbell();
        Ok(Pending::new(self.core.clone(), token))
    }
    /// Submits tasks of one instance at once; they complete together, with all that they spawn.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], [`Error::BatchEmpty`], [`Error::BatchMixed`]; else as [`submit`](Self::submit).
    pub fn submit_batch(&self, tasks: &[DevTask]) -> Result<Pending, Error> {
        self.patiently(|| self.try_submit_batch(tasks))
    }
    /// Submits a batch.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room; else as [`submit_batch`](Self::submit_batch).
    pub fn try_submit_batch(&self, tasks: &[DevTask]) -> Result<Pending, Error> {
        self.core.check()?;
        let limit = self.pools().arena_tasks;
        let first = tasks.first().ok_or(Error::BatchEmpty)?;
        if tasks.len() > limit as usize {
            return Err(Error::BatchTooLarge { tasks: tasks.len(), limit });
        }
        if tasks.iter().any(|t| t.instance() != first.instance()) {
            return Err(Error::BatchMixed);
        }
        let token = lock(&self.core.producer).batch(&self.core, tasks)?;
        self.core.backend.doorbell();
        Ok(Pending::new(self.core.clone(), token))
    }
    /// Streams any number of tasks of one instance through the engine and waits for all of them.
    ///
    /// # Errors
    /// As [`submit_batch`](Self::submit_batch) and [`Pending::wait`].
    pub fn submit_all(&self, tasks: &[DevTask]) -> Result<(), Error> {
        // Pieces large enough to be worth an announcement, small enough for several to be in flight.
        let piece = (self.pools().arena_tasks as usize / 8).max(1);
        let mut pending = std::collections::VecDeque::new();
        for part in tasks.chunks(piece) {
            pending.push_back(self.submit_batch(part)?);
            while pending.front().is_some_and(Pending::is_done) {
                pending.pop_front().expect("it has a front").wait()?;
            }
        }
        pending.into_iter().try_for_each(|mut p| p.wait().map(drop))
    }

    fn patiently<T>(&self, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut watch = crate::watch::Watch::default();
        for round in 1.. {
            match attempt() {
                Err(Error::Full { .. }) => {
                    self.core.reap();
                    watch.look(&self.core, round)?;
                    if round > 64 {
                        self.core.backend.idle_wait(round);
                    }
                }
                other => return other,
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Stops at the next task boundary; all state is kept. Parking a parked engine does nothing.
    ///
    /// # Errors
    /// A task does not end, so the engine is lost.
    pub fn park(&self) -> Result<(), Error> {
        self.core.check()?;
        self.core.parked.store(true, Ordering::Release);
        self.core.backend.park(PARK_GRACE).map_err(|e| self.core.fail(e.into()))
    }
    /// Goes on after [`park`](Self::park).
    ///
    /// # Errors
    /// The device refuses.
    pub fn resume(&self) -> Result<(), Error> {
        self.resume_sized(None)
    }
    /// Goes on after [`park`](Self::park) with another size.
    ///
    /// # Errors
    /// The size is impossible, and the engine stays parked.
    pub fn resume_with(&self, size: u32) -> Result<(), Error> {
        self.resume_sized(Some(size))
    }
    fn resume_sized(&self, size: Option<u32>) -> Result<(), Error> {
        self.core.check()?;
        self.core.backend.resume(size)?;
        self.core.parked.store(false, Ordering::Release);
        Ok(())
    }
    /// Begins a new epoch at once, with the given size or the same; answers the time from raising the
    /// stop flag to the new epoch's first answer.
    ///
    /// # Errors
    /// The engine is parked, the size is impossible, or a task does not end.
    pub fn swap(&self, size: Option<u32>) -> Result<Duration, Error> {
        self.core.check()?;
        Ok(self.core.backend.swap(size, PARK_GRACE)?)
    }
    /// Adds a program to a parked engine.
    ///
    /// # Errors
    /// The engine is running, or the image does not compile.
    pub fn load(&self, program: &'static Program) -> Result<(), Error> {
        self.core.check()?;
        let mut image = lock(&self.core.image);
        if image.base(program.name).is_some() {
            return Ok(());
        }
        let mut next = image.clone();
        next.programs.push(program);
        self.core.backend.set_image(&next)?;
        *image = next;
        Ok(())
    }
    /// What the engine has done so far; may be asked while it runs.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let workers = self.core.backend.workers()?;
        let sum = |field: fn(&DevWorker) -> u64| workers.iter().map(field).sum();
        Ok(Stats {
            executed: sum(|w| w.executed),
            batches: sum(|w| w.batches),
            fired: sum(|w| w.fired),
            received: sum(|w| w.received),
            starved: sum(|w| w.starved),
            pools: self.core.backend.pool_state()?,
            workers,
        })
    }
    /// Stops for good. What is in flight ends with [`Error::Stopped`].
    ///
    /// # Errors
    /// A task does not end.
    pub fn stop(&self) -> Result<(), Error> {
        self.core.check()?;
        self.core.stopped.store(true, Ordering::Release);
        let parked = self.core.backend.park(PARK_GRACE);
        for token in &self.core.tokens {
            if token.wake() {
                self.core.wakers.fetch_sub(1, Ordering::AcqRel);
            }
        }
        Ok(parked?)
    }
}

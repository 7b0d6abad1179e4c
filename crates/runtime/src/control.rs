//! An engine's epochs: park, resume, swap, load, stop.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use everwarp_engine::{BackendError, Image, Linked, Prepared, Program};

use crate::engine::Engine;
use crate::error::Error;
use crate::instance::append;
use crate::sync::lock;

/// How long a task may go on once the engine was asked to park.
const PARK_GRACE: Duration = Duration::from_secs(10);

/// How long an engine took to go on with another image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// Until all tasks had come to a boundary; others went on meanwhile.
    pub parking: Duration,
    /// For loading the image, while nothing ran.
    pub loading: Duration,
    /// Until the next epoch answered.
    pub resuming: Duration,
}

impl Exchanged {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.parking + self.loading + self.resuming
    }
}

impl Engine {
    /// Stops at the next task boundary; all state is kept. Parking a parked engine does nothing.
    ///
    /// # Errors
    /// A task does not end, so the engine is lost.
    pub fn park(&self) -> Result<(), Error> {
        self.core.check()?;
        // Before it is: a wait that sees nothing move from here on knows why.
        self.core.parked.fetch_or(1, Ordering::AcqRel);
        self.core
            .backend
            .park(PARK_GRACE)
            .map_err(|e| self.core.fail(e.into()))
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
        let next = |epoch: u32| (epoch % 2 == 1).then_some(epoch.wrapping_add(1));
        let _ = self
            .core
            .parked
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        Ok(())
    }
    /// Begins a new epoch at once, with the given size or the same; answers the time from raising the
    /// stop flag to the new epoch's first answer.
    ///
    /// # Errors
    /// The engine is parked, the size is impossible, or a task does not end.
    pub fn swap(&self, size: Option<u32>) -> Result<Duration, Error> {
        self.core.check()?;
        self.core
            .backend
            .swap(size, PARK_GRACE)
            .map_err(|error| match error {
                BackendError::Size { .. } | BackendError::Parked { .. } => error.into(),
                // In between, it was parked: whether it came back is not known.
                error => self.core.fail(error.into()),
            })
    }
    /// Adds a program to a parked engine.
    ///
    /// # Errors
    /// The engine is running, the image does not compile, another program has this name
    /// ([`Error::DuplicateProgram`]), or there are too many functions ([`Error::TooManyFunctions`]).
    pub fn load(&self, program: &'static Program) -> Result<(), Error> {
        self.core.check()?;
        let mut image = lock(&self.core.image);
        let mut next = image.clone();
        if !append(&mut next, program)? {
            return Ok(());
        }
        if self.core.parked.load(Ordering::Acquire).is_multiple_of(2) {
            // Before it is compiled, which takes long.
            let action = "loading an image";
            return Err(BackendError::NotParked { action }.into());
        }
        let prepared = self.core.backend.prepare(&next)?;
        self.core.backend.set_image(&prepared)?;
        *image = next;
        Ok(())
    }
    /// Compiles the engine's image anew with other linked parts, of which the first must be those that it has. The
    /// engine goes on meanwhile.
    ///
    /// # Errors
    /// A part does not assemble, or the parts are no successors.
    pub fn prepare_linked(&self, linked: Linked) -> Result<Prepared, Error> {
        self.core.check()?;
        let programs = lock(&self.core.image).programs.clone();
        Ok(self.core.backend.prepare(&Image { programs, linked })?)
    }
    /// Parks the engine, loads what [`prepare_linked`](Self::prepare_linked) has made, and goes on. Nothing in flight
    /// is lost. What has been loaded into the engine since is not in it, and is refused.
    ///
    /// # Errors
    /// The engine is parked already, the image is no successor of the engine's, or a task does not end, so the engine
    /// is lost. If the device refuses to load it, the engine goes on with the image that it has.
    pub fn exchange(&self, prepared: &Prepared) -> Result<Exchanged, Error> {
        let mut image = lock(&self.core.image);
        if !self.core.parked.load(Ordering::Acquire).is_multiple_of(2) {
            let action = "loading beside it";
            return Err(BackendError::Parked { action }.into());
        }
        let begin = Instant::now();
        self.park()?;
        let parked = Instant::now();
        let loaded = self.core.backend.set_image(prepared);
        let end = Instant::now();
        self.resume()?;
        loaded?;
        *image = prepared.image.clone();
        Ok(Exchanged {
            parking: parked - begin,
            loading: end - parked,
            resuming: end.elapsed(),
        })
    }
    /// Stops for good. What is in flight ends with [`Error::Stopped`].
    ///
    /// # Errors
    /// A task does not end.
    pub fn stop(&self) -> Result<(), Error> {
        self.core.check()?;
        if self.core.stopped.swap(true, Ordering::AcqRel) {
            return Err(Error::Stopped);
        }
        let parked = self.core.backend.park(PARK_GRACE);
        self.core.wake_all();
        Ok(parked?)
    }
}

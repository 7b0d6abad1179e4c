//! An engine's epochs: park, resume, swap, load, stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everwarp_engine::{EngineError, ProgramRef};

use crate::engine::Engine;
use crate::error::Error;
use crate::instance::append;
use crate::sync::lock;

/// How long a task may go on after the request to park.
const PARK_GRACE: Duration = Duration::from_secs(10);

impl Engine {
    /// Stops at the next task boundary; all state is kept. Parking a parked engine does nothing.
    ///
    /// # Errors
    /// A task does not end, so the engine is lost.
    pub fn park(&self) -> Result<(), Error> {
        self.core.check()?;
        // Before the engine parks: a wait that sees nothing move from here on knows why.
        self.core.parked.fetch_or(1, Ordering::AcqRel);
        self.core
            .engine
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
        self.core.engine.resume(size)?;
        let next = |epoch: u32| (epoch % 2 == 1).then_some(epoch.wrapping_add(1));
        let _ = self
            .core
            .parked
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        Ok(())
    }
    /// Starts a new epoch at once, with the given size or the same. Returns the time from raising the stop flag to the
    /// new epoch's first answer.
    ///
    /// # Errors
    /// The engine is parked, the size is impossible, or a task does not end.
    pub fn swap(&self, size: Option<u32>) -> Result<Duration, Error> {
        self.core.check()?;
        self.core
            .engine
            .swap(size, PARK_GRACE)
            .map_err(|error| match error {
                EngineError::Size { .. } | EngineError::Parked { .. } => error.into(),
                // The engine was parked in between, and may not have come back.
                error => self.core.fail(error.into()),
            })
    }
    /// Adds a program to a parked engine.
    ///
    /// # Errors
    /// The engine is running, the image does not compile, another program has this name
    /// ([`Error::DuplicateProgram`]), or there are too many functions ([`Error::TooManyFunctions`]).
    pub fn load(&self, program: impl Into<ProgramRef>) -> Result<(), Error> {
        self.core.check()?;
        let mut image = lock(&self.core.image);
        let mut next = image.clone();
        if !append(&mut next, program.into())? {
            return Ok(());
        }
        if self.core.parked.load(Ordering::Acquire).is_multiple_of(2) {
            // Checked before the image is compiled, which takes long.
            let action = "loading an image";
            return Err(EngineError::NotParked { action }.into());
        }
        let prepared = self.core.engine.prepare(&next)?;
        self.core.engine.set_image(&prepared)?;
        *image = next;
        Ok(())
    }
    /// Stops for good. Submissions in flight end with [`Error::Stopped`].
    ///
    /// # Errors
    /// A task does not end.
    pub fn stop(&self) -> Result<(), Error> {
        self.core.check()?;
        if self.core.stopped.swap(true, Ordering::AcqRel) {
            return Err(Error::Stopped);
        }
        let parked = self.core.engine.park(PARK_GRACE);
        self.core.wake_all();
        Ok(parked?)
    }
}

//! Engines with code linked to them that was compiled elsewhere: for the host of WebAssembly processes on a GPU.
//!
//! These are traits and not methods of [`Engine`], so that `everwarp`, which does not re-export them, does not offer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use everwarp_engine::trace::spanned;
use everwarp_engine::{
    Addition, EngineError, Frames, Haste, HostCallMemory, Image, Linked, LinkedPart,
    PreparedAddition, PreparedImage, TaskEngine,
};

use crate::buffer::{Buffer, Element};
use crate::builder::EngineBuilder;
use crate::engine::Engine;
use crate::error::Error;
use crate::instance::TaskBuilder;
use crate::pending::Pending;
use crate::retired::Region;
use crate::sync::lock;

/// How long an engine took to go on with another image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// Until all tasks had come to a boundary; other tasks went on meanwhile.
    pub parking: Duration,
    /// For loading the image, while nothing ran.
    pub loading: Duration,
    /// Until the next epoch answered.
    pub resuming: Duration,
}

impl Exchanged {
    /// The sum of the three.
    pub fn total(&self) -> Duration {
        self.parking + self.loading + self.resuming
    }
}

/// Starts an engine with linked code.
pub trait LinkedEngineBuilder: Sized {
    /// Sets the code that is linked to the programs. Only an engine on a GPU uses it.
    fn linked(self, linked: Linked) -> Self;
}

impl LinkedEngineBuilder for EngineBuilder<'_> {
    fn linked(mut self, linked: Linked) -> Self {
        self.linked = linked;
        self
    }
}

/// The operations that the host of linked code needs from an engine.
pub trait LinkedEngine {
    /// The host-call ring, if the engine was started with one.
    fn host_calls(&self) -> Option<HostCallMemory>;
    /// The stack frames of the functions of the engine's image.
    fn frames(&self) -> Frames;
    /// Assembles parts ahead of an image that will have them: [`prepare_linked`](Self::prepare_linked) then takes less time,
    /// and reports what is wrong with them.
    fn assemble_ahead(&self, parts: &[LinkedPart]);
    /// Whether [`assemble_while`](Self::assemble_while) does anything: not if the driver assembles.
    fn assembles_ahead(&self) -> bool;
    /// Assembles parts ahead of an image or an addition that will have them, on one core for each piece, unless `unwanted` is set or
    /// becomes so. Says whether they can be in an addition.
    ///
    /// # Errors
    /// A part cannot be assembled within the limits.
    fn assemble_while(
        &self,
        parts: &[LinkedPart],
        haste: Haste,
        unwanted: &Arc<AtomicBool>,
    ) -> Result<bool, Error>;
    /// Compiles the engine's image again with other linked parts. The engine goes on meanwhile.
    ///
    /// # Errors
    /// A part does not assemble.
    fn prepare_linked(&self, linked: Linked) -> Result<PreparedImage, Error>;
    /// Parks the engine, loads an image from [`prepare_linked`](Self::prepare_linked), and goes on. Nothing in flight is
    /// lost, unless it runs in a part that the image does not have any more. Fails if programs were loaded after
    /// `prepare_linked`.
    ///
    /// # Errors
    /// The engine is parked already, the image does not begin with the engine's current one, or a task does not end, so
    /// the engine is lost. If the device refuses to load the image, the engine goes on with its current one.
    fn exchange(&self, prepared: &PreparedImage) -> Result<Exchanged, Error>;
    /// Links code that can be loaded next to the engine's image, also while the engine runs. `None` if it can only come in an image.
    ///
    /// # Errors
    /// A part does not assemble.
    fn prepare_addition(&self, addition: &Addition) -> Result<Option<PreparedAddition>, Error>;
    /// Parks the engine, loads an addition from [`prepare_addition`](Self::prepare_addition), and goes on. Images that come later
    /// have `linked` unless they say otherwise, so it has the addition's code as well.
    ///
    /// # Errors
    /// The engine is parked already, or a task does not end, so the engine is lost. If the device refuses to load the code, the
    /// engine goes on without it.
    fn add(&self, prepared: &PreparedAddition, linked: Linked) -> Result<Exchanged, Error>;
    /// A handle with a region of its own: buffers that are made through it are freed, after they were dropped, as soon as
    /// the tasks in flight of instances that were made through it have ended, whatever else the engine does. No task of
    /// another instance may reach them. There are 255 regions; further handles share the common one.
    fn region(&self) -> Engine;
    /// Gives a buffer to this handle's region. No process or task that is still to run in its old region may reach it.
    fn adopt<T: Element>(&self, buffer: &mut Buffer<T>);
    /// Submits one task that lasts. It must not access a buffer that is dropped before [`count`](Self::count): such buffers
    /// are freed as if it had ended.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    fn submit_lasting(&self, task: TaskBuilder<'_>) -> Result<Pending, Error>;
    /// Counts a task that lasts as one in flight, before it is made to end: buffers of its region that are dropped afterwards
    /// are freed when it has ended.
    fn count(&self, lasting: &Pending);
    /// Gives back the memory of earlier images and of buffers that were dropped, if the engine is parked.
    fn trim(&self);
}

impl Engine {
    /// Parks the engine, loads code into it, and goes on, also if the device refuses the code.
    fn while_parked(
        &self,
        load: impl FnOnce(&dyn TaskEngine) -> Result<(), EngineError>,
    ) -> Result<Exchanged, Error> {
        if !self.core.parked.load(Ordering::Acquire).is_multiple_of(2) {
            let action = "loading an image while it runs";
            return Err(EngineError::Parked { action }.into());
        }
        let begin = Instant::now();
        spanned("exchange: park", || self.park())?;
        let parked = Instant::now();
        let loaded = spanned("exchange: load", || load(&*self.core.engine));
        let end = Instant::now();
        spanned("exchange: resume", || self.resume())?;
        loaded?;
        Ok(Exchanged {
            parking: parked - begin,
            loading: end - parked,
            resuming: end.elapsed(),
        })
    }
}

impl LinkedEngine for Engine {
    fn host_calls(&self) -> Option<HostCallMemory> {
        self.core.engine.host_calls()
    }
    fn frames(&self) -> Frames {
        self.core.engine.frames()
    }
    fn assemble_ahead(&self, parts: &[LinkedPart]) {
        self.core.engine.assemble_ahead(parts);
    }
    fn assembles_ahead(&self) -> bool {
        self.core.engine.assembles_ahead()
    }
    fn assemble_while(
        &self,
        parts: &[LinkedPart],
        haste: Haste,
        unwanted: &Arc<AtomicBool>,
    ) -> Result<bool, Error> {
        Ok(self.core.engine.assemble_while(parts, haste, unwanted)?)
    }
    fn prepare_linked(&self, linked: Linked) -> Result<PreparedImage, Error> {
        self.core.check()?;
        let image = Image {
            linked,
            ..lock(&self.core.image).clone()
        };
        Ok(self.core.engine.prepare(&image)?)
    }
    fn exchange(&self, prepared: &PreparedImage) -> Result<Exchanged, Error> {
        let mut image = lock(&self.core.image);
        let exchanged = self.while_parked(|engine| engine.set_image(prepared))?;
        *image = prepared.image.clone();
        Ok(exchanged)
    }
    fn prepare_addition(&self, addition: &Addition) -> Result<Option<PreparedAddition>, Error> {
        self.core.check()?;
        Ok(self.core.engine.prepare_addition(addition)?)
    }
    fn add(&self, prepared: &PreparedAddition, linked: Linked) -> Result<Exchanged, Error> {
        let mut image = lock(&self.core.image);
        let exchanged = self.while_parked(|engine| engine.add(prepared))?;
        image.linked = linked;
        Ok(exchanged)
    }
    fn region(&self) -> Engine {
        Engine {
            core: self.core.clone(),
            region: Region::take(&self.core),
        }
    }
    fn adopt<T: Element>(&self, buffer: &mut Buffer<T>) {
        buffer.move_to(self.region.as_ref());
    }
    fn submit_lasting(&self, task: TaskBuilder<'_>) -> Result<Pending, Error> {
        self.patiently(|| self.try_submit_one(task, true))
    }
    fn count(&self, lasting: &Pending) {
        lock(&self.core.producer).count(&self.core, lasting.token);
    }
    fn trim(&self) {
        // What was dropped is free once the engine is known to have done what was submitted before.
        self.core.reap();
        self.core.free_retired();
        self.core.engine.trim();
    }
}

//! Instances: programs with parameters, and the tasks made from them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everwarp_backend::Program;
use everwarp_contract::DevTask;

use crate::core::{Core, lock};
use crate::error::Error;

/// A task's priority; spawned tasks inherit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// Served before everything else.
    pub const URGENT: Self = Self(0);
    /// Served before ordinary work.
    pub const HIGH: Self = Self(1);
    /// Ordinary work.
    pub const NORMAL: Self = Self(2);
    /// Served when there is nothing else.
    pub const LOW: Self = Self(3);
    /// The level, 0 (served first) to 3.
    pub const fn level(self) -> u8 {
        self.0
    }
}

/// A program with parameters on one engine. It holds one of 256 slots, until it is dropped and
/// everything submitted from it is done.
#[derive(Debug)]
pub struct Instance {
    core: Arc<Core>,
    program: &'static Program,
    base: u32,
    slot: u8,
}

impl Instance {
    pub(crate) fn new(core: &Arc<Core>, program: &'static Program, params: &[u8]) -> Result<Self, Error> {
        core.check()?;
        let base = lock(&core.image).base(program.name);
        let base = base.ok_or_else(|| Error::UnknownProgram { program: program.name.to_owned() })?;
        let free = |held: &std::sync::atomic::AtomicU32| {
            held.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = core.slots.iter().position(|s| free(&s.held)).ok_or(Error::TooManyInstances)? as u8;
        let instance = Self { core: core.clone(), program, base, slot };
        core.backend.set_params(slot, params)?;
        Ok(instance)
    }
    /// The program.
    pub fn program(&self) -> &'static Program {
        self.program
    }
    /// A task of the program's function number `function`.
    ///
    /// # Panics
    /// The program has no such function.
    pub fn task(&self, function: u32) -> TaskBuilder<'_> {
        let name = self.program.name;
        assert!((function as usize) < self.program.functions.len(), "{name} has no function {function}");
        TaskBuilder { instance: self, function, tag: 0, priority: Priority::NORMAL, arg: 0 }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let slot = &self.core.slots[usize::from(self.slot)];
        slot.held.store(2, Ordering::Release);
        if slot.in_flight.load(Ordering::Acquire) == 0 {
            let _ = slot.held.compare_exchange(2, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// A task about to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct TaskBuilder<'i> {
    instance: &'i Instance,
    function: u32,
    tag: u8,
    priority: Priority,
    arg: u64,
}

impl TaskBuilder<'_> {
    /// Sets the argument.
    pub fn arg(mut self, arg: u64) -> Self {
        self.arg = arg;
        self
    }
    /// Sets the argument from two halves.
    pub fn args(self, lo: u32, hi: u32) -> Self {
        self.arg(u64::from(hi) << 32 | u64::from(lo))
    }
    /// Sets the tag.
    pub fn tag(mut self, tag: u8) -> Self {
        self.tag = tag;
        self
    }
    /// Sets the priority; [`Priority::NORMAL`] by default.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }
    /// The descriptor, for a batch. It is valid while its instance lives.
    pub fn build(&self) -> DevTask {
        let function = self.instance.base + self.function;
        DevTask::new(function, self.instance.slot, self.tag, self.priority.level(), self.arg)
    }
    pub(crate) fn spawns(&self) -> bool {
        self.instance.program.functions[self.function as usize].spawns
    }
    /// An instance of another engine would name other functions.
    pub(crate) fn check(&self, core: &Arc<Core>) -> Result<(), Error> {
        if Arc::ptr_eq(core, &self.instance.core) {
            return Ok(());
        }
        Err(Error::OtherEngine)
    }
}

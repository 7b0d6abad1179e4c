//! Instances: programs with parameters, and the tasks made from them.

use std::sync::Arc;

use everwarp_contract::DevTask;
use everwarp_contract::task::{FN_LIMIT, INSTANCES, TASK_BATCH, TASK_INSTANCE_SHIFT};
use everwarp_engine::{Image, Program};

use crate::core::Core;
use crate::error::Error;
use crate::slot::Slot;
use crate::sync::lock;

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
    pub(crate) fn new(
        core: &Arc<Core>,
        program: &'static Program,
        params: &[u8],
    ) -> Result<Self, Error> {
        core.check()?;
        let base = place(&lock(&core.image), program)?;
        let base = base.ok_or_else(|| Error::UnknownProgram {
            program: program.name.to_owned(),
        })?;
        let slot = core
            .slots
            .iter()
            .position(Slot::hold)
            .ok_or(Error::TooManyInstances)? as u8;
        // From here on the slot is released when this is dropped.
        let instance = Self {
            core: core.clone(),
            program,
            base,
            slot,
        };
        core.backend.set_params(slot, params)?;
        core.slots[usize::from(slot)].set_functions(base, program.functions.len() as u32);
        Ok(instance)
    }
    /// The program.
    pub fn program(&self) -> &'static Program {
        self.program
    }
    /// The owner of what its tasks allocate from the engine's heap. A later instance in the same slot has the same:
    /// what should not outlive an instance, a task frees or releases.
    pub fn owner(&self) -> u32 {
        u32::from(self.slot) + 1
    }
    /// A task of the program's function number `function`.
    ///
    /// # Panics
    /// The program has no such function.
    pub fn task(&self, function: u32) -> TaskBuilder<'_> {
        let name = self.program.name;
        assert!(
            (function as usize) < self.program.functions.len(),
            "{name} has no function {function}"
        );
        TaskBuilder {
            instance: self,
            function,
            tag: 0,
            priority: Priority::NORMAL,
            arg: 0,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.core.slots[usize::from(self.slot)].release();
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
        DevTask::new(
            function,
            self.instance.slot,
            self.tag,
            self.priority.level(),
            self.arg,
        )
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

/// The id of the program's first function in the image, if it is there.
///
/// # Errors
/// [`Error::DuplicateProgram`] if another program has its name.
pub(crate) fn place(image: &Image, program: &'static Program) -> Result<Option<u32>, Error> {
    let Some(held) = image.programs.iter().find(|p| p.name == program.name) else {
        return Ok(None);
    };
    // Not by address alone: a `const` program has one address for each use.
    let same = held.device_source == program.device_source
        && held.params_name == program.params_name
        && held
            .functions
            .iter()
            .map(|f| f.name)
            .eq(program.functions.iter().map(|f| f.name));
    if !same {
        return Err(Error::DuplicateProgram {
            program: program.name.to_owned(),
        });
    }
    Ok(image.base(program.name))
}

/// Adds a program to an image, unless it is there; answers whether it was added.
///
/// # Errors
/// [`Error::DuplicateProgram`], [`Error::TooManyFunctions`], or those of [`Program::check`].
pub(crate) fn append(image: &mut Image, program: &'static Program) -> Result<bool, Error> {
    if image.programs.iter().any(|p| p.name == program.name) {
        return place(image, program).map(|_| false);
    }
    let limit = (FN_LIMIT - everwarp_contract::task::FN_FIRST) as usize;
    let functions = image.functions().count() + program.functions.len();
    if functions > limit {
        return Err(Error::TooManyFunctions { functions, limit });
    }
    program.check()?;
    image.programs.push(program);
    Ok(true)
}

/// Checks the descriptors of a batch: one instance, functions of its own, no flags. Built-in functions
/// reach the engine's own memory, so no descriptor may name them.
pub(crate) fn check_batch(core: &Core, tasks: &[DevTask]) -> Result<(), Error> {
    const INSTANCE: u32 = (INSTANCES - 1) << TASK_INSTANCE_SHIFT;
    let first = tasks.first().ok_or(Error::BatchEmpty)?;
    let (base, number) = core.slots[usize::from(first.instance())].functions();
    let mixed = |t: &DevTask| (t.head ^ first.head) & INSTANCE != 0;
    let bad = |t: &DevTask| t.function().wrapping_sub(base) >= number || t.head >= TASK_BATCH;
    // Without early exits, so that it runs at the speed of memory.
    if !tasks.iter().fold(false, |any, t| any | mixed(t) | bad(t)) {
        return Ok(());
    }
    if tasks.iter().any(mixed) {
        return Err(Error::BatchMixed);
    }
    Err(Error::BadTask {
        index: tasks.iter().position(bad).unwrap_or(0),
    })
}

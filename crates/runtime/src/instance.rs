//! Instances: programs with parameters, and the tasks made from them.

use std::sync::Arc;

use everwarp_contract::task::{FN_FIRST, FN_LIMIT, INSTANCES, TASK_BATCH, TASK_INSTANCE_SHIFT};
use everwarp_contract::{DevTask, FunctionId, HeapOwner, InstanceId, Priority};
use everwarp_engine::{Image, Program, ProgramRef};

use crate::core::EngineCore;
use crate::error::Error;
use crate::instance_slot::InstanceSlot;
use crate::retired::Region;
use crate::sync::lock;

/// A program with parameters on one engine. It holds one of 256 slots, until it is dropped and everything that was
/// submitted from it is done.
#[derive(Debug)]
pub struct Instance {
    core: Arc<EngineCore>,
    /// Kept so that the region's number is given to no other one.
    _region: Option<Arc<Region>>,
    program: ProgramRef,
    /// The id of the program's first function.
    base: FunctionId,
    id: InstanceId,
}

impl Instance {
    pub(crate) fn new(
        core: &Arc<EngineCore>,
        region: Option<&Arc<Region>>,
        program: ProgramRef,
        params: &[u8],
    ) -> Result<Self, Error> {
        core.check()?;
        let base = find(&lock(&core.image), &program)?;
        let base = base.ok_or_else(|| Error::UnknownProgram {
            program: program.name.to_string(),
        })?;
        let hold = || core.slots.iter().position(InstanceSlot::hold);
        // A dropped instance may only wait for the completion of a task that no thread waits for to be reaped.
        let slot = hold().or_else(|| (core.reap() > 0).then(hold).flatten());
        let id = InstanceId(slot.ok_or(Error::TooManyInstances)? as u8);
        let functions = program.functions.len() as u32;
        // From here on the slot is released when the instance is dropped.
        let instance = Self {
            core: core.clone(),
            _region: region.cloned(),
            program,
            base,
            id,
        };
        core.slot(id).set_region(Region::id_of(region));
        core.engine.set_params(id, params)?;
        core.slot(id).set_functions(base, functions);
        Ok(instance)
    }
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
    /// The owner of the blocks that the instance's tasks allocate from the engine's heap. A later instance in the same
    /// slot has the same owner: blocks that should not outlive an instance must be freed or released by a task.
    pub fn owner(&self) -> HeapOwner {
        self.id.owner()
    }
    /// Builds a task of the program's function number `function`.
    ///
    /// # Panics
    /// The program has no such function.
    pub fn task(&self, function: u32) -> TaskBuilder<'_> {
        let name = &self.program.name;
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
        self.core.slot(self.id).release();
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
        DevTask::new(
            self.instance.base.offset(self.function),
            self.instance.id,
            self.tag,
            self.priority,
            self.arg,
        )
    }
    pub(crate) fn spawns(&self) -> bool {
        self.instance.program.functions[self.function as usize].spawns
    }
    /// Checks that the task belongs to this engine: an instance of another engine would name other functions.
    pub(crate) fn check(&self, core: &Arc<EngineCore>) -> Result<(), Error> {
        if Arc::ptr_eq(core, &self.instance.core) {
            return Ok(());
        }
        Err(Error::OtherEngine)
    }
}

/// The id of the program's first function, if the image holds the program.
///
/// # Errors
/// [`Error::DuplicateProgram`] if another program has its name.
fn find(image: &Image, program: &Program) -> Result<Option<FunctionId>, Error> {
    let Some(held) = image.programs.iter().find(|p| p.name == program.name) else {
        return Ok(None);
    };
    if !held.same(program) {
        return Err(Error::DuplicateProgram {
            program: program.name.to_string(),
        });
    }
    Ok(image.base(&program.name))
}

/// Adds a program to an image, unless the image holds it. Returns whether it was added.
///
/// # Errors
/// [`Error::DuplicateProgram`], [`Error::TooManyFunctions`], or those of [`Program::check`].
pub(crate) fn append(image: &mut Image, program: ProgramRef) -> Result<bool, Error> {
    if image.programs.iter().any(|p| p.name == program.name) {
        return find(image, &program).map(|_| false);
    }
    let limit = (FN_LIMIT - FN_FIRST) as usize;
    let functions = image.functions().count() + program.functions.len();
    if functions > limit {
        return Err(Error::TooManyFunctions { functions, limit });
    }
    program.check()?;
    image.programs.push(program);
    Ok(true)
}

/// Checks the descriptors of a batch: they belong to one instance, name functions of it, and set no flags. Built-in
/// functions reach the engine's own memory, so no descriptor may name them.
pub(crate) fn check_batch(core: &EngineCore, tasks: &[DevTask]) -> Result<(), Error> {
    const INSTANCE: u32 = (INSTANCES - 1) << TASK_INSTANCE_SHIFT;
    let first = tasks.first().ok_or(Error::BatchEmpty)?;
    let (base, number) = core.slot(first.instance()).functions();
    let mixed = |t: &DevTask| (t.head ^ first.head) & INSTANCE != 0;
    let bad = |t: &DevTask| t.function().0.wrapping_sub(base.0) >= number || t.head >= TASK_BATCH;
    // The loop has no early exit, so that it runs at the speed of memory.
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

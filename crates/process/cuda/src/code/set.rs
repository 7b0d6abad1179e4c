//! The modules in an engine's image and next to it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp_process::{Exchanges, Module, StartError};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{Engine, Exchanged, Frames, Linked, LinkedEngine, StackRule};

use crate::code::joining::{self, JOINED_MOST};
use crate::code::supplied::{add_to_parts, addition, take_back_from_parts};
use crate::code::text::{declarations, parts, precompiled, publishers};
use crate::code::{CodeKey, CompiledCode, LoadedCode, Supplied, stack_use, stack_wanted};
use crate::config::MODULES_MOST;
use crate::error::not_started;
use crate::module::CompileChoice;
use crate::partial::{Made, Partial};
use crate::program;

/// Modules that no host uses any more and that stay in the image nevertheless, in case that they are loaded again.
pub(super) const KEPT: usize = 8;

/// How long it took to load modules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadTimes {
    /// Compiling, while processes ran.
    pub(crate) compiling: Duration,
    /// For which all processes stood still.
    pub(crate) pause: Duration,
}

/// The modules in an engine's image.
pub(crate) struct CodeSet {
    pub(super) linked: Linked,
    /// The modules, the longest unused ones first.
    pub(super) loaded: Vec<Arc<LoadedCode>>,
    /// Modules may be loaded later.
    open: bool,
    /// The numbers of the modules that the image was linked with. It enters those even if no host uses them any more.
    entered: BTreeSet<u32>,
    /// How many modules are next to the image.
    joined: usize,
    /// Code is next to the image.
    apart: bool,
}

impl CodeSet {
    /// The modules that an engine starts with, and the code that is linked to it for them. `open`: modules may be loaded later.
    pub(crate) fn new(
        modules: &[Module],
        choice: CompileChoice,
        stack_bytes: u32,
        open: bool,
        host_call_slots: impl FnOnce(&[Arc<LoadedCode>]) -> u32,
    ) -> Result<Self, StartError> {
        let mut set = Self {
            linked: Linked {
                headers: program::HEADERS,
                stack_bytes,
                ..Linked::default()
            },
            loaded: Vec::new(),
            open,
            entered: BTreeSet::new(),
            joined: 0,
            apart: false,
        };
        for module in modules {
            let key = CodeKey::of(module, choice);
            if !set.loaded.iter().any(|code| code.key.serves(&key)) {
                let code = CompiledCode::of(module, key)?;
                let number = set.free_number()?;
                set.loaded.push(Arc::new(code.numbered(number)));
            }
        }
        set.linked.host_call_slots = host_call_slots(&set.loaded);
        let linked = set.successor(stack_bytes);
        set.has_image(linked);
        set.linked.precompiled = modules.iter().flat_map(precompiled).collect();
        Ok(set)
    }

    /// The code that is linked to the engine.
    pub(crate) fn linked(&self) -> &Linked {
        &self.linked
    }

    /// Lets each thread of the device have as much stack from the start as a host of these modules will ask for, which its
    /// configuration has `asked` for. See [`stack_wanted`].
    pub(crate) fn expect_stack(&mut self, asked: Option<u32>, most: u32) {
        // The engine keeps the rule, and modules are to be forgotten.
        let codes: Vec<_> = self.loaded.iter().map(Arc::downgrade).collect();
        self.linked.stack_rule = Some(StackRule::new(move |frames| {
            let codes: Vec<_> = codes.iter().filter_map(Weak::upgrade).collect();
            stack_wanted(&stack_use(frames, &codes), asked, most)
        }));
    }

    /// The engine has started with functions that have these frames.
    pub(crate) fn started(&mut self, frames: &Frames) {
        if let Some(rule) = self.linked.stack_rule.take() {
            let bytes = rule.bytes(frames);
            self.linked.stack_bytes = self.linked.stack_bytes.max(bytes);
        }
    }

    /// Bytes of stack that each thread of the device has.
    pub(crate) fn stack_bytes(&self) -> u32 {
        self.linked.stack_bytes
    }

    /// How many modules are in the image.
    pub(crate) fn len(&self) -> usize {
        self.loaded.len()
    }

    /// How many modules have been loaded next to the image.
    pub(crate) fn joined_count(&self) -> usize {
        self.joined
    }

    /// A module that is in the image, which counts as used from now on.
    pub(crate) fn find(
        &mut self,
        module: &Module,
        choice: CompileChoice,
    ) -> Option<Arc<LoadedCode>> {
        let key = CodeKey::of(module, choice);
        let at = self.loaded.iter().position(|code| code.key.serves(&key))?;
        let code = self.loaded.remove(at);
        self.loaded.push(Arc::clone(&code));
        Some(code)
    }

    /// A number for the next module: one that the image does not enter, if there is one.
    pub(super) fn free_number(&self) -> Result<u32, StartError> {
        let taken = |number: &u32| self.loaded.iter().any(|code| code.number == *number);
        let most = MODULES_MOST;
        let free = || (0..most as u32).filter(|number| !taken(number));
        let unknown = free().find(|number| !self.entered.contains(number));
        unknown
            .or_else(|| free().next())
            .ok_or(StartError::Modules { most })
    }

    /// How modules are compiled that are loaded later.
    pub(crate) fn choice_of_later(&self, choice: CompileChoice) -> CompileChoice {
        CompileChoice {
            apart: self.open,
            ..choice
        }
    }

    /// Removes the modules from the set that no host uses, except for the [`KEPT`] that were used last.
    pub(super) fn forget_unused(&mut self) {
        let unused = |code: &Arc<LoadedCode>| Arc::strong_count(code) == 1;
        let count = self.loaded.iter().filter(|code| unused(code)).count();
        let mut over = count.saturating_sub(KEPT);
        self.loaded.retain(|code| {
            let forget = over > 0 && unused(code);
            over -= usize::from(forget);
            !forget
        });
    }

    /// The modules that are not in the image, each once.
    pub(crate) fn missing<'m>(
        &self,
        modules: &'m [Module],
        choice: CompileChoice,
    ) -> Vec<(CodeKey, &'m Module)> {
        let mut missing = Vec::<(CodeKey, _)>::new();
        for module in modules {
            let key = CodeKey::of(module, choice);
            let known = self.loaded.iter().any(|code| code.key.serves(&key));
            if !known && missing.iter().all(|(other, _)| !other.serves(&key)) {
                missing.push((key, module));
            }
        }
        missing
    }

    /// Modules that the engine has all. Those that it lacks are loaded next to its image, or the image is exchanged. Processes of other
    /// modules are paused meanwhile and continue afterwards. Modules that are `compiled` are not compiled again; `begin` is the time at
    /// which the caller began to load.
    ///
    /// # Errors
    /// A module is refused, or the engine has failed. The image stays as it was unless the engine has failed.
    pub(crate) fn load(
        &mut self,
        engine: &Engine,
        modules: &[Module],
        choice: CompileChoice,
        mut compiled: Vec<CompiledCode>,
        begin: Instant,
    ) -> Result<(Vec<Arc<LoadedCode>>, LoadTimes), StartError> {
        let mut wanted = Vec::with_capacity(modules.len());
        let mut new = Vec::new();
        for module in modules {
            let code = match self.find(module, choice) {
                Some(code) => code,
                None => {
                    // A module that was added for this call and not linked is forgotten again on an error.
                    let key = CodeKey::of(module, choice);
                    let code = match compiled.iter().position(|code| code.key.serves(&key)) {
                        Some(at) => Ok(compiled.swap_remove(at)),
                        None => CompiledCode::of(module, key),
                    };
                    let code = code.and_then(|code| Ok(code.numbered(self.free_number()?)));
                    let code = match code {
                        Ok(code) => Arc::new(code),
                        Err(error) => {
                            self.take_back();
                            return Err(error);
                        }
                    };
                    self.loaded.push(Arc::clone(&code));
                    new.push(Arc::clone(&code));
                    code
                }
            };
            wanted.push(code);
        }
        if new.is_empty() {
            return Ok((wanted, LoadTimes::default()));
        }
        self.forget_unused();
        let joined = self.join(engine, &new, begin);
        let loaded = joined.and_then(|times| match times {
            Some(times) => Ok(times),
            None => self.exchange(engine, self.linked.stack_bytes, begin),
        });
        match loaded {
            Ok(times) => Ok((wanted, times)),
            Err(error) => {
                drop((wanted, new));
                self.take_back();
                Err(error)
            }
        }
    }

    /// Loads modules next to the image that are in the set. `None` if they can only come in an image, or enough of them are next to this
    /// one.
    fn join(
        &mut self,
        engine: &Engine,
        new: &[Arc<LoadedCode>],
        begin: Instant,
    ) -> Result<Option<LoadTimes>, StartError> {
        let many = self.joined + new.len() > JOINED_MOST;
        if !self.open || many || new.iter().any(|code| self.entered.contains(&code.number)) {
            return Ok(None);
        }
        let Some(addition) = joining::addition(new) else {
            return Ok(None);
        };
        // After an error an image is tried, which says what is wrong.
        let Some(mut prepared) = engine.prepare_addition(&addition).ok().flatten() else {
            return Ok(None);
        };
        let linked = self.successor(self.linked.stack_bytes);
        prepared.addition.stack_bytes = linked.stack_bytes;
        let compiling = begin.elapsed();
        let exchanged = engine.add(&prepared, linked.clone()).map_err(not_started)?;
        self.linked = linked;
        self.joined += new.len();
        self.apart = true;
        Ok(Some(LoadTimes {
            compiling,
            pause: exchanged.total(),
        }))
    }

    /// The engine has this image.
    pub(super) fn has_image(&mut self, linked: Linked) {
        self.linked = linked;
        self.entered = self.loaded.iter().map(|code| code.number).collect();
        self.joined = 0;
        self.apart = false;
    }

    /// Forgets modules that are in the set and not in the image.
    fn take_back(&mut self) {
        let parts = &self.linked.parts;
        self.loaded.retain(|code| {
            parts
                .iter()
                .any(|part| Arc::ptr_eq(&part.ptx, &code.parts[0].ptx))
        });
    }

    /// Gives each thread of the device at least this much stack.
    ///
    /// # Errors
    /// The device has not enough memory for it, or the engine has failed.
    pub(crate) fn grow_stack(&mut self, engine: &Engine, bytes: u32) -> Result<(), StartError> {
        if bytes <= self.linked.stack_bytes {
            return Ok(());
        }
        self.exchange(engine, bytes, Instant::now()).map(drop)
    }

    /// What is linked with the modules that are in the set now. Machine code that the first modules came with is of an
    /// image with these alone.
    pub(super) fn successor(&self, stack_bytes: u32) -> Linked {
        let mut linked = Linked {
            parts: parts(&self.loaded, self.open),
            declarations: declarations(&self.loaded, self.open),
            publishers: publishers(&self.loaded, self.open),
            stack_bytes,
            ..self.linked.clone()
        };
        let texts = |linked: &Linked| -> Vec<_> {
            let parts = linked.parts.iter();
            parts.map(|part| Arc::clone(&part.ptx)).collect()
        };
        if texts(&linked) != texts(&self.linked) {
            linked.precompiled.clear();
        }
        linked
    }

    /// Gives the engine functions that it lacks, next to its image unless they do not fit there. A thread of
    /// the device gets more stack if the frames of these functions need more than was thought, up to `stack_most` bytes. Returns what the
    /// exchange took, and whether they are next to the image.
    ///
    /// # Errors
    /// A function cannot be assembled, its frames are too large, or the engine has failed. The image stays as it was unless the
    /// engine has failed.
    pub(crate) fn supply(
        &mut self,
        engine: &Engine,
        stack_most: u32,
        batches: &[Supplied],
    ) -> Result<(Exchanges, bool), StartError> {
        add_to_parts(batches);
        let added = self.add_functions(engine, stack_most, batches);
        let supplied = added.and_then(|added| match added {
            Some(exchanges) => Ok((exchanges, true)),
            None => Ok((self.exchange_functions(engine, stack_most)?, false)),
        });
        if supplied.is_err() {
            take_back_from_parts(batches);
        }
        supplied
    }

    /// What an image is linked from that has these batches, and everything that the engine has.
    pub(crate) fn with_batches(&self, batches: &[Supplied]) -> Linked {
        add_to_parts(batches);
        let linked = self.successor(self.linked.stack_bytes);
        take_back_from_parts(batches);
        linked
    }

    /// The next program begins with these batches, and with all that the engine has.
    pub(crate) fn keep_with_batches(&self, batches: &[Supplied]) {
        add_to_parts(batches);
        let partial = self.loaded.iter().filter_map(|code| code.partial.as_ref());
        partial.for_each(Partial::keep);
        take_back_from_parts(batches);
    }

    /// Links everything that is next to the image into one, while no process runs, and leaves out modules that no host uses any more. The
    /// engine is parked.
    ///
    /// # Errors
    /// The image cannot be linked, or the engine has failed.
    pub(crate) fn tidy(&mut self, engine: &Engine) -> Result<(), StartError> {
        if !self.apart {
            return Ok(());
        }
        self.forget_unused();
        engine.resume().map_err(not_started)?;
        let exchanged = self.exchange(engine, self.linked.stack_bytes, Instant::now());
        engine.park().map_err(not_started)?;
        exchanged.map(drop)
    }

    /// Loads batches next to the image. `None` if they can only come in an image.
    fn add_functions(
        &mut self,
        engine: &Engine,
        stack_most: u32,
        batches: &[Supplied],
    ) -> Result<Option<Exchanges>, StartError> {
        let begin = Instant::now();
        let batches = batches.iter().map(|supplied| {
            let Made { part, apart } = supplied.made.clone();
            Some((&*supplied.code, &supplied.functions, part, apart?))
        });
        let batches: Option<Vec<_>> = batches.collect();
        let Some(addition) = batches.map(addition) else {
            return Ok(None);
        };
        let prepared = spanned("supply: link", || engine.prepare_addition(&addition));
        let Some(mut prepared) = prepared.map_err(not_started)? else {
            return Ok(None);
        };
        let stack = self.stack_for(&prepared.frames, stack_most)?;
        prepared.addition.stack_bytes = stack;
        let linked = self.successor(stack);
        let linking = begin.elapsed();
        let added = engine.add(&prepared, linked.clone());
        let exchanged = added.map_err(not_started)?;
        self.linked = linked;
        self.apart = true;
        Ok(Some(exchanges(linking, &exchanged)))
    }

    fn exchange_functions(
        &mut self,
        engine: &Engine,
        stack_most: u32,
    ) -> Result<Exchanges, StartError> {
        let begin = Instant::now();
        let mut linked = self.successor(self.linked.stack_bytes);
        let prepared = spanned("supply: link", || engine.prepare_linked(linked.clone()));
        let mut prepared = prepared.map_err(not_started)?;
        let stack = self.stack_for(&prepared.frames, stack_most)?;
        (linked.stack_bytes, prepared.image.linked.stack_bytes) = (stack, stack);
        let linking = begin.elapsed();
        let exchanged = engine.exchange(&prepared).map_err(not_started)?;
        self.has_image(linked);
        Ok(exchanges(linking, &exchanged))
    }

    /// The stack on which calls of modules with functions left out nest as deep as their hosts were told.
    pub(super) fn stack_for(&self, frames: &Frames, most: u32) -> Result<u32, StartError> {
        let (now, mut stack) = (self.linked.stack_bytes, self.linked.stack_bytes);
        for code in self.loaded.iter().filter(|code| code.partial.is_some()) {
            let calls = stack_use(frames, std::slice::from_ref(code));
            let depth = code.depth.load(Ordering::Relaxed);
            let needed = calls.bytes(depth);
            let limit = most.max(now);
            stack = match u32::try_from(needed) {
                Ok(bytes) if bytes <= limit => stack.max(bytes),
                _ => {
                    return Err(StartError::Stack {
                        stack: limit,
                        depth: calls.depth(limit)?,
                        least: depth,
                        needed,
                    });
                }
            };
        }
        Ok(stack)
    }

    fn exchange(
        &mut self,
        engine: &Engine,
        stack_bytes: u32,
        begin: Instant,
    ) -> Result<LoadTimes, StartError> {
        let linked = self.successor(stack_bytes);
        let prepared = engine.prepare_linked(linked.clone()).map_err(not_started)?;
        let compiling = begin.elapsed();
        let exchanged = engine.exchange(&prepared).map_err(not_started)?;
        self.has_image(linked);
        Ok(LoadTimes {
            compiling,
            pause: exchanged.total(),
        })
    }
}

/// One exchange.
fn exchanges(linking: Duration, exchanged: &Exchanged) -> Exchanges {
    Exchanges {
        count: 1,
        linking,
        parking: exchanged.parking,
        loading: exchanged.loading,
        resuming: exchanged.resuming,
        longest: exchanged.total(),
    }
}

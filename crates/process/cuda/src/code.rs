//! The code of modules in the image of an engine. Hosts share it: the same bytes, compiled in the same way, are there once.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp_cache::Cache;
use everwarp_process::{Exchanges, HostConfig, LoadError, Module, StartError, Tier};
use everwarp_runtime::trace::spanned;
use everwarp_runtime::{
    Addition, Engine, Exchanged, Frames, Image, Linked, LinkedEngine, LinkedPart, Precompiled,
    Publisher, StackRule,
};
use sha2::{Digest, Sha256};

use crate::asked::AskedFunctions;
use crate::config::{MODULES_MOST, STACK_BYTES};
use crate::error::not_started;
use crate::joining::{self, JOINED_MOST};
use crate::likely::likely;
use crate::link::{StackUse, part};
use crate::module::{CompileChoice, CompiledModule, Likely, compile_module};
use crate::partial::{Apart, Batch, Made, Partial};
use crate::program;

/// Modules that no host uses any more and that stay in the image nevertheless, in case that they are loaded again.
const KEPT: usize = 8;

/// The most that a function's frame takes which stands for another one and passes calls on. Each call may go through one.
pub(crate) const BRIDGE_FRAME: u32 = 256;

/// What a function's frame, and that of a bridge to it, are thought to take at least as long as the engine does not have the function.
const FRAME_THOUGHT: u32 = 512;

/// A module as it was compiled.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CodeKey {
    name: Arc<str>,
    bytes: bytes_of::ModuleBytes,
    choice: CompileChoice,
    /// The functions that an image has at first, if it does not have all.
    likely: Arc<Likely>,
}

mod bytes_of {
    use everwarp_process::{Bytes, Module};

    /// The bytes of a module. Those that are the same memory are equal without a look at them.
    #[derive(Clone)]
    pub(crate) struct ModuleBytes(Bytes);

    impl ModuleBytes {
        pub(crate) fn of(module: &Module) -> Self {
            Self(module.bytes().clone())
        }
    }

    impl ModuleBytes {
        pub(crate) fn as_slice(&self) -> &[u8] {
            &self.0
        }
    }

    impl PartialEq for ModuleBytes {
        fn eq(&self, other: &Self) -> bool {
            let same = self.0.as_ptr() == other.0.as_ptr() && self.0.len() == other.0.len();
            same || self.0 == other.0
        }
    }
    impl Eq for ModuleBytes {}
}

impl CodeKey {
    pub(crate) fn of(module: &Module, choice: CompileChoice) -> Self {
        let mut choice = choice.for_module(module);
        let likely = choice.begins_with_likely().then(|| likely(module));
        if likely == Some(None) {
            choice = choice.whole();
        }
        Self::with(module, choice, likely.flatten().unwrap_or_default())
    }

    fn with(module: &Module, choice: CompileChoice, likely: Arc<Likely>) -> Self {
        Self {
            name: module.name().into(),
            bytes: bytes_of::ModuleBytes::of(module),
            choice,
            likely,
        }
    }

    /// Code with this key does for processes that are to have code with the `wanted` one: it is the same, or has more functions, or
    /// has others first.
    fn serves(&self, wanted: &Self) -> bool {
        let part_of_any = wanted.choice.begins_with_likely();
        let choice = match part_of_any && self.choice.first.is_none() {
            true => wanted.choice.whole(),
            false => wanted.choice,
        };
        // How it comes is no difference between processes.
        let choice = CompileChoice {
            apart: self.choice.apart,
            ..choice
        };
        let begins_alike = part_of_any || self.likely.functions == wanted.likely.functions;
        let same = self.name == wanted.name && self.bytes == wanted.bytes;
        same && self.choice == choice && begins_alike
    }

    /// The beginning of the module's names in an image. Modules with different keys have different ones.
    fn prefix(&self) -> String {
        program::prefix(&self.hash())
    }

    /// The hash of all that decides what the code of the module is, but which functions it has at a time.
    fn hash(&self) -> [u8; 32] {
        let Self {
            name,
            bytes,
            choice:
                CompileChoice {
                    interleaved,
                    contract,
                    apart,
                    first,
                },
            likely,
        } = self;
        let contract_and_apart = u8::from(*contract) | u8::from(*apart) << 1;
        let mut hash = Sha256::new()
            .chain_update([u8::from(*interleaved), contract_and_apart])
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name.as_bytes())
            .chain_update(bytes.as_slice());
        if let Some(first) = first {
            hash.update((first.least as u64).to_le_bytes());
            hash.update((first.most as u64).to_le_bytes());
            let functions = likely.functions.iter();
            functions.for_each(|f| hash.update(f.to_le_bytes()));
        }
        hash.finalize().into()
    }
}

/// A module that was compiled for an image.
pub(crate) struct CompiledCode {
    key: CodeKey,
    module: Arc<CompiledModule>,
    /// The parts that all its images have.
    parts: Vec<LinkedPart>,
    partial: Option<Partial>,
}

/// All parts of a module.
fn parts_of<'p>(
    parts: &'p [LinkedPart],
    partial: Option<&'p Partial>,
) -> impl Iterator<Item = LinkedPart> + use<'p> {
    let later = partial.map(Partial::parts);
    parts.iter().cloned().chain(later.into_iter().flatten())
}

impl CompiledCode {
    /// Compiles a module.
    ///
    /// # Errors
    /// The module is refused.
    pub(crate) fn of(module: &Module, key: CodeKey) -> Result<Self, StartError> {
        Self::with(module, key, Cache::user)
    }

    /// The same with this cache, in which the functions are noted that processes have asked for.
    fn with(
        module: &Module,
        key: CodeKey,
        cache: impl FnOnce() -> Cache,
    ) -> Result<Self, StartError> {
        let compiled = compile_module(module, &key.prefix(), key.choice, &key.likely.functions);
        let mut compiled = compiled.map_err(|source: LoadError| StartError::Load {
            module: module.name().to_owned(),
            source,
        })?;
        let partial = key.choice.first.and_then(|_| {
            let asked = AskedFunctions::of(&key.hash(), cache());
            let (parts, partial) = Partial::of(key.choice, &mut compiled, asked)?;
            partial.begin_with(&key.likely.others);
            Some((parts, partial))
        });
        let (parts, partial) = match partial {
            Some((parts, partial)) => (parts, Some(partial)),
            None => (vec![part(&compiled)], None),
        };
        Ok(Self {
            key,
            parts,
            partial,
            module: Arc::new(compiled),
        })
    }

    /// What is linked for the module.
    pub(crate) fn parts(&self) -> impl Iterator<Item = LinkedPart> + use<'_> {
        parts_of(&self.parts, self.partial.as_ref())
    }

    fn numbered(self, number: u32) -> LoadedCode {
        LoadedCode {
            key: self.key,
            number,
            module: self.module,
            parts: self.parts,
            partial: self.partial,
            depth: AtomicU32::new(0),
        }
    }
}

/// A module in the image. Its hosts hold it.
pub(crate) struct LoadedCode {
    key: CodeKey,
    /// Its number in the image, which device code calls it by.
    pub(crate) number: u32,
    pub(crate) module: Arc<CompiledModule>,
    /// The parts that all its images have.
    parts: Vec<LinkedPart>,
    /// Given if images may lack functions.
    pub(crate) partial: Option<Partial>,
    /// The deepest that calls of a host's processes nest on the device's stack.
    depth: AtomicU32,
}

impl LoadedCode {
    /// Calls of processes of a host nest this deep on the device's stack.
    pub(crate) fn nests(&self, depth: u32) {
        self.depth.fetch_max(depth, Ordering::Relaxed);
    }

    pub(crate) fn all_parts(&self) -> impl Iterator<Item = LinkedPart> + use<'_> {
        parts_of(&self.parts, self.partial.as_ref())
    }

    /// Whether this is the code of a module, compiled in any way.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        self.key.name.as_ref() == module.name()
            && self.key.bytes == bytes_of::ModuleBytes::of(module)
    }
}

/// Functions of a module that the engine is to have.
pub(crate) struct Supplied {
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) functions: BTreeSet<u32>,
    pub(crate) made: Made,
}

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
    linked: Linked,
    /// The modules, the longest unused ones first.
    loaded: Vec<Arc<LoadedCode>>,
    /// Modules may be loaded later.
    open: bool,
    /// The numbers of the modules that the image was linked with. It enters those even if no host uses them any more.
    entered: BTreeSet<u32>,
    /// How many modules are next to the image.
    joined: usize,
    /// Code is next to the image.
    beside: bool,
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
                declarations: program::DECLARATIONS.to_owned(),
                headers: program::HEADERS,
                stack_bytes,
                ..Linked::default()
            },
            loaded: Vec::new(),
            open,
            entered: BTreeSet::new(),
            joined: 0,
            beside: false,
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
        set.linked.parts = parts(&set.loaded, open);
        set.linked.declarations = declarations(&set.loaded, open);
        set.linked.publishers = publishers(&set.loaded, open);
        set.entered = set.loaded.iter().map(|code| code.number).collect();
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
    fn free_number(&self) -> Result<u32, StartError> {
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
    fn forget_unused(&mut self) {
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
        let prepared = engine.prepare_addition(&addition).map_err(not_started)?;
        let Some(mut prepared) = prepared else {
            return Ok(None);
        };
        let linked = self.successor(self.linked.stack_bytes);
        prepared.addition.stack_bytes = linked.stack_bytes;
        let compiling = begin.elapsed();
        let exchanged = engine.add(&prepared, linked.clone()).map_err(not_started)?;
        self.linked = linked;
        self.joined += new.len();
        self.beside = true;
        Ok(Some(LoadTimes {
            compiling,
            pause: exchanged.total(),
        }))
    }

    /// The engine has this image.
    fn has_image(&mut self, linked: Linked) {
        self.linked = linked;
        self.entered = self.loaded.iter().map(|code| code.number).collect();
        self.joined = 0;
        self.beside = false;
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
    fn successor(&self, stack_bytes: u32) -> Linked {
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
        if !self.beside {
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
        self.beside = true;
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
    fn stack_for(&self, frames: &Frames, most: u32) -> Result<u32, StartError> {
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

/// The next image has these batches.
fn add_to_parts(batches: &[Supplied]) {
    for supplied in batches {
        let batch = || Batch {
            functions: supplied.functions.clone(),
            part: supplied.made.part.clone(),
        };
        let partial = supplied.code.partial.iter();
        partial.for_each(|p| p.add(batch()));
    }
}

/// The engine has not got them.
fn take_back_from_parts(batches: &[Supplied]) {
    for supplied in batches {
        let partial = supplied.code.partial.iter();
        partial.for_each(|p| p.take_back(&supplied.functions));
    }
}

/// Batches as code that is loaded next to an image.
fn addition(batches: Vec<(&LoadedCode, &BTreeSet<u32>, LinkedPart, Apart)>) -> Addition {
    let mut addition = Addition {
        bridge_bytes: BRIDGE_FRAME,
        ..Addition::default()
    };
    for (code, functions, part, apart) in batches {
        addition.parts.extend([part, apart.part]);
        addition.gives.push(apart.gives);
        addition.takes.push(apart.takes);
        let prefix = &code.module.prefix;
        let names = functions.iter().map(|f| format!("{prefix}f{f}").into());
        addition.functions.extend(names);
    }
    addition
}

/// What the device sources are compiled with. A module that comes later may lack functions.
fn declarations(loaded: &[Arc<LoadedCode>], open: bool) -> String {
    match open || loaded.iter().any(|code| code.partial.is_some()) {
        true => [program::DECLARATIONS, program::PARTIAL].concat(),
        false => program::DECLARATIONS.to_owned(),
    }
}

/// What writes the addresses of functions of modules that may lack some, and of those that modules call which come later.
fn publishers(loaded: &[Arc<LoadedCode>], open: bool) -> Vec<Publisher> {
    let partial = loaded.iter().filter_map(|code| code.partial.as_ref());
    let partial = partial.map(|p| p.publisher().clone());
    partial.chain(open.then(joining::publisher)).collect()
}

/// The machine code that a module came with.
fn precompiled(module: &Module) -> impl Iterator<Item = Precompiled> {
    module.images().iter().map(|image| Precompiled {
        arch: image.arch,
        key: image.key.as_str().into(),
        code: image.code[..].into(),
    })
}

/// The parts of an image with these modules: their code, and the function that calls them by their numbers.
fn parts(loaded: &[Arc<LoadedCode>], open: bool) -> Vec<LinkedPart> {
    let mut loaded: Vec<_> = loaded.iter().collect();
    loaded.sort_by_key(|code| code.number);
    let entries = loaded.iter().map(|code| Entry {
        number: code.number,
        prefix: &code.module.prefix,
        roots: code.partial.as_ref().map(Partial::roots),
    });
    let entries: Vec<_> = entries.collect();
    let dispatch = LinkedPart {
        name: "the call of a module".into(),
        ptx: dispatch(&entries, open).into(),
    };
    let parts = loaded.iter().flat_map(|code| code.all_parts());
    let own = std::iter::once(dispatch).chain(open.then(joining::part));
    own.chain(parts).collect()
}

/// How a module is entered.
struct Entry<'p> {
    number: u32,
    prefix: &'p str,
    /// [`Partial::roots`].
    roots: Option<String>,
}

/// The function `linked_enter`, which calls the entry of a module by the module's number. It is PTX, so that the unit of the
/// scheduler is the same for all sets of modules and is compiled once. Modules that are not among these may be next to the image, if it is
/// `open`.
fn dispatch(modules: &[Entry<'_>], open: bool) -> String {
    let mut out = String::from(everwarp_compiler::PTX_HEAD);
    for Entry { prefix, roots, .. } in modules {
        let _ = writeln!(out, ".extern .func {prefix}enter({});", joining::PARAMETERS);
        if let Some(roots) = roots {
            let _ = writeln!(out, ".extern .func {roots}();");
        }
    }
    if open {
        let (_, enter) = joining::enter();
        let _ = writeln!(
            out,
            ".extern {enter};\n.extern .func {}();",
            joining::roots()
        );
    }
    out.push_str(
        ".visible .func linked_enter(.param .b32 module, .param .b64 block, .param .b32 entry, .param .b64 args)
{
  .reg .b64 %block, %args, %none;
  .reg .b32 %module, %entry;
  .reg .pred %p;
  ld.param.b32 %module, [module];
  ld.param.b64 %block, [block];
  ld.param.b32 %entry, [entry];
  ld.param.b64 %args, [args];
  mov.b64 %none, 0;
",
    );
    for Entry { number, .. } in modules {
        let _ = writeln!(
            out,
            "  setp.eq.u32 %p, %module, {number};\n  @%p bra $M{number};"
        );
    }
    // A process has a block, so roots are reached and never called.
    let reach = |out: &mut String, label: &str, roots: &str| {
        let _ = writeln!(
            out,
            "  setp.ne.s64 %p, %block, 0;\n  @%p bra {label};\n  call {roots}, ();\n{label}:"
        );
    };
    let call = |out: &mut String, name: &str, module: bool| {
        let (declared, stored, given) = match module {
            true => (
                "  .param .b32 cm;\n",
                "  st.param.b32 [cm], %module;\n",
                "cm, ",
            ),
            false => ("", "", ""),
        };
        let _ = writeln!(
            out,
            "  {{
{declared}  .param .b64 c0;
  .param .b32 c1;
  .param .b64 c2;
  .param .b64 c3;
{stored}  st.param.b64 [c0], %block;
  st.param.b32 [c1], %entry;
  st.param.b64 [c2], %args;
  st.param.b64 [c3], %none;
  call {name}, ({given}c0, c1, c2, c3);
  }}
  ret;"
        );
    };
    match open {
        true => {
            reach(&mut out, "$Bl", &joining::roots());
            call(&mut out, &joining::enter().0, true);
        }
        false => out.push_str("  ret;\n"),
    }
    for Entry {
        number,
        prefix,
        roots,
    } in modules
    {
        let _ = writeln!(out, "$M{number}:");
        if let Some(roots) = roots {
            reach(&mut out, &format!("$B{number}"), roots);
        }
        call(&mut out, &format!("{prefix}enter"), false);
    }
    out.push_str("}\n");
    out
}

/// The image that a host of these modules starts, to compile it without a GPU.
///
/// # Errors
/// [`StartError`]: a module is refused.
#[doc(hidden)]
pub fn image(modules: &[Module], contract: bool) -> Result<Image, StartError> {
    let choice = CompileChoice {
        contract,
        ..CompileChoice::default()
    };
    let code = CodeSet::new(modules, choice, STACK_BYTES, false, |_| 32)?;
    Ok(Image {
        linked: code.linked().clone(),
        ..Image::of(vec![&program::PROGRAM])
    })
}

/// The image of a module with as few functions as possible, and with these batches of others, to compile it without a
/// GPU. `cache` is where earlier programs have noted what was asked for.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn image_lacking_functions(
    module: &Module,
    batches: &[BTreeSet<u32>],
    cache: &Cache,
) -> Result<Image, StartError> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let mut set = CodeSet::new(&[], key.choice, STACK_BYTES, false, |_| 32)?;
    let code = CompiledCode::with(module, key, || cache.clone())?.numbered(0);
    for functions in batches {
        if let Some(partial) = &code.partial {
            partial.add(Batch {
                part: partial.part(functions),
                functions: functions.clone(),
            });
            partial.keep();
        }
    }
    set.loaded.push(Arc::new(code));
    Ok(Image {
        linked: set.successor(STACK_BYTES),
        ..Image::of(vec![&program::PROGRAM])
    })
}

/// These batches of the functions that are left out of a module's image, as code that is loaded next to it: to compile it without a
/// GPU. `None` if it cannot be loaded so.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn addition_to(
    module: &Module,
    batches: &[BTreeSet<u32>],
) -> Result<Option<Addition>, StartError> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let cache = || Cache::at("/nonexistent".as_ref());
    let code = Arc::new(CompiledCode::with(module, key, cache)?.numbered(0));
    let Some(partial) = &code.partial else {
        return Ok(None);
    };
    let batch = |functions| {
        Some((
            &*code,
            functions,
            partial.part(functions),
            partial.apart(functions)?,
        ))
    };
    let batches: Option<Vec<_>> = batches.iter().map(batch).collect();
    Ok(batches.map(addition))
}

/// An image with these modules in which others can come, and one more module as code that is loaded next to it: to compile both without a
/// GPU. `None` if the module can only come in an image.
///
/// # Errors
/// [`StartError`]: a module is refused.
#[doc(hidden)]
pub fn image_and_module_next_to_it(
    modules: &[Module],
    later: &Module,
    tier: Tier,
) -> Result<(Image, Option<Addition>), StartError> {
    let config = HostConfig {
        tier,
        ..HostConfig::default()
    };
    let set = CodeSet::new(modules, CompileChoice::default(), STACK_BYTES, true, |_| 32)?;
    let image = Image {
        linked: set.linked().clone(),
        ..Image::of(vec![&program::PROGRAM])
    };
    let choice = set.choice_of_later(CompileChoice::of(&config));
    let key = CodeKey::of(later, choice);
    let cache = || Cache::at("/nonexistent".as_ref());
    let code = CompiledCode::with(later, key, cache)?.numbered(set.free_number()?);
    Ok((image, joining::addition(&[Arc::new(code)])))
}

/// What it takes to have the functions of a module come while processes run, for measurements without a GPU.
#[doc(hidden)]
#[derive(Debug)]
pub struct BatchTimes {
    /// To translate the module and to take it apart.
    pub translating: Duration,
    /// Bytes of text of the first functions, and of what stands in for the others.
    pub first_bytes: [usize; 2],
    /// Of each batch the number of its functions, the bytes of its text, and the time to write that.
    pub batches: Vec<(usize, usize, Duration)>,
}

/// Translates a module as for [`Tier::Lazy`], and writes all its batches. `None` if it is so small that nothing is left out.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn batch_times(module: &Module) -> Result<Option<BatchTimes>, StartError> {
    let config = HostConfig {
        tier: Tier::Lazy,
        ..HostConfig::default()
    };
    let choice = CompileChoice::of(&config).for_module(module);
    // As if a rehearsal had shown no calls.
    let key = CodeKey::with(module, choice, Arc::default());
    let begin = Instant::now();
    // Nothing is noted in the user's cache.
    let code = CompiledCode::with(module, key, || Cache::at("/nonexistent".as_ref()))?;
    let translating = begin.elapsed();
    let Some(partial) = &code.partial else {
        return Ok(None);
    };
    let batch = |functions: &BTreeSet<u32>| {
        let begin = Instant::now();
        let part = partial.part(functions);
        (functions.len(), part.ptx.len(), begin.elapsed())
    };
    let bytes = |n: usize| code.parts.get(n).map_or(0, |part| part.ptx.len());
    Ok(Some(BatchTimes {
        translating,
        first_bytes: [bytes(0), bytes(1)],
        batches: partial.lists().map(batch).collect(),
    }))
}

/// The stack of each thread of the device for calls that use this, with at most `most` bytes unless they must have more. A stack that
/// the configuration has `asked` for is the device's only if a module keeps all frames there; otherwise it is in memory.
pub(crate) fn stack_wanted(calls: &StackUse, asked: Option<u32>, most: u32) -> u32 {
    let asked = asked.filter(|_| calls.is_limit());
    asked.unwrap_or_else(|| calls.stack(most).unwrap_or(STACK_BYTES))
}

/// The stack that calls of these modules use.
pub(crate) fn stack_use(frames: &Frames, codes: &[Arc<LoadedCode>]) -> StackUse {
    let need = |code: &Arc<LoadedCode>| {
        // No call of these is ever made.
        let roots = code.partial.as_ref().map(Partial::roots);
        let is_called = |name: &str| roots.as_ref().is_none_or(|roots| !name.starts_with(roots));
        let CompiledModule {
            compiled, prefix, ..
        } = &*code.module;
        let Some(partial) = &code.partial else {
            return compiled.stack_need(frames.iter());
        };
        let largest = frames.largest_of(|name| name.starts_with(prefix) && is_called(name));
        let bridge = |name: &str| u32::from(name.starts_with(prefix)) * BRIDGE_FRAME;
        let missing = partial.missing().into_iter();
        let missing: Vec<_> = missing.map(|f| format!("{prefix}f{f}")).collect();
        let thought = missing
            .iter()
            .map(|name| (&**name, largest.max(FRAME_THOUGHT)));
        let all = frames.iter().filter(|(name, _)| is_called(name));
        let all = all.map(|(name, bytes)| (name, bytes + bridge(name)));
        compiled.stack_need(all.chain(thought))
    };
    let outside = frames.largest_of(|name| !program::is_of_module(name));
    StackUse::new(codes.iter().map(need).collect(), outside)
}

/// A module that lacks as many functions as possible.
#[cfg(test)]
pub(crate) fn lacking_functions(module: &Module, cache: &Cache) -> Arc<LoadedCode> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let code = CompiledCode::with(module, key, || cache.clone());
    Arc::new(code.expect("it compiles").numbered(0))
}

#[cfg(test)]
mod tests {
    use everwarp_process::{ImageFile, NativeImage};

    use super::*;

    fn module(name: &str, number: u32) -> Module {
        let text =
            format!(r#"(module (global i32 (i32.const {number})) (func (export "_start")))"#);
        of_text(name, &text)
    }

    fn of_text(name: &str, text: &str) -> Module {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        Module::new(name, wat.encode().expect("it can be encoded")).expect("it is valid")
    }

    fn set(modules: &[Module]) -> CodeSet {
        let set = CodeSet::new(modules, CompileChoice::default(), 1024, false, |_| 32);
        set.expect("the modules compile")
    }

    #[test]
    fn equal_modules_are_in_the_image_once() {
        let [a, b] = [1, 2].map(|number| module("m", number));
        let mut set = set(&[a.clone(), b.clone(), module("m", 1)]);
        assert_eq!((set.len(), set.linked().parts.len()), (2, 3));
        let find = |set: &mut CodeSet, module: &Module, contract| {
            let choice = CompileChoice {
                contract,
                ..CompileChoice::default()
            };
            set.find(module, choice).map(|code| code.number)
        };
        assert_eq!(find(&mut set, &a, false), Some(0));
        assert_eq!(find(&mut set, &b, false), Some(1));
        assert_eq!(find(&mut set, &module("m", 2), false), Some(1));
        assert_eq!(find(&mut set, &module("other", 2), false), None);
        assert_eq!(find(&mut set, &b, true), None);
    }

    #[test]
    fn machine_code_of_the_first_modules_is_for_an_image_with_these_alone() {
        let file = ImageFile {
            name: "m".to_owned(),
            module: module("m", 1).bytes().clone(),
            images: vec![NativeImage {
                arch: 90,
                key: "k".to_owned(),
                code: b"machine code".to_vec().into(),
            }],
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m.ewimg");
        std::fs::write(&path, file.to_bytes()).expect("it is writable");
        // SAFETY: nothing runs the machine code.
        let vouched = unsafe { Module::from_file_precompiled(&path) }.expect("it is whole");
        let mut set = set(&[vouched]);
        let keys = |linked: &Linked| -> Vec<_> {
            let codes = linked.precompiled.iter();
            codes.map(|code| code.key.to_string()).collect()
        };
        assert_eq!(keys(set.linked()), ["k"]);
        assert_eq!(keys(&set.successor(2048)), ["k"]);
        let later = module("later", 2);
        let later = CompiledCode::of(&later, CodeKey::of(&later, CompileChoice::default()));
        let later = later.expect("it compiles").numbered(1);
        set.loaded.push(Arc::new(later));
        assert!(keys(&set.successor(2048)).is_empty());
        let plain = Module::from_file(&path).expect("it is whole");
        assert!(keys(self::set(&[plain]).linked()).is_empty());
    }

    #[test]
    fn unused_modules_are_forgotten_and_their_numbers_used_again() {
        let modules: Vec<_> = (0..KEPT as u32 + 3)
            .map(|number| module("m", number))
            .collect();
        let mut set = set(&modules);
        let used = set.find(&modules[1], CompileChoice::default());
        assert!(used.is_some());
        set.forget_unused();
        assert_eq!(set.len(), KEPT + 1);
        assert!(set.find(&modules[0], CompileChoice::default()).is_none());
        assert!(set.find(&modules[1], CompileChoice::default()).is_some());
        // The image still enters the modules that were forgotten by their numbers.
        let next = |set: &CodeSet| set.free_number().expect("there is room");
        assert_eq!(next(&set), KEPT as u32 + 3);
        let linked = set.successor(1024);
        set.has_image(linked);
        assert_eq!(next(&set), 0);
    }

    #[test]
    fn each_module_has_a_branch_of_its_own() {
        let entry = |number, prefix, roots: Option<&str>| Entry {
            number,
            prefix,
            roots: roots.map(str::to_owned),
        };
        let text = dispatch(
            &[entry(0, "ma_", None), entry(7, "mb_", Some("mb_roots"))],
            false,
        );
        assert!(text.contains("@%p bra $B7;\n  call mb_roots, ();\n$B7:\n"));
        assert!(!text.contains("$B0"));
        for expected in ["ma_enter, (c0", "mb_enter, (c0", "%module, 7;", "$M7:"] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("$M1:"));
    }

    #[test]
    fn the_text_of_a_module_is_the_same_whatever_its_number() {
        let [a, b] = [1, 2].map(|number| module("m", number));
        let text = |modules: &[Module]| {
            let mut set = set(modules);
            let code = set.find(&b, CompileChoice::default());
            let code = code.expect("it is in the set");
            (code.number, Arc::clone(&code.parts[0].ptx))
        };
        let (alone, second) = (
            text(std::slice::from_ref(&b)),
            text(&[a.clone(), b.clone()]),
        );
        assert_eq!((alone.0, second.0), (0, 1));
        assert_eq!(alone.1, second.1);
        // Modules that differ in any way have different names.
        let contract = CompileChoice {
            contract: true,
            ..CompileChoice::default()
        };
        let plain = CompileChoice::default();
        let keys = [
            (&a, plain),
            (&b, plain),
            (&b, contract),
            (&module("n", 2), plain),
        ];
        let prefixes = keys.map(|(module, choice)| CodeKey::of(module, choice).prefix());
        let different: std::collections::BTreeSet<_> = prefixes.iter().collect();
        assert_eq!(different.len(), prefixes.len());
    }

    #[test]
    fn the_stack_grows_with_the_frames_of_functions_that_come() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = r#"(module (func (export "_start") (call 1)) (func (loop (call 1))))"#;
        let code = lacking_functions(&of_text("m", text), &Cache::at(folder.path()));
        let prefix = code.module.prefix.clone();
        let (now, most, depth) = (32 << 10, 64 << 10, 48);
        code.nests(depth);
        let mut set = set(&[]);
        set.linked.stack_bytes = now;
        set.loaded.push(code);
        let stack = |bytes: u32| {
            let own = ["f0", "f1"].map(|name| format!("{prefix}{name}"));
            let frames = [("everwarp_engine", 16), (&*own[0], 64), (&*own[1], bytes)];
            let frames = frames.map(|(name, bytes)| (name.into(), bytes));
            set.stack_for(&frames.into_iter().collect(), most)
        };
        // What stands in for the function is small, and the function is thought to need more.
        let missing = stack_use(&Frames::default(), &set.loaded).bytes(depth);
        assert!(missing > u64::from(depth * FRAME_THOUGHT), "{missing}");
        assert_eq!(stack(16).expect("it is enough"), now);
        let grown = stack(1000).expect("there may be more");
        assert!((48_000..=most).contains(&grown), "{grown}");
        let error = stack(2000).expect_err("there may not be so much");
        assert!(
            matches!(error, StartError::Stack { least: 48, .. }),
            "{error}"
        );
    }

    #[test]
    fn an_engine_starts_with_the_stack_that_its_host_will_ask_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = r#"(module (func (export "_start") (call 1)) (func (loop (call 1))))"#;
        let code = lacking_functions(&of_text("m", text), &Cache::at(folder.path()));
        let name = format!("{}f1", code.module.prefix);
        let frames = |bytes| [(&*name, bytes)].map(|(name, bytes)| (name.into(), bytes));
        let [small, large] = [16, 1000].map(|bytes| frames(bytes).into_iter().collect::<Frames>());
        let most = 64 << 10;
        let stack = |frames: &Frames| {
            let mut set = set(&[]);
            set.linked.stack_bytes = STACK_BYTES;
            set.loaded.push(Arc::clone(&code));
            set.expect_stack(None, most);
            let rule = set.linked.stack_rule.clone().expect("there is one");
            set.started(frames);
            assert!(set.linked.stack_rule.is_none() && Arc::strong_count(&code) == 2);
            assert_eq!(set.stack_bytes(), rule.bytes(frames).max(STACK_BYTES));
            let calls = stack_use(frames, &set.loaded);
            assert_eq!(rule.bytes(frames), stack_wanted(&calls, None, most));
            set.stack_bytes()
        };
        assert_eq!(stack(&small), STACK_BYTES);
        assert!((STACK_BYTES + 1..=most).contains(&stack(&large)));
    }

    #[test]
    fn modules_that_cannot_ask_are_whole() {
        let config = HostConfig {
            tier: Tier::Lazy,
            ..HostConfig::default()
        };
        let lazy = CompileChoice::of(&config);
        let plain = module("m", 1);
        assert!(lazy.for_module(&plain).first.is_some());
        // Small modules are whole, and have other names than those that are compiled as a whole in any case.
        let key = CodeKey::with(&plain, lazy, Arc::default());
        let code = CompiledCode::with(&plain, key.clone(), || Cache::at("/nonexistent".as_ref()));
        assert!(code.expect("it compiles").partial.is_none());
        let best = CodeKey::of(&plain, CompileChoice::default());
        assert_ne!(key.prefix(), best.prefix());
        // Without a rehearsal it is one of those.
        assert!(CodeKey::of(&plain, lazy) == best);
        let interleaved = CompileChoice {
            interleaved: true,
            ..lazy
        };
        assert!(interleaved.for_module(&plain).first.is_none());
        let family = r#"(module (import "everwarp:gpu" "lane" (func (result i32))) (func (export "_start")))"#;
        assert!(lazy.for_module(&of_text("m", family)).first.is_none());
        let threads =
            r#"(module (import "env" "memory" (memory 1 1 shared)) (func (export "_start")))"#;
        assert!(lazy.for_module(&of_text("m", threads)).first.is_none());
    }

    #[test]
    fn code_with_more_functions_serves_processes_that_need_fewer() {
        let lazy = CompileChoice::of(&HostConfig {
            tier: Tier::Lazy,
            ..HostConfig::default()
        });
        let least = CompileChoice::of(&HostConfig {
            tier: Tier::Least,
            ..HostConfig::default()
        });
        let likely = |functions: &[u32]| {
            let functions = functions.iter().copied().collect();
            Arc::new(Likely {
                functions,
                ..Likely::default()
            })
        };
        let plain = module("m", 1);
        let key = |choice, functions| CodeKey::with(&plain, choice, likely(functions));
        let best = key(CompileChoice::default(), &[]);
        let (some, others) = (key(lazy, &[1]), key(lazy, &[2]));
        assert!(best.serves(&some) && some.serves(&others) && some.serves(&some));
        assert!(!some.serves(&best) && best.serves(&best));
        // Tests ask for as few functions as possible.
        let few = key(least, &[]);
        assert!(few.serves(&few) && !best.serves(&few) && !some.serves(&few) && !few.serves(&some));
        let contract = CompileChoice {
            contract: true,
            ..lazy
        };
        assert!(!best.serves(&key(contract, &[1])) && !some.serves(&key(contract, &[1])));
        for other in [module("m", 2), module("n", 1)] {
            let other = CodeKey::with(&other, lazy, likely(&[1]));
            assert!(!some.serves(&other) && !best.serves(&other));
        }
    }

    #[test]
    fn frames_of_other_modules_do_not_count() {
        let mut set = set(&[module("a", 1), module("b", 2)]);
        let [a, b] = [module("a", 1), module("b", 2)].map(|module| {
            set.find(&module, CompileChoice::default())
                .expect("it is there")
        });
        let [of_a, of_b] =
            [(&a, "f1"), (&b, "f3")].map(|(code, name)| format!("{}{name}", code.module.prefix));
        let frames = [("everwarp_engine", 64), (&*of_a, 96), (&*of_b, 400)];
        let frames: Frames = frames
            .map(|(name, bytes)| (name.into(), bytes))
            .into_iter()
            .collect();
        let bytes = |codes: &[Arc<LoadedCode>]| stack_use(&frames, codes).bytes(0);
        assert_eq!(bytes(&[]), (12 * 64_u64).next_multiple_of(1024));
        assert_eq!(bytes(&[a]), (12 * 64 + 2 * 96_u64).next_multiple_of(1024));
    }
}

//! Running handlers: one instance of a module for each worker thread, into which the memory of the actor is copied.
//!
//! An instance for each actor would cost kilobytes of tables and a mapping. Copying costs as much as the state is large.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use everwarp_actor::{ActorCx, DeadReason, Message};
use wasmtime::{
    Config, Engine, Extern, Func, Global, InstancePre, Memory, Module, Store, Trap, Val, ValRaw,
    WasmBacktrace,
};

use crate::call::{Guest, raw_of, word_of};
use crate::error::ModuleError;
use crate::imports::{CalledFail, link};
use crate::interface::{Plain, Role, Signature};
use crate::module::ActorModule;
use crate::names::Names;
use crate::rewrite;

/// Bytes of a state before the memory: the first is 1 once the memory is there. So a launch only clears the state.
pub(crate) const HEADER: usize = everwarp_actor::MODULE_HEADER as usize;

/// The most values that a function takes or returns: a number and the fields of a reply, or the fields of a message.
const VALUES: usize = 5;

/// A module that is ready to run in any thread.
pub(crate) struct Compiled {
    pre: InstancePre<Guest>,
    memory: u32,
    scratch: usize,
    fuel: u64,
    /// The memory of a new actor, after `_initialize`.
    initial: Vec<u8>,
    /// The mutable globals with their values at that time.
    globals: Vec<(String, Val)>,
    /// The exports for actors, in an order of their own.
    exports: Vec<(String, Signature)>,
    /// The export for each tag, by role.
    targets: [Box<[Option<u16>; 256]>; 3],
    /// The export that is notified of missed messages of a topic.
    missed: Option<u16>,
    /// The names of messages, for reasons of failures.
    names: Vec<(u8, String)>,
    /// Changes at every load, so that a thread knows its instances.
    id: u64,
}

/// The engine of all modules.
pub(crate) fn engine() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    let made = ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .wasm_custom_page_sizes(true)
            .wasm_tail_call(true)
            .wasm_extended_const(true)
            // All engines compute the same: a GPU makes other NaNs than a processor.
            .cranelift_nan_canonicalization(true)
            .max_wasm_stack(256 << 10);
        Engine::new(&config).map_err(|e| format!("{e:#}"))
    });
    made.as_ref().map_err(Clone::clone)
}

impl Compiled {
    pub(crate) fn new(module: &ActorModule, names: &Names) -> Result<Self, ModuleError> {
        let invalid = |problem: String| ModuleError::Invalid {
            module: module.name.clone(),
            problem,
        };
        let engine = engine().map_err(invalid)?;
        let bytes = rewrite::with_exports(&module.bytes, &module.globals).map_err(invalid)?;
        let compiled = Module::new(engine, &bytes).map_err(|e| invalid(format!("{e:#}")))?;
        let linker = link(engine, &module.imports, names).map_err(|(import, problem)| {
            ModuleError::Import {
                module: module.name.clone(),
                import: import.path(),
                problem,
            }
        })?;
        let pre = linker.instantiate_pre(&compiled);
        let pre = pre.map_err(|e| invalid(format!("{e:#}")))?;
        let mut targets = [(); 3].map(|()| Box::new([None; 256]));
        let mut exports = Vec::new();
        for (role, name, signature) in &module.exports {
            let tag = names.messages.get(name).map_or(0, |known| known.tag);
            targets[*role as usize][usize::from(tag)] = Some(exports.len() as u16);
            exports.push((format!("{}{name}", role.prefix()), signature.clone()));
        }
        let counts = Signature::new(&[Plain::I64], &[]);
        let missed = exports
            .iter()
            .position(|(name, s)| name == "on.missed" && *s == counts);
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let mut all = Self {
            pre,
            memory: module.memory,
            scratch: module.description.scratch as usize,
            fuel: module.description.fuel,
            initial: Vec::new(),
            globals: Vec::new(),
            exports,
            targets,
            missed: missed.map(|export| export as u16),
            names: (names.messages.iter())
                .map(|(name, known)| (known.tag, name.clone()))
                .collect(),
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        };
        all.begin(module)
            .map_err(|e| invalid(format!("it cannot begin: {}", reason(&e))))?;
        Ok(all)
    }

    /// Runs `_initialize` once, and keeps what it leaves.
    fn begin(&mut self, module: &ActorModule) -> wasmtime::Result<()> {
        let mut live = Live::new(self)?;
        if module.initializes {
            live.store.set_fuel(self.fuel)?;
            let begin = live.export("_initialize")?;
            begin.call(&mut live.store, &[], &mut [])?;
        }
        for global in &module.globals {
            let name = rewrite::export_name(*global);
            let found = live.global(&name)?;
            let value = found.get(&mut live.store);
            self.globals.push((name, value));
        }
        if let Some(memory) = live.memory {
            self.initial = memory.data(&live.store)[self.scratch..].to_vec();
        }
        Ok(())
    }
    /// The mutable globals with their values when a message begins.
    pub(crate) fn globals(&self) -> &[(String, Val)] {
        &self.globals
    }
    /// How many bytes at the beginning of the memory are no state, and the others as they are for a new actor.
    pub(crate) fn initial(&self) -> (usize, &[u8]) {
        (self.scratch, &self.initial)
    }
    /// The tags and names of messages.
    pub(crate) fn names(&self) -> &[(u8, String)] {
        &self.names
    }
    fn name(&self, tag: u8) -> &str {
        let found = self.names.iter().find(|(t, _)| *t == tag);
        found.map_or("without a name", |(_, name)| name)
    }
}

/// An instance of a thread.
struct Live {
    store: Store<Guest>,
    instance: wasmtime::Instance,
    memory: Option<Memory>,
    globals: Vec<Global>,
    functions: Vec<Func>,
}

impl Live {
    fn new(compiled: &Compiled) -> wasmtime::Result<Self> {
        let guest = Guest::new(compiled.memory);
        let mut store = Store::new(compiled.pre.module().engine(), guest);
        store.limiter(|guest| guest);
        store.set_fuel(compiled.fuel)?;
        let instance = compiled.pre.instantiate(&mut store)?;
        let memory = instance.get_memory(&mut store, "memory");
        let mut live = Self {
            store,
            instance,
            memory,
            globals: Vec::new(),
            functions: Vec::new(),
        };
        for (name, _) in &compiled.globals {
            let global = live.global(name)?;
            live.globals.push(global);
        }
        for (name, _) in &compiled.exports {
            let function = live.export(name)?;
            live.functions.push(function);
        }
        Ok(live)
    }
    fn export(&mut self, name: &str) -> wasmtime::Result<Func> {
        let found = self.instance.get_func(&mut self.store, name);
        found.ok_or_else(|| wasmtime::Error::msg(format!("there is no function `{name}`")))
    }
    fn global(&mut self, name: &str) -> wasmtime::Result<Global> {
        match self.instance.get_export(&mut self.store, name) {
            Some(Extern::Global(global)) => Ok(global),
            _ => Err(wasmtime::Error::msg(format!(
                "there is no variable `{name}`"
            ))),
        }
    }

    /// Runs an export on the state of an actor, which changes only if the export returns.
    fn run(
        &mut self,
        compiled: &Compiled,
        export: u16,
        actor: &mut ActorCx<'_, '_, '_>,
        words: &[u64; VALUES + 1],
    ) -> wasmtime::Result<[u64; VALUES]> {
        let signature = &compiled.exports[usize::from(export)].1;
        let kept = compiled.initial.len();
        if let Some(memory) = self.memory {
            let (header, state) = actor.state_bytes().split_at(HEADER);
            let from = if header[0] == 0 {
                &compiled.initial
            } else {
                &state[..kept]
            };
            memory.data_mut(&mut self.store)[compiled.scratch..].copy_from_slice(from);
        }
        for (global, (_, value)) in self.globals.iter().zip(&compiled.globals) {
            global.set(&mut self.store, *value)?;
        }
        self.store.set_fuel(compiled.fuel)?;
        let mut values = [ValRaw::i64(0); VALUES + 1];
        for ((value, word), &ty) in values.iter_mut().zip(words).zip(&signature.params) {
            *value = raw_of(ty, *word);
        }
        self.store.data_mut().enter(actor);
        let function = self.functions[usize::from(export)];
        // SAFETY: the values are as many as the export takes or returns (both were limited when the module was checked), have
        // its types, and belong to no other store. This is not an asynchronous call.
        let outcome = unsafe { function.call_unchecked(&mut self.store, &mut values[..]) };
        self.store.data_mut().leave();
        outcome?;
        let mut results = [0; VALUES];
        for ((result, value), &ty) in results.iter_mut().zip(values).zip(&signature.results) {
            *result = word_of(ty, value);
        }
        if let Some(memory) = self.memory {
            let (header, state) = actor.state_bytes().split_at_mut(HEADER);
            header[0] = 1;
            state[..kept].copy_from_slice(&memory.data(&self.store)[compiled.scratch..]);
        }
        Ok(results)
    }
}

std::thread_local! {
    /// The instances of this thread.
    static INSTANCES: RefCell<Vec<(u64, Weak<Compiled>, Live)>> = const { RefCell::new(Vec::new()) };
}

/// Runs an export in this thread's instance of the module.
fn run(
    compiled: &Arc<Compiled>,
    export: u16,
    actor: &mut ActorCx<'_, '_, '_>,
    words: &[u64; VALUES + 1],
) -> wasmtime::Result<[u64; VALUES]> {
    INSTANCES.with_borrow_mut(|instances| {
        let at = match instances.iter().position(|(id, ..)| *id == compiled.id) {
            Some(at) => at,
            None => {
                instances.retain(|(_, module, _)| module.strong_count() != 0);
                let live = Live::new(compiled)?;
                instances.push((compiled.id, Arc::downgrade(compiled), live));
                instances.len() - 1
            }
        };
        instances[at].2.run(compiled, export, actor, words)
    })
}

/// Handles a message.
pub(crate) fn handle(compiled: &Arc<Compiled>, actor: &mut ActorCx<'_, '_, '_>, message: &Message) {
    let target = |role: Role, tag: u8| compiled.targets[role as usize][usize::from(tag)];
    let mut words = [0; VALUES + 1];
    if let Some(missed) = message.missed() {
        // Of interest to some: those that handle a message with this name.
        if let Some(export) = compiled.missed {
            words[0] = missed;
            if let Err(error) = run(compiled, export, actor, &words) {
                actor.fail_because(&reason(&error));
            }
        }
        return;
    }
    let number = message.ask();
    let asked = (number >> 32) as u8;
    let (export, first) = match (message.is_reply(), message.failure()) {
        (false, _) => (target(Role::On, message.tag()), 0),
        (true, None) => (target(Role::Reply, asked), 1),
        (true, Some(reason)) => {
            words[1] = reason as u64;
            (target(Role::Failed, asked), 1)
        }
    };
    let Some(export) = export else {
        let reason = match message.failure() {
            Some(reason) => unanswered(reason, compiled.name(asked)),
            None => unhandled(compiled.name(message.tag())),
        };
        return actor.fail_because(&reason);
    };
    if first == 1 {
        words[0] = number & 0xffff_ffff;
    }
    if message.failure().is_none() {
        for (to, word) in words[first..].iter_mut().zip(message.words()) {
            *to = *word;
        }
    }
    match run(compiled, export, actor, &words) {
        Ok(results) => {
            let count = compiled.exports[usize::from(export)].1.results.len();
            if count != 0 && message.is_ask() {
                actor.reply(message.tag(), &results[..count]);
            }
        }
        Err(error) => actor.fail_because(&reason(&error)),
    }
}

/// Why an actor fails that does not handle this message.
pub(crate) fn unhandled(message: &str) -> String {
    format!("it does not handle the message {message}")
}
/// Why an actor fails whose ask has no reply.
pub(crate) fn unanswered(reason: DeadReason, message: &str) -> String {
    format!(
        "{reason}, to which it sent the ask {message}, and it does not export `failed.{message}`"
    )
}

/// What went wrong, and where.
pub(crate) fn reason(error: &wasmtime::Error) -> String {
    let what = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => "it used up its fuel for one message".to_owned(),
        Some(trap) => trap.to_string(),
        None if error.is::<CalledFail>() => CalledFail.to_string(),
        None => error.root_cause().to_string(),
    };
    let frames = error.downcast_ref::<WasmBacktrace>();
    let frame = frames.and_then(|trace| trace.frames().first()?.func_name());
    match frame {
        Some(name) => format!("{what}, in `{name}`"),
        None => what,
    }
}

// A reply brings a number and up to four fields.
const _: () =
    assert!(VALUES >= everwarp_actor::MAX_WORDS && VALUES > everwarp_actor::MAX_ASK_WORDS);

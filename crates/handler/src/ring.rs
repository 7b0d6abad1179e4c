//! Handlers of ring kernels that are WebAssembly modules.
//!
//! Such a module has no imports. It exports its memory as `memory`, a function `handle` without parameters and results, and
//! two variables `input` and `output` that hold the addresses of a message and of its result, as a static variable of Rust
//! or C is exported. Memory and variables keep their values from message to message: they are the kernel's state.

use everwarp_ring::{CudaHandler, Failure, Handler, RawMessage, Signature};
use wasmparser::{Parser, Payload};
use wasmtime::{Instance, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

use crate::cuda::ring::{Initial, translate};
use crate::error::ModuleError;
use crate::instance::{engine, reason};
use crate::rewrite;

/// The most memory that a module of a ring kernel has.
const MEMORY: usize = 1 << 30;
/// What one message may execute; a loop without an end is a failure after some ten seconds.
const FUEL: u64 = 20_000_000_000;

/// A module that handles the messages of a ring kernel.
pub struct RingModule {
    store: Store<StoreLimits>,
    memory: Memory,
    instance: Instance,
    handle: TypedFunc<(), ()>,
    /// The addresses of a message and of a result.
    input: usize,
    output: usize,
}

impl std::fmt::Debug for RingModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RingModule")
    }
}

impl RingModule {
    /// Compiles a module for messages and results of these types.
    ///
    /// # Errors
    /// [`ModuleError::Invalid`]: it is no module, has imports, or lacks an export.
    pub fn new(
        name: &str,
        bytes: &[u8],
        input: &Signature,
        output: &Signature,
    ) -> Result<Self, ModuleError> {
        let invalid = |problem: String| ModuleError::Invalid {
            module: name.to_owned(),
            problem,
        };
        let engine = engine().map_err(invalid)?;
        let module = Module::new(engine, bytes).map_err(|e| invalid(format!("{e:#}")))?;
        if let Some(import) = module.imports().next() {
            return Err(invalid(format!(
                "it imports `{}::{}`, and the module of a ring kernel imports nothing",
                import.module(),
                import.name()
            )));
        }
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY).build();
        let mut store = Store::new(engine, limits);
        store.limiter(|limits| limits);
        let cannot_begin = |e: wasmtime::Error| invalid(format!("it cannot begin: {}", reason(&e)));
        store.set_fuel(FUEL).map_err(cannot_begin)?;
        let instance = Instance::new(&mut store, &module, &[]).map_err(cannot_begin)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| invalid("it exports no memory called `memory`".to_owned()))?;
        let handle = instance.get_typed_func::<(), ()>(&mut store, "handle");
        let handle = handle.map_err(|_| {
            invalid("it exports no function `handle` without parameters and results".to_owned())
        })?;
        let mut address = |what: &str, signature: &Signature| {
            let found = instance.get_global(&mut store, what);
            let found = found.and_then(|global| global.get(&mut store).i32());
            let at = found.ok_or_else(|| {
                invalid(format!("it exports no variable `{what}` with an address"))
            })? as u32 as usize;
            let end = at.saturating_add(signature.bytes());
            match end <= memory.data_size(&store) {
                true => Ok(at),
                false => Err(invalid(format!(
                    "its variable `{what}` is the address {at}, and its memory ends before {signature} does"
                ))),
            }
        };
        Ok(Self {
            input: address("input", input)?,
            output: address("output", output)?,
            memory,
            instance,
            handle,
            store,
        })
    }

    /// The same handler for a GPU, where one thread runs it, with a twentieth of the fuel for a message and a memory that does
    /// not grow.
    ///
    /// # Errors
    /// As [`new`](Self::new); and [`ModuleError::Invalid`] for what modules on a GPU do not have: vectors, calls in a circle,
    /// and 32 KiB or more of data that are not zero.
    pub fn cuda(
        name: &str,
        bytes: &[u8],
        input: &Signature,
        output: &Signature,
    ) -> Result<CudaHandler, ModuleError> {
        let mut plain = Self::new(name, bytes, input, output)?;
        let invalid = |problem: String| ModuleError::Invalid {
            module: name.to_owned(),
            problem: format!("on a GPU, {problem}"),
        };
        let numbers = mutable_globals(bytes).map_err(invalid)?;
        let exported = rewrite::with_exports(bytes, &numbers).map_err(invalid)?;
        let mut open = Self::new(name, &exported, input, output)?;
        let mut globals = Vec::new();
        for number in numbers {
            let global = open
                .instance
                .get_global(&mut open.store, &rewrite::export_name(number));
            let global = global.ok_or_else(|| invalid("a variable is not exported".to_owned()))?;
            globals.push((number, global.get(&mut open.store)));
        }
        let initial = Initial {
            bytes,
            memory: plain.memory.data(&mut plain.store),
            globals: &globals,
            input: (plain.input, input.bytes()),
            output: (plain.output, output.bytes()),
        };
        translate(&initial).map_err(invalid)
    }

    fn run(&mut self, message: &mut RawMessage<'_>) -> wasmtime::Result<()> {
        // A memory never shrinks, so the ranges are as they were checked.
        let data = self.memory.data_mut(&mut self.store);
        data[self.input..][..message.input.len()].copy_from_slice(message.input);
        self.store.set_fuel(FUEL)?;
        self.handle.call(&mut self.store, ())?;
        let data = self.memory.data(&self.store);
        let len = message.output.len();
        message.output.copy_from_slice(&data[self.output..][..len]);
        Ok(())
    }
}

/// The numbers of a module's mutable globals. It imports none.
fn mutable_globals(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let mut mutable = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        if let Payload::GlobalSection(section) = payload.map_err(|e| e.to_string())? {
            for (number, global) in section.into_iter().enumerate() {
                if global.map_err(|e| e.to_string())?.ty.mutable {
                    mutable.push(number as u32);
                }
            }
        }
    }
    Ok(mutable)
}

impl Handler for RingModule {
    fn handle(&mut self, message: &mut RawMessage<'_>) -> Result<(), Failure> {
        self.run(message)
            .map_err(|error| Failure::new(reason(&error)))
    }
}

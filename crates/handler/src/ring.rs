//! Handlers of ring kernels that are WebAssembly modules.
//!
//! Such a module has no imports. It exports its memory as `memory`, a function `handle` without parameters and results, and
//! two variables `input` and `output` that hold the addresses of a message and of its result, as a static variable of Rust
//! or C is exported. Memory and variables keep their values from message to message: they are the kernel's state.

use everwarp_ring::{Failure, Handler, RawMessage, Signature};
use wasmtime::{Instance, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

use crate::error::ModuleError;
use crate::instance::{engine, reason};

/// The most memory that a module of a ring kernel has.
const MEMORY: usize = 1 << 30;
/// What one message may execute; a loop without an end is a failure after some ten seconds.
const FUEL: u64 = 20_000_000_000;

/// A module that handles the messages of a ring kernel.
pub struct RingModule {
    store: Store<StoreLimits>,
    memory: Memory,
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
            handle,
            store,
        })
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

impl Handler for RingModule {
    fn handle(&mut self, message: &mut RawMessage<'_>) -> Result<(), Failure> {
        self.run(message)
            .map_err(|error| Failure::new(reason(&error)))
    }
}

//! The modules of a host, compiled with and without counting of fuel.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use everwarp_process::{LoadConfig, LoadError, Module, StartError, threads};
use wasmtime::{InstancePre, Linker};

use crate::child_compiler;
use crate::compiled::compiled;
use crate::engines::{EnginePair, Metering, Stack};
use crate::facts::ModuleFacts;
use crate::family::ModuleIndex;
use crate::guest::Guest;
use crate::imports::linker;
use crate::rewrite::rewrite;

/// A compiled module whose memory is shared: each process links it with a memory of its own.
pub(crate) struct ThreadedCode {
    pub(crate) module: wasmtime::Module,
    pub(crate) linker: Linker<Guest>,
}

/// What the processes of a module are made from.
pub(crate) enum Code {
    /// All of it.
    Linked(InstancePre<Guest>),
    /// All but the memory.
    Threaded(Box<ThreadedCode>),
}

/// The code of a module for both engines of a pair.
#[derive(Default)]
struct Form {
    /// Compiled at its first use.
    mapped: OnceLock<Result<Code, LoadError>>,
    /// The same for the pool, once the module has many processes; none if it cannot use the pool.
    pooled: OnceLock<Option<Code>>,
}

/// What is made of a module once, however many hosts load it.
struct Forms {
    facts: Arc<ModuleFacts>,
    /// The processes that were asked for so far.
    processes: AtomicU32,
    /// With counting of fuel, and without: a module is compiled twice only if it has processes with a fuel limit and
    /// processes without one.
    counting: Form,
    uncounted: Form,
}

/// A module with up to this many processes does not use the pool. A process without it costs some 40 us more, and to make the
/// pool takes 10 ms.
const FEW: u32 = 64;

impl Forms {
    fn read(module: &Module) -> Result<Self, LoadError> {
        Ok(Self {
            facts: Arc::new(ModuleFacts::read(module)?),
            processes: AtomicU32::new(0),
            counting: Form::default(),
            uncounted: Form::default(),
        })
    }
}

/// A module of a host.
pub(crate) struct Program {
    pub(crate) index: ModuleIndex,
    pub(crate) facts: Arc<ModuleFacts>,
    /// Bytes of memory and tables that each process may have.
    pub(crate) memory_limit: Option<u64>,
    /// Threads that each process may have at a time in addition to its first.
    pub(crate) threads: u32,
    stack: Stack,
    module: Module,
    /// It lives with the module, unless the host's stacks have a size of their own.
    forms: Arc<Result<Forms, LoadError>>,
}

impl Program {
    /// Compiles a module.
    ///
    /// # Errors
    /// The module is refused, or starts with more memory than its processes may have.
    pub(crate) fn load(
        index: ModuleIndex,
        module: &Module,
        config: &LoadConfig,
        stack: Stack,
    ) -> Result<Self, StartError> {
        let refused = |source| StartError::Load {
            module: module.name().to_owned(),
            source,
        };
        let read = || Forms::read(module);
        let forms = match stack.is_default() {
            true => module.keep(read),
            false => Arc::new(read()),
        };
        let facts = match &*forms {
            Ok(forms) => Arc::clone(&forms.facts),
            Err(error) => return Err(refused(error.clone())),
        };
        let needs = facts.start_bytes;
        if let Some(limit) = config.memory.filter(|limit| *limit < needs) {
            return Err(StartError::Memory {
                module: module.name().to_owned(),
                needs,
                limit,
            });
        }
        let program = Self {
            index,
            facts,
            memory_limit: config.memory,
            threads: config.threads.min(threads::THREADS_MOST),
            stack,
            module: module.clone(),
            forms,
        };
        let first = match config.metered {
            true => Metering::Fuel,
            false => Metering::EpochOnly,
        };
        program.code(first).map_err(refused)?;
        Ok(program)
    }

    /// The module's name.
    pub(crate) fn name(&self) -> &str {
        self.module.name()
    }

    /// Says that this many further processes of the module will run.
    pub(crate) fn expect(&self, processes: u32) {
        if let Ok(forms) = self.forms.as_ref() {
            let add = |before: u32| Some(before.saturating_add(processes));
            // The count orders nothing else.
            let _ = forms
                .processes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    /// The compiled module, for the engine that suits its number of processes.
    ///
    /// # Errors
    /// It cannot be compiled this way.
    pub(crate) fn code(&self, metering: Metering) -> Result<&Code, LoadError> {
        let forms = self.forms.as_ref().as_ref().map_err(Clone::clone)?;
        let form = match metering {
            Metering::Fuel => &forms.counting,
            Metering::EpochOnly => &forms.uncounted,
        };
        let mapped = form.mapped.get_or_init(|| self.compile(metering));
        let mapped = mapped.as_ref().map_err(Clone::clone)?;
        if forms.processes.load(Ordering::Relaxed) <= FEW {
            return Ok(mapped);
        }
        let pooled = form.pooled.get_or_init(|| self.for_pool(mapped, metering));
        Ok(pooled.as_ref().unwrap_or(mapped))
    }

    /// The same code for the pool, if the module may use it and the pool has room for what it needs.
    fn for_pool(&self, mapped: &Code, metering: Metering) -> Option<Code> {
        let Code::Linked(mapped) = mapped else {
            return None;
        };
        let engines = EnginePair::get(metering, self.stack).ok()?;
        let engine = engines.pooled(&self.facts.tables, self.facts.waits)?;
        let code = mapped.module().serialize().ok()?;
        // SAFETY: the result of `Module::serialize`, of an engine that compiles alike.
        let module = unsafe { wasmtime::Module::deserialize(engine, code) }.ok()?;
        let linker = linker(engine, false).ok()?;
        linker.instantiate_pre(&module).ok().map(Code::Linked)
    }

    fn compile(&self, metering: Metering) -> Result<Code, LoadError> {
        let engines = EnginePair::get(metering, self.stack).map_err(LoadError::Compile)?;
        let engine = engines.mapped();
        let form = child_compiler::Form::Many {
            metering,
            stack: self.stack,
        };
        let failed = |error: wasmtime::Error| LoadError::Compile(format!("{error:#}"));
        let facts = &self.facts;
        let linker = linker(engine, facts.threads.is_some()).map_err(failed)?;
        let bytes = self.module.bytes();
        if facts.threads.is_none() {
            let module = compiled(engine, form, self.name(), bytes)?;
            return Ok(Code::Linked(
                linker.instantiate_pre(&module).map_err(failed)?,
            ));
        }
        let bytes = rewrite(bytes, facts.imported_functions).map_err(LoadError::Compile)?;
        let module = compiled(engine, form, self.name(), &bytes)?;
        Ok(Code::Threaded(Box::new(ThreadedCode { module, linker })))
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;

    use super::*;

    fn program(text: &str, stack: Stack) -> Program {
        let bytes = wat::parse_str(text).expect("it is text");
        let module = Module::new("m", bytes).expect("it is valid");
        let loaded = Program::load(ModuleIndex(0), &module, &LoadConfig::default(), stack);
        loaded.expect("it compiles")
    }

    /// Whether the next process uses the pool.
    fn is_pooled(program: &Program) -> bool {
        let metering = Metering::EpochOnly;
        let code = program.code(metering).expect("it is compiled");
        let Code::Linked(code) = code else {
            return false;
        };
        let engines = EnginePair::get(metering, program.stack).expect("it is made");
        !Engine::same(code.module().engine(), engines.mapped())
    }

    #[test]
    fn the_pool_is_for_modules_with_many_processes() {
        let small = program(r#"(module (func (export "_start")))"#, Stack::of(None));
        assert!(!is_pooled(&small));
        small.expect(FEW);
        assert!(!is_pooled(&small));
        small.expect(1);
        assert!(is_pooled(&small));
        small.expect(u32::MAX);
        assert!(is_pooled(&small));
    }

    #[test]
    fn modules_that_the_pool_cannot_hold_do_without() {
        let growing = r#"(module (table 1 funcref) (func (export "_start")))"#;
        let waiting = r#"(module (import "everwarp:gpu" "close" (func (param i32) (result i32))) (memory (export "memory") 1) (func (export "_start")))"#;
        for (text, stack) in [
            (growing, Stack::of(None)),
            (waiting, Stack::of(None)),
            (
                r#"(module (func (export "_start")))"#,
                Stack::of(Some(1 << 20)),
            ),
        ] {
            let program = program(text, stack);
            program.expect(1000);
            assert!(!is_pooled(&program), "{text}");
        }
    }
}

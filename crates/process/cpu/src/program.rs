//! The modules of a host, compiled with and without counting of fuel.

use std::sync::{Arc, OnceLock};

use everwarp_process::{LoadConfig, LoadError, Module, StartError, threads};
use wasmtime::{Engine, InstancePre, Linker};

use crate::child_compiler::Form;
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

/// What is made of a module once, however many hosts load it.
struct Forms {
    facts: Arc<ModuleFacts>,
    /// With counting of fuel, and without. Each is compiled at its first use, so that a module is compiled twice only
    /// if it has processes with a fuel limit and processes without one.
    counting: OnceLock<Result<Code, LoadError>>,
    uncounted: OnceLock<Result<Code, LoadError>>,
}

impl Forms {
    fn read(module: &Module) -> Result<Self, LoadError> {
        Ok(Self {
            facts: Arc::new(ModuleFacts::read(module)?),
            counting: OnceLock::new(),
            uncounted: OnceLock::new(),
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

    /// The compiled module.
    ///
    /// # Errors
    /// It cannot be compiled this way.
    pub(crate) fn code(&self, metering: Metering) -> Result<&Code, LoadError> {
        let forms = self.forms.as_ref().as_ref().map_err(Clone::clone)?;
        let compiled = match metering {
            Metering::Fuel => &forms.counting,
            Metering::EpochOnly => &forms.uncounted,
        };
        let compiled = compiled.get_or_init(|| self.compile(metering));
        compiled.as_ref().map_err(Clone::clone)
    }

    fn compile(&self, metering: Metering) -> Result<Code, LoadError> {
        let engines = EnginePair::get(metering, self.stack).map_err(LoadError::Compile)?;
        let mut refused = None;
        for engine in engines.suitable(&self.facts.tables, self.facts.waits) {
            match self.compile_for(engine, metering) {
                Err(LoadError::Compile(why)) => refused = Some(why),
                decided => return decided,
            }
        }
        Err(LoadError::Compile(refused.unwrap_or_default()))
    }

    fn compile_for(&self, engine: &Engine, metering: Metering) -> Result<Code, LoadError> {
        let form = Form {
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

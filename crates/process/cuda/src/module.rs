//! Compiled modules: each is compiled once, for the number that it has in its image.

use std::collections::BTreeSet;

use everwarp_compiler::{
    CompileOptions, Compiled, Export, FirstFunctions, FunctionType, Initial, InstanceLimits,
    InstantiateError, LONG_FUNCTION, Limits, Link, PAGE, SharedMemory, TrapKind, compile, divided,
};
use everwarp_process::threads::{START, Threads};
use everwarp_process::{ExitStatus, HostConfig, LoadError, Module, Tier, Trap, gpu};

use crate::error::not_compiled;
use crate::wasi;

/// The elements that a table may grow by.
const TABLE_GROWTH: u64 = 256;

/// The options for compiling a module that a host sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompileChoice {
    /// Interleave the memories, if the module allows it.
    pub(crate) interleaved: bool,
    /// Allow one rounding for a product and a sum.
    pub(crate) contract: bool,
    /// Code that can be loaded next to an image.
    pub(crate) apart: bool,
    /// Leave functions out.
    pub(crate) first: Option<FirstFunctions>,
}

/// What is left out with [`Tier::Lazy`]: all that processes are not likely to call. A byte of WebAssembly becomes 20 to 60 bytes of
/// PTX, and ptxas takes 2 to 7.5 CPU seconds for a megabyte of it, so that a module that is smaller than `least` takes one to three
/// seconds on 16 cores.
const LAZY: FirstFunctions = FirstFunctions {
    least: 256 << 10,
    most: 0,
};
/// What is left out with [`Tier::Least`].
const LEAST: FirstFunctions = FirstFunctions { least: 0, most: 0 };

impl CompileChoice {
    /// What a host asks for.
    pub(crate) fn of(config: &HostConfig) -> Self {
        Self {
            interleaved: config.interleaved,
            contract: config.contract,
            apart: false,
            first: match config.tier {
                Tier::Best => None,
                Tier::Lazy => Some(LAZY),
                Tier::Least => Some(LEAST),
            },
        }
    }

    /// The image has the functions first that processes are likely to call. All, if they are not known.
    pub(crate) fn begins_with_likely(self) -> bool {
        self.first.is_some() && !self.asked_only()
    }

    /// The same with all functions.
    pub(crate) fn whole(self) -> Self {
        Self {
            first: None,
            ..self
        }
    }

    /// Functions that no process has asked for are not assembled, and each is a batch of its own.
    pub(crate) fn asked_only(self) -> bool {
        self.first == Some(LEAST)
    }

    /// The same for a module. Some modules get all functions: those with threads or imports of `everwarp:gpu`, whose threads and
    /// processes wait for each other, those with interleaved memories, and those that come with machine code, which is that of all
    /// functions. Modules with threads come in an image, as machine code does that is there already.
    pub(crate) fn for_module(self, module: &Module) -> Self {
        let in_image =
            self.interleaved || module.threads().is_some() || !module.images().is_empty();
        let whole = in_image || module.uses_gpu();
        Self {
            first: self.first.filter(|_| !whole),
            apart: self.apart && !in_image,
            ..self
        }
    }
}

/// The functions that processes are likely to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Likely {
    /// Those that were found out when the module's code was first made. That code depends on them.
    pub(crate) functions: BTreeSet<u32>,
    /// Others that were found out now. They come in batches, like all that is not in the code from the beginning.
    pub(crate) others: BTreeSet<u32>,
}

/// The module that is compiled in place of this one, in which long functions are divided.
pub(crate) fn as_compiled(module: &Module) -> Vec<u8> {
    let options = CompileOptions {
        divide: Some(LONG_FUNCTION),
        ..CompileOptions::default()
    };
    let divided = divided(module.bytes(), &options);
    divided.unwrap_or_else(|| module.bytes().to_vec())
}

/// Compiles a module, whose names in an image begin with `prefix`. Of a module that is compiled in part, it has the functions at first
/// that are `likely` to be called.
pub(crate) fn compile_module(
    module: &Module,
    prefix: &str,
    choice: CompileChoice,
    likely: &BTreeSet<u32>,
) -> Result<CompiledModule, LoadError> {
    let threads = module.threads();
    // Threads of one process share one memory.
    let interleaved = choice.interleaved && threads.is_none();
    let options = CompileOptions {
        prefix: prefix.to_owned(),
        provided_imports: wasi::provided(),
        preempt: true,
        apart: choice.apart,
        deep: std::env::var_os("EVERWARP_SHALLOW").is_none(),
        interleaved,
        contract: choice.contract,
        threads: !interleaved,
        divide: Some(LONG_FUNCTION),
        first: choice.first,
        only: choice.first.map(|_| likely.clone()),
        ..CompileOptions::default()
    };
    let apart = || {
        let choice = CompileChoice {
            interleaved: false,
            ..choice
        };
        compile_module(module, prefix, choice, likely)
    };
    let compiled = match compile(module.bytes(), &options) {
        // The module has atomic instructions, which interleaved memories do not support.
        Err(_) if interleaved => return apart(),
        compiled => compiled.map_err(not_compiled)?,
    };
    if interleaved && compiled.imports().iter().any(|i| i.module != wasi::MODULE) {
        // Only WASI's functions can access such memories.
        return apart();
    }
    let entry = match compiled.export("_start") {
        Some(Export::Function(f)) => f,
        _ => return Err(LoadError::NoEntry),
    };
    Ok(CompiledModule {
        name: module.name().to_owned(),
        prefix: prefix.to_owned(),
        entry,
        threads: threads.cloned(),
        compiled,
    })
}

/// A compiled module.
#[derive(Debug)]
pub(crate) struct CompiledModule {
    pub(crate) name: String,
    /// The beginning of its names in an image.
    pub(crate) prefix: String,
    pub(crate) compiled: Compiled,
    /// The function that a process runs.
    entry: u32,
    /// The record that the threads of a process share, if the module's memory is shared.
    pub(crate) threads: Option<Threads>,
}

impl CompiledModule {
    /// The number by which device code calls the entry.
    pub(crate) fn entry(&self) -> u32 {
        self.number(self.entry)
    }

    /// The number by which device code calls the module's start function, if it has one.
    pub(crate) fn start(&self) -> Option<u32> {
        self.compiled.start().map(|f| self.number(f))
    }

    fn number(&self, function: u32) -> u32 {
        let number = self.compiled.entry(function);
        number.expect("exported functions and the start function are entries")
    }

    /// The number by which device code calls the function that threads start with, if the module starts any.
    pub(crate) fn thread_entry(&self) -> Option<u32> {
        let threads = self.threads.as_ref();
        threads.filter(|threads| threads.spawns)?;
        match self.compiled.export(START) {
            Some(Export::Function(f)) => Some(self.number(f)),
            _ => None,
        }
    }

    /// Whether its processes wake each other on the device: those with channels or children, and threads.
    pub(crate) fn needs_family(&self) -> bool {
        self.uses_gpu() || self.threads.is_some()
    }

    /// Whether the module imports `everwarp:gpu`.
    pub(crate) fn uses_gpu(&self) -> bool {
        let imports = self.compiled.imports();
        imports.iter().any(|i| i.module == gpu::MODULE)
    }

    /// The bytes of linear memory that an instance starts with.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.compiled.memory().map_or(0, |m| m.min * PAGE)
    }

    /// The bytes of the tables that an instance starts with, 8 for each element.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tables = 0..self.compiled.table_count();
        tables.map(|t| self.compiled.table(t).1.min * 8).sum()
    }

    /// The most bytes of linear memory that the module allows an instance.
    pub(crate) fn memory_most(&self) -> u64 {
        match self.compiled.memory() {
            None => 0,
            Some(limits) => limits.max.unwrap_or(1 << 16).min(1 << 16) * PAGE,
        }
    }

    /// The exit status for the reason that the device gave.
    pub(crate) fn status(&self, reason: everwarp_hostcalls::ExitReason) -> ExitStatus {
        use everwarp_hostcalls::ExitReason;
        match reason {
            ExitReason::Normal(code) => ExitStatus::Exited(code),
            ExitReason::Killed => ExitStatus::Killed,
            ExitReason::OutOfFuel => ExitStatus::OutOfFuel,
            ExitReason::OutOfMemory => ExitStatus::OutOfMemory {
                needs: self.memory_bytes() + self.table_bytes(),
            },
            ExitReason::Trap {
                kind,
                function,
                offset,
            } => {
                let (function, offset) = self.compiled.place(function, offset);
                let name = self.compiled.function_name(function);
                ExitStatus::Trapped(Trap {
                    kind: TrapKind::from_code(kind).unwrap_or(TrapKind::UnlinkedImport),
                    function: Some(match name {
                        Some(name) => name.to_owned(),
                        None => format!("function {function}"),
                    }),
                    message: format!("at offset {offset:#x} of the module"),
                })
            }
        }
    }

    /// The initial bytes of an instance with this memory and depth of calls.
    pub(crate) fn instantiate(&self, memory: u64, depth: u32) -> Result<Initial, InstantiateError> {
        let mut limits = InstanceLimits {
            memory_pages: memory / PAGE,
            table_elements: TABLE_GROWTH,
            fuel: i64::MAX,
            depth,
        };
        loop {
            match self
                .compiled
                .instantiate(&Wasi(self.threads.as_ref()), &limits)
            {
                Err(InstantiateError::BeyondLimit { needed, .. })
                    if needed > limits.table_elements && memory >= self.memory_bytes() =>
                {
                    limits.table_elements = needed + TABLE_GROWTH;
                }
                other => return other,
            }
        }
    }
}

/// The things that a process can import: functions, and a shared memory.
struct Wasi<'m>(Option<&'m Threads>);

impl Link for Wasi<'_> {
    fn function(&self, module: &str, name: &str) -> Option<FunctionType> {
        wasi::import_type(module, name)
    }
    fn memory(&self, _: &str, _: &str) -> Option<Limits> {
        // A module has at most one memory, so its name does not matter.
        self.0.map(|threads| Limits {
            min: threads.initial,
            max: Some(threads.maximum),
            shared: true,
        })
    }
    fn shared_memory(&self, _: &str, _: &str) -> Option<SharedMemory> {
        // The device sets the address when it makes a place ready.
        let nowhere = SharedMemory {
            memory: 0,
            length: 0,
        };
        self.0.map(|_| nowhere)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use everwarp_compiler::ValueType;

    use super::*;

    /// Compiles a module in its text form.
    pub(crate) fn load(text: &str) -> Result<CompiledModule, LoadError> {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let module = Module::new("m", wat.encode().expect("it can be encoded"))?;
        compile_module(&module, "m_", CompileChoice::default(), &BTreeSet::new())
    }

    fn refused(text: &str) -> String {
        load(text).expect_err("it is refused").to_string()
    }

    #[test]
    fn an_unknown_import_and_a_missing_entry_are_named() {
        let start = r#"(func (export "_start"))"#;
        let own = refused(&format!(r#"(module (import "env" "log" (func)) {start})"#));
        assert!(own.contains("env.log"), "{own}");
        let new = r#"(import "wasi_snapshot_preview1" "fd_teleport" (func))"#;
        let new = refused(&format!("(module {new} {start})"));
        assert!(new.contains("fd_teleport"), "{new}");
        assert!(refused("(module)").contains("_start"));
        let takes = r#"(module (func (export "_start") (param i32)))"#;
        assert!(refused(takes).contains("_start"));
    }

    #[test]
    fn every_function_of_wasi_is_provided_with_its_type() {
        assert_eq!(everwarp_process::imports::wasi_functions().count(), 46);
        let function_type = |name| wasi::import_type(wasi::MODULE, name);
        let seek = function_type("fd_seek").expect("it is there");
        let types = [
            ValueType::I32,
            ValueType::I64,
            ValueType::I32,
            ValueType::I32,
        ];
        assert_eq!(seek.params, types);
        assert_eq!(seek.results, [ValueType::I32]);
        let exit = function_type("proc_exit").expect("it is there");
        assert!(exit.results.is_empty());
        let other = refused(
            r#"(module (import "wasi_snapshot_preview1" "fd_seek" (func (param i32) (result i32)))
          (func (export "_start")))"#,
        );
        assert!(other.contains("fd_seek` with another type"), "{other}");
    }

    #[test]
    fn a_table_may_start_with_more_elements_than_the_limit_of_growth() {
        let text = r#"(module (table 5000 funcref) (memory 2) (func (export "_start")))"#;
        let loaded = load(text).expect("it is supported");
        assert_eq!(loaded.table_bytes(), 40_000);
        let initial = loaded.instantiate(2 * PAGE, 50).expect("it fits");
        assert!(initial.block_bytes() > 5000 * 8);
        assert!(
            loaded.instantiate(PAGE, 50).is_err(),
            "one page is too little"
        );
    }
}

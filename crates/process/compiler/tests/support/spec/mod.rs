//! Runs files of the official test suite.

mod counts;
mod files;
mod link;
mod values;

use std::collections::HashMap;

use everwarp_compiler::{
    CompileError, CompileOptions, Compiled, Export, ImportKind, InstanceLimits, InstantiateError,
    PAGE, SharedMemory, TrapKind, ValueType, compile,
};
use wast::{QuoteWat, WastDirective, WastExecute, WastInvoke, WastRet, Wat};

use super::instance::{Process, Trapped};
use super::machine::SharedMachine;
use link::Registered;

#[allow(unused_imports, reason = "not every test binary runs the files")]
pub(crate) use counts::{Counts, Miss, compare, none_failed};
#[allow(unused_imports, reason = "as above")]
pub(crate) use files::{File, files};
pub(crate) use link::SPECTEST_PRINTS;
#[allow(unused_imports, reason = "as above")]
pub(crate) use values::argument;

impl From<String> for Miss {
    fn from(e: String) -> Self {
        Self::Failed(e)
    }
}

type Outcome = Result<(), Miss>;

/// The modules of a file.
struct Runner {
    machine: SharedMachine,
    /// The number of modules that have been compiled.
    modules: usize,
    processes: Vec<Process>,
    /// For each instance, the instances that it calls.
    providers: Vec<Vec<usize>>,
    /// Instances by name, and the last one; each with the reason if it could not be made.
    names: HashMap<String, Result<usize, String>>,
    current: Option<Result<usize, String>>,
    registered: HashMap<String, Registered>,
    /// Names whose registration failed, and why.
    unregistered: HashMap<String, String>,
    /// Instances that an unsupported module would have changed, and why that module is not supported.
    tainted: HashMap<usize, String>,
    shared: Option<SharedMemory>,
}

/// The memory and depth that the suite needs, and no more, because a GPU reserves all of it for each instance. The
/// fuel lasts for some seconds, so that a loop that fails to end traps instead of hanging.
pub(crate) const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 1024,
    table_elements: 100_000,
    fuel: 1 << 30,
    depth: 400,
};

thread_local! {
    /// Whether memories of instances are interleaved. The suite cannot observe it.
    static INTERLEAVED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

thread_local! {
    /// From which length on functions are divided.
    static DIVIDE: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Sets from which length on functions of test modules are divided from now on.
#[allow(dead_code, reason = "not every test binary runs the suite so")]
pub(crate) fn divide(most: usize) {
    DIVIDE.set(Some(most));
}

/// Sets whether test modules are compiled for interleaved memories from now on.
#[allow(dead_code, reason = "not every test binary runs the suite so")]
pub(crate) fn interleave(yes: bool) {
    INTERLEAVED.set(yes);
}

/// The options for test modules: functions that print do nothing.
pub(crate) fn options() -> CompileOptions {
    let print = |name: &&str| ("spectest".to_owned(), (*name).to_owned());
    let interleaved = INTERLEAVED.get();
    CompileOptions {
        ignored_imports: SPECTEST_PRINTS.iter().map(print).collect(),
        threads: !interleaved,
        interleaved,
        divide: DIVIDE.get(),
        ..CompileOptions::default()
    }
}

/// Runs all directives of a file on a fresh machine.
pub(crate) fn run(source: &str, machine: SharedMachine) -> Counts {
    let mut counts = Counts::default();
    let mut lexer = wast::lexer::Lexer::new(source);
    lexer.allow_confusing_unicode(true);
    let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("the suite can be read");
    let wast: wast::Wast<'_> = wast::parser::parse(&buffer).expect("the suite can be parsed");
    let mut runner = Runner {
        machine,
        modules: 0,
        processes: Vec::new(),
        providers: Vec::new(),
        names: HashMap::new(),
        current: None,
        registered: HashMap::new(),
        unregistered: HashMap::new(),
        tainted: HashMap::new(),
        shared: None,
    };
    for directive in wast.directives {
        let line = directive.span().linecol_in(source).0 + 1;
        let (kind, outcome) = runner.directive(directive);
        counts.add(line, kind, outcome);
    }
    counts
}

impl Runner {
    fn directive(&mut self, directive: WastDirective<'_>) -> (&'static str, Outcome) {
        match directive {
            WastDirective::Module(mut module) => {
                let name = module.name().map(|n| n.name().to_owned());
                ("module", self.module(&mut module, name))
            }
            WastDirective::Register { name, module, .. } => {
                ("register", self.register(name, module.map(|m| m.name())))
            }
            WastDirective::Invoke(invoke) => (
                "invoke",
                self.invoke(&invoke).and_then(|r| returned(r).map(|_| ())),
            ),
            WastDirective::AssertReturn { exec, results, .. } => {
                ("assert_return", self.assert_return(exec, &results))
            }
            WastDirective::AssertTrap { exec, message, .. } => {
                ("assert_trap", self.assert_trap(exec, message))
            }
            WastDirective::AssertExhaustion { call, .. } => {
                let outcome = self
                    .invoke(&call)
                    .and_then(|r| trapped(r, TrapKind::StackExhausted.text()));
                ("assert_exhaustion", outcome)
            }
            WastDirective::AssertInvalid {
                mut module,
                message,
                ..
            } => {
                let bytes = module.encode().map_err(|e| Miss::Failed(e.to_string()));
                ("assert_invalid", bytes.and_then(|b| invalid(&b, message)))
            }
            WastDirective::AssertMalformed {
                mut module,
                message,
                ..
            } => match module.encode() {
                // The test library parses the text format, not the compiler.
                Err(_) => ("malformed text", Ok(())),
                Ok(bytes) => ("assert_malformed", malformed(&bytes, message)),
            },
            WastDirective::AssertUnlinkable {
                module, message, ..
            } => ("assert_unlinkable", self.assert_unlinkable(module, message)),
            other => {
                let text = format!("{other:?}");
                let kind = text.split([' ', '(', '{']).next().unwrap_or_default();
                (
                    "other",
                    Err(Miss::Unsupported(format!("the directive {kind}"))),
                )
            }
        }
    }

    fn module(&mut self, module: &mut QuoteWat<'_>, name: Option<String>) -> Outcome {
        let bytes = module.encode().map_err(|e| Miss::Failed(e.to_string()))?;
        let made = match self.instantiate(&bytes) {
            Ok(Ok(index)) => Ok(index),
            Ok(Err(trapped)) => Err(Miss::Failed(format!("{trapped:?}"))),
            Err(miss) => Err(miss),
        };
        let entry = match &made {
            Ok(index) => Ok(*index),
            Err(Miss::Unsupported(why) | Miss::Failed(why)) => Err(why.clone()),
        };
        if let Some(name) = name {
            self.names.insert(name, entry.clone());
        }
        self.current = Some(entry);
        made.map(|_| ())
    }

    /// Compiles and instantiates a module; the inner error is a trap during instantiation.
    fn instantiate(&mut self, bytes: &[u8]) -> Result<Result<usize, Trapped>, Miss> {
        let prefix = format!("m{}_", self.modules);
        self.modules += 1;
        let options = CompileOptions {
            prefix: prefix.clone(),
            provided_imports: link::provided(&self.registered),
            ..options()
        };
        let compiled = compile(bytes, &options).map_err(|e| match e {
            CompileError::Unsupported { what, .. } => Miss::Unsupported(what),
            e => Miss::Failed(e.to_string()),
        })?;
        let compiled: &'static Compiled = Box::leak(Box::new(compiled));
        self.check_sharing(compiled)?;
        let modules = compiled.imports().iter().map(|i| &i.module);
        let providers = modules.filter_map(|m| self.registered.get(m));
        let providers: Vec<_> = providers.map(|r| r.instance).collect();
        let called = providers.iter().map(|p| self.processes[*p].prefix.clone());
        let called: Vec<_> = called.collect();
        let mut machine = self.machine.borrow_mut();
        let depth = machine.load(&prefix, &compiled.ptx, &called, LIMITS.depth)?;
        drop(machine);
        let shared = self.shared_memory()?;
        let link = link::Linker {
            registered: &self.registered,
            shared,
        };
        let limits = InstanceLimits { depth, ..LIMITS };
        let initial = match compiled.instantiate(&link, &limits) {
            Ok(initial) => initial,
            Err(InstantiateError::Trap { trap, .. }) => {
                let (function, offset) = (0, 0);
                return Ok(Err(Trapped {
                    trap,
                    function,
                    offset,
                }));
            }
            Err(e) => return Err(Miss::Failed(e.to_string())),
        };
        let index = self.processes.len();
        let process = Process::new(compiled, &self.machine, &prefix, &initial)?;
        self.processes.push(process);
        self.providers.push(providers);
        if let Some(start) = compiled.start() {
            let outcome = self.call(index, start, &[])?;
            if let Err(trapped) = outcome {
                return Ok(Err(trapped));
            }
        }
        Ok(Ok(index))
    }

    /// The suite's own shared memory: one page, room for a second one, and then its length.
    fn shared_memory(&mut self) -> Result<SharedMemory, String> {
        if let Some(shared) = self.shared {
            return Ok(shared);
        }
        let mut machine = self.machine.borrow_mut();
        let memory = machine.allocate(&[], 2 * PAGE + 8)?;
        let length = memory + 2 * PAGE;
        machine.write(length, &PAGE.to_le_bytes())?;
        let shared = SharedMemory { memory, length };
        self.shared = Some(shared);
        Ok(shared)
    }

    /// Fails if two instances would share something other than a memory that is declared as shared, which is
    /// unsupported.
    fn check_sharing(&mut self, compiled: &Compiled) -> Result<(), Miss> {
        for import in compiled.imports() {
            if let Some(why) = self.unregistered.get(&import.module) {
                return Err(Miss::Unsupported(format!("its import's module: {why}")));
            }
            let what = match &import.kind {
                ImportKind::Memory(limits) if limits.shared => continue,
                ImportKind::Memory(_) => "a memory",
                ImportKind::Table { .. } => "a table",
                ImportKind::Global { mutable: true, .. } => "a mutable global",
                ImportKind::Global {
                    ty: ValueType::FuncRef,
                    ..
                } => "a function reference",
                _ => continue,
            };
            let Some(from) = self.registered.get(&import.module) else {
                continue;
            };
            if !from.exports.contains_key(&import.name) {
                continue;
            }
            let why = format!("{what} shared with another instance");
            self.tainted.insert(from.instance, why.clone());
            return Err(Miss::Unsupported(why));
        }
        Ok(())
    }

    fn find(&self, name: Option<&str>) -> Result<usize, Miss> {
        let entry = match name {
            Some(name) => self.names.get(name).cloned(),
            None => self.current.clone(),
        };
        let index = entry
            .ok_or_else(|| Miss::Failed("no such instance".to_owned()))?
            .map_err(|why| Miss::Unsupported(format!("its module: {why}")))?;
        match self.taint(index) {
            Some(why) => Err(Miss::Unsupported(format!("its module: {why}"))),
            None => Ok(index),
        }
    }

    /// Why an instance, or one that it calls, does not have the state that the suite expects.
    fn taint(&self, index: usize) -> Option<&String> {
        let own = self.tainted.get(&index);
        own.or_else(|| self.providers[index].iter().find_map(|&p| self.taint(p)))
    }

    fn register(&mut self, name: &str, module: Option<&str>) -> Outcome {
        let instance = match self.find(module) {
            Err(Miss::Unsupported(why)) => {
                self.unregistered.insert(name.to_owned(), why.clone());
                return Err(Miss::Unsupported(why));
            }
            found => found?,
        };
        let registered = Registered::new(instance, &mut self.processes[instance])?;
        self.registered.insert(name.to_owned(), registered);
        Ok(())
    }

    fn call(
        &mut self,
        index: usize,
        function: u32,
        args: &[u64],
    ) -> Result<Result<Vec<u64>, Trapped>, Miss> {
        Ok(self.processes[index].call(function, args)?)
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Result<Vec<u64>, Trapped>, Miss> {
        let index = self.find(invoke.module.map(|m| m.name()))?;
        let Some(Export::Function(function)) = self.processes[index].compiled.export(invoke.name)
        else {
            return Err(Miss::Failed(format!("no function {}", invoke.name)));
        };
        let args = invoke.args.iter().map(values::argument);
        let args = args.collect::<Result<Vec<_>, _>>()?.concat();
        self.call(index, function, &args)
    }

    fn assert_return(&mut self, exec: WastExecute<'_>, results: &[WastRet<'_>]) -> Outcome {
        let values = match exec {
            WastExecute::Invoke(invoke) => returned(self.invoke(&invoke)?)?,
            WastExecute::Get { module, global, .. } => {
                let index = self.find(module.map(|m| m.name()))?;
                let process = &mut self.processes[index];
                let Some(Export::Global(global)) = process.compiled.export(global) else {
                    return Err(Miss::Failed(format!("no global {global}")));
                };
                let slots = process.compiled.global_type(global).0.slots();
                let bits = process.global(global)?;
                [bits as u64, (bits >> 64) as u64][..slots].to_vec()
            }
            WastExecute::Wat(_) => return Err(Miss::Failed("a module returns nothing".to_owned())),
        };
        let wanted: usize = results.iter().map(values::slots).sum();
        if values.len() != wanted {
            return Err(Miss::Failed(format!("results in {} places", values.len())));
        }
        let mut rest = values.as_slice();
        for expected in results {
            let (places, behind) = rest.split_at(values::slots(expected));
            values::check(places, expected)?;
            rest = behind;
        }
        Ok(())
    }

    fn assert_trap(&mut self, exec: WastExecute<'_>, message: &str) -> Outcome {
        match exec {
            WastExecute::Invoke(invoke) => trapped(self.invoke(&invoke)?, message),
            WastExecute::Wat(mut module) => {
                let bytes = module.encode().map_err(|e| Miss::Failed(e.to_string()))?;
                match self.instantiate(&bytes)? {
                    Err(t) => trapped(Err(t), message),
                    Ok(_) => Err(Miss::Failed("it was instantiated".to_owned())),
                }
            }
            WastExecute::Get { .. } => Err(Miss::Failed("reading a global never traps".to_owned())),
        }
    }

    fn assert_unlinkable(&mut self, mut module: Wat<'_>, message: &str) -> Outcome {
        let bytes = module.encode().map_err(|e| Miss::Failed(e.to_string()))?;
        let compiled = compile(&bytes, &options()).map_err(|e| match e {
            CompileError::Unsupported { what, .. } => Miss::Unsupported(what),
            e => Miss::Failed(e.to_string()),
        })?;
        let shared = self.shared_memory()?;
        let link = link::Linker {
            registered: &self.registered,
            shared,
        };
        match compiled.instantiate(&link, &LIMITS) {
            Ok(_) => Err(Miss::Failed("it was linked".to_owned())),
            Err(e) if e.to_string().starts_with(message) => Ok(()),
            Err(e) => Err(Miss::Failed(format!("{e}, not {message}"))),
        }
    }
}

fn returned(outcome: Result<Vec<u64>, Trapped>) -> Result<Vec<u64>, Miss> {
    outcome.map_err(|t| Miss::Failed(format!("{t:?}")))
}

/// Whether a call ended with this trap. The suite's message may be longer or shorter than the trap's text.
fn trapped(outcome: Result<Vec<u64>, Trapped>, message: &str) -> Outcome {
    match outcome {
        Ok(values) => Err(Miss::Failed(format!(
            "it returned {values:x?}, not {message}"
        ))),
        Err(t) if message.starts_with(t.trap.text()) || t.trap.text().starts_with(message) => {
            Ok(())
        }
        Err(t) => Err(Miss::Failed(format!("{t:?}, not {message}"))),
    }
}

/// Whether the compiler refuses a module as invalid.
fn refused(bytes: &[u8]) -> Outcome {
    match compile(bytes, &options()) {
        Err(CompileError::Invalid { .. }) => Ok(()),
        Err(CompileError::Unsupported { what, .. }) => Err(Miss::Unsupported(what)),
        Err(e) => Err(Miss::Failed(e.to_string())),
        Ok(_) => Err(Miss::Failed("it was compiled".to_owned())),
    }
}

/// As [`refused`]. The threads proposal dates from the time when a module had at most one table.
fn invalid(bytes: &[u8], message: &str) -> Outcome {
    match refused(bytes) {
        Err(Miss::Failed(_)) if message == "multiple tables" => {
            let why = "tables are as many as 2.0 allows";
            Err(Miss::Unsupported(why.to_owned()))
        }
        outcome => outcome,
    }
}

/// As [`refused`]. Two encodings that are malformed in 2.0 became valid in 3.0, where a limit may have 64
/// bits and a memory index need not be one byte; the validator accepts both in either version.
fn malformed(bytes: &[u8], message: &str) -> Outcome {
    let newer = ["zero byte expected", "integer representation too long"].contains(&message);
    match refused(bytes) {
        Err(Miss::Failed(_)) if newer => {
            let why = "an encoding that 3.0 allows is accepted";
            Err(Miss::Unsupported(why.to_owned()))
        }
        outcome => outcome,
    }
}

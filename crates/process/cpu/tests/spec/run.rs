//! Runs files of the suite.

use std::collections::HashMap;

use everwarp_process::{Invalid, validate_language};
use everwarp_process_cpu::bare_engine;
use wasmparser::{Validator, WasmFeatures};
use wasmtime::{
    Extern, Global, GlobalType, Instance, Linker, Memory, MemoryType, Module, Mutability, Ref,
    RefType, SharedMemory, Store, Table, TableType, Trap, Val, ValType,
};
use wast::{QuoteWat, WastDirective, WastExecute, WastInvoke, WastRet, Wat};

use crate::counts::{Counts, Miss};
use crate::values::{argument, check};

/// Enough for everything that ends; filling a memory takes a unit for each byte that it was asked for.
const FUEL: u64 = 1 << 40;

impl From<wast::Error> for Miss {
    fn from(e: wast::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

type Outcome = Result<(), Miss>;
/// What a call gave, or how it failed.
type Called = Result<Vec<Val>, wasmtime::Error>;

struct Runner {
    store: Store<()>,
    linker: Linker<()>,
    /// Instances by name, and the last one; with the reason if there is none.
    names: HashMap<String, Result<Instance, String>>,
    current: Option<Result<Instance, String>>,
    /// Names under which nothing could be registered, and why.
    unregistered: HashMap<String, String>,
}

/// Why a module is not run: it uses what this engine does not support, or it is no module at all.
fn refusal(bytes: &[u8], error: Invalid) -> Miss {
    match Validator::new_with_features(WasmFeatures::all()).validate_all(bytes) {
        // The offset differs from module to module.
        Ok(_) => Miss::Unsupported(error.message),
        Err(_) => Miss::Failed(error.message),
    }
}

fn spectest(store: &mut Store<()>, linker: &mut Linker<()>) -> wasmtime::Result<()> {
    let name = "spectest";
    linker.func_wrap(name, "print", || {})?;
    linker.func_wrap(name, "print_i32", |_: i32| {})?;
    linker.func_wrap(name, "print_i64", |_: i64| {})?;
    linker.func_wrap(name, "print_f32", |_: f32| {})?;
    linker.func_wrap(name, "print_f64", |_: f64| {})?;
    linker.func_wrap(name, "print_i32_f32", |_: i32, _: f32| {})?;
    linker.func_wrap(name, "print_f64_f64", |_: f64, _: f64| {})?;
    for (global, ty, value) in [
        ("global_i32", ValType::I32, Val::I32(666)),
        ("global_i64", ValType::I64, Val::I64(666)),
        ("global_f32", ValType::F32, Val::F32(666.6f32.to_bits())),
        ("global_f64", ValType::F64, Val::F64(666.6f64.to_bits())),
    ] {
        let ty = GlobalType::new(ty, Mutability::Const);
        let made = Global::new(&mut *store, ty, value)?;
        linker.define(&mut *store, name, global, made)?;
    }
    let memory = Memory::new(&mut *store, MemoryType::new(1, Some(2)))?;
    linker.define(&mut *store, name, "memory", memory)?;
    let shared = SharedMemory::new(store.engine(), MemoryType::shared(1, 2))?;
    linker.define(&mut *store, name, "shared_memory", shared)?;
    let ty = TableType::new(RefType::FUNCREF, 10, Some(20));
    let table = Table::new(&mut *store, ty, Ref::Func(None))?;
    linker.define(&mut *store, name, "table", table)?;
    Ok(())
}

/// Runs all directives of a file.
pub(crate) fn run(source: &str) -> Counts {
    let mut counts = Counts::default();
    let mut lexer = wast::lexer::Lexer::new(source);
    lexer.allow_confusing_unicode(true);
    let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("the suite can be read");
    let wast: wast::Wast<'_> = wast::parser::parse(&buffer).expect("the suite can be parsed");
    let engine = bare_engine().expect("code can be generated");
    let mut store = Store::new(&engine, ());
    store.set_epoch_deadline(u64::MAX / 2);
    let mut linker = Linker::new(&engine);
    linker.allow_shadowing(true);
    spectest(&mut store, &mut linker).expect("the names are fresh");
    let mut runner = Runner {
        store,
        linker,
        names: HashMap::new(),
        current: None,
        unregistered: HashMap::new(),
    };
    for directive in wast.directives {
        let line = directive.span().linecol_in(source).0 + 1;
        runner.store.set_fuel(FUEL).expect("the engine counts fuel");
        let (kind, outcome) = runner.directive(directive);
        counts.add(line, kind, outcome);
    }
    counts
}

impl Runner {
    fn directive(&mut self, directive: WastDirective<'_>) -> (&'static str, Outcome) {
        match directive {
            WastDirective::Module(mut module) => ("module", self.module(&mut module)),
            WastDirective::Register { name, module, .. } => {
                ("register", self.register(name, module.map(|m| m.name())))
            }
            WastDirective::Invoke(invoke) => (
                "invoke",
                self.invoke(&invoke).and_then(|r| returned(r).map(drop)),
            ),
            WastDirective::AssertReturn { exec, results, .. } => {
                ("assert_return", self.assert_return(exec, &results))
            }
            WastDirective::AssertTrap { exec, message, .. } => {
                ("assert_trap", self.assert_trap(exec, message))
            }
            WastDirective::AssertExhaustion { call, message, .. } => (
                "assert_exhaustion",
                self.invoke(&call).and_then(|r| trapped(r, message)),
            ),
            WastDirective::AssertInvalid {
                mut module,
                message,
                ..
            } => {
                let bytes = module.encode().map_err(Miss::from);
                ("assert_invalid", bytes.and_then(|b| refused(&b, message)))
            }
            WastDirective::AssertMalformed {
                mut module,
                message,
                ..
            } => match module.encode() {
                // The text format is the test library's business.
                Err(_) => ("malformed text", Ok(())),
                Ok(bytes) => ("assert_malformed", refused(&bytes, message)),
            },
            WastDirective::AssertUnlinkable {
                module, message, ..
            } => ("assert_unlinkable", self.assert_unlinkable(module, message)),
            other => {
                let text = format!("{other:?}");
                let kind = text.split([' ', '(', '{']).next().unwrap_or_default();
                let why = format!("the directive {kind}");
                ("other", Err(Miss::Unsupported(why)))
            }
        }
    }

    /// Instantiates a module; the inner error is the engine's.
    fn instantiate(&mut self, bytes: &[u8]) -> Result<wasmtime::Result<Instance>, Miss> {
        validate_language(bytes).map_err(|e| refusal(bytes, e))?;
        let module = Module::new(self.store.engine(), bytes);
        let module = module.map_err(|e| Miss::Unsupported(format!("{e:#}")))?;
        for import in module.imports() {
            if let Some(why) = self.unregistered.get(import.module()) {
                return Err(Miss::Unsupported(format!("its import's module: {why}")));
            }
        }
        Ok(self.linker.instantiate(&mut self.store, &module))
    }

    fn module(&mut self, module: &mut QuoteWat<'_>) -> Outcome {
        let name = module.name().map(|n| n.name().to_owned());
        let made = match self.instantiate(&module.encode()?) {
            Ok(Ok(instance)) => Ok(instance),
            Ok(Err(e)) => Err(Miss::Failed(format!("{e:#}"))),
            Err(miss) => Err(miss),
        };
        let entry = match &made {
            Ok(instance) => Ok(*instance),
            Err(Miss::Unsupported(why) | Miss::Failed(why)) => Err(why.clone()),
        };
        if let Some(name) = name {
            self.names.insert(name, entry.clone());
        }
        self.current = Some(entry);
        made.map(drop)
    }

    fn find(&self, name: Option<&str>) -> Result<Instance, Miss> {
        let entry = match name {
            Some(name) => self.names.get(name).cloned(),
            None => self.current.clone(),
        };
        entry
            .ok_or_else(|| Miss::Failed("no such instance".to_owned()))?
            .map_err(|why| Miss::Unsupported(format!("its module: {why}")))
    }

    fn register(&mut self, name: &str, module: Option<&str>) -> Outcome {
        match self.find(module) {
            Ok(instance) => {
                let made = self.linker.instance(&mut self.store, name, instance);
                made.map(drop).map_err(|e| Miss::Failed(format!("{e:#}")))
            }
            Err(miss) => {
                if let Miss::Unsupported(why) = &miss {
                    self.unregistered.insert(name.to_owned(), why.clone());
                }
                Err(miss)
            }
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Called, Miss> {
        let instance = self.find(invoke.module.map(|m| m.name()))?;
        let Some(function) = instance.get_func(&mut self.store, invoke.name) else {
            return Err(Miss::Failed(format!("no function {}", invoke.name)));
        };
        let args: Vec<_> = invoke.args.iter().map(argument).collect::<Result<_, _>>()?;
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        let called = function.call(&mut self.store, &args, &mut results);
        Ok(called.map(|()| results))
    }

    fn assert_return(&mut self, exec: WastExecute<'_>, results: &[WastRet<'_>]) -> Outcome {
        let values = match exec {
            WastExecute::Invoke(invoke) => returned(self.invoke(&invoke)?)?,
            WastExecute::Get { module, global, .. } => {
                let instance = self.find(module.map(|m| m.name()))?;
                match instance.get_export(&mut self.store, global) {
                    Some(Extern::Global(global)) => vec![global.get(&mut self.store)],
                    _ => return Err(Miss::Failed(format!("no global {global}"))),
                }
            }
            WastExecute::Wat(_) => return Err(Miss::Failed("a module returns nothing".to_owned())),
        };
        if values.len() != results.len() {
            return Err(Miss::Failed(format!("{} results", values.len())));
        }
        let mut pairs = values.iter().zip(results);
        pairs.try_for_each(|(value, expected)| check(value, expected))
    }

    fn assert_trap(&mut self, exec: WastExecute<'_>, message: &str) -> Outcome {
        match exec {
            WastExecute::Invoke(invoke) => trapped(self.invoke(&invoke)?, message),
            WastExecute::Wat(mut module) => {
                let made = self.instantiate(&module.encode()?)?;
                trapped(made.map(|_| Vec::new()), message)
            }
            WastExecute::Get { .. } => Err(Miss::Failed("reading a global never traps".to_owned())),
        }
    }

    fn assert_unlinkable(&mut self, mut module: Wat<'_>, message: &str) -> Outcome {
        match self.instantiate(&module.encode()?)? {
            Ok(_) => Err(Miss::Failed("it was linked".to_owned())),
            Err(e) if e.to_string().starts_with(message) => Ok(()),
            Err(e) => Err(Miss::Failed(format!("{e:#}, not {message}"))),
        }
    }
}

fn returned(called: Called) -> Result<Vec<Val>, Miss> {
    called.map_err(|e| Miss::Failed(format!("{e:#}")))
}

/// Whether a call ended with this trap. The suite's messages may say more than the trap's text, or less.
fn trapped(called: Called, message: &str) -> Outcome {
    let error = match called {
        Ok(values) => return Err(Miss::Failed(format!("{values:?}, not {message}"))),
        Err(error) => error,
    };
    let Some(trap) = error.downcast_ref::<Trap>() else {
        return Err(Miss::Failed(format!("{error:#}, not {message}")));
    };
    let text = trap.to_string();
    let text = text.strip_prefix("wasm trap: ").unwrap_or(&text);
    match text.contains(message) || message.starts_with(text) {
        true => Ok(()),
        false => Err(Miss::Failed(format!("{text}, not {message}"))),
    }
}

/// Whether a module is refused. Two encodings that are malformed in 2.0 became valid in 3.0, where a limit may have
/// 64 bits and a memory index need not be one byte; the validator accepts both in either version. And proposals are
/// of their time, when a module had one table at most.
fn refused(bytes: &[u8], message: &str) -> Outcome {
    if validate_language(bytes).is_err() {
        return Ok(());
    }
    let why = match message {
        "zero byte expected" | "integer representation too long" => {
            "an encoding that 3.0 allows is accepted"
        }
        "multiple tables" => "tables are as many as 2.0 allows",
        _ => return Err(Miss::Failed(format!("it was accepted, not {message}"))),
    };
    Err(Miss::Unsupported(why.to_owned()))
}

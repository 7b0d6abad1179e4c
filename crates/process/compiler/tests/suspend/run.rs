//! Runs a module's calls under a schedule, so that two runs can be compared.

use core::mem::offset_of;
use std::collections::{BTreeMap, BTreeSet};

use everwarp_compiler::{
    CompileOptions, Compiled, DevInstance, Export, FunctionType, ImportKind, InstanceLimits,
    Limits, Link, ProvidedImport, Provider, TrapKind, ValueType, compile,
};

use crate::host::{Host, Lazy, NEVER, Outcome, Schedule, Suspensions, provider, without_externs};
use crate::lazy::Provider as FunctionProvider;
use crate::support::encode;
use crate::support::instance::Process;
use crate::support::machine::interpreter;

pub(crate) const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 1024,
    fuel: 1 << 40,
    depth: 50,
};

/// So short that most functions are divided.
pub(crate) const DIVIDE: usize = 100;

/// Memory for the frames that a stack does not hold.
pub(crate) const DEEP_BYTES: u64 = 4 << 20;

/// Everything that can be observed of an instance after some calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) outcomes: Vec<Outcome>,
    globals: Vec<u128>,
    memory: Vec<u8>,
    /// A hash of the requests to the imported functions.
    asked: u64,
}

/// What an instance computes: it does not depend on how its functions are divided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Results<'s> {
    /// Of each call its results, or the kind of its trap.
    calls: Vec<Result<&'s [u64], TrapKind>>,
    globals: &'s [u128],
    memory: &'s [u8],
    asked: u64,
}

impl Seen {
    pub(crate) fn results(&self) -> Results<'_> {
        fn ended(outcome: &Outcome) -> Result<&[u64], TrapKind> {
            match &outcome.ended {
                Ok(results) => Ok(results.as_slice()),
                Err(trapped) => Err(trapped.trap),
            }
        }
        Results {
            calls: self.outcomes.iter().map(ended).collect(),
            globals: &self.globals,
            memory: &self.memory,
            asked: self.asked,
        }
    }
}

/// The names of the modules whose functions the host provides: its own, and the suite's.
const HOSTS: [&str; 2] = ["host", "spectest"];

/// How a module is compiled for a schedule: the host provides every function, and each may suspend. `None` if the
/// module is not supported.
pub(crate) fn options(bytes: &[u8], schedule: Schedule) -> Option<CompileOptions> {
    let threads = CompileOptions {
        threads: true,
        ..CompileOptions::default()
    };
    let ignoring = compile(bytes, &threads).ok()?;
    let mut options = CompileOptions {
        suspendable: schedule.suspendable,
        preempt: schedule.preempt,
        deep: schedule.deep.is_some(),
        divide: schedule.divide,
        only: schedule.lazy.map(|_| BTreeSet::new()),
        // Half of the modules have no lists of targets.
        apart: bytes.len() % 2 == 1,
        ..threads
    };
    for import in ignoring.imports() {
        if HOSTS.contains(&import.module.as_str()) {
            options.provided_imports.push(ProvidedImport {
                module: import.module.clone(),
                name: import.name.clone(),
                symbol: format!("host_{}", import.name),
                provider: Provider::Device,
                suspends: schedule.suspendable,
            });
        }
    }
    Some(options)
}

/// The functions that a compiled module imports from the host, in PTX.
fn providers(compiled: &Compiled, control: u64) -> String {
    let mut functions = BTreeMap::new();
    for import in compiled.imports() {
        if let ImportKind::Function(ty) = &import.kind
            && HOSTS.contains(&import.module.as_str())
        {
            let symbol = format!("host_{}", import.name);
            functions.insert(import.name.as_str(), provider(&symbol, ty, control));
        }
    }
    functions.into_values().collect()
}

/// An instance of a module whose imports all come from the host.
pub(crate) struct Instance {
    pub(crate) process: Process,
    pub(crate) host: Host,
    pub(crate) suspensions: Suspensions,
    /// Provides missing functions, if some are.
    pub(crate) lazy: Option<FunctionProvider>,
}

impl Instance {
    /// `save_bytes`, if given, replaces the compiler's size of the save area.
    pub(crate) fn new(
        bytes: &[u8],
        schedule: Schedule,
        limits: &InstanceLimits,
        save_bytes: Option<u64>,
    ) -> Self {
        let made = Self::try_new(bytes, schedule, limits, save_bytes);
        made.expect("all imports come from the host")
    }

    /// Returns `None` if the module cannot be instantiated.
    pub(crate) fn try_new(
        bytes: &[u8],
        schedule: Schedule,
        limits: &InstanceLimits,
        save_bytes: Option<u64>,
    ) -> Option<Self> {
        let options = options(bytes, schedule)?;
        let compiled = compile(bytes, &options).expect("the module is supported");
        let compiled: &'static Compiled = Box::leak(Box::new(compiled));
        let machine = interpreter();
        let host = Host::new(&machine, schedule);
        let providers = providers(compiled, host.control);
        let text = providers + &without_externs(&compiled.ptx);
        let limits = InstanceLimits {
            depth: schedule.deep.unwrap_or(limits.depth),
            ..*limits
        };
        let loaded = machine.borrow_mut().load("", &text, &[], limits.depth);
        loaded.expect("the interpreter can read the emitted text");
        let initial = compiled.instantiate(&HostLink(compiled), &limits);
        let mut initial = initial.ok()?;
        if schedule.deep.is_some() {
            initial.deep_bytes = DEEP_BYTES;
        }
        initial.save_bytes = save_bytes.unwrap_or(initial.save_bytes);
        Some(Self {
            process: Process::new(compiled, &machine, "", &initial)
                .expect("memory can be allocated"),
            host,
            suspensions: Suspensions::default(),
            lazy: (schedule.lazy)
                .map(|lazy| FunctionProvider::new(lazy, bytes, options, schedule.seed)),
        })
    }

    /// The number of globals.
    pub(crate) fn globals(&self) -> u32 {
        self.process.compiled.layout.global_offsets.len() as u32
    }

    pub(crate) fn call(&mut self, name: &str, args: &[u64]) -> Outcome {
        let Some(Export::Function(function)) = self.process.compiled.export(name) else {
            panic!("no function {name}");
        };
        self.call_function(function, args)
    }

    pub(crate) fn call_function(&mut self, function: u32, args: &[u64]) -> Outcome {
        let Self {
            process,
            host,
            suspensions,
            lazy,
        } = self;
        let provide = |process: &mut Process| match lazy {
            Some(lazy) => lazy.provide(process),
            None => Err("a function is missing".to_owned()),
        };
        let outcome = host.call(process, function, args, suspensions, provide);
        outcome.expect("the interpreter reports no error")
    }

    fn word(&self, at: usize) -> u64 {
        let mut machine = self.process.machine.borrow_mut();
        let word = machine.number(self.process.block + at as u64, 8);
        word.expect("the header is allocated")
    }

    pub(crate) fn see(&mut self, outcomes: Vec<Outcome>, globals: u32) -> Seen {
        let (memory, len) = (
            self.word(offset_of!(DevInstance, memory)),
            self.word(offset_of!(DevInstance, memory_bytes)),
        );
        let mut bytes = vec![0; len as usize];
        let read = self.process.machine.borrow_mut().read(memory, &mut bytes);
        read.expect("linear memory is allocated");
        Seen {
            outcomes,
            globals: (0..globals)
                .map(|g| self.process.global(g).expect("the global is allocated"))
                .collect(),
            memory: bytes,
            asked: self.host.asked(&self.process),
        }
    }
}

/// Makes these calls, the start function first.
pub(crate) fn run(
    bytes: &[u8],
    globals: u32,
    calls: &[(&str, Vec<u64>)],
    schedule: Schedule,
) -> (Seen, Suspensions) {
    run_within(bytes, globals, calls, schedule, &LIMITS)
}

/// The same within these limits.
pub(crate) fn run_within(
    bytes: &[u8],
    globals: u32,
    calls: &[(&str, Vec<u64>)],
    schedule: Schedule,
    limits: &InstanceLimits,
) -> (Seen, Suspensions) {
    let mut instance = Instance::new(bytes, schedule, limits, None);
    let mut outcomes = Vec::new();
    if let Some(start) = instance.process.compiled.start() {
        outcomes.push(instance.call_function(start, &[]));
    }
    for (name, args) in calls {
        outcomes.push(instance.call(name, args));
    }
    (instance.see(outcomes, globals), instance.suspensions)
}

/// The schedules under which each module runs: suspended by imports once or more often, preempted at every safepoint
/// or at some, and both.
pub(crate) fn schedules() -> Vec<Schedule> {
    let at_imports = Schedule {
        suspendable: true,
        suspensions_below: 4,
        ..NEVER
    };
    let preempted = |every| Schedule {
        preempt: true,
        every,
        ..NEVER
    };
    vec![
        at_imports,
        Schedule {
            seed: 99,
            ..at_imports
        },
        preempted(1),
        preempted(2),
        Schedule {
            by_slice: true,
            ..preempted(3)
        },
        preempted(7),
        Schedule {
            seed: 5,
            suspensions_below: 3,
            suspendable: true,
            ..preempted(1)
        },
        Schedule {
            lazy: Some(Lazy::Grows),
            ..preempted(5)
        },
        Schedule {
            lazy: Some(Lazy::Changes),
            seed: 6,
            suspensions_below: 2,
            suspendable: true,
            ..preempted(2)
        },
    ]
}

/// Runs the calls under every schedule and checks that each run looks the same as one without suspensions; and under some of
/// them with divided functions, which spend more fuel. Returns the sum of all suspensions.
pub(crate) fn same(text: &str, globals: u32, calls: &[(&str, Vec<u64>)]) -> Suspensions {
    let bytes = encode(text);
    let (expected, _) = run(&bytes, globals, calls, NEVER);
    let divided = Schedule {
        divide: Some(DIVIDE),
        ..NEVER
    };
    let (of_divided, _) = run(&bytes, globals, calls, divided);
    assert_eq!(of_divided.results(), expected.results(), "{divided:?}");
    let whole = schedules();
    let some = whole.iter().filter(|s| s.lazy.is_some() || s.seed == 5);
    let some: Vec<_> = some
        .map(|schedule| Schedule {
            divide: divided.divide,
            ..*schedule
        })
        .collect();
    let mut all = Suspensions::default();
    for schedule in whole.into_iter().chain(some) {
        let (seen, suspensions) = run(&bytes, globals, calls, schedule);
        let expected = match schedule.divide {
            Some(_) => &of_divided,
            None => &expected,
        };
        assert_eq!(&seen, expected, "{schedule:?}");
        all.waited += suspensions.waited;
        all.preempted += suspensions.preempted;
        all.missing += suspensions.missing;
    }
    all
}

/// Provides the host's functions, and the other exports of the suite's `spectest`.
struct HostLink(&'static Compiled);

impl Link for HostLink {
    fn function(&self, module: &str, name: &str) -> Option<FunctionType> {
        let mut imports = self.0.imports().iter();
        let import = imports.find(|i| i.module == module && i.name == name)?;
        match &import.kind {
            ImportKind::Function(ty) if HOSTS.contains(&module) => Some(ty.clone()),
            _ => None,
        }
    }
    fn global(&self, module: &str, name: &str) -> Option<(ValueType, bool, u128)> {
        let (ty, bits) = match (module, name) {
            ("spectest", "global_i32") => (ValueType::I32, 666),
            ("spectest", "global_i64") => (ValueType::I64, 666),
            ("spectest", "global_f32") => (ValueType::F32, 666.6f32.to_bits().into()),
            ("spectest", "global_f64") => (ValueType::F64, 666.6f64.to_bits().into()),
            _ => return None,
        };
        Some((ty, false, bits))
    }
    fn memory(&self, module: &str, name: &str) -> Option<Limits> {
        let (min, max, shared) = (1, Some(2), false);
        ((module, name) == ("spectest", "memory")).then_some(Limits { min, max, shared })
    }
    fn table(&self, module: &str, name: &str) -> Option<(ValueType, Limits)> {
        let (min, max, shared) = (10, Some(20), false);
        let found = (module, name) == ("spectest", "table");
        found.then_some((ValueType::FuncRef, Limits { min, max, shared }))
    }
}

//! Makes every call of the official suite twice: without suspensions, and suspended wherever possible. `spec.rs`
//! checks the results themselves; here both calls must give the same results and spend the same fuel.

use std::collections::HashMap;

use everwarp_compiler::{CompileError, Export, InstanceLimits, compile};
use wast::{WastDirective, WastExecute, WastInvoke};

use crate::host::{NEVER, Outcome, Schedule, Suspensions};
use crate::run::{Instance, options};
use crate::support::spec::{argument, files};

const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 1024,
    table_elements: 100_000,
    fuel: 1 << 40,
    depth: 300,
};

/// A pair of instances of one module: one is never suspended, the other is.
struct Pair {
    plain: Instance,
    suspended: Instance,
    outcomes: (Vec<Outcome>, Vec<Outcome>),
}

impl Pair {
    /// Returns `None` if an import would have to come from elsewhere than the host.
    fn new(bytes: &[u8], schedule: Schedule) -> Option<Self> {
        match compile(bytes, &options(bytes, NEVER)?) {
            Err(CompileError::Unsupported { .. }) => return None,
            compiled => compiled.expect("the suite's modules are valid"),
        };
        let mut pair = Self {
            plain: Instance::try_new(bytes, NEVER, &LIMITS, None)?,
            suspended: Instance::try_new(bytes, schedule, &LIMITS, None)?,
            outcomes: (Vec::new(), Vec::new()),
        };
        if let Some(start) = pair.plain.process.compiled.start() {
            pair.call(start, &[]);
        }
        Some(pair)
    }

    fn call(&mut self, function: u32, args: &[u64]) {
        self.outcomes
            .0
            .push(self.plain.call_function(function, args));
        self.outcomes
            .1
            .push(self.suspended.call_function(function, args));
    }

    /// Compares everything that can be observed. Returns the number of calls.
    fn compare(mut self, name: &str, all: &mut Suspensions) -> usize {
        let (plain, suspended) = self.outcomes;
        let calls = plain.len();
        let globals = self.plain.globals();
        let plain = self.plain.see(plain, globals);
        assert!(
            self.suspended.see(suspended, globals) == plain,
            "{name} differs"
        );
        all.waited += self.suspended.suspensions.waited;
        all.preempted += self.suspended.suspensions.preempted;
        calls
    }
}

/// Makes a file's calls and returns their number.
fn run(name: &str, source: &str, schedule: Schedule, all: &mut Suspensions) -> usize {
    let mut lexer = wast::lexer::Lexer::new(source);
    lexer.allow_confusing_unicode(true);
    let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("the suite can be read");
    let wast: wast::Wast<'_> = wast::parser::parse(&buffer).expect("the suite can be parsed");
    let (mut pairs, mut current) = (HashMap::<String, Option<Pair>>::new(), String::new());
    for (i, directive) in wast.directives.into_iter().enumerate() {
        let mut invoke = |invoke: &WastInvoke<'_>| {
            let name = invoke.module.map_or(current.as_str(), |m| m.name());
            let Some(pair) = pairs.get_mut(name).and_then(Option::as_mut) else {
                return;
            };
            let args = invoke.args.iter().map(|arg| argument(arg).ok());
            let args = args.collect::<Option<Vec<_>>>().map(|args| args.concat());
            let export = pair.plain.process.compiled.export(invoke.name);
            if let (Some(Export::Function(function)), Some(args)) = (export, args) {
                pair.call(function, &args);
            }
        };
        match directive {
            WastDirective::Module(mut module) => {
                let bytes = module.encode().expect("the suite's modules can be encoded");
                let name = module.name().map(|n| n.name().to_owned());
                current = name.unwrap_or_else(|| format!("{i}"));
                pairs.insert(current.clone(), Pair::new(&bytes, schedule));
            }
            WastDirective::Invoke(call) => invoke(&call),
            WastDirective::AssertReturn {
                exec: WastExecute::Invoke(call),
                ..
            }
            | WastDirective::AssertTrap {
                exec: WastExecute::Invoke(call),
                ..
            }
            | WastDirective::AssertExhaustion { call, .. } => invoke(&call),
            _ => {}
        }
    }
    let made = pairs.into_values().flatten();
    made.map(|pair| pair.compare(name, all)).sum()
}

#[test]
fn suspensions_do_not_change_the_results_of_the_suite() {
    let schedule = Schedule {
        suspendable: true,
        suspensions_below: 4,
        preempt: true,
        every: 1,
        ..NEVER
    };
    let only = std::env::var("SPEC_FILE").ok();
    let (mut calls, mut all) = (0, Suspensions::default());
    for file in files() {
        if only
            .as_ref()
            .is_none_or(|o| file.name.starts_with(o.as_str()))
        {
            calls += run(&file.name, file.source, schedule, &mut all);
        }
    }
    if only.is_none() {
        assert!(calls > 20_000, "only {calls} calls");
        assert!(all.waited > 10 && all.preempted > 10_000, "{all:?}");
    }
}

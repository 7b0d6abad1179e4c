//! Two modules, an importer that calls a library: a suspension of the library suspends both.

use everwarp_compiler::{
    CompileOptions, Compiled, Export, FunctionType, Link, ProvidedImport, Provider, TrapKind,
    ValueType, compile,
};

use crate::host::{Host, NEVER, Outcome, Schedule, Suspensions, provider, without_externs};
use crate::run::{LIMITS, schedules};
use crate::support::encode;
use crate::support::instance::Process;
use crate::support::machine::interpreter;

const LIBRARY: &str = r#"(module
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (global $calls (mut i32) (i32.const 0))
  (func $deeper (param i32 i64) (result i64)
    (if (result i64) (local.get 0)
      (then (i64.add (local.get 1) (call $deeper (i32.sub (local.get 0) (i32.const 1)) (call $ask (local.get 1)))))
      (else (call $ask (local.get 1)))))
  (func (export "twice") (param i32 i64) (result i64 i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (i64.xor (call $deeper (local.get 0) (local.get 1)) (call $ask (i64.const 5)))
    (global.get $calls)
    (if (i32.eq (local.get 0) (i32.const 13)) (then unreachable))))"#;

const IMPORTER: &str = r#"(module
  (import "lib" "twice" (func $twice (param i32 i64) (result i64 i32)))
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (func (export "f") (param i32 i64) (result i64) (local i32 i64)
    (loop $l
      (call $twice (local.get 0) (local.get 1))
      (local.set 2)
      (local.set 3 (i64.add (local.get 3)))
      (local.set 3 (i64.rotl (call $ask (local.get 3)) (i64.const 7)))
      (br_if $l (i32.lt_u (i32.rem_u (local.get 2) (i32.const 4)) (i32.const 3))))
    (local.get 3)))"#;

/// The importer, the library that it imports from, and the host of both.
struct Linked {
    library: Process,
    importer: Process,
    host: Host,
}

fn part(
    text: &str,
    prefix: &str,
    schedule: Schedule,
    library: Option<&Compiled>,
) -> &'static Compiled {
    let device = ProvidedImport {
        module: "host".to_owned(),
        name: "ask".to_owned(),
        symbol: "host_ask".to_owned(),
        provider: Provider::Device,
        suspends: schedule.suspendable,
    };
    let other = library.map(|library| {
        let Some(Export::Function(function)) = library.export("twice") else {
            panic!("it is exported");
        };
        ProvidedImport {
            module: "lib".to_owned(),
            name: "twice".to_owned(),
            symbol: library.symbol(function),
            provider: Provider::Module,
            suspends: library.may_suspend(function),
        }
    });
    let options = CompileOptions {
        prefix: prefix.to_owned(),
        provided_imports: [device].into_iter().chain(other).collect(),
        suspendable: schedule.suspendable,
        preempt: schedule.preempt,
        ..CompileOptions::default()
    };
    let compiled = compile(&encode(text), &options).expect("the module is supported");
    Box::leak(Box::new(compiled))
}

impl Linked {
    /// The sizes, where given, replace the compiler's sizes of the save areas of library and importer.
    fn new(schedule: Schedule, saves: [Option<u64>; 2]) -> Self {
        let library = part(LIBRARY, "a_", schedule, None);
        let importer = part(IMPORTER, "b_", schedule, Some(library));
        let machine = interpreter();
        let host = Host::new(&machine, schedule);
        let (params, results) = (vec![ValueType::I64], vec![ValueType::I64]);
        let ask = provider("host_ask", &FunctionType { params, results }, host.control);
        for text in [ask, library.ptx.clone(), importer.ptx.clone()] {
            let text = without_externs(&text);
            let loaded = machine.borrow_mut().load("", &text, &[], LIMITS.depth);
            loaded.expect("the parts make one image");
        }
        let put = |compiled: &'static Compiled, prefix, block, save: Option<u64>| {
            let initial = compiled.instantiate(&Other(compiled, block), &LIMITS);
            let mut initial = initial.expect("all imports are provided");
            initial.save_bytes = save.unwrap_or(initial.save_bytes);
            Process::new(compiled, &machine, prefix, &initial).expect("memory can be allocated")
        };
        let library = put(library, "a_", 0, saves[0]);
        let importer = put(importer, "b_", library.block, saves[1]);
        if schedule.every > 0 {
            host.ask_to_yield(&library);
        }
        Self {
            library,
            importer,
            host,
        }
    }

    fn call(&mut self, args: &[u64], all: &mut Suspensions) -> Outcome {
        let Some(Export::Function(function)) = self.importer.compiled.export("f") else {
            panic!("it is exported");
        };
        let outcome = self
            .host
            .call(&mut self.importer, function, args, all, |_| {
                Err("it is compiled as a whole".to_owned())
            });
        outcome.expect("the interpreter reports no error")
    }
}

const CALLS: [[u64; 2]; 5] = [[0, 1], [3, 99], [13, 5], [20, 7], [60, 7]];

#[test]
fn a_suspension_of_the_library_suspends_the_importer_too() {
    let run = |schedule, all: &mut Suspensions| {
        let mut linked = Linked::new(schedule, [None; 2]);
        let outcomes = CALLS.map(|args| linked.call(&args, all));
        (
            outcomes,
            linked.library.global(0),
            linked.host.asked(&linked.importer),
        )
    };
    let expected = run(NEVER, &mut Suspensions::default());
    let traps = expected
        .0
        .each_ref()
        .map(|o| o.ended.as_ref().err().map(|t| t.trap));
    let (unreachable, exhausted) = (Some(TrapKind::Unreachable), Some(TrapKind::StackExhausted));
    assert_eq!(traps, [None, None, unreachable, None, exhausted]);
    let mut all = Suspensions::default();
    // The library yields by its own kill word; its own slice would have to be set again each time.
    for schedule in schedules().into_iter().filter(|s| !s.by_slice) {
        assert_eq!(run(schedule, &mut all), expected, "{schedule:?}");
    }
    assert!(all.waited > 50 && all.preempted > 50, "{all:?}");
}

#[test]
fn a_full_save_area_ends_only_the_call_that_filled_it() {
    let schedule = Schedule {
        suspendable: true,
        suspensions_below: 3,
        ..NEVER
    };
    let mut all = Suspensions::default();
    for saves in [[Some(120), None], [None, Some(8)]] {
        let mut linked = Linked::new(schedule, saves);
        // Ten levels deep the library's area has no room; the importer's never has any.
        for _ in 0..20 {
            let trapped = linked.call(&[10, 1], &mut all).ended;
            assert_eq!(trapped.map_err(|t| t.trap), Err(TrapKind::StackExhausted));
            linked.host.forget(&linked.importer);
        }
        // No abandoned frame is left in the library's area.
        for _ in 0..4 {
            let ended = linked.call(&CALLS[0], &mut all).ended;
            assert_eq!(ended.is_ok(), saves[0].is_some());
            linked.host.forget(&linked.importer);
        }
    }
}

/// Provides every import, from the instance whose block has this address.
struct Other(&'static Compiled, u64);

impl Link for Other {
    fn function(&self, module: &str, _: &str) -> Option<FunctionType> {
        use everwarp_compiler::ImportKind;
        let import = self.0.imports().iter().find(|i| i.module == module)?;
        match &import.kind {
            ImportKind::Function(ty) => Some(ty.clone()),
            _ => None,
        }
    }
    fn provider(&self, _: &str, _: &str) -> Option<u64> {
        Some(self.1)
    }
}

//! Tests the operations that a host may perform on a suspended instance.

use core::mem::offset_of;

use everwarp_compiler::{
    CallState, CompileError, CompileOptions, DevInstance, DevSuspension, Export, InstanceLimits,
    KILL_INTERVAL, TrapKind, compile,
};

use crate::host::{NEVER, Schedule, store};
use crate::run::{Instance, LIMITS, options};
use crate::support::encode;

const TEXT: &str = r#"(module
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (func (export "add") (param i64) (result i64)
    (i64.add (local.get 0) (i64.mul (call $ask (i64.const 1)) (i64.const 0))))
  (func (export "other") (param i64) (result i64) (i64.const 4))
  (func (export "spin") (param i64)
    (drop (call $ask (i64.const 2)))
    (loop (br_if 0 (i64.ne (local.tee 0 (i64.sub (local.get 0) (i64.const 1))) (i64.const 0))))))"#;

/// Nearly every call of an import is suspended, and many times.
const LONG: Schedule = Schedule {
    suspendable: true,
    suspensions_below: 1 << 20,
    seed: 3,
    ..NEVER
};

struct Life(Instance);

impl Life {
    fn new(schedule: Schedule, limits: &InstanceLimits) -> Self {
        Self(Instance::new(&encode(TEXT), schedule, limits, None))
    }

    fn once(&mut self, name: &str, args: &[u64]) -> Result<Vec<u64>, TrapKind> {
        let Some(Export::Function(f)) = self.0.process.compiled.export(name) else {
            panic!("no function {name}");
        };
        let ended = self.0.process.call(f, args);
        let ended = ended.expect("the interpreter reports no error");
        ended.map_err(|t| t.trap)
    }

    fn at(&self, field: usize) -> u64 {
        self.0.process.block + field as u64
    }

    fn state(&self) -> CallState {
        let at = self.at(offset_of!(DevInstance, state));
        let code = self.0.process.machine.borrow_mut().number(at, 4);
        CallState::from_code(code.expect("the header is allocated") as u32).expect("a known state")
    }

    fn set(&mut self, field: usize, bytes: usize, value: u64) {
        let at = self.at(field);
        store(&self.0.process, at, bytes, value);
    }

    /// Lets the import complete its pending request at the next call.
    fn answer(&mut self) {
        self.0.host.answer(&self.0.process);
    }
}

#[test]
fn any_entry_resumes_the_suspended_call() {
    let mut life = Life::new(LONG, &LIMITS);
    assert!(life.once("add", &[40]).is_ok());
    for _ in 0..3 {
        assert_eq!(life.state(), CallState::Waiting);
        assert!(life.once("other", &[7]).is_ok());
    }
    life.answer();
    assert_eq!(life.once("other", &[7]), Ok(vec![40]));
    assert_eq!(life.state(), CallState::Ended);
    assert_eq!(life.once("other", &[7]), Ok(vec![4]));
}

#[test]
fn an_abandoned_call_does_not_affect_the_next_one() {
    let mut life = Life::new(LONG, &LIMITS);
    // More often than the save area has room for abandoned frames.
    for _ in 0..20 {
        assert!(life.once("add", &[40]).is_ok());
        assert_eq!(life.state(), CallState::Waiting);
        life.set(offset_of!(DevInstance, state), 4, 0);
        life.0.host.forget(&life.0.process);
        assert_eq!(life.once("other", &[7]), Ok(vec![4]));
    }
}

#[test]
fn a_call_resumed_without_fuel_stays_suspended() {
    let mut life = Life::new(LONG, &LIMITS);
    assert!(life.once("add", &[40]).is_ok());
    let left = life.0.process.fuel();
    life.set(offset_of!(DevInstance, fuel), 8, 0);
    assert_eq!(life.once("add", &[]), Err(TrapKind::OutOfFuel));
    assert_eq!(life.state(), CallState::Waiting);
    life.set(offset_of!(DevInstance, fuel), 8, left as u64);
    life.answer();
    assert_eq!(life.once("add", &[]), Ok(vec![40]));
    assert_eq!(life.0.process.fuel(), left);
}

#[test]
fn a_kill_takes_effect_at_the_next_check_and_a_lower_depth_at_once() {
    let interval = KILL_INTERVAL as i64;
    for preempt in [false, true] {
        let mut life = Life::new(Schedule { preempt, ..LONG }, &LIMITS);
        assert!(life.once("spin", &[1 << 30]).is_ok());
        life.set(offset_of!(DevInstance, kill), 4, 1);
        assert!(
            life.once("spin", &[]).is_ok(),
            "a waiting call does not read its kill word"
        );
        life.answer();
        assert_eq!(life.once("spin", &[]), Err(TrapKind::Killed));
        assert_eq!(life.0.process.fuel() % interval, 0);
        assert_eq!(life.state(), CallState::Ended);

        let mut life = Life::new(Schedule { preempt, ..LONG }, &LIMITS);
        assert!(life.once("spin", &[1]).is_ok());
        let left = life.0.process.fuel();
        life.set(offset_of!(DevInstance, depth), 4, 1);
        assert_eq!(life.once("spin", &[]), Err(TrapKind::StackExhausted));
        assert_eq!(life.0.process.fuel(), left);
    }
}

/// There is only one lane here; its record claims that two started together.
#[test]
fn a_diverged_lane_yields_at_each_check() {
    let preempt = true;
    let mut life = Life::new(Schedule { preempt, ..LONG }, &LIMITS);
    assert!(life.once("spin", &[5000]).is_ok());
    let record = life.0.process.compiled.layout.suspension;
    let record = record.expect("the module can be suspended");
    life.set(record + offset_of!(DevSuspension, mates), 4, 2);
    life.answer();
    let mut turns = 0;
    while life.once("spin", &[]).is_ok() && life.state() == CallState::Preempted {
        assert_eq!(life.0.process.fuel() % KILL_INTERVAL as i64, 0);
        turns += 1;
    }
    assert_eq!(life.state(), CallState::Ended);
    assert!((4..=5).contains(&turns), "{turns}");
}

/// The shared word is a field of the instance's own record: `mates`, which is 0, or `stop_from` itself.
#[test]
fn the_shared_stop_word_makes_an_instance_yield_at_each_check() {
    for (word, expected) in [
        (offset_of!(DevSuspension, mates), 0..=0),
        (offset_of!(DevSuspension, stop_from), 4..=5),
    ] {
        let preempt = true;
        let mut life = Life::new(Schedule { preempt, ..LONG }, &LIMITS);
        assert!(life.once("spin", &[5000]).is_ok());
        let record = life.0.process.compiled.layout.suspension;
        let record = record.expect("the module can be suspended");
        let word = life.at(record + word);
        life.set(record + offset_of!(DevSuspension, stop_from), 4, 7);
        life.set(record + offset_of!(DevSuspension, stop), 8, word);
        life.answer();
        let mut turns = 0;
        while life.once("spin", &[]).is_ok() && life.state() == CallState::Preempted {
            turns += 1;
        }
        assert_eq!(life.state(), CallState::Ended);
        assert!(expected.contains(&turns), "{turns}");
    }
}

#[test]
fn a_function_without_calls_is_preempted() {
    let text = r#"(module (func (export "spin") (param i64) (result i64) (local i64)
      (loop (local.set 1 (i64.add (local.get 1) (local.get 0)))
        (br_if 0 (i64.ne (local.tee 0 (i64.sub (local.get 0) (i64.const 1))) (i64.const 0))))
      (local.get 1)))"#;
    // With a depth of zero the save area has room for this frame only.
    let limits = InstanceLimits { depth: 0, ..LIMITS };
    for every in [1, 10, 1000] {
        let schedule = Schedule {
            preempt: true,
            every,
            ..NEVER
        };
        let mut instance = Instance::new(&encode(text), schedule, &limits, None);
        let outcome = instance.call("spin", &[5000]);
        assert_eq!((outcome.ended, outcome.spent), (Ok(vec![12_502_500]), 5000));
        assert!(instance.suspensions.preempted >= 4, "{every}");
    }
}

#[test]
fn a_suspending_import_requires_a_suspendable_module() {
    let bytes = encode(TEXT);
    let suspends = options(&bytes, LONG).expect("the module is supported");
    let refused = compile(
        &bytes,
        &CompileOptions {
            suspendable: false,
            ..suspends.clone()
        },
    );
    assert!(matches!(refused, Err(CompileError::NotSuspendable { .. })));
    assert!(compile(&bytes, &suspends).is_ok());
}

#[test]
fn the_text_stays_in_proportion_to_the_module() {
    // Many locals and many calls: the text may grow with each number, but not with their product.
    let many = |locals: usize, calls: usize, kept: usize| {
        let read: String = (0..locals)
            .map(|i| format!("(drop (local.get {i}))"))
            .collect();
        let values = "(local.get 0)".repeat(kept);
        let calls = "(drop (call $ask (i64.const 1)))".repeat(calls);
        let drops = "(drop)".repeat(kept);
        let locals = "i64 ".repeat(locals);
        let text = format!(
            r#"(module (import "host" "ask" (func $ask (param i64) (result i64)))
            (func (local {locals}) {read} {values} {calls} {drops}))"#
        );
        let bytes = encode(&text);
        let options = options(&bytes, LONG).expect("the module is supported");
        (bytes.len(), compile(&bytes, &options).map(|c| c.ptx.len()))
    };
    let (bytes, ptx) = many(2000, 2000, 0);
    let ptx = ptx.expect("the module is supported");
    assert!(ptx < 400 * bytes, "{ptx} bytes of PTX for {bytes}");
    let (_, ptx) = many(1, 10, 500);
    assert!(ptx.is_ok());
    let (_, refused) = many(1, 2000, 2000);
    assert!(matches!(refused, Err(CompileError::Unsupported { .. })));
}

#[test]
fn damaged_modules_compile_or_are_refused() {
    let (mut state, mut compiled, mut refused) = (7_u64, 0, 0);
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let module = encode(TEXT);
    for _ in 0..2000 {
        let mut damaged = module.clone();
        for _ in 0..1 + random() % 3 {
            let at = random() % damaged.len();
            damaged[at] = random() as u8;
        }
        let options = CompileOptions {
            preempt: true,
            ..options(&module, LONG).expect("the module is supported")
        };
        match compile(&damaged, &options) {
            Ok(_) => compiled += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(compiled > 100 && refused > 100, "{compiled} and {refused}");
}

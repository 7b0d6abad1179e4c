//! Calls that nest deeper than the stack do not change what an instance computes: results, traps, fuel, memory, globals and
//! the requests to its imports are the same as on a stack that holds all of them.

use everwarp_compiler::{InstanceLimits, TrapKind};

use crate::host::{NEVER, Schedule};
use crate::run::{DEEP_BYTES, Instance, LIMITS, run_within};
use crate::support::encode;

/// A stack that holds everything.
const LARGE: InstanceLimits = InstanceLimits {
    depth: 1 << 20,
    ..LIMITS
};

/// Stacks that hold little, and suspensions for other reasons at the same time.
fn schedules() -> Vec<Schedule> {
    let deep = |depth| Schedule {
        preempt: true,
        deep: Some(depth),
        ..NEVER
    };
    let mut all: Vec<_> = [4, 5, 6, 9, 16, 50].map(deep).into();
    for depth in [4, 7, 20] {
        for (every, suspensions_below) in [(1, 1), (2, 3), (7, 1), (0, 3)] {
            all.push(Schedule {
                every,
                suspensions_below,
                suspendable: suspensions_below > 1,
                by_slice: every == 7,
                seed: u64::from(depth) + every,
                ..deep(depth)
            });
        }
    }
    all
}

/// Makes the calls on all stacks.
fn same(text: &str, globals: u32, calls: &[(&str, Vec<u64>)]) {
    let bytes = encode(text);
    let (expected, _) = run_within(&bytes, globals, calls, NEVER, &LARGE);
    for schedule in schedules() {
        let (seen, _) = run_within(&bytes, globals, calls, schedule, &LIMITS);
        assert_eq!(seen, expected, "{schedule:?}");
    }
    // Divided functions take up to twice as many levels, and spend more fuel.
    let divide = Some(60);
    let whole = Schedule { divide, ..NEVER };
    let (of_divided, _) = run_within(&bytes, globals, calls, whole, &LARGE);
    assert_eq!(of_divided.results(), expected.results());
    let deep_enough = schedules().into_iter().filter(|s| s.deep >= Some(9));
    for schedule in deep_enough.map(|schedule| Schedule { divide, ..schedule }) {
        let (seen, _) = run_within(&bytes, globals, calls, schedule, &LIMITS);
        assert_eq!(seen, of_divided, "{schedule:?}");
    }
}

/// A chain of calls, a tree of calls, and calls through a table; one calls the host at the bottom.
const CALLS: &str = r#"(module
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (type $f (func (param i64) (result i64)))
  (table funcref (elem $sum $odd $even $ask))
  (memory 1)
  (global $deepest (mut i32) (i32.const 0))
  (func $sum (export "sum") (param i64) (result i64)
    (global.set $deepest (i32.add (global.get $deepest) (i32.const 1)))
    (i64.store (i32.const 8) (i64.add (i64.load (i32.const 8)) (local.get 0)))
    (if (result i64) (i64.eqz (local.get 0))
      (then (i64.const 3))
      (else (i64.add (local.get 0) (call $sum (i64.sub (local.get 0) (i64.const 1)))))))
  (func $fib (export "fib") (param i64) (result i64)
    (if (result i64) (i64.lt_u (local.get 0) (i64.const 2))
      (then (local.get 0))
      (else (i64.add
        (call $fib (i64.sub (local.get 0) (i64.const 1)))
        (call $fib (i64.sub (local.get 0) (i64.const 2)))))))
  (func $even (param i64) (result i64)
    (if (result i64) (i64.eqz (local.get 0))
      (then (call $ask (i64.const 44)))
      (else (i64.xor (local.get 0)
        (call_indirect (type $f) (i64.sub (local.get 0) (i64.const 1)) (i32.const 1))))))
  (func $odd (param i64) (result i64)
    (if (result i64) (i64.eqz (local.get 0))
      (then (call_indirect (type $f) (i64.const 99) (i32.const 3)))
      (else (i64.sub (call $even (i64.sub (local.get 0) (i64.const 1))) (local.get 0)))))
  (func (export "even") (param i64) (result i64) (call $even (local.get 0)))
  ;; Calls at many depths, in a loop, up and down.
  (func $saw (export "saw") (param i64) (result i64) (local i64)
    (loop $again
      (local.set 1 (i64.add (local.get 1) (call $sum (local.get 0))))
      (br_if $again (i64.ne (local.tee 0 (i64.sub (local.get 0) (i64.const 1))) (i64.const 0))))
    (local.get 1))
  (func (export "divide") (param i64) (result i64)
    (i64.div_u (i64.const 7) (call $zero (local.get 0))))
  (func $zero (param i64) (result i64)
    (if (result i64) (i64.eqz (local.get 0))
      (then (i64.div_u (i64.const 7) (i64.load (i32.const 16))))
      (else (call $zero (i64.sub (local.get 0) (i64.const 1)))))))"#;

#[test]
fn calls_nest_deeper_than_the_stack() {
    let calls = [
        ("sum", vec![0]),
        ("sum", vec![3]),
        ("sum", vec![40]),
        ("sum", vec![700]),
        ("fib", vec![12]),
        ("even", vec![300]),
        ("even", vec![301]),
        ("saw", vec![60]),
        ("divide", vec![200]),
        ("sum", vec![100]),
    ];
    same(CALLS, 1, &calls);
}

#[test]
fn a_hundred_thousand_calls_nest_on_a_small_stack() {
    let bytes = encode(CALLS);
    let schedule = Schedule {
        preempt: true,
        deep: Some(24),
        ..NEVER
    };
    let outcome = Instance::new(&bytes, schedule, &LIMITS, None).call("sum", &[100_000]);
    assert_eq!(outcome.ended, Ok(vec![5_000_050_003]));
    let plain = Instance::new(&bytes, NEVER, &LARGE, None).call("sum", &[100_000]);
    assert_eq!(outcome, plain);
}

#[test]
fn values_of_every_type_come_back_with_their_function() {
    let text = r#"(module
      (import "host" "mix" (func $mix (param i32 i64 f32 f64 externref) (result i32 i64 f32 f64)))
      (memory 1)
      (global $g (mut i64) (i64.const 5))
      (func $all (export "all") (param i32 i64 f32 f64 externref v128) (result i32 i64 f32 f64 externref v128)
        (local $a i32) (local $b i64) (local $c f32) (local $d f64) (local $e externref) (local $v v128)
        (if (i32.eqz (local.get 0)) (then
          (call $mix (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))
          (return (local.get 4) (local.get 5))))
        ;; Below the call: a constant, a local that changes later, a test and a computed value.
        (i32.const 77)
        (local.get 0)
        (i64.lt_u (local.get 1) (i64.const 1000))
        (i32.mul (local.get 0) (i32.const 3))
        (call $all (i32.sub (local.get 0) (i32.const 1)) (i64.add (local.get 1) (i64.const 7))
          (f32.add (local.get 2) (f32.const 0.5)) (f64.mul (local.get 3) (f64.const 1.25)) (local.get 4)
          (i32x4.add (local.get 5) (i32x4.splat (local.get 0))))
        (local.set $v) (local.set $e) (local.set $d) (local.set $c) (local.set $b) (local.set $a)
        (global.set $g (i64.add (global.get $g) (local.get $b)))
        (i32.store (i32.mul (local.get 0) (i32.const 4)) (local.get $a))
        (local.set 0 (i32.const 0))
        (i32.add) (i32.add) (i32.add) (i32.xor (local.get $a))
        (i64.add (local.get $b) (local.get 1))
        (f32.add (local.get $c) (local.get 2))
        (f64.add (local.get $d) (local.get 3))
        (local.get $e)
        (i32x4.add (local.get $v) (local.get 5))))"#;
    let arguments = |depth| {
        let one_and_half = u64::from(1.5f32.to_bits());
        vec![depth, 600, one_and_half, 2.5f64.to_bits(), 9, 5, 6]
    };
    same(
        text,
        1,
        &[
            ("all", arguments(3)),
            ("all", arguments(23)),
            ("all", arguments(90)),
        ],
    );
}

#[test]
fn a_trap_names_the_function_that_finds_no_room() {
    let bytes = encode(CALLS);
    let schedule = |deep| Schedule {
        preempt: true,
        deep: Some(deep),
        ..NEVER
    };
    let endless = u64::MAX;
    let mut instance = Instance::new(&bytes, schedule(10), &LIMITS, None);
    let outcome = instance.call("sum", &[endless]);
    let trapped = outcome.ended.expect_err("no memory holds all frames");
    let sum = 1;
    assert_eq!(
        (trapped.trap, trapped.function),
        (TrapKind::StackExhausted, sum)
    );
    // A frame has the local, the global's copy is in the block, and the place: 16 bytes.
    assert!(outcome.spent as u64 > DEEP_BYTES / 32, "{}", outcome.spent);
    // The instance works as before, and is as deep again.
    assert_eq!(instance.call("sum", &[500]).ended, Ok(vec![125_253]));
    let again = instance.call("sum", &[endless]);
    assert_eq!(
        (again.ended, again.spent),
        (Err(trapped.clone()), outcome.spent)
    );
    // The same offset as where the stack cannot be divided at all, and as without memory for frames.
    let plain = Schedule {
        deep: None,
        ..schedule(10)
    };
    for (schedule, depth) in [(schedule(1), 1), (plain, 10)] {
        let limits = InstanceLimits { depth, ..LIMITS };
        let mut instance = Instance::new(&bytes, schedule, &limits, None);
        let outcome = instance.call("sum", &[endless]);
        assert_eq!(outcome.ended, Err(trapped.clone()));
        assert_eq!(outcome.spent, i64::from(depth) + 1);
    }
}

#[test]
fn modules_without_circles_are_what_they_were() {
    let text = r#"(module (func $a (export "a") (call $b)) (func $b (call $c)) (func $c (loop)))"#;
    let bytes = encode(text);
    let preempted = Schedule {
        preempt: true,
        ..NEVER
    };
    let ptx = |schedule| {
        let instance = Instance::new(&bytes, schedule, &LIMITS, None);
        instance.process.compiled.ptx.clone()
    };
    let deep = Schedule {
        deep: Some(10),
        ..preempted
    };
    assert_eq!(ptx(deep), ptx(preempted));
}

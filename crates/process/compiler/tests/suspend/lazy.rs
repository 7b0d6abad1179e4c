//! Instances whose image lacks functions: what they compute does not depend on which functions an image has, and when they get
//! another one.

use core::mem::offset_of;
use std::collections::BTreeSet;

use everwarp_compiler::{
    CompileOptions, Compiled, DevInstance, InstanceLimits, PTX_HEAD, TrapKind, compile,
};

use crate::host::{Lazy, NEVER, Schedule, without_externs};
use crate::run::{Instance, LIMITS, run, run_within};
use crate::support::encode;
use crate::support::instance::Process;

/// After this many images the next has all functions.
const IMAGES_MOST: u32 = 100;

/// Makes images for an instance.
pub(crate) struct Provider {
    lazy: Lazy,
    bytes: Vec<u8>,
    options: CompileOptions,
    random: u64,
    images: u32,
}

impl Provider {
    pub(crate) fn new(lazy: Lazy, bytes: &[u8], options: CompileOptions, seed: u64) -> Self {
        Self {
            lazy,
            bytes: bytes.to_vec(),
            options,
            random: seed,
            images: 0,
        }
    }

    /// Gives the instance an image that has the function which it calls.
    pub(crate) fn provide(&mut self, process: &mut Process) -> Result<(), String> {
        let at = process.block + offset_of!(DevInstance, trap_function) as u64;
        let function = process.machine.borrow_mut().number(at, 4)? as u32;
        if !process.compiled.missing().contains(&function) {
            return Err(format!("function {function} is not missing"));
        }
        let wanted = process.compiled.with_callees([function]);
        let present = self.options.only.get_or_insert_default();
        match self.lazy {
            _ if self.images == IMAGES_MOST => present.extend(0..1 << 16),
            Lazy::Grows => drop(present.insert(function)),
            Lazy::WithCallees => present.extend(wanted),
            Lazy::Changes => {
                present.clear();
                present.insert(function);
                for other in process.compiled.missing() {
                    self.random = (self.random.wrapping_mul(6_364_136_223_846_793_005))
                        .wrapping_add(1_442_695_040_888_963_407);
                    if self.random >> 63 == 0 {
                        present.insert(*other);
                    }
                }
            }
        }
        self.images += 1;
        self.options.prefix = format!("image{}_", self.images);
        let compiled = compile(&self.bytes, &self.options).map_err(|e| e.to_string())?;
        let compiled: &'static Compiled = Box::leak(Box::new(compiled));
        let text = without_externs(&compiled.ptx);
        let text = text.strip_prefix(PTX_HEAD).ok_or("no head")?;
        process
            .machine
            .borrow_mut()
            .load(&self.options.prefix, text, &[], 1)?;
        (process.compiled, process.prefix) = (compiled, self.options.prefix.clone());
        Ok(())
    }

    pub(crate) fn images(&self) -> u32 {
        self.images
    }
}

fn lazily(lazy: Lazy) -> Schedule {
    Schedule {
        preempt: true,
        lazy: Some(lazy),
        ..NEVER
    }
}

/// A start function, calls in circles, through a table, with operands below them, and of an import.
const CALLS: &str = r#"(module
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (type $f (func (param i64) (result i64)))
  (table funcref (elem $odd $twice $leaf $ask))
  (memory 1)
  (global $g (mut i32) (i32.const 0))
  (start $begin)
  (func $begin (global.set $g (i32.const 5)) (drop (call $twice (i64.const 4))))
  (func $leaf (param i64) (result i64) (i64.add (local.get 0) (i64.const 9)))
  (func $twice (param i64) (result i64)
    (i64.mul (local.get 0) (i64.add (call $leaf (local.get 0)) (call $counts (local.get 0)))))
  (func $counts (param i64) (result i64) (local i64)
    (loop $again
      (local.set 1 (i64.add (local.get 1) (local.get 0)))
      (br_if $again (i64.ne (local.tee 0 (i64.sub (local.get 0) (i64.const 1))) (i64.const 0))))
    (local.get 1))
  (func $even (export "even") (param i64) (result i64)
    (global.set $g (i32.add (global.get $g) (i32.const 1)))
    (if (result i64) (i64.eqz (local.get 0))
      (then (call $ask (i64.const 44)))
      (else (i64.xor (local.get 0)
        (call_indirect (type $f) (i64.sub (local.get 0) (i64.const 1)) (i32.const 0))))))
  (func $odd (param i64) (result i64)
    (if (result i64) (i64.eqz (local.get 0))
      (then (call_indirect (type $f) (i64.const 99) (i32.const 3)))
      (else (i64.sub (call $even (i64.sub (local.get 0) (i64.const 1))) (local.get 0)))))
  (func (export "all") (param i64) (result i64 f64 i32) (local f64)
    (local.set 1 (f64.const 1.5))
    (call $even (local.get 0))
    (call $many (local.get 0) (i32.const 7) (f32.const 0.5) (f64.const 2.5) (v128.const i32x4 1 2 3 4) (ref.null func))
    (local.set 1) (global.get $g) (drop) (local.get 1) (global.get $g))
  (func $many (param i64 i32 f32 f64 v128 funcref) (result f64)
    (i32.store (i32.const 16) (i32x4.extract_lane 2 (local.get 4)))
    (i64.store (i32.const 24) (call $twice (local.get 0)))
    (f64.add (local.get 3) (f64.promote_f32 (f32.add (local.get 2) (f32.convert_i32_s
      (i32.add (local.get 1) (ref.is_null (local.get 5))))))))
  (func (export "divide") (param i64) (result i64)
    (i64.div_u (i64.const 7) (call $zero (local.get 0))))
  (func $zero (param i64) (result i64)
    (if (result i64) (i64.eqz (local.get 0))
      (then (i64.div_u (i64.const 7) (local.get 0)))
      (else (call $zero (i64.sub (local.get 0) (i64.const 1)))))))"#;

const ALL: [Lazy; 3] = [Lazy::Grows, Lazy::WithCallees, Lazy::Changes];

#[test]
fn missing_functions_arrive_while_instances_wait() {
    let bytes = encode(CALLS);
    let calls = [
        ("even", vec![5]),
        ("all", vec![6]),
        ("divide", vec![3]),
        ("all", vec![9]),
    ];
    let (expected, _) = run(&bytes, 1, &calls, NEVER);
    for lazy in ALL {
        for seed in 1..20 {
            for (every, suspensions_below, deep) in
                [(0, 1, None), (1, 3, None), (3, 1, Some(5)), (0, 2, Some(7))]
            {
                let schedule = Schedule {
                    suspendable: suspensions_below > 1,
                    suspensions_below,
                    every,
                    deep,
                    seed,
                    ..lazily(lazy)
                };
                let (seen, suspensions) = run_within(&bytes, 1, &calls, schedule, &LIMITS);
                assert_eq!(seen, expected, "{schedule:?}");
                assert!(suspensions.missing > 0);
            }
        }
    }
}

#[test]
fn each_missing_function_is_asked_for_once() {
    let bytes = encode(CALLS);
    for (lazy, images) in [(Lazy::Grows, 4), (Lazy::WithCallees, 3)] {
        let mut instance = Instance::new(&bytes, lazily(lazy), &LIMITS, None);
        let leaf = 2;
        let functions: Vec<_> = (1..=10).filter(|f| *f != leaf).collect();
        assert_eq!(instance.process.compiled.missing(), functions);
        for argument in [4, 5] {
            instance.call("even", &[argument]);
            instance.call("divide", &[argument]);
            assert_eq!(instance.suspensions.missing, images);
        }
        let provided = instance.lazy.as_ref().map(Provider::images);
        assert_eq!(provided.map(u64::from), Some(images));
    }
}

#[test]
fn arguments_that_find_no_room_end_the_call() {
    let bytes = encode(CALLS);
    let even = 5;
    let mut instance = Instance::new(&bytes, lazily(Lazy::Grows), &LIMITS, Some(8));
    let outcome = instance.call("even", &[5]);
    let trapped = outcome.ended.expect_err("the area is too small");
    assert_eq!(
        (trapped.trap, trapped.function),
        (TrapKind::StackExhausted, even)
    );
    assert_eq!(instance.suspensions.missing, 0);
}

#[test]
fn a_module_that_is_compiled_as_a_whole_is_what_it_was() {
    let bytes = encode(CALLS);
    let all = CompileOptions {
        preempt: true,
        ..CompileOptions::default()
    };
    let whole = compile(&bytes, &all).expect("it is supported");
    assert_eq!(whole.missing(), []);
    let few = CompileOptions {
        only: Some(BTreeSet::new()),
        ..all.clone()
    };
    let few = compile(&bytes, &few).expect("it is supported");
    assert!(few.ptx.len() < whole.ptx.len() * 3 / 4);
    let every = CompileOptions {
        only: Some((0..100).collect()),
        ..all
    };
    let every = compile(&bytes, &every).expect("it is supported");
    assert_eq!(every.missing(), []);
    // They share frames, so they need the same room for them.
    let limits = InstanceLimits {
        depth: 20,
        ..LIMITS
    };
    assert_eq!(few.save_bytes(limits.depth), every.save_bytes(limits.depth));
}

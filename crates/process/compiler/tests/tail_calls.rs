//! Tests tail calls in addition to the proposal's own files: a chain of any length in constant stack, the fuel of the
//! calls, and the positions of their traps. They run on the interpreter, or on the first CUDA device with
//! `EVERWARP_MACHINE=cuda CUDA_CACHE_DISABLE=1 cargo test -p everwarp-compiler --test tail_calls -- --test-threads 1`.

mod support;

use everwarp_compiler::{
    CompileOptions, Compiled, Export, InstanceLimits, NoImports, TrapKind, compile,
};
use support::encode;
use support::instance::{Process, Trapped};
use support::machine::chosen;

const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 1,
    table_elements: 16,
    fuel: 1_000_000,
    depth: 3,
};

/// Two functions that tail-call each other, and a third through a table. They have different parameters, and call out
/// of the middle of blocks. A further function calls the first one without a tail call.
const TEXT: &str = r#"(module
  (type $t (func (param i64 v128 f32) (result i32 i64)))
  (table funcref (elem $odd $leaf $other))
  (func $even (export "even") (param i32 i64) (result i32 i64)
    (if (local.get 0)
      (then (return_call $odd (local.get 1) (i32x4.splat (local.get 0)) (f32.convert_i32_u (local.get 0)))))
    (i32.const 1) (local.get 1))
  (func $odd (type $t) (local i32)
    (local.set 3 (i32x4.extract_lane 2 (local.get 1)))
    ;; The tail call drops the values below its arguments.
    (i64.const 99)
    (block (loop
      (br_if 1 (f32.ne (local.get 2) (f32.convert_i32_u (local.get 3))))
      (if (i32.gt_u (local.get 3) (i32.const 1))
        (then (return_call $even (i32.sub (local.get 3) (i32.const 2)) (i64.add (local.get 0) (i64.const 2)))))
      (if (i32.eqz (local.get 3)) (then (br 2)))
      (return_call $leaf (local.get 0) (local.get 1) (local.get 2))))
    (drop) (i32.const -1) (local.get 0))
  (func $leaf (type $t) (i32.const 0) (i64.add (local.get 0) (i64.const 1)))
  (func $other)
  (func (export "inner") (param i32) (result i64) (local i64)
    (call $even (local.get 0) (i64.const 5))
    (drop) (drop)
    (call $even (local.get 0) (i64.const 7))
    (local.set 1)
    (i64.add (i64.extend_i32_u) (local.get 1)))
  (func (export "chosen") (param i32 i32) (result i32 i64)
    (return_call_indirect (type $t) (i64.const 30) (i32x4.splat (local.get 0)) (f32.convert_i32_u (local.get 0))
      (local.get 1)))
  (func $spin (export "spin") (return_call $spin))
  (func (export "deep") (param i32) (result i32)
    (if (result i32) (local.get 0)
      (then (i32.add (i32.const 1) (call 8 (i32.sub (local.get 0) (i32.const 1)))))
      (else (i32.const 0))))
  (func (export "last") (param i32) (result i32) (return_call 7 (local.get 0))))"#;

fn process(limits: InstanceLimits) -> Process {
    let compiled =
        compile(&encode(TEXT), &CompileOptions::default()).expect("the module is supported");
    let compiled: &'static Compiled = Box::leak(Box::new(compiled));
    let machine = chosen();
    let loaded = machine
        .borrow_mut()
        .load("", &compiled.ptx, &[], limits.depth);
    assert_eq!(loaded, Ok(limits.depth));
    let initial = compiled.instantiate(&NoImports, &limits);
    let initial = initial.expect("the module has no imports");
    Process::new(compiled, &machine, "", &initial).expect("memory can be allocated")
}

fn call(process: &mut Process, name: &str, args: &[u64]) -> Result<Vec<u64>, Trapped> {
    let Some(Export::Function(f)) = process.compiled.export(name) else {
        panic!("no function {name}");
    };
    process.call(f, args).expect("the machine reports no error")
}

#[test]
fn a_long_chain_of_tail_calls_takes_no_depth() {
    let mut process = process(LIMITS);
    for (rounds, even) in [(0, 1), (1, 0), (2, 1), (9, 0), (100_000, 1), (100_001, 0)] {
        let results = vec![even, 5 + rounds];
        assert_eq!(call(&mut process, "even", &[rounds, 5]), Ok(results));
    }
    assert_eq!(call(&mut process, "inner", &[500]), Ok(vec![508]));
}

#[test]
fn each_tail_call_spends_one_unit_of_fuel() {
    let mut process = process(LIMITS);
    assert_eq!(call(&mut process, "even", &[10, 0]), Ok(vec![1, 10]));
    // Six calls of `$even`, and five of `$odd`, each with a round of its loop.
    assert_eq!(process.fuel(), LIMITS.fuel - 6 - 5 * 2);
}

#[test]
fn fuel_and_the_kill_word_end_an_endless_chain() {
    let mut endless = process(LIMITS);
    let trapped = call(&mut endless, "spin", &[]).expect_err("the chain is endless");
    assert_eq!((trapped.trap, endless.fuel()), (TrapKind::OutOfFuel, 0));
    let mut killed = process(LIMITS);
    killed.kill();
    let trapped = call(&mut killed, "spin", &[]).expect_err("the instance is killed");
    assert_eq!(trapped.trap, TrapKind::Killed);
    assert!(killed.fuel() > LIMITS.fuel - 20_000);
}

#[test]
fn an_invalid_element_traps_in_the_calling_function() {
    let mut process = process(LIMITS);
    assert_eq!(call(&mut process, "chosen", &[5, 0]), Ok(vec![0, 35]));
    assert_eq!(call(&mut process, "chosen", &[5, 1]), Ok(vec![0, 31]));
    let chosen = process.compiled.export("chosen");
    for (element, trap) in [
        (2, TrapKind::IndirectCallTypeMismatch),
        (3, TrapKind::UndefinedElement),
    ] {
        let trapped =
            call(&mut process, "chosen", &[5, element]).expect_err("the element is not callable");
        assert_eq!(trapped.trap, trap);
        assert_eq!(chosen, Some(Export::Function(trapped.function)));
    }
}

#[test]
fn depth_counts_only_frames_that_exist_at_the_same_time() {
    let mut process = process(LIMITS);
    assert_eq!(call(&mut process, "deep", &[0]), Ok(vec![0]));
    // Every other call is to `last`, which gives up its frame for its callee.
    assert_eq!(call(&mut process, "last", &[2]), Ok(vec![2]));
    let trapped = call(&mut process, "deep", &[3]).expect_err("the calls nest too deep");
    assert_eq!(trapped.trap, TrapKind::StackExhausted);
}

//! Modules that are suspended at every place where an error is likely.

use everwarp_compiler::{InstanceLimits, TrapKind};

use crate::host::{NEVER, Schedule};
use crate::run::{Instance, LIMITS, same};
use crate::support::encode;

const ONCE: Schedule = Schedule {
    suspendable: true,
    suspensions_below: 3,
    ..NEVER
};

#[test]
fn values_of_every_type_survive_a_suspension() {
    let text = r#"(module
      (import "host" "mix" (func $mix (param i32 i64 f32 f64 externref) (result i32 i64 f32 f64)))
      (import "host" "ref" (func $ref (param externref) (result externref)))
      (memory 1)
      (global $g (mut i64) (i64.const 5))
      (func (export "all") (param i32 i64 f32 f64 externref) (result i32 i64 f32 f64 externref i32)
        (local $a i32) (local $b i64) (local $c f32) (local $d f64) (local $e externref) (local $unread i64)
        ;; Below the call: a constant, a local that changes later, a test and a computed value.
        (i32.const 77)
        (local.get 0)
        (i64.lt_u (local.get 1) (i64.const 1000))
        (i32.mul (local.get 0) (i32.const 3))
        (local.set $unread (i64.const 4))
        (call $mix (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))
        (local.set $d) (local.set $c) (local.set $b) (local.set $a)
        (local.set 0 (i32.const 0))
        (i32.store (i32.const 16) (local.get $a))
        (local.set $e (call $ref (local.get 4)))
        (i32.add) (i32.add) (i32.add) (i32.xor (local.get $a))
        (i64.add (local.get $b) (local.get 1))
        (f32.add (local.get $c) (local.get 2))
        (f64.add (local.get $d) (local.get 3))
        (local.get $e)
        (global.set $g (i64.add (global.get $g) (local.get $b)))
        (i32.load (i32.const 16))))"#;
    let one_and_half = u64::from(1.5f32.to_bits());
    let calls = |first| vec![first, 600, one_and_half, 2.5f64.to_bits(), 9];
    let suspensions = same(
        text,
        1,
        &[("all", calls(3)), ("all", calls(u64::from(u32::MAX)))],
    );
    assert!(suspensions.waited > 10 && suspensions.preempted > 10);
}

#[test]
fn calls_through_groups_of_a_large_table_continue_where_they_were() {
    let mut text = String::from(
        r#"(module
          (import "host" "mix" (func $mix (param i32 i64 f32 f64 externref) (result i32 i64 f32 f64)))
          (memory 1)
          (type $t (func (param i32 i64) (result i64 i32)))
          (table 700 funcref)
          (elem (i32.const 0) func"#,
    );
    for function in 1..=600 {
        text += &format!(" {function}");
    }
    text.push(')');
    for function in 1..=600 {
        // Every seventh calls the host, which suspends it.
        let called = match function % 7 {
            0 => "(call $mix (local.get 0) (local.get 1) (f32.const 1) (f64.const 2) (ref.null extern))
                  (drop) (drop) (local.set 1) (local.set 0)",
            _ => "",
        };
        text += &format!(
            "(func (type $t) {called}
               (i64.add (local.get 1) (i64.const {function})) (i32.xor (local.get 0) (i32.const {function})))"
        );
    }
    text += r#"(func (export "call") (param i32 i32 i64) (result i64 i32 i32)
        (i32.mul (local.get 0) (i32.const 3))
        (call_indirect (type $t) (local.get 1) (local.get 2) (local.get 0))
        (local.set 1) (local.set 2) (local.set 0)
        (local.get 2) (local.get 1) (local.get 0)))"#;
    // The first and the last of each group, some in between, an element that is null, and one that is not there.
    let at = [
        0, 1, 6, 254, 255, 256, 257, 510, 511, 512, 513, 594, 598, 599, 600, 700,
    ];
    let calls: Vec<_> = at.map(|at| ("call", vec![at, 40 + at, 1000 * at])).to_vec();
    let suspensions = same(&text, 0, &calls);
    assert!(suspensions.waited > 0);
}

/// Vectors as parameters, locals, results, globals and operands, in blocks and loops, through imports and indirect
/// calls.
const VECTORS: &str = r#"(module
  (import "host" "mix" (func $mix (param v128 i32 v128) (result i64 v128)))
  (memory 1)
  (global $g (mut v128) (v128.const i32x4 1 2 3 4))
  (type $t (func (param v128 i32) (result i32 v128)))
  (table funcref (elem $swap))
  (func $swap (type $t) (local v128)
    (call $mix (local.get 0) (local.get 1) (local.get 2))
    (local.set 0) (drop)
    (local.get 1) (i8x16.shuffle 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 (local.get 0) (local.get 2)))
  (func (export "all") (param i32 v128) (result v128 i32 v128) (local $v v128) (local $n i32)
    (local.set $v (i32x4.add (local.get 1) (i32x4.splat (local.get 0))))
    ;; Below the calls: a vector, a local that changes later, and a constant.
    (i64x2.mul (local.get 1) (local.get $v))
    (local.get $v)
    (v128.const i64x2 -1 7)
    (local.get 0)
    (loop $again (param i32) (result i32)
      (local.set $n (i32.add (i32.const 1)))
      (call_indirect (type $t) (local.get $v) (local.get $n) (i32.const 0))
      (local.set $v (f32x4.convert_i32x4_s))
      (global.set $g (v128.xor (global.get $g) (local.get $v)))
      (if (param i32) (result i32) (i32.lt_u (local.get $n) (i32.add (local.get 0) (i32.const 3)))
        (then (br $again))))
    (local.set $n)
    (i8x16.sub) (i16x8.add_sat_s)
    (v128.store offset=3 (i32.const 8) (local.get $v))
    (local.get $n)
    (block (result v128)
      (select (local.get $v) (global.get $g) (i32.and (local.get $n) (i32.const 1))))
    (i32x4.add (v128.load offset=3 (i32.const 8)))))"#;

#[test]
fn vectors_survive_a_suspension() {
    let calls = |first| {
        (
            "all",
            vec![first, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
        )
    };
    let suspensions = same(VECTORS, 1, &[calls(3), calls(8)]);
    assert!(suspensions.waited > 10 && suspensions.preempted > 10);
}

#[test]
fn facts_about_addresses_are_computed_again_after_a_resumption() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i64) (result i64)))
      (memory 1)
      (func (export "around") (param i32) (result i64)
        (i64.store offset=8 (local.get 0) (i64.const 0x0123456789abcdef))
        (i64.store offset=16 (local.get 0) (call $ask (i64.load offset=8 (local.get 0))))
        (i64.add (i64.load offset=8 (local.get 0)) (i64.load offset=16 (local.get 0)))))"#;
    let calls: Vec<_> = [0, 3, 8, 65_512, 65_513]
        .map(|at| ("around", vec![at]))
        .into();
    let suspensions = same(text, 0, &calls);
    assert!(suspensions.waited > 5 && suspensions.preempted > 5);
}

#[test]
fn loops_blocks_and_branch_tables_survive_a_suspension() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i32) (result i32)))
      (memory 1)
      (func $body (param $n i32) (result i32) (local $sum i32) (local $i i32)
        (loop $outer
          (local.set $i (i32.const 0))
          (loop $inner
            (block $three (block $two (block $one
              (br_table $one $two $three $one $two $three
                (i32.and (call $ask (i32.add (local.get $i) (local.get $sum))) (i32.const 7))))
              (local.set $sum (i32.add (local.get $sum) (i32.const 1))))
             (local.set $sum (i32.mul (local.get $sum) (i32.const 3))))
            (i32.store8 (i32.and (local.get $sum) (i32.const 0xff)) (local.get $i))
            (br_if $inner (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5))))
          (br_if $outer (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $sum))
      ;; Values that a loop and blocks take and give.
      (func (export "values") (param i32) (result i32 i64)
        (local.get 0) (i64.const 1)
        (loop $l (param i32 i64) (result i32 i64) (local $x i64)
          (drop)
          (if (param i32) (result i32) (i32.and (local.tee 0 (call $ask (i32.const 4))) (i32.const 1))
            (then (call $ask) (i32.const 1) (i32.or))
            (else (i32.const 5) (call $ask (i32.const 1)) (i32.add) (i32.add)))
          (block $b (param i32) (result i32 i64)
            (i64.extend_i32_u (call $ask (i32.const 2)))
            (br_if $b (i32.and (call $ask (i32.const 3)) (i32.const 1)))
            (drop) (i64.extend_i32_u (call $body (i32.const 2))))
          (br_if $l (i32.and (call $ask (i32.const 8)) (i32.const 3)))))
      (func (export "body") (param i32) (result i32) (call $body (local.get 0))))"#;
    // A loop cannot declare locals, so the declaration is removed.
    let text = text.replace("(local $x i64)", "");
    let calls = [
        ("body", vec![1]),
        ("body", vec![6]),
        ("values", vec![3]),
        ("values", vec![8]),
    ];
    let suspensions = same(&text, 0, &calls);
    assert!(suspensions.waited > 50 && suspensions.preempted > 100);
}

#[test]
fn recursion_and_depth_are_exact() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i64) (result i64)))
      (func $down (export "down") (param i32 i64) (result i64)
        (if (result i64) (local.get 0)
          (then (i64.add (local.get 1)
            (call $down (i32.sub (local.get 0) (i32.const 1)) (call $ask (i64.add (local.get 1) (i64.const 3))))))
          (else (call $ask (local.get 1)))))
      (func $fib (export "fib") (param i32) (result i64)
        (if (result i64) (i32.lt_s (local.get 0) (i32.const 2))
          (then (call $ask (i64.extend_i32_s (local.get 0))))
          (else (i64.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                         (call $fib (i32.sub (local.get 0) (i32.const 2))))))))"#;
    // Of the depth of 50, the call itself takes one unit and the import another.
    let down = |n| ("down", vec![n, 11]);
    let calls = [down(48), down(49), down(3), ("fib", vec![6])];
    let suspensions = same(text, 0, &calls);
    assert!(suspensions.waited > 50 && suspensions.preempted > 100);
    let mut instance = Instance::new(&encode(text), ONCE, &LIMITS, None);
    assert!(instance.call("down", &[48, 1]).ended.is_ok());
    let trapped = instance
        .call("down", &[49, 1])
        .ended
        .expect_err("one too deep");
    assert_eq!(trapped.trap, TrapKind::StackExhausted);
}

#[test]
fn a_resumed_indirect_call_reaches_the_same_callee() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i32) (result i32)))
      (type $t (func (param i32) (result i32)))
      (table 8 funcref)
      (elem (i32.const 0) $ask $changes $plain $nested $a $b)
      (func $a (type $t) (i32.add (call $ask (local.get 0)) (i32.const 1)))
      (func $b (type $t) (i32.add (call $ask (local.get 0)) (i32.const 2)))
      (func $plain (type $t) (i32.mul (local.get 0) (i32.const 7)))
      ;; While it is suspended, its own place in the table is another's.
      (func $changes (type $t)
        (table.set (i32.const 1) (ref.func $b))
        (call $ask (i32.const 40))
        (table.set (i32.const 1) (ref.func $changes))
        (i32.add (call $ask (local.get 0))))
      (func $nested (type $t)
        (i32.add (local.get 0) (call_indirect (type $t) (i32.const 5) (i32.const 1))))
      (func (export "call") (param i32 i32) (result i32)
        (i32.sub (local.get 0) (call_indirect (type $t) (local.get 1) (local.get 0)))))"#;
    let call = |f, x| ("call", vec![f, x]);
    let calls: Vec<_> = (0..9).map(|f| call(f, 100 + f)).collect();
    let suspensions = same(text, 0, &calls);
    assert!(suspensions.waited > 20 && suspensions.preempted > 20);
}

#[test]
fn traps_and_fuel_after_a_resumption_are_the_same() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i32) (result i32)))
      (memory 1)
      (global (mut i32) (i32.const 0))
      (func $inner (param i32) (result i32)
        (drop (call $ask (i32.const 1)))
        (i32.load (local.get 0)))
      (func (export "load") (param i32) (result i32)
        (global.set 0 (i32.add (global.get 0) (i32.const 1)))
        (i32.add (call $inner (local.get 0)) (call $inner (local.get 0))))
      (func (export "none") (call $ask (i32.const 4)) (drop) unreachable)
      (func (export "grow") (result i32)
        (drop (memory.grow (i32.const 1)))
        (drop (call $inner (i32.const 0)))
        (i32.add (i32.load offset=65536 (i32.const 0)) (memory.size))))"#;
    let calls = [
        ("load", vec![0]),
        ("load", vec![65_535]),
        ("none", vec![]),
        ("grow", vec![]),
        ("load", vec![65_535]),
    ];
    same(text, 1, &calls);
    let bytes = encode(text);
    for fuel in 1..12 {
        let limits = InstanceLimits { fuel, ..LIMITS };
        let run = |schedule| {
            let mut instance = Instance::new(&bytes, schedule, &limits, None);
            let outcomes = vec![instance.call("load", &[0]), instance.call("none", &[])];
            let left = instance.process.fuel();
            (instance.see(outcomes, 1), left)
        };
        let preempt = true;
        assert_eq!(run(ONCE), run(NEVER), "{fuel}");
        assert_eq!(run(Schedule { preempt, ..ONCE }), run(NEVER), "{fuel}");
    }
}

#[test]
fn a_start_function_can_be_suspended() {
    let text = r#"(module
      (import "host" "ask" (func $ask (result i64)))
      (global (mut i64) (i64.const 0))
      (func $start (global.set 0 (i64.add (call $ask) (call $ask))))
      (start $start)
      (func (export "get") (result i64) (global.get 0)))"#;
    let suspensions = same(text, 1, &[("get", vec![])]);
    assert!(suspensions.waited > 0);
}

#[test]
fn a_suspension_traps_if_the_save_area_is_full() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i64) (result i64)))
      (func $down (export "down") (param i32 i64) (result i64)
        (if (result i64) (local.get 0)
          (then (i64.add (local.get 1)
            (call $down (i32.sub (local.get 0) (i32.const 1)) (local.get 1))))
          (else (call $ask (local.get 1))))))"#;
    let bytes = encode(text);
    // Every request suspends, so the innermost frame is always saved.
    let always = Schedule {
        suspensions_below: 1_000_000,
        ..ONCE
    };
    let mut instance = Instance::new(&bytes, ONCE, &LIMITS, None);
    let frame = instance.process.compiled.largest_frame();
    // A frame of `$down` holds a local of each size, and the site. The import's frame is smaller.
    assert_eq!(frame, 16);
    assert_eq!(instance.process.compiled.save_bytes(50), 51 * 16);
    assert!(instance.call("down", &[20, 1]).ended.is_ok());
    for depth in [0, 1, 5, 20] {
        let mut small = Instance::new(&bytes, always, &LIMITS, Some((depth + 1) * frame));
        let outcome = small.call("down", &[depth + 1, 1]);
        let trapped = outcome.ended.expect_err("the save area is full");
        assert_eq!(trapped.trap, TrapKind::StackExhausted);
        // Every level has spent one unit of fuel, and so has the import.
        assert_eq!(outcome.spent, depth as i64 + 3);
        // The failed call has left no frame in the area.
        let mut enough = Instance::new(&bytes, ONCE, &LIMITS, Some((depth + 2) * frame));
        assert!(enough.call("down", &[depth, 1]).ended.is_ok());
    }
}

#[test]
fn only_suspendable_functions_save_frames() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i32) (result i32)))
      (func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
      (func $calls (param i32) (result i32) (loop (br_if 0 (local.get 0))) (call $leaf (local.get 0)))
      (func $suspends (export "f") (param i32) (result i32)
        (i32.add (call $calls (local.get 0)) (call $ask (local.get 0)))))"#;
    let bytes = encode(text);
    let text = |schedule| {
        let mut instance = Instance::new(&bytes, schedule, &LIMITS, None);
        let compiled = instance.process.compiled;
        instance.suspensions = Default::default();
        let may: Vec<_> = (0..4).map(|f| compiled.may_suspend(f)).collect();
        (may, compiled.save_bytes(1000), compiled.ptx.clone())
    };
    let (plain, bytes_plain, off) = text(NEVER);
    let (at_imports, bytes_imports, on) = text(ONCE);
    let (preempted, _, _) = text(Schedule {
        preempt: true,
        ..NEVER
    });
    assert_eq!(plain, [false; 4]);
    assert_eq!(at_imports, [true, false, false, true]);
    assert_eq!(preempted, [true, false, true, true]);
    // No function calls itself, so the depth does not matter: the area has room for a frame with one local and one
    // value, and for the import's frame with its argument.
    assert_eq!((bytes_plain, bytes_imports), (0, 16 + 8));
    let of = |ptx: &str, name: &str| {
        let from = ptx.find(&format!(
            "{name} (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0)\n{{"
        ));
        let from = from.expect("the function is in the text");
        let end = ptx[from..].find("\n}").expect("the function's text ends");
        ptx[from..from + end].to_owned()
    };
    for same in ["f1", "f2"] {
        assert_eq!(of(&off, same), of(&on, same));
    }
    assert_ne!(of(&off, "f3"), of(&on, "f3"));
}

/// The instructions of a function from its first label to its first return; labels have no numbers.
fn hot(ptx: &str, name: &str) -> Vec<String> {
    let head = format!("{name} (.param");
    let mut lines = ptx.lines();
    while !(lines.clone().next())
        .is_some_and(|l| l.starts_with(".func") && l.contains(&head) && !l.ends_with(';'))
    {
        lines.next().expect("the function is in the text");
    }
    let from = lines.skip_while(|l| !l.starts_with("$L"));
    let to = from.take_while(|l| l.trim() != "ret;");
    let label = |line: &str| match line.split_once("$L") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}$L{rest}")
        }
        None => line.to_owned(),
    };
    to.map(label).collect()
}

#[test]
fn preemption_adds_no_instruction_to_a_loop() {
    let text = r#"(module (memory 1)
      (func (export "sum") (param i32) (result i32) (local i32 i32)
        (loop $outer
          (local.set 2 (i32.const 3))
          (loop $inner
            (local.set 1 (i32.add (local.get 1) (i32.load (local.get 2))))
            (br_if $inner (local.tee 2 (i32.sub (local.get 2) (i32.const 1)))))
          (br_if $outer (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
        (local.get 1)))"#;
    let emitted = |preempt| {
        let bytes = encode(text);
        let schedule = Schedule { preempt, ..NEVER };
        let instance = Instance::new(&bytes, schedule, &LIMITS, None);
        instance.process.compiled.ptx.clone()
    };
    let (off, on) = (emitted(false), emitted(true));
    assert!(on.len() > off.len());
    let loops = hot(&off, "f0");
    assert!(loops.len() > 30 && loops.iter().filter(|l| l.contains("add.s32 %fl")).count() == 2);
    assert_eq!(hot(&on, "f0"), loops);
}

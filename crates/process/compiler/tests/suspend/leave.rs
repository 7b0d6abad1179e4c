//! Tests every way out of a loop of arithmetic, which the lanes of a warp leave together.

use std::collections::BTreeSet;

use everwarp_compiler::TrapKind;

use crate::host::{NEVER, Schedule};
use crate::run::{Instance, LIMITS};
use crate::support::encode;

/// Ways out of a loop: at its end; by branches out of one block or two; out of an endless loop; to the beginning of
/// the enclosing loop; by a trap; and by more exits than the compiler distinguishes. Some locals are assigned in each
/// round before they are read.
const WAYS: &str = r#"(module
  (func (export "ways") (param $x i64) (param $n i64) (result i64) (local $t i64) (local $i i64)
    (block $two (block $one
      (loop $again
        (local.set $t (i64.mul (local.get $x) (i64.const 6364136223846793005)))
        (local.set $x (i64.add (local.get $t) (i64.const 1442695040888963407)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br_if $one (i64.gt_u (local.get $t) (i64.const 0xfff0000000000000)))
        (br_if $two (i64.lt_u (local.get $t) (i64.const 0x0010000000000000)))
        (br_if $again (i64.lt_u (local.get $i) (local.get $n))))
      (return (i64.xor (local.get $i) (local.get $x))))
      (return (i64.add (local.get $i) (i64.const 1000000))))
    (i64.add (local.get $i) (i64.const 2000000)))
  (func (export "endless") (param $x i64) (result i64) (local $i i64)
    (block $small (block $out
      (loop $again
        (local.set $x (i64.add (i64.mul (local.get $x) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br_if $small (i64.lt_u (local.get $x) (i64.const 0x0010000000000000)))
        (br_if $out (i64.gt_u (local.get $x) (i64.const 0xfff0000000000000)))
        (br $again)))
      (return (i64.sub (i64.const 0) (local.get $i))))
    (local.get $i))
  (func (export "around") (param $n i64) (result i64) (local $x i64) (local $sum i64) (local $t i64)
    (block $done
      (loop $outer
        (br_if $done (i64.eqz (local.get $n)))
        (local.set $x (local.get $n))
        (local.set $n (i64.sub (local.get $n) (i64.const 1)))
        (loop $inner
          (br_if $outer (i64.le_u (local.get $x) (i64.const 1)))
          (local.set $t (i64.shr_u (local.get $x) (i64.const 1)))
          (local.set $x (select (i64.add (i64.mul (local.get $x) (i64.const 3)) (i64.const 1)) (local.get $t)
            (i64.ne (i64.and (local.get $x) (i64.const 1)) (i64.const 0))))
          (local.set $sum (i64.add (local.get $sum) (i64.const 1)))
          (br $inner))))
    (local.get $sum))
  (func (export "divide") (param $n i64) (result i64) (local $sum i64)
    (loop $again
      (local.set $sum (i64.add (local.get $sum) (i64.div_u (i64.const 1000000) (local.get $n))))
      (local.set $n (i64.sub (local.get $n) (i64.const 1)))
      (br_if $again (i64.ge_s (local.get $n) (i64.const 0))))
    (local.get $sum))
  (func (export "many") (param $n i64) (result i64) (local $i i64)
    (block $9 (block $8 (block $7 (block $6 (block $5 (block $4 (block $3 (block $2 (block $1
      (loop $again
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br_if $1 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 2))))
        (br_if $2 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 3))))
        (br_if $3 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 5))))
        (br_if $4 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 7))))
        (br_if $5 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 11))))
        (br_if $6 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 13))))
        (br_if $7 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 17))))
        (br_if $8 (i64.eq (local.get $i) (i64.mul (local.get $n) (i64.const 19))))
        (br_if $9 (i64.eq (local.get $i) (i64.const 3000)))
        (br $again))
    ) (return (i64.const 1))) (return (i64.const 2))) (return (i64.const 3))) (return (i64.const 4)))
    (return (i64.const 5))) (return (i64.const 6))) (return (i64.const 7))) (return (i64.const 8)))
    (i64.const 9)))"#;

/// Computes in Rust the results of `ways`, `endless` and `around`.
fn left(name: &str, args: &[u64]) -> u64 {
    let next = |x: u64| x.wrapping_mul(6_364_136_223_846_793_005);
    let (few, most) = (0x0010_0000_0000_0000, 0xfff0_0000_0000_0000);
    let (mut x, mut i) = (args[0], 0_u64);
    match name {
        "ways" => loop {
            let t = next(x);
            x = t.wrapping_add(1_442_695_040_888_963_407);
            i += 1;
            if t > most {
                return i + 1_000_000;
            }
            if t < few {
                return i + 2_000_000;
            }
            if i >= args[1] {
                return i ^ x;
            }
        },
        "endless" => loop {
            x = next(x).wrapping_add(1_442_695_040_888_963_407);
            i += 1;
            if x < few {
                return i;
            }
            if x > most {
                return i.wrapping_neg();
            }
        },
        _ => {
            for n in 1..=args[0] {
                let mut x = n;
                while x > 1 {
                    x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
                    i += 1;
                }
            }
            i
        }
    }
}

#[test]
fn every_exit_of_an_arithmetic_loop_gives_the_right_result() {
    let every = [0, 1, 10, 1000];
    let schedules = every.map(|every| Schedule {
        preempt: every > 0,
        every,
        ..NEVER
    });
    let (mut ways, mut preempted) = (BTreeSet::new(), 0);
    for schedule in schedules {
        let mut instance = Instance::new(&encode(WAYS), schedule, &LIMITS, None);
        let mut ends = |name, args: &[u64], expected| {
            let ended = instance.call(name, args).ended;
            assert_eq!(ended, Ok(vec![expected]), "{name} {args:?} {schedule:?}");
        };
        for x in 0..20 {
            for n in [1, 700, 9000] {
                let expected = left("ways", &[x, n]);
                ways.insert(expected / 1_000_000);
                ends("ways", &[x, n], expected);
            }
            ends("endless", &[x], left("endless", &[x]));
        }
        ends("around", &[60], left("around", &[60]));
        for (n, exit) in [(1500, 1), (2000, 9), (1000, 1), (100, 1)] {
            ends("many", &[n], exit);
        }
        let divided = instance.call("divide", &[2000]).ended;
        assert_eq!(
            divided.expect_err("the division by zero traps").trap,
            TrapKind::DivideByZero
        );
        preempted += instance.suspensions.preempted;
    }
    assert!(ways.contains(&1) && ways.contains(&2) && ways.len() > 2);
    assert!(preempted > 100, "{preempted}");
}

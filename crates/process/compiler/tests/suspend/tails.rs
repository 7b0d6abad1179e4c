//! Chains of tail calls that are suspended.

use everwarp_compiler::TrapKind;

use crate::host::{NEVER, Schedule};
use crate::run::{Instance, LIMITS, same};
use crate::support::encode;

/// Functions with different parameters that tail-call each other, one of them through a table and one of them an
/// import; and a caller that continues after its call.
const CHAIN: &str = r#"(module
  (import "host" "ask" (func $ask (param i64) (result i64)))
  (type $t (func (param i64 i32 v128) (result i64)))
  (table funcref (elem $b $end))
  (global $g (mut i64) (i64.const 0))
  (func $a (param $n i32) (param $sum i64) (result i64) (local $x i64)
    (local.set $x (call $ask (local.get $sum)))
    (global.set $g (i64.xor (global.get $g) (local.get $x)))
    (return_call_indirect (type $t) (i64.add (local.get $sum) (local.get $x)) (local.get $n)
      (i64x2.splat (local.get $x))
      (i32.eqz (local.get $n))))
  (func $b (type $t)
    (loop
      (global.set $g (i64.add (global.get $g) (i64x2.extract_lane 1 (local.get 2))))
      (br_if 0 (i64.lt_s (call $ask (global.get $g)) (i64.const 0))))
    (return_call $a (i32.sub (local.get 1) (i32.const 1)) (local.get 0)))
  (func $end (type $t) (return_call $ask (local.get 0)))
  (func (export "chain") (param i32 i64) (result i64)
    (i64.mul (local.get 1) (call $a (local.get 0) (local.get 1))))
  (func (export "first") (param i32 i64) (result i64) (return_call $a (local.get 0) (local.get 1))))"#;

#[test]
fn a_chain_of_tail_calls_resumes_where_it_was_suspended() {
    let calls = [
        ("chain", vec![5, 3]),
        ("first", vec![4, 9]),
        ("chain", vec![0, 1]),
    ];
    let suspensions = same(CHAIN, 1, &calls);
    assert!(suspensions.waited > 20 && suspensions.preempted > 20);
}

#[test]
fn a_suspension_traps_if_the_trampolines_frame_does_not_fit() {
    let bytes = encode(CHAIN);
    let (mut waited, mut trapped) = (0, 0);
    for seed in 1..9 {
        let schedule = Schedule {
            suspendable: true,
            suspensions_below: 3,
            seed,
            ..NEVER
        };
        let enough = Instance::new(&bytes, schedule, &LIMITS, None);
        let frame = enough.process.compiled.largest_frame();
        // From no room up to the room for the frames of the import, the chain's function, the trampoline and the
        // caller.
        let mut fitted = false;
        for room in (0..=4 * frame).step_by(8) {
            let mut instance = Instance::new(&bytes, schedule, &LIMITS, Some(room));
            match instance.call("chain", &[0, 1]).ended {
                Ok(_) => {
                    fitted = true;
                    waited += instance.suspensions.waited;
                }
                Err(outcome) => {
                    assert!(!fitted, "with {room} bytes it had room before");
                    assert_eq!(outcome.trap, TrapKind::StackExhausted);
                    trapped += 1;
                }
            }
        }
        assert!(fitted, "the largest save area has enough room");
    }
    assert!(waited > 10 && trapped > 30, "{waited}, {trapped}");
}

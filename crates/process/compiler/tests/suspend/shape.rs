//! Every loop has one entry, also where calls are resumed, because a warp's lanes reconverge only after loops with one
//! entry.

use everwarp_compiler::compile;

use crate::host::{NEVER, Schedule};
use crate::run::options;
use crate::support::encode;
use crate::support::ptx::{Function, Image, Op};

/// The possible successors of each instruction.
fn followers(function: &Function) -> Vec<Vec<usize>> {
    let each = function.code.iter().enumerate().map(|(at, instruction)| {
        let mut next = match &instruction.op {
            Op::Branch(target) => vec![*target],
            Op::Table { targets, .. } => targets.clone(),
            Op::Return => vec![],
            _ => return vec![at + 1],
        };
        next.extend(instruction.guard.map(|_| at + 1));
        next
    });
    each.collect()
}

/// The reachable instructions in reverse postorder: each comes before its successors, except where an edge closes a
/// loop.
fn ordered(next: &[Vec<usize>]) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; next.len()]);
    let mut work = vec![(0, 0)];
    seen[0] = true;
    while let Some((at, done)) = work.pop() {
        match next[at].get(done) {
            None => order.push(at),
            Some(&follower) => {
                work.push((at, done + 1));
                if !seen[follower] {
                    seen[follower] = true;
                    work.push((follower, 0));
                }
            }
        }
    }
    order.reverse();
    order
}

/// Returns the number of branches that close a loop, and how many of them lead to an instruction that does not
/// dominate the branch (a loop with a second entry). Source of the algorithm: Cooper, Harvey and Kennedy, "A Simple,
/// Fast Dominance Algorithm".
fn loops(next: &[Vec<usize>]) -> (usize, usize) {
    let order = ordered(next);
    let mut place = vec![usize::MAX; next.len()];
    for (i, &at) in order.iter().enumerate() {
        place[at] = i;
    }
    let mut before = vec![Vec::new(); order.len()];
    for (i, &at) in order.iter().enumerate() {
        for &follower in &next[at] {
            before[place[follower]].push(i);
        }
    }
    let mut above = vec![usize::MAX; order.len()];
    above[0] = 0;
    let common = |above: &[usize], mut a: usize, mut b: usize| {
        while a != b {
            if a > b {
                a = above[a];
            } else {
                b = above[b];
            }
        }
        a
    };
    let mut changed = true;
    while changed {
        changed = false;
        for i in 1..order.len() {
            let known = before[i]
                .iter()
                .copied()
                .filter(|&b| above[b] != usize::MAX);
            let new = known.reduce(|a, b| common(&above, a, b));
            let new = new.expect("a predecessor has been visited");
            changed |= above[i] != new;
            above[i] = new;
        }
    }
    let (mut closed, mut entered) = (0, 0);
    for (i, from) in before.iter().enumerate() {
        for &back in from.iter().filter(|&&b| b >= i) {
            closed += 1;
            entered += usize::from(common(&above, i, back) != i);
        }
    }
    (closed, entered)
}

#[test]
fn loops_have_one_entry() {
    let text = r#"(module
      (import "host" "ask" (func $ask (param i32) (result i32)))
      (func (export "f") (param i32)
        (loop $a
          (loop $b
            (if (call $ask (local.get 0)) (then
              (loop $c (br_if $c (call $ask (i32.const 1))) (br_if $b (local.get 0)))))
            (loop $d (br_if $d (i32.const 0)))
            (br_if $a (call $ask (i32.const 3))))
          (loop $e (loop $f (br_if $f (call $ask (i32.const 3)))) (br_if $e (i32.const 1))))
        (loop $g (br_if $g (call $ask (i32.const 2))))))"#;
    let bytes = encode(text);
    let shape = |suspendable, preempt| {
        let schedule = Schedule {
            suspendable,
            preempt,
            ..NEVER
        };
        let options = options(&bytes, schedule).expect("the module is supported");
        let ptx = compile(&bytes, &options)
            .expect("the module is supported")
            .ptx;
        let mut image = Image::default();
        let text = crate::host::without_externs(&ptx);
        // The text lacks only the import's provider.
        let provider = ".visible .func (.param .align 8 .b8 ret[16]) host_ask (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0)\n{\n  ret;\n}\n";
        image
            .add(&(provider.to_owned() + &text))
            .expect("the interpreter can read the text");
        loops(&followers(&image.functions[image.by_name["f1"]]))
    };
    // Each loop; and the loop without calls has a second one around it, which continues it after a check of its fuel.
    assert_eq!(shape(false, false), (8, 0));
    for preempt in [false, true] {
        let (closed, entered) = shape(true, preempt);
        assert_eq!(entered, 0, "of {closed}");
        assert!(closed >= 7);
    }
}

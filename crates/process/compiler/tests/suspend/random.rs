//! Random modules with everything that can surround a call: values of every type on the operand stack and in locals,
//! blocks, branches, loops, tables. They behave the same under every schedule.

use std::fmt::Write;

use everwarp_compiler::divided;

use crate::host::{NEVER, Schedule, Suspensions};
use crate::run::{DIVIDE, options, same};
use crate::support::encode;

const TYPES: [&str; 5] = ["i32", "i64", "f32", "f64", "externref"];
const FUNCTIONS: u32 = 4;
/// Locals of each function: its parameters first, then two of each type, then the counters of loops.
const PARAMS: [usize; 3] = [0, 1, 3];
const COUNTERS: u32 = 4;

struct Generator {
    state: u64,
    /// The current function; it calls only functions with higher numbers, so that every program ends.
    function: u32,
    /// The number of open loops.
    loops: u32,
    /// The number of expressions that the function may still nest.
    budget: u32,
}

impl Generator {
    fn below(&mut self, n: u32) -> u32 {
        // Knuth's linear congruential generator; its upper half is good enough to choose with.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as u32) % n
    }

    fn local(&mut self, ty: usize) -> u32 {
        let own = PARAMS.iter().position(|p| *p == ty);
        let first = PARAMS.len() as u32 + 2 * ty as u32;
        match (own, self.below(3)) {
            (Some(param), 0) => param as u32,
            (_, n) => first + n % 2,
        }
    }

    fn leaf(&mut self, ty: usize) -> String {
        if ty == 4 || self.below(2) == 0 {
            return format!("(local.get {})", self.local(ty));
        }
        format!("({}.const {})", TYPES[ty], self.below(100))
    }

    /// An expression that gives a value of this type.
    fn expression(&mut self, ty: usize) -> String {
        if self.budget == 0 {
            return self.leaf(ty);
        }
        self.budget -= 1;
        let name = TYPES[ty];
        match self.below(14) {
            0 | 1 => self.leaf(ty),
            2 | 3 => {
                let [a, b, c] = PARAMS.map(|p| self.expression(p));
                format!("(call $ask_{name} {a} {b} {c})")
            }
            4 | 5 if self.function + 1 < FUNCTIONS => {
                let callee = self.function + 1 + self.below(FUNCTIONS - self.function - 1);
                let [a, b, c] = PARAMS.map(|p| self.expression(p));
                // Functions return one value of each of two types; the other value goes into a local.
                let other = self.local(1);
                let call = format!("(call $f{callee} {a} {b} {c}) (local.set {other})");
                let value = self.convert(0, ty, "");
                format!("(block (result {name}) {call} {value})")
            }
            6 if self.function + 2 < FUNCTIONS => {
                let [a, b, c] = PARAMS.map(|p| self.expression(p));
                let at = self.expression(0);
                let call =
                    format!("(call_indirect (type $t) {a} {b} {c} (i32.and {at} (i32.const 3)))");
                self.convert(0, ty, &call)
            }
            7 => {
                let (test, a, b) = (self.expression(0), self.expression(ty), self.expression(ty));
                format!("(if (result {name}) {test} (then {a}) (else {b}))")
            }
            8 => {
                let (a, test, b) = (self.expression(ty), self.expression(0), self.expression(ty));
                let set = self.local(ty);
                format!("(block (result {name}) (br_if 0 {a} {test}) (local.set {set}) {b})")
            }
            9 if self.loops < COUNTERS => {
                let counter = PARAMS.len() as u32 + 2 * TYPES.len() as u32 + self.loops;
                let rounds = 1 + self.below(3);
                // One value stays on the stack below the loop, and another is the loop's parameter.
                let (below, first) = (self.expression(ty), self.expression(1));
                self.loops += 1;
                let (set, body, to) = (self.local(ty), self.expression(ty), self.local(1));
                self.loops -= 1;
                format!(
                    "{below} {first} (local.set {counter} (i32.const {rounds}))
                    (loop (param i64) (result i64) (local.set {to}) (local.set {set} {body}) (local.get {to})
                      (br_if 0 (local.tee {counter} (i32.sub (local.get {counter}) (i32.const 1)))))
                    (local.set {to})"
                )
            }
            10 => {
                let local = self.local(ty);
                format!("(local.tee {local} {})", self.expression(ty))
            }
            11 if ty != 4 => {
                let at = self.expression(0);
                let at = format!("(i32.and {at} (i32.const 0xfff))");
                if self.below(2) == 0 {
                    let (value, local) = (self.expression(ty), self.local(ty));
                    return format!("({name}.store {at} {value}) (local.get {local})");
                }
                format!("({name}.load {at})")
            }
            12 => {
                let (a, b) = (self.leaf(ty), self.leaf(ty));
                let test = self.comparison();
                format!("(select (result {name}) {a} {b} {test})")
            }
            _ => self.operation(ty),
        }
    }

    /// A value that stays a predicate until an operator needs it in a register.
    fn comparison(&mut self) -> String {
        let (a, b) = (self.expression(1), self.expression(1));
        format!("(i64.lt_s {a} {b})")
    }

    fn operation(&mut self, ty: usize) -> String {
        match ty {
            4 => self.leaf(4),
            0 if self.below(2) == 0 => {
                // The predicate stays on the operand stack while the rest is computed.
                let (test, other) = (self.comparison(), self.expression(0));
                format!("(i32.add {test} {other})")
            }
            _ => {
                let (a, b) = (self.expression(ty), self.expression(ty));
                let op = ["add", "sub", "mul"][self.below(3) as usize];
                format!("({}.{op} {a} {b})", TYPES[ty])
            }
        }
    }

    /// Converts one type to another; an external reference comes from a local.
    fn convert(&mut self, from: usize, to: usize, value: &str) -> String {
        let text = match (from, to) {
            (0, 0) => return value.to_owned(),
            (0, 1) => "i64.extend_i32_s",
            (0, 2) => "f32.convert_i32_s",
            (0, 3) => "f64.convert_i32_s",
            _ => return format!("{value} (drop) {}", self.leaf(to)),
        };
        format!("{value} ({text})")
    }

    fn module(&mut self) -> String {
        let mut text = String::from("(module\n");
        let params = PARAMS.map(|p| TYPES[p]).join(" ");
        for ty in TYPES {
            writeln!(
                text,
                "(import \"host\" \"ask_{ty}\" (func $ask_{ty} (param {params}) (result {ty})))"
            )
            .expect("a String takes text");
        }
        writeln!(
            text,
            "(memory 1) (global $g (mut i64) (i64.const 1))
            (type $t (func (param {params}) (result i32)))
            (table 4 funcref) (elem (i32.const 0) $ask_i32 $last $ask_i32 $last)"
        )
        .expect("a String takes text");
        for function in 0..FUNCTIONS {
            (self.function, self.budget) = (function, 40);
            let locals: String = TYPES.map(|ty| format!(" {ty} {ty}")).concat();
            let (narrow, wide) = (self.expression(0), self.expression(1));
            let statement = self.expression(2);
            writeln!(
                text,
                "(func $f{function} (export \"f{function}\") (param {params}) (result i32 i64) (local{locals} i32 i32 i32 i32)
                {statement} (drop) {narrow} {wide} (global.set $g (i64.add (global.get $g) (i64.const 1))))"
            )
            .expect("a String takes text");
        }
        text.push_str(
            "(func $last (type $t) (i32.add (local.get 0) (call $ask_i32 (local.get 0) (local.get 1) (local.get 2)))))",
        );
        text
    }
}

#[test]
fn random_programs_behave_the_same_under_every_schedule() {
    let (mut all, mut in_parts) = (Suspensions::default(), 0);
    let from = std::env::var("RANDOM_FROM").map_or(1, |n| n.parse().expect("a number"));
    let count = std::env::var("RANDOM_COUNT").map_or(20, |n| n.parse().expect("a number"));
    for seed in from..from + count {
        let mut generator = Generator {
            state: seed,
            function: 0,
            loops: 0,
            budget: 0,
        };
        let text = generator.module();
        let args = |n: u64| vec![n, n << 40 | 7, (n as f64).to_bits()];
        let calls = [
            ("f0", args(3)),
            ("f1", args(70_000)),
            ("f0", args(u64::MAX)),
        ];
        let bytes = encode(&text);
        let schedule = Schedule {
            divide: Some(DIVIDE),
            ..NEVER
        };
        let options = options(&bytes, schedule).expect("it is supported");
        in_parts += u32::from(divided(&bytes, &options).is_some());
        let suspensions = same(&text, 1, &calls);
        all.waited += suspensions.waited;
        all.preempted += suspensions.preempted;
    }
    assert!(all.waited > 1_000 && all.preempted > 1_000, "{all:?}");
    assert!(
        in_parts > count as u32 / 2,
        "{in_parts} modules are divided"
    );
}

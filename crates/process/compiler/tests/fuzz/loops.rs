//! Generates modules whose loops end without help. In other modules, each round of a loop checks a counter in a
//! global, so no loop is pure arithmetic. Here most loops are; they are nested, and have exits to every enclosing
//! block.

use std::fmt::Write as _;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::support::encode;

/// The locals of each function: three of each type, then the counters of loops. The first of each is a parameter.
const TYPES: [&str; 3] = ["i64", "i32", "f64"];
const OF_EACH: usize = 3;
/// The largest depth of nested loops.
const NESTED: usize = 3;
const FUNCTIONS: usize = 3;

/// An open block.
struct Block {
    name: String,
    /// The type of the value that branches to it carry, as an index of [`TYPES`].
    carries: Option<usize>,
}

struct Writer<'r> {
    random: &'r mut ChaCha8Rng,
    blocks: Vec<Block>,
    /// The number of names in use.
    names: usize,
    /// The number of open loops.
    loops: usize,
    /// Whether one of the open loops has many rounds.
    long: bool,
    /// Whether there are calls, accesses and branches within a round.
    mixed: bool,
    /// The number of the current function; it calls only functions with lower numbers.
    function: usize,
}

impl Writer<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    fn local(&mut self, ty: usize) -> usize {
        // Parameters come first.
        match self.below(OF_EACH) {
            0 => ty,
            n => TYPES.len() + (OF_EACH - 1) * ty + n - 1,
        }
    }

    fn leaf(&mut self, ty: usize) -> String {
        match self.below(4) {
            0 => format!("({}.const {})", TYPES[ty], self.below(1 << 20)),
            _ => format!("(local.get {})", self.local(ty)),
        }
    }

    fn value(&mut self, ty: usize, deep: usize) -> String {
        if deep == 0 {
            return self.leaf(ty);
        }
        let (name, deep) = (TYPES[ty], deep - 1);
        let [a, b] = [0; 2].map(|_| self.value(ty, deep));
        match (self.below(12), ty) {
            (0, 0) => format!("(i64.extend_i32_u {})", self.value(1, deep)),
            (0, 1) => format!("(i32.wrap_i64 {})", self.value(0, deep)),
            (0, _) => format!("(f64.convert_i64_s {})", self.value(0, deep)),
            (1, _) => format!("(select {a} {b} {})", self.test()),
            (2, 0) if self.mixed && self.loops == 0 && self.function > 0 => {
                let (f, args) = (self.below(self.function), [0, 1, 2].map(|ty| self.leaf(ty)));
                format!("(call $f{f} {})", args.join(" "))
            }
            (3, _) if self.mixed => {
                let at = self.value(1, 0);
                format!("({name}.load offset=5 (i32.and {at} (i32.const 0xffff)))")
            }
            (4, 0 | 1) if self.below(8) == 0 => format!("({name}.div_u {a} {b})"),
            (n, 2) => {
                let op = ["add", "sub", "mul", "min"][n % 4];
                format!("(f64.{op} {a} {b})")
            }
            (n, _) => {
                let op = ["add", "sub", "mul", "xor", "rotl", "shr_u"][n % 6];
                format!("({name}.{op} {a} {b})")
            }
        }
    }

    /// A random condition.
    fn test(&mut self) -> String {
        let value = self.value(1, 1);
        match self.below(3) {
            0 => format!("(i32.eqz (i32.and {value} (i32.const 63)))"),
            1 => format!("(f64.gt {} {})", self.leaf(2), self.leaf(2)),
            _ => format!("(i64.lt_u {} (i64.const 0x10000000000000))", self.leaf(0)),
        }
    }

    /// A branch out to a random open block.
    fn leave(&mut self, out: &mut String) {
        let block = self.below(self.blocks.len());
        let Block { name, carries } = &self.blocks[block];
        let name = name.clone();
        let _ = match *carries {
            None => writeln!(out, "(br_if ${name} {})", self.test()),
            Some(ty) => {
                let value = self.value(ty, 1);
                writeln!(out, "(drop (br_if ${name} {value} {}))", self.test())
            }
        };
    }

    fn statement(&mut self, out: &mut String) {
        let ty = self.below(TYPES.len());
        let _ = match self.below(10) {
            0 | 1 => return self.leave(out),
            2 if self.loops < NESTED => return self.repeat(out),
            3 if self.mixed => {
                let (test, local) = (self.test(), self.local(ty));
                let [a, b] = [0; 2].map(|_| self.value(ty, 1));
                let set = |value| format!("(local.set {local} {value})");
                writeln!(out, "(if {test} (then {}) (else {}))", set(a), set(b))
            }
            4 if self.mixed => {
                let (at, value) = (self.value(1, 0), self.value(ty, 1));
                let at = format!("(i32.and {at} (i32.const 0xfff8))");
                writeln!(out, "({}.store {at} {value})", TYPES[ty])
            }
            _ => {
                let (local, value) = (self.local(ty), self.value(ty, 2));
                writeln!(out, "(local.set {local} {value})")
            }
        };
    }

    /// A loop, inside blocks that serve as its exits.
    fn repeat(&mut self, out: &mut String) {
        let counter = TYPES.len() * OF_EACH + self.loops;
        // A loop inside a long loop is short, and functions that others call have no long loop.
        let long = self.loops == 0 && !self.mixed && self.below(8) == 0;
        let rounds = self.below(match (long, self.long) {
            (true, _) => 3000,
            (false, true) => 3,
            (false, false) => 8,
        });
        self.long |= long;
        let around = 1 + self.below(3);
        let outer = self.blocks.len();
        for _ in 0..around {
            self.names += 1;
            let name = format!("b{}", self.names);
            let carries = (self.below(4) == 0).then(|| self.below(TYPES.len()));
            let result = carries.map_or_else(String::new, |ty| format!("(result {})", TYPES[ty]));
            let _ = writeln!(out, "(block ${name} {result}");
            self.blocks.push(Block { name, carries });
        }
        self.names += 1;
        let again = format!("l{}", self.names);
        let _ = writeln!(out, "(local.set {counter} (i32.const 0)) (loop ${again}");
        self.loops += 1;
        let count = format!("(local.tee {counter} (i32.add (local.get {counter}) (i32.const 1)))");
        let ends_first = self.blocks[self.blocks.len() - 1].carries.is_none() && self.below(2) == 0;
        if ends_first {
            let end = &self.blocks[self.blocks.len() - 1].name;
            let _ = writeln!(
                out,
                "(br_if ${end} (i32.gt_u {count} (i32.const {rounds})))"
            );
        }
        for _ in 0..1 + self.below(4) {
            self.statement(out);
        }
        let _ = match ends_first {
            true => writeln!(out, "(br ${again}))"),
            false => writeln!(
                out,
                "(br_if ${again} (i32.lt_u {count} (i32.const {rounds}))))"
            ),
        };
        self.loops -= 1;
        self.long &= self.loops > 0;
        while self.blocks.len() > outer {
            let carries = self.blocks.pop().and_then(|block| block.carries);
            if let Some(ty) = carries {
                let (value, local) = (self.value(ty, 1), self.local(ty));
                let _ = writeln!(out, "{value}) (local.set {local})");
            } else {
                let _ = writeln!(out, ")");
            }
            self.statement(out);
        }
    }

    fn function(&mut self, out: &mut String) {
        let number = self.function;
        let counters = "i32 ".repeat(NESTED);
        let more = TYPES
            .map(|ty| format!("{ty} ").repeat(OF_EACH - 1))
            .concat();
        let params = TYPES.join(" ");
        let _ = writeln!(
            out,
            "(func $f{number} (export \"f{number}\") (param {params}) (result i64) (local {more}{counters})\n(block $out (result i64)"
        );
        let name = "out".to_owned();
        self.blocks = vec![Block {
            name,
            carries: Some(0),
        }];
        for _ in 0..2 + self.below(3) {
            self.statement(out);
            self.repeat(out);
        }
        // The final values of all locals contribute to the result.
        let all = (1..OF_EACH).map(|n| TYPES.len() + n - 1);
        let sum = all.fold(String::from("(local.get 0)"), |sum, local| {
            format!("(i64.add {sum} (local.get {local}))")
        });
        let _ = writeln!(out, "(i64.xor {sum} (i64.reinterpret_f64 (local.get 2)))))");
    }
}

/// A random module.
pub(crate) fn module(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mixed = random.random_ratio(1, 3);
    let mut writer = Writer {
        random,
        blocks: Vec::new(),
        names: 0,
        loops: 0,
        long: false,
        mixed,
        function: 0,
    };
    let mut text = String::from("(module (memory (export \"memory\") 2 2)\n");
    for function in 0..FUNCTIONS {
        writer.function = function;
        writer.function(&mut text);
    }
    text.push(')');
    encode(&text)
}

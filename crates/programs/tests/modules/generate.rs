//! Generates modules that are handlers, as WebAssembly text.

use std::fmt::Write;

use super::random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    I32,
    I64,
    F32,
    F64,
}
use Ty::{F32, F64, I32, I64};

impl Ty {
    pub(crate) const ALL: [Self; 4] = [I32, I64, F32, F64];
    pub(crate) const fn name(self) -> &'static str {
        match self {
            I32 => "i32",
            I64 => "i64",
            F32 => "f32",
            F64 => "f64",
        }
    }
}

/// Numeric operators with the types of operands and the type of the result.
pub(crate) fn operators() -> Vec<(String, Vec<Ty>, Ty)> {
    let mut all = Vec::new();
    for int in [I32, I64] {
        let t = int.name();
        for name in ["clz", "ctz", "popcnt", "extend8_s", "extend16_s"] {
            all.push((format!("{t}.{name}"), vec![int], int));
        }
        all.push((format!("{t}.eqz"), vec![int], I32));
        for name in [
            "eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u",
        ] {
            all.push((format!("{t}.{name}"), vec![int; 2], I32));
        }
        for name in [
            "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl",
            "shr_s", "shr_u", "rotl", "rotr",
        ] {
            all.push((format!("{t}.{name}"), vec![int; 2], int));
        }
        for float in [F32, F64] {
            let f = float.name();
            for sign in ["s", "u"] {
                all.push((format!("{t}.trunc_{f}_{sign}"), vec![float], int));
                all.push((format!("{t}.trunc_sat_{f}_{sign}"), vec![float], int));
                all.push((format!("{f}.convert_{t}_{sign}"), vec![int], float));
            }
        }
    }
    for float in [F32, F64] {
        let t = float.name();
        for name in ["abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt"] {
            all.push((format!("{t}.{name}"), vec![float], float));
        }
        for name in ["add", "sub", "mul", "div", "min", "max", "copysign"] {
            all.push((format!("{t}.{name}"), vec![float; 2], float));
        }
        for name in ["eq", "ne", "lt", "gt", "le", "ge"] {
            all.push((format!("{t}.{name}"), vec![float; 2], I32));
        }
    }
    let named = |name: &str, from, to| (name.to_owned(), vec![from], to);
    all.extend([
        named("i32.wrap_i64", I64, I32),
        named("i64.extend_i32_s", I32, I64),
        named("i64.extend_i32_u", I32, I64),
        named("i64.extend32_s", I64, I64),
        named("f32.demote_f64", F64, F32),
        named("f64.promote_f32", F32, F64),
        named("i32.reinterpret_f32", F32, I32),
        named("i64.reinterpret_f64", F64, I64),
        named("f32.reinterpret_i32", I32, F32),
        named("f64.reinterpret_i64", I64, F64),
    ]);
    all
}

/// Bits of numbers at which operators behave in another way.
pub(crate) fn edges(ty: Ty) -> Vec<u64> {
    let f32s = |all: &[f32]| -> Vec<u64> { all.iter().map(|v| v.to_bits().into()).collect() };
    let f64s = |all: &[f64]| -> Vec<u64> { all.iter().map(|v| v.to_bits()).collect() };
    match ty {
        I32 => [
            0,
            1,
            2,
            31,
            32,
            33,
            0x7f,
            0x80,
            0x8000,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1234_5678,
        ]
        .to_vec(),
        I64 => vec![
            0,
            1,
            2,
            63,
            64,
            65,
            0x80,
            0x8000,
            0x8000_0000,
            0xffff_ffff,
            1 << 53 | 1,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
            0x1234_5678_9abc_def0,
            (1 << 40) + (1 << 16) + 1,
        ],
        F32 => {
            let mut all = f32s(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                1.5,
                2.5,
                -0.5,
                -0.9,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::MAX,
                f32::MIN_POSITIVE,
                1e-45,
                3.3,
                2_147_483_648.0,
                -2_147_483_648.0,
                4_294_967_296.0,
                9_223_372_036_854_775_808.0,
                18_446_744_073_709_551_616.0,
                8_388_609.0,
            ]);
            all.extend([0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffa0_1234]);
            all
        }
        F64 => {
            let mut all = f64s(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                1.5,
                2.5,
                -0.5,
                -0.9,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MAX,
                f64::MIN_POSITIVE,
                5e-324,
                3.3,
                2_147_483_647.9,
                -2_147_483_648.9,
                -2_147_483_649.0,
                4_294_967_295.9,
                9_223_372_036_854_775_808.0,
                18_446_744_073_709_551_616.0,
                1e-40,
                1.000_000_059_604_644_8,
            ]);
            all.extend([
                0x7ff8_0000_0000_0000,
                0xfff8_0000_0000_0000,
                0x7ff0_0000_0000_0001,
                0xfff4_0000_1234_5678,
            ]);
            all
        }
    }
}

/// A constant with these bits.
fn constant(ty: Ty, bits: u64) -> String {
    match ty {
        I32 => format!("(i32.const {})", bits as u32),
        I64 => format!("(i64.const {bits})"),
        F32 => format!("(f32.reinterpret_i32 (i32.const {}))", bits as u32),
        F64 => format!("(f64.reinterpret_i64 (i64.const {bits}))"),
    }
}

/// A function that others call.
struct Made {
    params: Vec<Ty>,
    results: Vec<Ty>,
}

pub(crate) const MEMORY: u64 = 96;

struct Maker<'s> {
    seed: &'s mut u64,
    operators: Vec<(String, Vec<Ty>, Ty)>,
    made: Vec<Made>,
    locals: Vec<Ty>,
    loops: usize,
    /// Branches may leave this many blocks without values.
    blocks: usize,
    results: Vec<Ty>,
}

/// Locals of loops come last.
const LOOPS: usize = 3;

impl Maker<'_> {
    fn below(&mut self, n: usize) -> usize {
        (random(self.seed) >> 20) as usize % n
    }
    fn ty(&mut self) -> Ty {
        Ty::ALL[self.below(4)]
    }
    fn number(&mut self, ty: Ty) -> String {
        let edges = edges(ty);
        let bits = match self.below(3) {
            0 => random(self.seed),
            1 => self.below(100) as u64,
            _ => edges[self.below(edges.len())],
        };
        constant(ty, bits)
    }
    /// An address, which mostly is one.
    fn address(&mut self, depth: usize) -> String {
        match self.below(60) {
            0 => self.value(I32, depth),
            1 => constant(I32, 80 + self.below(20) as u64),
            n if n < 25 => constant(I32, self.below(72) as u64),
            _ => format!("(i32.and {} (i32.const 63))", self.value(I32, depth)),
        }
    }
    fn local(&mut self, ty: Ty) -> Option<usize> {
        let own = self.locals.len() - LOOPS;
        let all: Vec<_> = (0..own).filter(|&n| self.locals[n] == ty).collect();
        match all.len() {
            0 => None,
            n => Some(all[self.below(n)]),
        }
    }
    fn call(&mut self, of: usize, depth: usize) -> String {
        let params = self.made[of].params.clone();
        let arguments: Vec<_> = params.iter().map(|&ty| self.value(ty, depth)).collect();
        let arguments = arguments.join(" ");
        match self.below(3) {
            // Mostly the right element; else another one, one that is null, or none.
            0 => {
                let at = match self.below(40) {
                    0 => self.below(self.made.len() + 4),
                    _ => of,
                };
                format!("(call_indirect (type $t{of}) {arguments} (i32.const {at}))")
            }
            _ => format!("(call $f{of} {arguments})"),
        }
    }
    fn value(&mut self, ty: Ty, depth: usize) -> String {
        if depth == 0 {
            return match (self.local(ty), self.below(3)) {
                (Some(local), 0 | 1) => format!("(local.get {local})"),
                _ => self.number(ty),
            };
        }
        let depth = depth - 1;
        let t = ty.name();
        match self.below(16) {
            0 => self.value(ty, 0),
            1 => format!("(global.get ${t})"),
            2 => {
                let (c, a, b) = (
                    self.value(I32, depth),
                    self.value(ty, depth),
                    self.value(ty, depth),
                );
                format!("(if (result {t}) {c} (then {a}) (else {b}))")
            }
            3 => {
                let (c, a, b) = (
                    self.value(I32, depth),
                    self.value(ty, depth),
                    self.value(ty, depth),
                );
                format!("(select {a} {b} {c})")
            }
            4 => {
                let (c, a, b) = (
                    self.value(I32, depth),
                    self.value(ty, depth),
                    self.value(ty, depth),
                );
                format!("(block (result {t}) (drop (br_if 0 {a} {c})) {b})")
            }
            5 | 6 => {
                let names: &[&str] = match ty {
                    I32 => &[
                        "i32.load",
                        "i32.load8_s",
                        "i32.load8_u",
                        "i32.load16_s",
                        "i32.load16_u",
                    ],
                    I64 => &[
                        "i64.load",
                        "i64.load8_s",
                        "i64.load8_u",
                        "i64.load16_s",
                        "i64.load16_u",
                        "i64.load32_s",
                        "i64.load32_u",
                    ],
                    F32 => &["f32.load"],
                    F64 => &["f64.load"],
                };
                let name = names[self.below(names.len())];
                format!("({name} offset={} {})", self.below(12), self.address(depth))
            }
            7 => match self.local(ty) {
                Some(local) => format!("(local.tee {local} {})", self.value(ty, depth)),
                None => self.number(ty),
            },
            8 => {
                let fits = |m: &Made| m.results == [ty];
                let all: Vec<_> = (0..self.made.len())
                    .filter(|&f| fits(&self.made[f]))
                    .collect();
                match all.len() {
                    0 => self.value(ty, depth),
                    n => {
                        let of = all[self.below(n)];
                        self.call(of, depth)
                    }
                }
            }
            9 if ty == I32 => match self.below(3) {
                0 => "(memory.size)".to_owned(),
                1 => "(table.size 0)".to_owned(),
                _ => format!("(memory.grow {})", constant(I32, self.below(2) as u64)),
            },
            _ => {
                let all: Vec<_> = self
                    .operators
                    .iter()
                    .filter(|o| o.2 == ty)
                    .cloned()
                    .collect();
                let (mut name, mut takes, _) = all[self.below(all.len())].clone();
                let traps = ["div_", "rem_", "trunc_f"];
                while traps.iter().any(|part| name.contains(part)) && self.below(20) != 0 {
                    (name, takes, _) = all[self.below(all.len())].clone();
                }
                let operands: Vec<_> = takes.iter().map(|&ty| self.value(ty, depth)).collect();
                format!("({name} {})", operands.join(" "))
            }
        }
    }
    fn statements(&mut self, depth: usize) -> String {
        (0..1 + self.below(4))
            .map(|_| self.statement(depth))
            .collect::<Vec<_>>()
            .join("\n ")
    }
    fn statement(&mut self, depth: usize) -> String {
        let ty = self.ty();
        let t = ty.name();
        match self.below(if depth == 0 { 6 } else { 14 }) {
            0 | 1 => match self.local(ty) {
                Some(local) => format!("(local.set {local} {})", self.value(ty, 3)),
                None => format!("(drop {})", self.value(ty, 2)),
            },
            2 => format!("(global.set ${t} {})", self.value(ty, 3)),
            3 | 4 => {
                let names: &[&str] = match ty {
                    I32 => &["i32.store", "i32.store8", "i32.store16"],
                    I64 => &["i64.store", "i64.store8", "i64.store16", "i64.store32"],
                    F32 => &["f32.store"],
                    F64 => &["f64.store"],
                };
                let name = names[self.below(names.len())];
                let offset = self.below(12);
                format!(
                    "({name} offset={offset} {} {})",
                    self.address(2),
                    self.value(ty, 3)
                )
            }
            5 => {
                let names = ["copy", "fill", "init $passive"];
                let name = match self.below(30) {
                    // An active segment is empty once the module is instantiated.
                    0 => "init $first",
                    n => names[n % 3],
                };
                let count = match self.below(3) {
                    0 => constant(I32, self.below(20) as u64),
                    1 => format!("(i32.and {} (i32.const 7))", self.value(I32, 1)),
                    _ => constant(I32, 8 * self.below(3) as u64),
                };
                let from = constant(
                    I32,
                    self.below(if name.starts_with("init") { 6 } else { 60 }) as u64,
                );
                format!("(memory.{name} {} {from} {count})", self.address(1))
            }
            6 | 7 => {
                let c = self.value(I32, 3);
                self.blocks += 1;
                let (a, b) = (self.statements(depth - 1), self.statements(depth - 1));
                self.blocks -= 1;
                match self.below(2) {
                    0 => format!("(if {c} (then {a}))"),
                    _ => format!("(if {c} (then {a}) (else {b}))"),
                }
            }
            8 | 9 if self.loops < LOOPS => {
                let counter = self.locals.len() - LOOPS + self.loops;
                let rounds = 1 + self.below(6);
                self.loops += 1;
                self.blocks += 2;
                let body = self.statements(depth - 1);
                self.blocks -= 2;
                self.loops -= 1;
                format!(
                    "(local.set {counter} (i32.const {rounds}))\n (block (loop {body}\n (br_if 0 (local.tee {counter} \
                     (i32.sub (local.get {counter}) (i32.const 1))))))"
                )
            }
            10 => {
                let at = self.value(I32, 2);
                let mut parts = Vec::new();
                for around in [2, 1, 0] {
                    self.blocks += around;
                    parts.push(self.statements(depth - 1));
                    self.blocks -= around;
                }
                format!(
                    "(block (block (block (br_table 0 1 2 1 (i32.and {at} (i32.const 7)))) {}) {} (br 0)) {}",
                    parts[0], parts[1], parts[2]
                )
            }
            11 if self.blocks > 0 => {
                let to = self.below(self.blocks);
                // Back to the beginning of a loop would not end; its fuel does.
                format!("(br_if {to} {})", self.value(I32, 2))
            }
            12 => {
                let values: Vec<_> = self.results.clone();
                let values: Vec<_> = values.iter().map(|&ty| self.value(ty, 2)).collect();
                format!(
                    "(if {} (then (return {})))",
                    self.value(I32, 2),
                    values.join(" ")
                )
            }
            _ if !self.made.is_empty() => {
                let of = self.below(self.made.len());
                let drops = "(drop)".repeat(self.made[of].results.len());
                format!("{} {drops}", self.call(of, 2))
            }
            _ => format!("(drop {})", self.value(ty, 3)),
        }
    }
    fn function(&mut self, params: Vec<Ty>, results: Vec<Ty>) -> String {
        let mut locals = params.clone();
        let more: Vec<Ty> = (0..self.below(4)).map(|_| self.ty()).collect();
        locals.extend(&more);
        locals.extend([I32; LOOPS]);
        (self.locals, self.results) = (locals, results.clone());
        let names = |all: &[Ty]| all.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(" ");
        let body = self.statements(3);
        let values: Vec<_> = results.iter().map(|&ty| self.value(ty, 3)).collect();
        format!(
            "(param {}) (result {}) (local {} i32 i32 i32)\n {body}\n {}",
            names(&params),
            names(&results),
            names(&more),
            values.join(" ")
        )
    }
}

/// A module that handles `go` and `state`. Every message of the same name has the same types in all of them.
pub(crate) fn module(seed: &mut u64) -> String {
    let mut maker = Maker {
        seed,
        operators: operators(),
        made: Vec::new(),
        locals: Vec::new(),
        loops: 0,
        blocks: 0,
        results: Vec::new(),
    };
    let fuel = match maker.below(3) {
        0 => 50 + maker.below(1500),
        _ => 100_000,
    };
    let (mut types, mut code) = (String::new(), String::new());
    for f in 0..1 + maker.below(4) {
        // Of a type of its own: an indirect call reaches earlier functions only.
        let (params, results) = loop {
            let params: Vec<Ty> = (0..maker.below(4)).map(|_| maker.ty()).collect();
            let results: Vec<Ty> = (0..maker.below(3)).map(|_| maker.ty()).collect();
            let same = |m: &Made| (&m.params, &m.results) == (&params, &results);
            if !maker.made.iter().any(same) {
                break (params, results);
            }
        };
        let text = maker.function(params.clone(), results.clone());
        let names = |all: &[Ty]| all.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(" ");
        writeln!(
            types,
            "(type $t{f} (func (param {}) (result {})))",
            names(&params),
            names(&results)
        )
        .expect("a string takes it");
        writeln!(code, "(func $f{f} {text})").expect("a string takes it");
        maker.made.push(Made { params, results });
    }
    let go = maker.function(Ty::ALL.to_vec(), Ty::ALL.to_vec());
    let elements: Vec<_> = (0..maker.made.len()).map(|f| format!("$f{f}")).collect();
    let restarts = match maker.below(2) {
        0 => "restarts 1000000 1000",
        _ => "restarts 1000000 1000\\natomic",
    };
    format!(
        r#"(module (@custom "everwarp.actor" "fuel {fuel}\n{restarts}\n")
{types}
(memory (export "memory") {MEMORY} {MEMORY} (pagesize 1))
(table {} funcref)
(elem (i32.const 0) {})
(data $first (i32.const 24) "\01\02\03\04\05\06\07\08\09")
(data $passive "abcdefghijklmnop")
(global $i32 (mut i32) (i32.const 7)) (global $i64 (mut i64) (i64.const -7))
(global $f32 (mut f32) (f32.const 1.5)) (global $f64 (mut f64) (f64.const -2.5))
{code}
(func (export "on.go") {go})
(func (export "on.state") (result i64 i64)
 (local i32 i64)
 (local.set 0 (i32.const 0))
 (loop
  (local.set 1 (i64.xor (i64.mul (local.get 1) (i64.const 1099511628211)) (i64.load8_u (local.get 0))))
  (br_if 0 (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const {MEMORY}))))
 (local.get 1) (i64.load (i32.const 24))))"#,
        maker.made.len() + 2,
        elements.join(" "),
    )
}

//! One function: its operators become PTX text, in one pass over validated code.
//!
//! The operand stack exists only here. An entry is a constant, a predicate, or a virtual register that is
//! never assigned again while the entry lives: results go to fresh registers, and an entry that still
//! names a local is copied before that local changes or control branches ([`Body::settle`]).
//!
//! Nothing is optimized, because ptxas does that; what is kept short is the text, for which ptxas pays.

mod atomic;
mod bulk;
mod call;
mod carried;
mod control;
mod convert;
mod dispatch;
mod finish;
mod float;
mod fuel;
mod integer;
mod known;
mod leave;
mod live;
mod memory;
mod nan;
mod simd;
mod suspend;
mod table;
mod tail;
mod threads;
mod vector;
mod vector_memory;
mod wait;
mod ways;
mod woven;

use std::collections::BTreeSet;
use std::fmt;

use crate::indirect::Referenced;
use crate::layout::InstanceLayout;
use crate::module::Module;
use crate::suspend::Suspending;
use crate::tail::Tails;
use crate::types::parts;
use crate::{CompileError, TrapKind, ValueType};
use control::Frame;
use known::Known;
use live::Uses;
use nan::Nan;
use suspend::Site;
use ways::{Loop, LoopId};

/// The decimal digits of a number behind two characters. Names are half of all text, and the formatter of numbers
/// takes as long for each as for the rest of its line.
struct Digits {
    bytes: [u8; 12],
    from: usize,
}

impl Digits {
    fn new(mut number: u32) -> Self {
        let (mut bytes, mut from) = ([0; 12], 12);
        loop {
            from -= 1;
            bytes[from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { bytes, from };
            }
        }
    }

    fn behind(&mut self, characters: &[u8; 2]) -> &str {
        self.from -= 2;
        self.bytes[self.from..self.from + 2].copy_from_slice(characters);
        str::from_utf8(&self.bytes[self.from..]).expect("they are ASCII")
    }
}

/// A virtual register: `%r` for 32 bits, `%d` for 64. Floats live in the same registers as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Reg {
    wide: bool,
    index: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.index).behind(if self.wide { b"%d" } else { b"%r" }))
    }
}

impl Reg {
    /// The PTX type of untyped bits of this size.
    const fn bits(self) -> &'static str {
        if self.wide { "b64" } else { "b32" }
    }
}

/// A predicate register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pred(u32);

impl fmt::Display for Pred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.0).behind(b"%p"))
    }
}

/// A label within the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.0).behind(b"$L"))
    }
}

/// A local or a result: a register that is assigned more than once.
#[derive(Clone, Copy, Debug)]
struct Value {
    ty: ValueType,
    reg: Reg,
}

/// Where the value of a stack entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Reg(Reg),
    /// These bits, in no register yet.
    Constant(u64),
    /// 1 if the predicate holds, else 0; in no register yet.
    Test(Pred),
}

/// An entry of the operand stack. A vector is four of them, each a quarter of it: the lowest lanes are pushed
/// first.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ty: ValueType,
    place: Place,
    nan: Nan,
}

/// An operand as PTX writes it: a register or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operand {
    Reg(Reg),
    Number(i64),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => reg.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Writes one line of PTX.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        use std::fmt::Write as _;
        writeln!($text, $($format)*).expect("a String takes any text")
    }};
}
pub(crate) use line;

/// A function that is being translated.
pub(crate) struct Body<'m> {
    module: &'m Module,
    layout: &'m InstanceLayout,
    referenced: &'m Referenced,
    tails: &'m Tails,
    /// Given if this function may be suspended.
    suspending: Option<&'m Suspending>,
    prefix: &'m str,
    function: u32,
    /// Offset of the operator at hand, in the module's bytes.
    offset: usize,
    text: String,
    /// What is reached rarely; it follows the text.
    cold: String,
    narrow_regs: u32,
    wide_regs: u32,
    preds: u32,
    labels: u32,
    stack: Vec<Entry>,
    /// The parts of all locals; a vector has four.
    locals: Vec<Value>,
    /// For each local the first of its parts, and its type.
    local_parts: Vec<(u32, ValueType)>,
    uses: Uses,
    /// For each of those parts whether nothing assigns it.
    constant: Vec<bool>,
    /// For each local whether it may hold a NaN as the device made it: see `nan.rs`.
    loose: Vec<bool>,
    /// Locals that may not, which was found out too late.
    tightened: Vec<u32>,
    /// Registers below these numbers, narrow and wide, are locals; they alone are assigned again.
    local_regs: (u32, u32),
    frames: Vec<Frame>,
    /// No operator is reached until the frame at hand ends.
    dead: bool,
    /// Frames that were opened since then.
    dead_frames: u32,
    known: Known,
    /// Kinds of traps that the function has.
    kinds: BTreeSet<u32>,
    uses_memory: bool,
    calls: bool,
    traps: bool,
    /// It has a safepoint.
    stops: bool,
    /// Types and tables that are called indirectly.
    indirect: BTreeSet<(u32, u32)>,
    /// Where the function may be suspended.
    sites: Vec<Site>,
    loops: Vec<Loop>,
    /// Loops that are open, the outermost first.
    open_loops: Vec<LoopId>,
    /// How much of the operand stack is live across them, all together.
    kept: usize,
    /// Offset of the first operator.
    start: usize,
}

/// What all functions of a module need for their translation.
#[derive(Clone, Copy)]
pub(crate) struct Context<'m> {
    pub(crate) module: &'m Module,
    pub(crate) layout: &'m InstanceLayout,
    pub(crate) referenced: &'m Referenced,
    pub(crate) tails: &'m Tails,
    /// Given if the module can be suspended.
    pub(crate) suspending: Option<&'m Suspending>,
    pub(crate) prefix: &'m str,
}

/// Memory of one function that the next can use: to have it grow anew for each took a tenth of the time.
#[derive(Default)]
pub(crate) struct Scratch {
    text: String,
    cold: String,
}

impl<'m> Body<'m> {
    /// What the next function can use.
    pub(crate) fn into_scratch(self) -> Scratch {
        Scratch {
            text: self.text,
            cold: self.cold,
        }
    }

    /// Begins the translation of a function.
    pub(crate) fn new(context: Context<'m>, function: u32) -> Self {
        Self::within(context, function, Scratch::default())
    }

    /// The same, in memory that other functions have left behind.
    pub(crate) fn within(context: Context<'m>, function: u32, mut scratch: Scratch) -> Self {
        scratch.text.clear();
        scratch.cold.clear();
        let Context {
            module,
            layout,
            referenced,
            tails,
            suspending,
            prefix,
        } = context;
        let mut body = Self {
            module,
            layout,
            referenced,
            tails,
            suspending: suspending.filter(|s| s.function(function)),
            prefix,
            function,
            offset: 0,
            text: scratch.text,
            cold: scratch.cold,
            narrow_regs: 0,
            wide_regs: 0,
            preds: 0,
            labels: 0,
            stack: Vec::new(),
            locals: Vec::new(),
            local_parts: Vec::new(),
            uses: Uses::new(),
            constant: Vec::new(),
            loose: Vec::new(),
            tightened: Vec::new(),
            local_regs: (0, 0),
            frames: Vec::new(),
            dead: false,
            dead_frames: 0,
            known: Known::default(),
            kinds: BTreeSet::new(),
            uses_memory: false,
            calls: false,
            traps: false,
            stops: false,
            indirect: BTreeSet::new(),
            sites: Vec::new(),
            loops: Vec::new(),
            open_loops: Vec::new(),
            kept: 0,
            start: 0,
        };
        let ty = module.function_type(function);
        for &param in &ty.params {
            body.declare_locals(1, param);
        }
        // What a caller gives keeps its bits.
        body.loose = vec![false; body.locals.len()];
        body.open_function(&parts(&ty.results));
        body
    }

    /// Declares locals. They start as zero, or null.
    pub(crate) fn declare_locals(&mut self, count: u32, ty: ValueType) {
        for _ in 0..count {
            self.local_parts.push((self.locals.len() as u32, ty));
            for _ in 0..ty.parts() {
                let reg = self.fresh(ty.is_wide());
                self.locals.push(Value { ty, reg });
            }
        }
        self.uses.declare(self.locals.len());
        self.constant.resize(self.locals.len(), false);
        let loose = matches!(ty, ValueType::F32 | ValueType::F64);
        self.loose.resize(self.locals.len(), loose);
        self.local_regs = (self.narrow_regs, self.wide_regs);
    }

    fn fresh(&mut self, wide: bool) -> Reg {
        let count = if wide {
            &mut self.wide_regs
        } else {
            &mut self.narrow_regs
        };
        *count += 1;
        let index = *count - 1;
        Reg { wide, index }
    }

    fn fresh_pred(&mut self) -> Pred {
        self.preds += 1;
        Pred(self.preds - 1)
    }

    fn fresh_label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Pushes a value that a fresh register will hold, and returns that register.
    fn push(&mut self, ty: ValueType) -> Reg {
        let reg = self.fresh(ty.is_wide());
        self.push_place(ty, Place::Reg(reg));
        reg
    }

    fn push_place(&mut self, ty: ValueType, place: Place) {
        let nan = Nan::of(ty, place);
        self.stack.push(Entry { ty, place, nan });
    }

    fn pop_entry(&mut self) -> Entry {
        self.stack
            .pop()
            .expect("validated code pops what it pushed")
    }

    /// Pops a value into a register.
    fn pop(&mut self) -> Reg {
        let entry = self.pop_entry();
        let operand = self.operand(entry);
        self.in_register(operand, entry.ty)
    }

    /// Pops a value into a register, for what treats all NaNs alike.
    fn pop_number(&mut self) -> Reg {
        let entry = self.pop_entry();
        let operand = self.number(entry);
        self.in_register(operand, entry.ty)
    }

    fn in_register(&mut self, operand: Operand, ty: ValueType) -> Reg {
        match operand {
            Operand::Reg(reg) => reg,
            Operand::Number(number) => {
                let reg = self.fresh(ty.is_wide());
                line!(self.text, "  mov.{} {reg}, {number};", reg.bits());
                reg
            }
        }
    }

    /// Pops a value as an operand, for instructions that take numbers.
    fn pop_operand(&mut self) -> Operand {
        let entry = self.pop_entry();
        self.operand(entry)
    }

    /// A value whose bits may be seen: a NaN of the device's own becomes the one that arithmetic makes.
    fn operand(&mut self, entry: Entry) -> Operand {
        match entry.nan {
            Nan::Raw => Operand::Reg(self.canonical(entry)),
            Nan::Canonical | Nan::Exact => self.number(entry),
        }
    }

    /// A value of whose NaNs the bits do not matter.
    fn number(&mut self, entry: Entry) -> Operand {
        match entry.place {
            Place::Reg(reg) => Operand::Reg(reg),
            Place::Constant(bits) if entry.ty.is_wide() => Operand::Number(bits as i64),
            Place::Constant(bits) => Operand::Number(i64::from(bits as i32)),
            Place::Test(pred) => {
                let reg = self.fresh(false);
                line!(self.text, "  selp.b32 {reg}, 1, 0, {pred};");
                Operand::Reg(reg)
            }
        }
    }

    fn is_local(&self, reg: Reg) -> bool {
        let bound = if reg.wide {
            self.local_regs.1
        } else {
            self.local_regs.0
        };
        reg.index < bound
    }

    /// Copies every stack entry that names a local (only `which`, if given), so that it keeps its value.
    fn settle(&mut self, which: Option<Reg>) {
        for i in 0..self.stack.len() {
            let Place::Reg(reg) = self.stack[i].place else {
                continue;
            };
            if which.map_or_else(|| self.is_local(reg), |w| w == reg) {
                let copy = self.fresh(reg.wide);
                line!(self.text, "  mov.{} {copy}, {reg};", copy.bits());
                self.stack[i].place = Place::Reg(copy);
            }
        }
    }

    /// Writes a label that control comes to with what is known then.
    fn join(&mut self, label: Label, incoming: Option<Known>) {
        line!(self.text, "{label}:");
        self.uses.label();
        self.known = incoming.unwrap_or_default();
    }

    /// The operator at hand reads memory or writes it.
    fn touches_memory(&mut self) {
        self.uses_memory = true;
        self.lanes_part();
    }

    /// A label that leads to a trap at the operator at hand.
    fn trap_label(&mut self, trap: TrapKind) -> Label {
        self.traps = true;
        self.kinds.insert(trap as u32);
        let label = self.fresh_label();
        line!(self.cold, "{label}:");
        line!(self.cold, "  mov.b32 %to, {};", self.offset);
        line!(self.cold, "  bra $K{};", trap as u32);
        label
    }

    /// Traps if the predicate is as given.
    fn trap_if(&mut self, pred: Pred, holds: bool, trap: TrapKind) {
        let label = self.trap_label(trap);
        let not = if holds { "" } else { "!" };
        line!(self.text, "  @{not}{pred} bra {label};");
    }

    fn unsupported(&self, what: impl Into<String>) -> CompileError {
        CompileError::Unsupported {
            offset: self.offset,
            what: what.into(),
        }
    }

    /// A predicate that holds if the 32-bit value on top of the stack is not zero. Pops it.
    fn pop_test(&mut self) -> Pred {
        if let Some(Entry {
            place: Place::Test(pred),
            ..
        }) = self.stack.last()
        {
            let pred = *pred;
            self.stack.pop();
            return pred;
        }
        let reg = self.pop();
        let pred = self.fresh_pred();
        line!(self.text, "  setp.ne.s32 {pred}, {reg}, 0;");
        pred
    }

    /// Pushes a predicate as a 32-bit 0 or 1.
    fn push_test(&mut self, pred: Pred) {
        self.push_place(ValueType::I32, Place::Test(pred));
    }
}

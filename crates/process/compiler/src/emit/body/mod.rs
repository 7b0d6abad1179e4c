//! One function: its operators become PTX text.
//!
//! Translation reads the operators once and writes text as it goes. A function whose locals hold other NaNs than was
//! assumed at first is translated again, three times at most (`nan.rs`). Other facts are found before translation
//! begins (`crate::facts`).
//!
//! The operand stack exists only here. An entry is a constant, a predicate, or a virtual register that is never
//! assigned again while the entry lives: results go to fresh registers, and an entry that still names a local is copied
//! before that local changes or control branches ([`Body::settle`]).
//!
//! Nothing is optimized, because ptxas does that. The text is kept short, because the time of ptxas grows with it.

mod address;
mod atomic;
mod bulk;
mod call;
mod control;
mod convert;
mod dispatch;
mod finish;
mod float;
mod fuel;
mod integer;
mod interleaved;
mod kinds;
mod known;
mod leave;
mod locals;
mod memory;
mod missing;
mod nan;
mod registers;
mod simd;
mod suspend;
mod table;
mod tail;
mod threads;
mod vector;
mod vector_memory;
mod wait;
mod ways;

use std::collections::BTreeSet;

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::error::CompileError;
use crate::facts::limits;
use crate::facts::types::{ValueType, parts};
use crate::text::{Label, Operand, Pred, Reg, line};

pub(crate) use finish::Texts;

use control::ControlStack;
use fuel::FuelMeter;
use known::Known;
use locals::{Locals, Value};
use nan::Nan;
use registers::Registers;
use suspend::SuspendMap;
use ways::LoopNest;

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

/// What a function needs that its operators alone do not say: its head and its end are written accordingly.
#[derive(Default)]
struct Needs {
    /// The kinds of traps that it has.
    kinds: BTreeSet<u32>,
    /// It reads or writes linear memory.
    memory: bool,
    calls: bool,
    traps: bool,
    /// The types and tables of its indirect calls.
    indirect: BTreeSet<(u32, u32)>,
}

/// A function that is being translated.
pub(crate) struct Body<'m> {
    /// The facts about the module. `suspending` is given only if this function may be suspended.
    context: Context<'m>,
    function: u32,
    /// Offset of the current operator in the module's bytes.
    offset: usize,
    text: String,
    /// Code that is rarely reached; it follows the text.
    cold: String,
    registers: Registers,
    stack: Vec<Entry>,
    locals: Locals,
    control: ControlStack,
    known: Known,
    needs: Needs,
    fuel: FuelMeter,
    suspends: SuspendMap,
    loops: LoopNest,
}

/// Buffers of one function that the next can reuse: growing new ones for each function took a tenth of the time.
#[derive(Default)]
pub(crate) struct Scratch {
    text: String,
    cold: String,
}

impl<'m> Body<'m> {
    /// The buffers that the next function can reuse.
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

    /// The same, in the memory of an earlier function.
    pub(crate) fn within(context: Context<'m>, function: u32, mut scratch: Scratch) -> Self {
        scratch.text.clear();
        scratch.cold.clear();
        let module = context.module;
        let suspending = context.suspending.filter(|s| s.function(function));
        let mut body = Self {
            context: Context {
                suspending,
                ..context
            },
            function,
            offset: 0,
            text: scratch.text,
            cold: scratch.cold,
            registers: Registers::default(),
            stack: Vec::new(),
            locals: Locals::default(),
            control: ControlStack::default(),
            known: Known::default(),
            needs: Needs::default(),
            fuel: FuelMeter::default(),
            suspends: SuspendMap::default(),
            loops: LoopNest::default(),
        };
        let ty = module.function_type(function);
        for &param in &ty.params {
            body.declare_locals(1, param);
        }
        // Arguments keep their bits.
        body.locals.tighten_all();
        body.open_function(&parts(&ty.results));
        body
    }

    /// Declares locals. They start as zero, or null.
    pub(crate) fn declare_locals(&mut self, count: u32, ty: ValueType) {
        for _ in 0..count {
            self.locals.declare(ty, &mut self.registers);
        }
        self.registers.end_locals();
    }

    fn fresh(&mut self, wide: bool) -> Reg {
        self.registers.fresh(wide)
    }

    fn fresh_pred(&mut self) -> Pred {
        self.registers.fresh_pred()
    }

    fn fresh_label(&mut self) -> Label {
        self.registers.fresh_label()
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

    /// Copies every stack entry that names a local (only `which`, if given), so that it keeps its value.
    fn settle(&mut self, which: Option<Reg>) {
        for i in 0..self.stack.len() {
            let Place::Reg(reg) = self.stack[i].place else {
                continue;
            };
            if which.map_or_else(|| self.registers.is_local(reg), |w| w == reg) {
                let copy = self.fresh(reg.wide);
                line!(self.text, "  mov.{} {copy}, {reg};", copy.bits());
                self.stack[i].place = Place::Reg(copy);
            }
        }
    }

    /// Writes a label that control comes to with what is known then.
    fn join(&mut self, label: Label, incoming: Option<Known>) {
        line!(self.text, "{label}:");
        self.locals.uses.label();
        self.known = incoming.unwrap_or_default();
    }

    /// The operator at hand reads memory or writes it.
    fn touches_memory(&mut self) {
        self.needs.memory = true;
        self.lanes_part();
    }

    /// A label that leads to a trap at the operator at hand.
    fn trap_label(&mut self, trap: TrapKind) -> Label {
        self.needs.traps = true;
        self.needs.kinds.insert(trap as u32);
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

    /// Refuses a function that nests deeper, or becomes longer, than the limits allow.
    fn check_limits(&self) -> Result<(), CompileError> {
        let check = |what, found, most| limits::check(self.offset, what, found, most);
        let text = self.text.len() + self.cold.len();
        check(
            "nested blocks",
            self.control.frames.len(),
            limits::NESTED_BLOCKS,
        )?;
        check("nested loops", self.loops.open.len(), limits::NESTED_LOOPS)?;
        check("bytes of PTX for a function", text, limits::FUNCTION_TEXT)
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

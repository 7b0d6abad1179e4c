//! Blocks, branches and the values that travel with them.

use everwarp_contract::TrapKind;
use wasmparser::{BlockType, BrTable, Operator};

use crate::emit::body::{Body, Entry, Place, Value};
use crate::emit::switch;
use crate::error::CompileError;
use crate::facts::types::{ValueType, parts, placed};
use crate::text::{Label, Operand, Reg, line};

use super::known::Known;
use super::nan::Nan;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    Block,
    Loop,
    If,
    Else,
}

/// A block that is open.
pub(super) struct Frame {
    kind: Kind,
    /// Where a branch to this block goes.
    target: Label,
    /// Registers that a branch to this block fills.
    target_regs: Vec<Reg>,
    /// Registers that hold the results after the block.
    results: Vec<Value>,
    /// Height of the operand stack below the parameters.
    height: usize,
    /// Something branches to the block's end.
    branched: bool,
    /// For an `if`: its parameters, and the label of its other half.
    other: Option<(Vec<Entry>, Label)>,
    /// For an `if`: the facts about addresses at the beginning of its other half.
    other_known: Option<Known>,
    /// The facts that hold on every path to the target, unless the target is a loop's beginning.
    incoming: Option<Known>,
}

/// The blocks that are open, the outermost first, and whether the current operator can be reached.
///
/// While code is dead, blocks that begin are only counted (`skipped`): no frame is opened for them.
#[derive(Default)]
pub(super) struct ControlStack {
    pub(super) frames: Vec<Frame>,
    /// No operator is reached until the innermost frame ends.
    pub(super) dead: bool,
    /// Blocks that were opened in dead code and have not ended.
    skipped: u32,
}

impl ControlStack {
    /// How an operator of code that may be dead is to be treated. Counts the blocks of dead code.
    pub(super) fn reach(&mut self, operator: &Operator<'_>) -> Reach {
        if !self.dead {
            return Reach::Translate;
        }
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                self.skipped += 1;
                Reach::Skip
            }
            Operator::End if self.skipped > 0 => {
                self.skipped -= 1;
                Reach::Skip
            }
            Operator::Else if self.skipped > 0 => Reach::Skip,
            Operator::End | Operator::Else => Reach::Translate,
            _ => Reach::Check,
        }
    }
}

/// How an operator is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Translate,
    /// It is dead, and only opens or closes a block of dead code.
    Skip,
    /// It is dead, but it must still be one that is supported.
    Check,
}

/// Branch tables up to this size become a chain of comparisons.
const CHAIN: u32 = 3;

impl Body<'_> {
    /// Opens the frame of the function itself.
    pub(super) fn open_function(&mut self, results: &[ValueType]) {
        self.open(Kind::Function, 0, results);
    }

    fn open(&mut self, kind: Kind, height: usize, results: &[ValueType]) {
        let target = self.fresh_label();
        let results: Vec<_> = results
            .iter()
            .map(|&ty| Value {
                ty,
                reg: self.fresh(ty.is_wide()),
            })
            .collect();
        self.control.frames.push(Frame {
            kind,
            target,
            target_regs: results.iter().map(|v| v.reg).collect(),
            results,
            height,
            branched: false,
            other: None,
            other_known: None,
            incoming: None,
        });
    }

    /// The types of a block's parameters and results, part by part.
    fn block_type(&self, ty: BlockType) -> Result<(Vec<ValueType>, Vec<ValueType>), CompileError> {
        Ok(match ty {
            BlockType::Empty => (Vec::new(), Vec::new()),
            BlockType::Type(ty) => (Vec::new(), parts(&[ValueType::new(ty, self.offset)?])),
            BlockType::FuncType(index) => {
                let ty = &self.context.module.types[index as usize];
                (parts(&ty.params), parts(&ty.results))
            }
        })
    }

    pub(super) fn block(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        self.settle(None);
        self.open(Kind::Block, self.stack.len() - params.len(), &results);
        Ok(())
    }

    pub(super) fn begin_loop(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        self.settle(None);
        let height = self.stack.len() - params.len();
        self.open(Kind::Loop, height, &results);
        let regs: Vec<_> = params.iter().map(|p| self.fresh(p.is_wide())).collect();
        self.move_top(&regs);
        for (value, &reg) in self.stack[height..].iter_mut().zip(&regs) {
            value.place = Place::Reg(reg);
            // A branch back to the beginning brings another value.
            value.nan = Nan::Exact;
        }
        let frame = self.control.frames.last_mut().expect("the loop was opened");
        frame.target_regs = regs;
        let target = frame.target;
        self.open_loop(target);
        Ok(())
    }

    pub(super) fn begin_if(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        let pred = self.pop_test();
        self.settle(None);
        let height = self.stack.len() - params.len();
        self.open(Kind::If, height, &results);
        let other = self.fresh_label();
        self.lanes_part();
        line!(self.text, "  @!{pred} bra {other};");
        let params = self.stack[height..].to_vec();
        let frame = self.control.frames.last_mut().expect("the if was opened");
        frame.other = Some((params, other));
        frame.other_known = Some(self.known.clone());
        Ok(())
    }

    pub(super) fn begin_else(&mut self) {
        let mut frame = self.control.frames.pop().expect("else has its if");
        if !self.control.dead {
            self.move_results(&frame);
            frame.branched = true;
            Self::leave_known(&self.known, &mut frame.incoming);
            line!(self.text, "  bra {};", frame.target);
        }
        let (params, other) = frame.other.take().expect("else has its if");
        self.stack.truncate(frame.height);
        self.stack.extend(params);
        self.join(other, frame.other_known.take());
        frame.kind = Kind::Else;
        self.control.frames.push(frame);
        self.control.dead = false;
    }

    /// Ends a block; true if it was the function.
    pub(super) fn end(&mut self) -> bool {
        let mut frame = self.control.frames.pop().expect("end has its block");
        let mut reached = frame.branched;
        if !self.control.dead {
            reached = true;
            self.move_results(&frame);
            if frame.kind != Kind::Loop {
                Self::leave_known(&self.known, &mut frame.incoming);
            }
        }
        if let Some((params, other)) = frame.other.take() {
            // An `if` without `else`: its parameters are its results.
            reached = true;
            let known = frame.other_known.take();
            if let Some(known) = &known {
                Self::leave_known(known, &mut frame.incoming);
            }
            if params.is_empty() {
                self.join(other, known);
            } else {
                line!(self.text, "  bra {};", frame.target);
                self.join(other, known);
                self.stack.truncate(frame.height);
                self.stack.extend(params);
                self.move_results(&frame);
            }
        }
        // The target of a loop is its beginning, which has its label already.
        if frame.kind == Kind::Loop {
            self.close_loop();
        } else {
            self.join(frame.target, frame.incoming.take());
        }
        self.stack.truncate(frame.height);
        self.control.dead = !reached;
        if frame.kind == Kind::Function {
            self.return_values(&frame.results);
            return true;
        }
        for Value { ty, reg } in frame.results {
            self.push_place(ty, Place::Reg(reg));
        }
        false
    }

    fn move_results(&mut self, frame: &Frame) {
        let regs: Vec<_> = frame.results.iter().map(|v| v.reg).collect();
        self.move_top(&regs);
    }

    /// Copies the top of the stack to these registers, all at once.
    fn move_top(&mut self, to: &[Reg]) {
        let base = self.stack.len() - to.len();
        let mut moves = Vec::new();
        for (i, &to) in to.iter().enumerate() {
            let from = self.operand(self.stack[base + i]);
            if from != Operand::Reg(to) {
                moves.push((from, to));
            }
        }
        let assigned: Vec<_> = moves.iter().map(|(_, to)| Operand::Reg(*to)).collect();
        if moves.iter().any(|(from, _)| assigned.contains(from)) {
            for (from, to) in &mut moves {
                let copy = self.fresh(to.wide);
                line!(self.text, "  mov.{} {copy}, {from};", copy.bits());
                *from = Operand::Reg(copy);
            }
        }
        for (from, to) in moves {
            line!(self.text, "  mov.{} {to}, {from};", to.bits());
        }
    }

    /// The target of a branch, marked as branched to.
    fn branch(&mut self, depth: u32) -> (Label, Vec<Reg>) {
        let index = self.control.frames.len() - 1 - depth as usize;
        let frame = &mut self.control.frames[index];
        // A branch to a loop goes to its beginning, so its end is not reached by it.
        if frame.kind != Kind::Loop {
            frame.branched = true;
            Self::leave_known(&self.known, &mut frame.incoming);
        }
        let (target, regs) = (frame.target, frame.target_regs.clone());
        (self.way_to(index, target), regs)
    }

    pub(super) fn br(&mut self, depth: u32) {
        let (label, regs) = self.branch(depth);
        self.move_top(&regs);
        line!(self.text, "  bra {label};");
        self.control.dead = true;
    }

    pub(super) fn br_return(&mut self) {
        self.br(self.control.frames.len() as u32 - 1);
    }

    pub(super) fn br_if(&mut self, depth: u32) {
        let pred = self.pop_test();
        let (label, regs) = self.branch(depth);
        if regs.is_empty() {
            line!(self.text, "  @{pred} bra {label};");
            return;
        }
        let skip = self.fresh_label();
        line!(self.text, "  @!{pred} bra {skip};");
        self.move_top(&regs);
        line!(self.text, "  bra {label};");
        line!(self.text, "{skip}:");
    }

    pub(super) fn br_table(&mut self, table: &BrTable<'_>) -> Result<(), CompileError> {
        self.lanes_part();
        let index = self.pop();
        let mut depths = table.targets().collect::<Result<Vec<_>, _>>()?;
        depths.push(table.default());
        // Values travel over an edge of their own for each target.
        let mut edges: Vec<(u32, Label)> = Vec::new();
        let mut edge_text = Vec::new();
        let mut labels = Vec::new();
        for depth in depths {
            if let Some((_, label)) = edges.iter().find(|(d, _)| *d == depth) {
                labels.push(*label);
                continue;
            }
            let (target, regs) = self.branch(depth);
            let label = if regs.is_empty() {
                target
            } else {
                let edge = self.fresh_label();
                edge_text.push((edge, target, regs));
                edge
            };
            edges.push((depth, label));
            labels.push(label);
        }
        self.jump(index, &labels);
        for (edge, target, regs) in edge_text {
            line!(self.text, "{edge}:");
            self.move_top(&regs);
            line!(self.text, "  bra {target};");
        }
        self.control.dead = true;
        Ok(())
    }

    /// Jumps to the label with this index; beyond the end, to the last.
    fn jump(&mut self, index: Reg, labels: &[Label]) {
        if !self.context.tables || self.context.only.is_some() {
            return self.jump_by_halves(index, labels);
        }
        let last = labels.len() as u32 - 1;
        if last <= CHAIN {
            for (i, label) in labels[..last as usize].iter().enumerate() {
                let pred = self.fresh_pred();
                line!(self.text, "  setp.eq.s32 {pred}, {index}, {i};");
                line!(self.text, "  @{pred} bra {label};");
            }
            line!(self.text, "  bra {};", labels[last as usize]);
            return;
        }
        let bounded = self.fresh(false);
        let targets = self.fresh_label();
        let list: Vec<_> = labels.iter().map(|l| l.to_string()).collect();
        line!(self.text, "  min.u32 {bounded}, {index}, {last};");
        line!(self.text, "{targets}: .branchtargets {};", list.join(", "));
        line!(self.text, "  brx.idx {bounded}, {targets};");
    }

    /// The same without a list of targets.
    fn jump_by_halves(&mut self, index: Reg, labels: &[Label]) {
        let pred = self.fresh_pred();
        let mut text = std::mem::take(&mut self.text);
        switch::by_halves(&mut text, &index, &pred, labels, || self.fresh_label());
        self.text = text;
    }

    pub(super) fn unreachable(&mut self) {
        let label = self.trap_label(TrapKind::Unreachable);
        line!(self.text, "  bra {label};");
        self.control.dead = true;
    }

    pub(super) fn select(&mut self) {
        let pred = self.pop_test();
        let parts = self.top_parts();
        let second = self.stack.split_off(self.stack.len() - parts);
        let first = self.stack.split_off(self.stack.len() - parts);
        for (a, b) in first.into_iter().zip(second) {
            let ty = a.ty;
            let (a, b, nan) = self.either(a, b);
            let reg = self.push(ty);
            self.stack.last_mut().expect("it was pushed").nan = nan;
            line!(self.text, "  selp.{} {reg}, {a}, {b}, {pred};", reg.bits());
        }
    }

    /// How many entries the value on top of the stack has.
    fn top_parts(&self) -> usize {
        let top = self.stack.last();
        top.expect("validated code has a value there").ty.parts()
    }

    pub(super) fn drop_value(&mut self) {
        self.stack.truncate(self.stack.len() - self.top_parts());
    }

    pub(super) fn local_get(&mut self, index: u32) {
        for part in self.locals.parts_of(index) {
            self.locals.uses.read(part);
            self.push_local(part);
        }
    }

    pub(super) fn local_set(&mut self, index: u32) {
        for part in self.locals.parts_of(index).rev() {
            let entry = self.pop_entry();
            let from = self.for_local(part, entry);
            self.set(part, from);
        }
    }

    fn set(&mut self, part: u32, from: Operand) {
        let to = self.locals.values[part as usize].reg;
        self.settle(Some(to));
        line!(self.text, "  mov.{} {to}, {from};", to.bits());
        self.locals.uses.assign(part);
        self.forget_address(to);
    }

    pub(super) fn local_tee(&mut self, index: u32) {
        let parts = self.locals.parts_of(index);
        if parts.len() > 1 {
            self.local_set(index);
            self.local_get(index);
            return;
        }
        let index = parts.start;
        let entry = self.pop_entry();
        let from = self.for_local(index, entry);
        self.set(index, from);
        // Of a test the predicate is worth more than the register.
        let place = match (entry.place, from) {
            (Place::Reg(_), Operand::Reg(from)) => Place::Reg(from),
            (place, _) => place,
        };
        let loose = self.locals.loose[index as usize];
        let nan = match entry.nan {
            Nan::Raw if !loose => Nan::Canonical,
            nan => nan,
        };
        self.stack.push(Entry {
            place,
            nan,
            ..entry
        });
    }

    pub(super) fn global_get(&mut self, index: u32) {
        let ty = self.context.module.globals[index as usize].ty;
        if self.context.module.convention.global == Some(index) {
            let reg = self.push(ty);
            line!(self.text, "  mov.b32 {reg}, %carry;");
            return;
        }
        let from = self.context.layout.global_offsets[index as usize];
        for (ty, at) in placed(&parts(&[ty])) {
            let (reg, at) = (self.push(ty), from + at);
            line!(self.text, "  ld.global.{} {reg}, [%inst+{at}];", reg.bits());
        }
    }

    pub(super) fn global_set(&mut self, index: u32) {
        let ty = self.context.module.globals[index as usize].ty;
        if self.context.module.convention.global == Some(index) {
            let value = self.pop_operand();
            line!(self.text, "  mov.b32 %carry, {value};");
            return;
        }
        let from = self.context.layout.global_offsets[index as usize];
        let values = self.stack.split_off(self.stack.len() - ty.parts());
        for (value, (ty, at)) in values.into_iter().zip(placed(&parts(&[ty]))) {
            let (value, at, ty) = (self.operand(value), from + at, ty.ptx());
            line!(self.text, "  st.global.{ty} [%inst+{at}], {value};");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_code_ends_where_the_block_around_it_ends() {
        let mut control = ControlStack {
            dead: true,
            ..ControlStack::default()
        };
        let block = Operator::Block {
            blockty: BlockType::Empty,
        };
        assert_eq!(control.reach(&block), Reach::Skip);
        assert_eq!(control.reach(&Operator::Else), Reach::Skip);
        assert_eq!(control.reach(&Operator::Nop), Reach::Check);
        assert_eq!(control.reach(&Operator::End), Reach::Skip);
        assert_eq!(control.reach(&Operator::End), Reach::Translate);
        assert_eq!(control.reach(&Operator::Else), Reach::Translate);
    }

    #[test]
    fn live_code_is_translated() {
        let mut control = ControlStack::default();
        assert_eq!(control.reach(&Operator::End), Reach::Translate);
        assert_eq!(control.reach(&Operator::Nop), Reach::Translate);
    }
}

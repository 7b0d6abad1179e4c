//! The machine that runs instructions.

use alloc::vec::Vec;

use crate::fault::Fault;
use crate::memory::Memory;
use crate::op::{Kind, Op};
use crate::output::Output;
use crate::stack::{Kept, Stack};

/// Stacks, memory, code and output.
pub(crate) struct Machine {
    pub(crate) stack: Kept,
    returns: Kept,
    pub(crate) memory: Memory,
    pub(crate) output: Output,
    pub(crate) code: Vec<Op>,
    /// Numbers that are no operand.
    pub(crate) wide: Vec<i32>,
}

fn flag(is: bool) -> i32 {
    -i32::from(is)
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            stack: Kept::new(),
            returns: Kept::new(),
            memory: Memory::new(),
            output: Output::new(),
            code: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Takes the topmost cell.
    pub(crate) fn pop(&mut self) -> Result<i32, Fault> {
        let mut stack = self.stack.lend();
        let cell = stack.pop().ok_or(Fault::Few)?;
        let end = stack.end();
        self.stack.keep(end);
        Ok(cell)
    }

    /// Runs from an instruction on, until the word that begins there returns. A function of its own, so that it has
    /// few variables.
    #[inline(never)]
    pub(crate) fn run(&mut self, entry: usize) -> Result<(), Fault> {
        self.returns.clear();
        let mut running = Running {
            stack: self.stack.lend(),
            returns: self.returns.lend(),
            memory: &mut self.memory,
            output: &mut self.output,
            next: entry,
        };
        let ran = running.run(&self.code, &self.wide);
        let end = running.stack.end();
        self.stack.keep(end);
        ran
    }
}

/// A machine at work: what nearly every instruction needs is in variables of one function.
struct Running<'m> {
    stack: Stack<'m>,
    returns: Stack<'m>,
    memory: &'m mut Memory,
    output: &'m mut Output,
    next: usize,
}

impl Running<'_> {
    #[inline(always)]
    fn push(&mut self, cell: i32) -> Result<(), Fault> {
        self.stack.push(cell).then_some(()).ok_or(Fault::Full)
    }

    #[inline(always)]
    fn pop(&mut self) -> Result<i32, Fault> {
        self.stack.pop().ok_or(Fault::Few)
    }

    #[inline(always)]
    fn top(&mut self) -> Result<&mut i32, Fault> {
        self.stack.top().ok_or(Fault::Few)
    }

    #[inline(always)]
    fn below(&mut self, far: usize) -> Result<&mut i32, Fault> {
        self.stack.below(far).ok_or(Fault::Few)
    }

    #[inline(always)]
    fn push_return(&mut self, cell: i32) -> Result<(), Fault> {
        let pushed = self.returns.push(cell);
        pushed.then_some(()).ok_or(Fault::FullReturns)
    }

    #[inline(always)]
    fn unary(&mut self, f: impl FnOnce(i32) -> i32) -> Result<(), Fault> {
        let top = self.top()?;
        *top = f(*top);
        Ok(())
    }

    #[inline(always)]
    fn binary(&mut self, f: impl FnOnce(i32, i32) -> i32) -> Result<(), Fault> {
        self.stack.combine(f).ok_or(Fault::Few)
    }

    /// A quotient or a remainder.
    #[inline(always)]
    fn divide(&mut self, f: impl FnOnce(i32, i32) -> i32) -> Result<(), Fault> {
        match self.top()? {
            0 => Err(Fault::Division),
            _ => self.binary(f),
        }
    }

    /// Adds to the index; the loop goes on there unless it is at its end.
    #[inline(always)]
    fn advance(&mut self, by: i32, target: usize) -> Result<(), Fault> {
        let limit = *self.returns.below(1).ok_or(Fault::FewReturns)?;
        let index = self.returns.top().ok_or(Fault::FewReturns)?;
        let before = index.wrapping_sub(limit);
        let after = before.wrapping_add(by);
        *index = index.wrapping_add(by);
        // The boundary lies between the limit and the number below it.
        if (before ^ after) & (before ^ by) < 0 {
            return self.unloop();
        }
        self.next = target;
        Ok(())
    }

    /// Moves limit and index to the return stack; answers whether they differ.
    #[inline(always)]
    fn enter_loop(&mut self) -> Result<bool, Fault> {
        let (index, limit) = self.stack.pop_two().ok_or(Fault::Few)?;
        self.push_return(limit)?;
        self.push_return(index)?;
        Ok(index != limit)
    }

    #[inline(always)]
    fn unloop(&mut self) -> Result<(), Fault> {
        self.returns.pop_two().ok_or(Fault::FewReturns)?;
        Ok(())
    }

    #[inline(always)]
    fn run(&mut self, code: &[Op], wide: &[i32]) -> Result<(), Fault> {
        loop {
            let op = *code.get(self.next).ok_or(Fault::Return)?;
            self.next += 1;
            let target = op.operand() as usize;
            match op.kind() {
                Kind::Push => self.push(op.operand())?,
                Kind::PushWide => self.push(wide[target])?,
                Kind::Call => {
                    self.push_return(self.next as i32)?;
                    self.next = target;
                }
                Kind::Return => match self.returns.pop() {
                    Some(to) => self.next = to as u32 as usize,
                    None => return Ok(()),
                },
                Kind::Jump => self.next = target,
                Kind::JumpZero => {
                    if self.pop()? == 0 {
                        self.next = target;
                    }
                }
                Kind::Do => drop(self.enter_loop()?),
                Kind::DoSome => {
                    if !self.enter_loop()? {
                        self.unloop()?;
                        self.next = target;
                    }
                }
                Kind::Loop => self.advance(1, target)?,
                Kind::LoopBy => {
                    let by = self.pop()?;
                    self.advance(by, target)?;
                }
                Kind::Unloop => self.unloop()?,
                Kind::Plus => self.binary(i32::wrapping_add)?,
                Kind::Minus => self.binary(i32::wrapping_sub)?,
                Kind::Times => self.binary(i32::wrapping_mul)?,
                Kind::Divide => self.divide(i32::wrapping_div)?,
                Kind::Remainder => self.divide(i32::wrapping_rem)?,
                Kind::Negate => self.unary(i32::wrapping_neg)?,
                Kind::Absolute => self.unary(i32::wrapping_abs)?,
                Kind::Least => self.binary(i32::min)?,
                Kind::Greatest => self.binary(i32::max)?,
                Kind::And => self.binary(|a, b| a & b)?,
                Kind::Or => self.binary(|a, b| a | b)?,
                Kind::Xor => self.binary(|a, b| a ^ b)?,
                Kind::Invert => self.unary(|a| !a)?,
                Kind::ShiftLeft => self.binary(|a, b| a.wrapping_shl(b as u32))?,
                Kind::ShiftRight => self.binary(|a, b| a.wrapping_shr(b as u32))?,
                Kind::Equal => self.binary(|a, b| flag(a == b))?,
                Kind::Differ => self.binary(|a, b| flag(a != b))?,
                Kind::Less => self.binary(|a, b| flag(a < b))?,
                Kind::More => self.binary(|a, b| flag(a > b))?,
                Kind::AtMost => self.binary(|a, b| flag(a <= b))?,
                Kind::AtLeast => self.binary(|a, b| flag(a >= b))?,
                Kind::IsZero => self.unary(|a| flag(a == 0))?,
                Kind::IsNegative => self.unary(|a| flag(a < 0))?,
                Kind::Duplicate => {
                    let cell = *self.top()?;
                    self.push(cell)?;
                }
                Kind::DuplicateSome => {
                    let cell = *self.top()?;
                    if cell != 0 {
                        self.push(cell)?;
                    }
                }
                Kind::Drop => drop(self.pop()?),
                Kind::Swap => self.swap()?,
                Kind::Over => {
                    let cell = *self.below(1)?;
                    self.push(cell)?;
                }
                Kind::Rotate => {
                    let (second, third) = (*self.below(1)?, *self.below(2)?);
                    let first = core::mem::replace(self.top()?, third);
                    *self.below(1)? = first;
                    *self.below(2)? = second;
                }
                Kind::Nip => self.binary(|_, b| b)?,
                Kind::Tuck => {
                    self.swap()?;
                    let cell = *self.below(1)?;
                    self.push(cell)?;
                }
                Kind::DuplicateTwo => {
                    let (a, b) = (*self.below(1)?, *self.top()?);
                    self.push(a)?;
                    self.push(b)?;
                }
                Kind::DropTwo => drop(self.stack.pop_two().ok_or(Fault::Few)?),
                Kind::Depth => self.push(self.stack.depth() as i32)?,
                Kind::ToReturn => {
                    let cell = self.pop()?;
                    self.push_return(cell)?;
                }
                Kind::FromReturn => {
                    let cell = self.returns.pop().ok_or(Fault::FewReturns)?;
                    self.push(cell)?;
                }
                Kind::PeekReturn => {
                    let cell = *self.returns.top().ok_or(Fault::FewReturns)?;
                    self.push(cell)?;
                }
                Kind::Outer => {
                    let cell = *self.returns.below(2).ok_or(Fault::FewReturns)?;
                    self.push(cell)?;
                }
                Kind::Fetch => {
                    let address = *self.top()?;
                    *self.top()? = i32::from_le_bytes(*self.memory.cell(address)?);
                }
                Kind::Store => {
                    let (address, cell) = self.stack.pop_two().ok_or(Fault::Few)?;
                    *self.memory.cell(address)? = cell.to_le_bytes();
                }
                Kind::AddTo => {
                    let (address, by) = self.stack.pop_two().ok_or(Fault::Few)?;
                    let cell = self.memory.cell(address)?;
                    *cell = i32::from_le_bytes(*cell).wrapping_add(by).to_le_bytes();
                }
                Kind::FetchByte => {
                    let address = *self.top()?;
                    *self.top()? = i32::from(*self.memory.byte(address)?);
                }
                Kind::StoreByte => {
                    let (address, byte) = self.stack.pop_two().ok_or(Fault::Few)?;
                    *self.memory.byte(address)? = byte as u8;
                }
                Kind::Here => self.push(self.memory.len() as i32)?,
                Kind::Allot => {
                    let bytes = self.pop()?;
                    self.memory.allot(bytes)?;
                }
                Kind::Comma => {
                    let cell = self.pop()?;
                    let at = self.memory.allot(4)?;
                    *self.memory.cell(at)? = cell.to_le_bytes();
                }
                Kind::Print => self.output.print(target),
                Kind::Dot => {
                    let cell = self.pop()?;
                    self.output.number(cell);
                }
                Kind::Emit => {
                    let byte = self.pop()?;
                    self.output.byte(byte as u8);
                }
                Kind::NewLine => self.output.byte(b'\n'),
            }
        }
    }

    #[inline(always)]
    fn swap(&mut self) -> Result<(), Fault> {
        let top = *self.top()?;
        *self.top()? = core::mem::replace(self.below(1)?, top);
        Ok(())
    }
}

//! The machine that runs instructions.

use alloc::vec::Vec;
use core::fmt::Write;

use everwarp_guest_wasi::{Stream, write_all};

use crate::fault::Fault;
use crate::op::Op;

/// Cells of either stack.
const STACK: usize = 1024;
/// What a program may allot.
const MEMORY: usize = 1 << 20;
/// Output is written in pieces of about this size.
const PIECE: usize = 1024;

/// Stacks, memory, code and output.
pub(crate) struct Machine {
    stack: Vec<i32>,
    returns: Vec<i32>,
    memory: Vec<u8>,
    out: Vec<u8>,
    pub(crate) code: Vec<Op>,
    /// Of all `."`, one behind the other.
    pub(crate) texts: Vec<u8>,
}

struct Text<'m>(&'m mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn flag(is: bool) -> i32 {
    -i32::from(is)
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            stack: Vec::with_capacity(STACK),
            returns: Vec::with_capacity(STACK),
            memory: Vec::new(),
            out: Vec::with_capacity(PIECE + 64),
            code: Vec::new(),
            texts: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Result<i32, Fault> {
        self.stack.pop().ok_or(Fault::Few)
    }

    #[inline]
    pub(crate) fn push(&mut self, cell: i32) -> Result<(), Fault> {
        if self.stack.len() == STACK {
            return Err(Fault::Full);
        }
        self.stack.push(cell);
        Ok(())
    }

    #[inline]
    fn push_return(&mut self, cell: i32) -> Result<(), Fault> {
        if self.returns.len() == STACK {
            return Err(Fault::FullReturns);
        }
        self.returns.push(cell);
        Ok(())
    }

    #[inline]
    fn pop_return(&mut self) -> Result<i32, Fault> {
        self.returns.pop().ok_or(Fault::FewReturns)
    }

    /// The cell so far below the top.
    #[inline]
    fn peek(&self, below: usize) -> Result<i32, Fault> {
        let at = self.stack.len().checked_sub(below + 1);
        at.map(|at| self.stack[at]).ok_or(Fault::Few)
    }

    #[inline]
    fn peek_return(&self, below: usize) -> Result<i32, Fault> {
        let at = self.returns.len().checked_sub(below + 1);
        at.map(|at| self.returns[at]).ok_or(Fault::FewReturns)
    }

    #[inline]
    fn unary(&mut self, f: impl FnOnce(i32) -> i32) -> Result<(), Fault> {
        let top = self.stack.last_mut().ok_or(Fault::Few)?;
        *top = f(*top);
        Ok(())
    }

    #[inline]
    fn binary(&mut self, f: impl FnOnce(i32, i32) -> i32) -> Result<(), Fault> {
        let b = self.pop()?;
        self.unary(|a| f(a, b))
    }

    /// A quotient or a remainder.
    fn divide(&mut self, f: impl FnOnce(i32, i32) -> i32) -> Result<(), Fault> {
        match self.peek(0)? {
            0 => Err(Fault::Division),
            _ => self.binary(f),
        }
    }

    #[inline]
    fn cell(&mut self, address: i32) -> Result<&mut [u8; 4], Fault> {
        let cell = self.memory.get_mut(address as u32 as usize..);
        cell.and_then(|c| c.first_chunk_mut()).ok_or(Fault::Address)
    }

    #[inline]
    fn byte(&mut self, address: i32) -> Result<&mut u8, Fault> {
        let byte = self.memory.get_mut(address as u32 as usize);
        byte.ok_or(Fault::Address)
    }

    /// Gives the program more memory, or takes some back; answers where it began.
    pub(crate) fn allot(&mut self, bytes: i32) -> Result<i32, Fault> {
        let here = self.memory.len();
        let length = (here as i32).checked_add(bytes).map(|l| l as usize);
        let length = length.filter(|l| *l <= MEMORY);
        self.memory.resize(length.ok_or(Fault::Allot)?, 0);
        Ok(here as i32)
    }

    fn printed(&mut self) {
        if self.out.len() >= PIECE {
            self.flush();
        }
    }

    /// Writes what has been printed.
    pub(crate) fn flush(&mut self) {
        if write_all(Stream::Out, &self.out).is_err() {
            everwarp_guest_wasi::exit(1);
        }
        self.out.clear();
    }

    /// Adds to the index; answers whether the loop goes on.
    #[inline]
    fn advance(&mut self, by: i32) -> Result<bool, Fault> {
        let [.., limit, index] = self.returns.as_mut_slice() else {
            return Err(Fault::FewReturns);
        };
        let before = index.wrapping_sub(*limit);
        let after = before.wrapping_add(by);
        // The boundary lies between the limit and the number below it.
        let crossed = (before ^ after) & (before ^ by) < 0;
        *index = index.wrapping_add(by);
        if crossed {
            self.returns.truncate(self.returns.len() - 2);
        }
        Ok(!crossed)
    }

    fn enter_loop(&mut self) -> Result<bool, Fault> {
        let (index, limit) = (self.pop()?, self.pop()?);
        self.push_return(limit)?;
        self.push_return(index)?;
        Ok(index != limit)
    }

    fn unloop(&mut self) -> Result<(), Fault> {
        self.pop_return()?;
        self.pop_return().map(drop)
    }

    /// Runs from an instruction on, until the word that begins there returns.
    pub(crate) fn run(&mut self, entry: usize) -> Result<(), Fault> {
        self.returns.clear();
        let mut next = entry;
        loop {
            let op = *self.code.get(next).ok_or(Fault::Return)?;
            next += 1;
            match op {
                Op::Push(cell) => self.push(cell)?,
                Op::Call(target) => {
                    self.push_return(next as i32)?;
                    next = target as usize;
                }
                Op::Return => match self.returns.pop() {
                    Some(to) => next = to as u32 as usize,
                    None => return Ok(()),
                },
                Op::Jump(target) => next = target as usize,
                Op::JumpZero(target) => {
                    if self.pop()? == 0 {
                        next = target as usize;
                    }
                }
                Op::Do => drop(self.enter_loop()?),
                Op::DoSome(target) => {
                    if !self.enter_loop()? {
                        self.unloop()?;
                        next = target as usize;
                    }
                }
                Op::Loop(target) => {
                    if self.advance(1)? {
                        next = target as usize;
                    }
                }
                Op::LoopBy(target) => {
                    let by = self.pop()?;
                    if self.advance(by)? {
                        next = target as usize;
                    }
                }
                other => self.step(other)?,
            }
        }
    }

    /// An instruction that does not change which one is next.
    #[inline(always)]
    fn step(&mut self, op: Op) -> Result<(), Fault> {
        match op {
            Op::Plus => self.binary(i32::wrapping_add),
            Op::Minus => self.binary(i32::wrapping_sub),
            Op::Times => self.binary(i32::wrapping_mul),
            Op::Divide => self.divide(i32::wrapping_div),
            Op::Remainder => self.divide(i32::wrapping_rem),
            Op::Negate => self.unary(i32::wrapping_neg),
            Op::Absolute => self.unary(i32::wrapping_abs),
            Op::Least => self.binary(i32::min),
            Op::Greatest => self.binary(i32::max),
            Op::And => self.binary(|a, b| a & b),
            Op::Or => self.binary(|a, b| a | b),
            Op::Xor => self.binary(|a, b| a ^ b),
            Op::Invert => self.unary(|a| !a),
            Op::ShiftLeft => self.binary(|a, b| a.wrapping_shl(b as u32)),
            Op::ShiftRight => self.binary(|a, b| a.wrapping_shr(b as u32)),
            Op::Equal => self.binary(|a, b| flag(a == b)),
            Op::Differ => self.binary(|a, b| flag(a != b)),
            Op::Less => self.binary(|a, b| flag(a < b)),
            Op::More => self.binary(|a, b| flag(a > b)),
            Op::AtMost => self.binary(|a, b| flag(a <= b)),
            Op::AtLeast => self.binary(|a, b| flag(a >= b)),
            Op::IsZero => self.unary(|a| flag(a == 0)),
            Op::IsNegative => self.unary(|a| flag(a < 0)),
            Op::Duplicate => self.push(self.peek(0)?),
            Op::DuplicateSome => match self.peek(0)? {
                0 => Ok(()),
                cell => self.push(cell),
            },
            Op::Drop => self.pop().map(drop),
            Op::Swap => self.rotate(2),
            Op::Over => self.push(self.peek(1)?),
            Op::Rotate => self.rotate(3),
            Op::Nip => self.binary(|_, b| b),
            Op::Tuck => {
                self.rotate(2)?;
                self.push(self.peek(1)?)
            }
            Op::DuplicateTwo => {
                let (a, b) = (self.peek(1)?, self.peek(0)?);
                self.push(a)?;
                self.push(b)
            }
            Op::DropTwo => {
                self.pop()?;
                self.pop().map(drop)
            }
            Op::Depth => self.push(self.stack.len() as i32),
            Op::ToReturn => {
                let cell = self.pop()?;
                self.push_return(cell)
            }
            Op::FromReturn => {
                let cell = self.pop_return()?;
                self.push(cell)
            }
            Op::PeekReturn => self.push(self.peek_return(0)?),
            Op::Outer => self.push(self.peek_return(2)?),
            Op::Unloop => self.unloop(),
            Op::Fetch => {
                let address = self.pop()?;
                let cell = i32::from_le_bytes(*self.cell(address)?);
                self.push(cell)
            }
            Op::Store => {
                let (address, cell) = (self.pop()?, self.pop()?);
                *self.cell(address)? = cell.to_le_bytes();
                Ok(())
            }
            Op::AddTo => {
                let (address, by) = (self.pop()?, self.pop()?);
                let cell = self.cell(address)?;
                *cell = i32::from_le_bytes(*cell).wrapping_add(by).to_le_bytes();
                Ok(())
            }
            Op::FetchByte => {
                let address = self.pop()?;
                let byte = i32::from(*self.byte(address)?);
                self.push(byte)
            }
            Op::StoreByte => {
                let (address, byte) = (self.pop()?, self.pop()?);
                *self.byte(address)? = byte as u8;
                Ok(())
            }
            Op::Here => self.push(self.memory.len() as i32),
            Op::Allot => {
                let bytes = self.pop()?;
                self.allot(bytes).map(drop)
            }
            Op::Comma => {
                let cell = self.pop()?;
                let at = self.allot(4)?;
                *self.cell(at)? = cell.to_le_bytes();
                Ok(())
            }
            Op::Dot => {
                let cell = self.pop()?;
                write!(Text(&mut self.out), "{cell} ").expect("a vector takes every text");
                self.printed();
                Ok(())
            }
            Op::Emit => {
                let byte = self.pop()? as u8;
                self.out.push(byte);
                self.printed();
                Ok(())
            }
            Op::NewLine => {
                self.out.push(b'\n');
                self.printed();
                Ok(())
            }
            Op::Print(length, at) => {
                let text = &self.texts[at as usize..][..usize::from(length)];
                self.out.extend_from_slice(text);
                self.printed();
                Ok(())
            }
            _ => unreachable!("this instruction changes which one is next"),
        }
    }

    /// Makes the lowest of so many cells the top one.
    fn rotate(&mut self, count: usize) -> Result<(), Fault> {
        let start = self.stack.len().checked_sub(count).ok_or(Fault::Few)?;
        self.stack[start..].rotate_left(1);
        Ok(())
    }
}

//! From words to instructions.

use alloc::vec::Vec;

use crate::machine::Machine;
use crate::op::{Kind, Op};
use crate::text::Text;
use crate::words::{WORDS, Word};
use crate::wrong::Wrong;

/// A construct that is open: where its first instruction is, or the one to be completed.
enum Open {
    /// `if` or `else`: the jump to complete.
    If(usize),
    /// `begin`: where to jump back to.
    Begin(usize),
    /// `begin ... while`: where to jump back to, and the jump to complete.
    While(usize, usize),
    /// `do` or `?do`: where the body begins, and the jumps to complete.
    Do(usize, Vec<usize>),
}

/// What a name of the program's means.
enum Meaning {
    /// A word, by its first instruction.
    Word(usize),
    /// A constant, or the address of a variable.
    Cell(i32),
}

/// Compiles definitions, and runs what stands outside of them at once.
pub(crate) struct Compiler {
    pub(crate) machine: Machine,
    names: Vec<(Vec<u8>, Meaning)>,
    open: Vec<Open>,
    /// The definition under way: its name and its first instruction.
    current: Option<(Vec<u8>, usize)>,
}

impl Compiler {
    pub(crate) fn new() -> Self {
        Self {
            machine: Machine::new(),
            names: Vec::new(),
            open: Vec::new(),
            current: None,
        }
    }

    /// Runs a program; an error comes with its line.
    pub(crate) fn program(&mut self, text: &[u8]) -> Result<(), (u32, Wrong)> {
        let mut text = Text::new(text);
        while let Some(word) = text.word() {
            let line = text.line;
            let done = self.word(&word.to_ascii_lowercase(), word, &mut text);
            done.map_err(|what| (line, what))?;
        }
        match self.current.take() {
            Some((name, _)) => Err((text.line, Wrong::word(&name, "has no `;`"))),
            None => Ok(()),
        }
    }

    fn here(&self) -> usize {
        self.machine.code.len()
    }

    fn emit(&mut self, kind: Kind) {
        self.machine.code.push(Op::of(kind));
    }

    /// Adds an instruction that goes to another one.
    fn emit_to(&mut self, kind: Kind, target: usize) -> Result<(), Wrong> {
        self.machine.code.push(with(kind, target)?);
        Ok(())
    }

    /// Compiles instructions into the definition under way, or runs them at once.
    fn act(&mut self, ops: &[Op]) -> Result<(), Wrong> {
        let start = self.here();
        self.machine.code.extend_from_slice(ops);
        if self.current.is_some() {
            return Ok(());
        }
        self.emit(Kind::Return);
        let ran = self.machine.run(start);
        self.machine.code.truncate(start);
        Ok(ran?)
    }

    /// Compiles or runs what pushes a number.
    fn number(&mut self, cell: i32) -> Result<(), Wrong> {
        if let Some(op) = Op::with(Kind::Push, cell) {
            return self.act(&[op]);
        }
        let wide = &mut self.machine.wide;
        let place = wide.iter().position(|w| *w == cell).unwrap_or(wide.len());
        if place == wide.len() {
            wide.push(cell);
        }
        self.act(&[with(Kind::PushWide, place)?])
    }

    fn name(&mut self, text: &mut Text<'_>) -> Result<Vec<u8>, Wrong> {
        let name = text.word().ok_or("a name is due here")?;
        Ok(name.to_ascii_lowercase())
    }

    /// Gives a name a meaning, outside of a definition.
    fn define(&mut self, text: &mut Text<'_>, cell: i32) -> Result<(), Wrong> {
        if self.current.is_some() {
            return Err("this cannot stand within a definition".into());
        }
        let name = self.name(text)?;
        self.names.push((name, Meaning::Cell(cell)));
        Ok(())
    }

    /// Compiles or runs one word; `word` is in lower case.
    fn word(&mut self, word: &[u8], original: &[u8], text: &mut Text<'_>) -> Result<(), Wrong> {
        match word {
            b"\\" => drop(text.until(b'\n')),
            b"(" => drop(text.until(b')').ok_or("a `(` has no `)`")?),
            b".\"" => {
                let inner = text.until(b'"').ok_or("a text has no end")?;
                let text = self.machine.output.text(inner);
                self.act(&[with(Kind::Print, text)?])?;
            }
            b"variable" => {
                let at = self.machine.memory.allot(4)?;
                self.define(text, at)?;
            }
            b"create" => {
                let at = self.machine.memory.allot(0)?;
                self.define(text, at)?;
            }
            b"constant" => {
                let cell = self.machine.pop()?;
                self.define(text, cell)?;
            }
            b":" => {
                if let Some((name, _)) = &self.current {
                    return Err(Wrong::word(name, "has no `;` yet"));
                }
                self.current = Some((self.name(text)?, self.here()));
            }
            _ => {
                if self.structure(word)? {
                    return Ok(());
                }
                let meaning = self.names.iter().rev().find(|(name, _)| name == word);
                let known = WORDS.iter().find(|(name, _)| *name == word);
                match (meaning, known) {
                    (Some((_, Meaning::Word(at))), _) => self.act(&[with(Kind::Call, *at)?])?,
                    (Some((_, Meaning::Cell(cell))), _) => self.number(*cell)?,
                    (None, Some((_, Word::Does(kind)))) => self.act(&[Op::of(*kind)])?,
                    (None, Some((_, Word::Number(cell)))) => self.act(&[Op::push(*cell)])?,
                    (None, Some((_, Word::With(cell, kind)))) => {
                        self.act(&[Op::push(*cell), Op::of(*kind)])?;
                    }
                    (None, None) => {
                        let cell = number(word);
                        self.number(cell.ok_or_else(|| Wrong::word(original, "is no word"))?)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A word that shapes a definition; false if it is none.
    fn structure(&mut self, word: &[u8]) -> Result<bool, Wrong> {
        const SHAPING: [&[u8]; 16] = [
            b";", b"recurse", b"if", b"else", b"then", b"begin", b"until", b"again", b"while",
            b"repeat", b"do", b"?do", b"loop", b"+loop", b"leave", b"exit",
        ];
        if !SHAPING.contains(&word) {
            return Ok(false);
        }
        let Some((name, start)) = self.current.as_ref().map(|(n, s)| (n.clone(), *s)) else {
            return Err(Wrong::word(word, "can only stand within a definition"));
        };
        let here = self.here();
        match (word, self.open.pop()) {
            (b";", None) => {
                self.emit(Kind::Return);
                self.names.push((name, Meaning::Word(start)));
                self.current = None;
            }
            (b"if", open) => {
                self.emit_to(Kind::JumpZero, 0)?;
                self.open.extend(open);
                self.open.push(Open::If(here));
            }
            (b"else", Some(Open::If(jump))) => {
                self.emit_to(Kind::Jump, 0)?;
                self.land(jump)?;
                self.open.push(Open::If(here));
            }
            (b"then", Some(Open::If(jump))) => self.land(jump)?,
            (b"begin", open) => {
                self.open.extend(open);
                self.open.push(Open::Begin(here));
            }
            (b"until", Some(Open::Begin(back))) => self.emit_to(Kind::JumpZero, back)?,
            (b"again", Some(Open::Begin(back))) => self.emit_to(Kind::Jump, back)?,
            (b"while", Some(Open::Begin(back))) => {
                self.emit_to(Kind::JumpZero, 0)?;
                self.open.push(Open::While(back, here));
            }
            (b"repeat", Some(Open::While(back, jump))) => {
                self.emit_to(Kind::Jump, back)?;
                self.land(jump)?;
            }
            (b"do", open) => {
                self.emit(Kind::Do);
                self.open.extend(open);
                self.open.push(Open::Do(here + 1, Vec::new()));
            }
            (b"?do", open) => {
                self.emit_to(Kind::DoSome, 0)?;
                self.open.extend(open);
                self.open.push(Open::Do(here + 1, [here].into()));
            }
            (b"loop" | b"+loop", Some(Open::Do(back, leaves))) => {
                let kind = if word == b"loop" {
                    Kind::Loop
                } else {
                    Kind::LoopBy
                };
                self.emit_to(kind, back)?;
                for jump in leaves {
                    self.land(jump)?;
                }
            }
            (b"leave", open) => {
                self.open.extend(open);
                let leaves = self.open.iter_mut().rev().find_map(|open| match open {
                    Open::Do(_, leaves) => Some(leaves),
                    _ => None,
                });
                leaves.ok_or("`leave` stands in no loop")?.push(here + 1);
                self.emit(Kind::Unloop);
                self.emit_to(Kind::Jump, 0)?;
            }
            (b"recurse", open) => {
                self.open.extend(open);
                self.emit_to(Kind::Call, start)?;
            }
            (b"exit", open) => {
                self.open.extend(open);
                self.emit(Kind::Return);
            }
            _ => return Err(Wrong::word(word, "does not match what is open")),
        }
        Ok(true)
    }

    /// Lets a jump lead to here.
    fn land(&mut self, jump: usize) -> Result<(), Wrong> {
        let kind = self.machine.code[jump].kind();
        self.machine.code[jump] = with(kind, self.here())?;
        Ok(())
    }
}

/// An instruction with an index.
fn with(kind: Kind, index: usize) -> Result<Op, Wrong> {
    let operand = i32::try_from(index).ok();
    let op = operand.and_then(|operand| Op::with(kind, operand));
    Ok(op.ok_or("the program is too long")?)
}

/// A decimal number, or a hexadecimal one behind `$`.
fn number(word: &[u8]) -> Option<i32> {
    if let Some(digits) = word.strip_prefix(b"$") {
        return unsigned(digits, 16).and_then(|n| u32::try_from(n).ok().map(|n| n as i32));
    }
    match word.strip_prefix(b"-") {
        Some(digits) => i32::try_from(-unsigned(digits, 10)?).ok(),
        None => i32::try_from(unsigned(word, 10)?).ok(),
    }
}

/// At least one digit and nothing else; larger numbers than a cell's are cut down to one that is still too large.
fn unsigned(digits: &[u8], base: u32) -> Option<i64> {
    let step = |number: i64, byte: &u8| {
        let digit = char::from(*byte).to_digit(base)?;
        Some((number * i64::from(base) + i64::from(digit)).min(1 << 40))
    };
    let number = digits.iter().try_fold(0, step);
    number.filter(|_| !digits.is_empty())
}

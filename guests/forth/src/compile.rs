//! From words to instructions.

use alloc::vec::Vec;

use crate::machine::Machine;
use crate::op::Op;
use crate::text::Text;
use crate::words::WORDS;
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
    Word(u32),
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

    fn emit(&mut self, op: Op) {
        self.machine.code.push(op);
    }

    /// Compiles instructions into the definition under way, or runs them at once.
    fn act(&mut self, ops: &[Op]) -> Result<(), Wrong> {
        let start = self.here();
        self.machine.code.extend_from_slice(ops);
        if self.current.is_some() {
            return Ok(());
        }
        self.emit(Op::Return);
        let ran = self.machine.run(start);
        self.machine.code.truncate(start);
        Ok(ran?)
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
                let at = self.machine.texts.len() as u32;
                let length = u16::try_from(inner.len()).map_err(|_| "a text is too long")?;
                self.machine.texts.extend_from_slice(inner);
                self.act(&[Op::Print(length, at)])?;
            }
            b"variable" => {
                let at = self.machine.allot(4)?;
                self.define(text, at)?;
            }
            b"create" => {
                let at = self.machine.allot(0)?;
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
                let op = match (meaning, known) {
                    (Some((_, Meaning::Word(at))), _) => Op::Call(*at),
                    (Some((_, Meaning::Cell(cell))), _) => Op::Push(*cell),
                    (None, Some((_, ops))) => return self.act(ops),
                    (None, None) => {
                        Op::Push(number(word).ok_or_else(|| Wrong::word(original, "is no word"))?)
                    }
                };
                self.act(&[op])?;
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
                self.emit(Op::Return);
                self.names.push((name, Meaning::Word(start as u32)));
                self.current = None;
            }
            (b"if", open) => {
                self.emit(Op::JumpZero(0));
                self.open.extend(open);
                self.open.push(Open::If(here));
            }
            (b"else", Some(Open::If(jump))) => {
                self.emit(Op::Jump(0));
                self.land(jump);
                self.open.push(Open::If(here));
            }
            (b"then", Some(Open::If(jump))) => self.land(jump),
            (b"begin", open) => {
                self.open.extend(open);
                self.open.push(Open::Begin(here));
            }
            (b"until", Some(Open::Begin(back))) => self.emit(Op::JumpZero(back as u32)),
            (b"again", Some(Open::Begin(back))) => self.emit(Op::Jump(back as u32)),
            (b"while", Some(Open::Begin(back))) => {
                self.emit(Op::JumpZero(0));
                self.open.push(Open::While(back, here));
            }
            (b"repeat", Some(Open::While(back, jump))) => {
                self.emit(Op::Jump(back as u32));
                self.land(jump);
            }
            (b"do", open) => {
                self.emit(Op::Do);
                self.open.extend(open);
                self.open.push(Open::Do(here + 1, Vec::new()));
            }
            (b"?do", open) => {
                self.emit(Op::DoSome(0));
                self.open.extend(open);
                self.open.push(Open::Do(here + 1, [here].into()));
            }
            (b"loop" | b"+loop", Some(Open::Do(back, leaves))) => {
                let op = if word == b"loop" {
                    Op::Loop
                } else {
                    Op::LoopBy
                };
                self.emit(op(back as u32));
                for jump in leaves {
                    self.land(jump);
                }
            }
            (b"leave", open) => {
                self.open.extend(open);
                let leaves = self.open.iter_mut().rev().find_map(|open| match open {
                    Open::Do(_, leaves) => Some(leaves),
                    _ => None,
                });
                leaves.ok_or("`leave` stands in no loop")?.push(here + 1);
                self.emit(Op::Unloop);
                self.emit(Op::Jump(0));
            }
            (b"recurse", open) => {
                self.open.extend(open);
                self.emit(Op::Call(start as u32));
            }
            (b"exit", open) => {
                self.open.extend(open);
                self.emit(Op::Return);
            }
            _ => return Err(Wrong::word(word, "does not match what is open")),
        }
        Ok(true)
    }

    /// Lets a jump lead to here.
    fn land(&mut self, jump: usize) {
        let here = self.here() as u32;
        match &mut self.machine.code[jump] {
            Op::Jump(to) | Op::JumpZero(to) | Op::DoSome(to) => *to = here,
            _ => unreachable!("this is no jump"),
        }
    }
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

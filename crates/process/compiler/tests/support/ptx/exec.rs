//! Runs threads.

use std::rc::Rc;

use super::{Address, Image, Kind, Memory, Op, Operand};

/// A call in progress.
struct Frame {
    function: usize,
    at: usize,
    registers: Vec<Option<u64>>,
    params: Vec<Vec<u8>>,
    /// The caller's destination for the result.
    result: Option<usize>,
}

/// A thread that is still running.
struct Thread {
    frames: Vec<Frame>,
    /// `%tid.x`, `%ntid.x` and `%ctaid.x`.
    special: [u32; 3],
}

/// An image and the memory that it works on.
pub(crate) struct Interpreter {
    image: Rc<Image>,
    pub(crate) memory: Memory,
    /// The number of instructions left before a run counts as endless.
    pub(crate) budget: u64,
    /// The state of the random generator that chooses the next thread.
    pub(crate) seed: u64,
}

impl Interpreter {
    /// A machine without code and memory.
    pub(crate) fn new() -> Self {
        Self {
            image: Rc::default(),
            memory: Memory::default(),
            budget: 4_000_000_000,
            seed: 1,
        }
    }

    /// Loads code in addition to the code that is loaded already.
    pub(crate) fn load(&mut self, ptx: &str) -> Result<(), String> {
        let image = Rc::get_mut(&mut self.image).ok_or("the machine is running")?;
        image.add(ptx)
    }

    /// Runs a kernel or function with these arguments, in a block of `count` threads.
    pub(crate) fn run(&mut self, name: &str, args: &[Vec<u8>], count: u32) -> Result<(), String> {
        let image = Rc::clone(&self.image);
        let function = *image.by_name.get(name).ok_or("no such function")?;
        let thread = |id| -> Result<Thread, String> {
            let frames = vec![frame(&image, function, args, None)?];
            let special = [id, count, 0];
            Ok(Thread { frames, special })
        };
        let mut threads = (0..count).map(thread).collect::<Result<Vec<_>, _>>()?;
        while !threads.is_empty() {
            let (turn, steps) = match threads.len() {
                1 => (0, u64::MAX),
                // Each turn runs only a few instructions, so that other threads can interleave between any two.
                n => (self.random() as usize % n, 1 + self.random() % 8),
            };
            if self.take_turn(&image, &mut threads[turn], steps)? {
                threads.swap_remove(turn);
            }
        }
        Ok(())
    }

    /// A random number, by a linear congruential generator.
    fn random(&mut self) -> u64 {
        self.seed = (self.seed.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
        self.seed >> 33
    }

    /// Runs this number of instructions of a thread. Returns true if the thread has ended.
    fn take_turn(
        &mut self,
        image: &Image,
        thread: &mut Thread,
        steps: u64,
    ) -> Result<bool, String> {
        let (frames, special) = (&mut thread.frames, thread.special);
        for _ in 0..steps {
            let frame = frames.last_mut().expect("a running thread has a frame");
            let code = &image.functions[frame.function];
            let Some(instruction) = code.code.get(frame.at) else {
                return Err(format!("{} runs past its end", code.name));
            };
            let where_ = |e: String| format!("{}, line {}: {e}", code.name, instruction.line);
            frame.at += 1;
            self.budget = self
                .budget
                .checked_sub(1)
                .ok_or("the run exceeds its budget of instructions")?;
            if let Some((pred, negated)) = instruction.guard {
                let holds = read(frame, pred).map_err(where_)? != 0;
                if holds == negated {
                    continue;
                }
            }
            match &instruction.op {
                Op::Return => {
                    let done = frames.pop().expect("the frame returns to its caller");
                    let Some(caller) = frames.last_mut() else {
                        return Ok(true);
                    };
                    if let (Some(slot), Some((own, _))) = (done.result, code.result) {
                        caller.params[slot] = done.params[own].clone();
                    }
                }
                Op::Call {
                    result,
                    target,
                    args,
                } => {
                    let to = &image.functions[*target];
                    let wanted = result.map(|r| frame.params[r].len());
                    if to.result.map(|r| r.1) != wanted {
                        return Err(where_(format!("{} has another result", to.name)));
                    }
                    let args: Vec<_> = args.iter().map(|a| frame.params[*a].clone()).collect();
                    let next = self::frame(image, *target, &args, *result).map_err(where_)?;
                    frames.push(next);
                }
                op => self.step(image, frame, op, special).map_err(where_)?,
            }
        }
        Ok(false)
    }

    fn step(
        &mut self,
        image: &Image,
        frame: &mut Frame,
        op: &Op,
        special: [u32; 3],
    ) -> Result<(), String> {
        let registers = &image.functions[frame.function].registers;
        match op {
            Op::Compute {
                name,
                to,
                args,
                count,
            } => {
                let mut values = [0; 4];
                for (value, arg) in values.iter_mut().zip(&args[..*count]) {
                    *value = match *arg {
                        Operand::Special(i) => special[i].into(),
                        _ => operand(frame, arg)?,
                    };
                }
                let result = name.compute(values[0], values[1], values[2])?;
                frame.registers[*to] = Some(mask(result, registers[*to].bits));
            }
            Op::Split { to, from } => {
                let number = read(frame, *from)?;
                frame.registers[to[0]] = Some(mask(number, 32));
                frame.registers[to[1]] = Some(number >> 32);
            }
            Op::Join { to, from } => {
                let number = read(frame, from[0])? | (read(frame, from[1])? << 32);
                frame.registers[*to] = Some(number);
            }
            Op::Load { ty, to, at } => {
                let bytes = ty.bits as usize / 8;
                let raw = match *at {
                    Address::Memory(base, offset) => {
                        let address = read(frame, base)?.wrapping_add_signed(offset);
                        self.memory.load(address, bytes)?
                    }
                    Address::Param(slot, offset) => {
                        let mut number = [0; 8];
                        let from = frame.params[slot].get(offset..offset + bytes);
                        number[..bytes].copy_from_slice(from.ok_or("beyond the parameter")?);
                        u64::from_le_bytes(number)
                    }
                };
                let value = if ty.kind == Kind::Signed {
                    let unused = 64 - ty.bits;
                    ((raw << unused) as i64 >> unused) as u64
                } else {
                    raw
                };
                frame.registers[*to] = Some(mask(value, registers[*to].bits));
            }
            Op::Store { ty, at, value } => {
                let bytes = ty.bits as usize / 8;
                let value = operand(frame, value)?;
                match *at {
                    Address::Memory(base, offset) => {
                        let address = read(frame, base)?.wrapping_add_signed(offset);
                        self.memory.store(address, bytes, value)?;
                    }
                    Address::Param(slot, offset) => {
                        let to = frame.params[slot].get_mut(offset..offset + bytes);
                        let to = to.ok_or("beyond the parameter")?;
                        to.copy_from_slice(&value.to_le_bytes()[..bytes]);
                    }
                }
            }
            Op::Atomic {
                action,
                bits,
                to,
                at,
                args,
            } => {
                let Address::Memory(base, offset) = *at else {
                    return Err("an atomic on a parameter".to_owned());
                };
                let address = read(frame, base)?.wrapping_add_signed(offset);
                let bytes = *bits as usize / 8;
                let old = self.memory.load(address, bytes)?;
                let (a, b) = (operand(frame, &args[0])?, operand(frame, &args[1])?);
                self.memory
                    .store(address, bytes, action.apply(*bits, old, a, b))?;
                frame.registers[*to] = Some(old);
            }
            Op::Fence => {}
            Op::Declare { param, bytes } => frame.params[*param] = vec![0xee; *bytes],
            Op::Branch(target) => frame.at = *target,
            Op::Table { index, targets } => {
                let index = read(frame, *index)? as usize;
                frame.at = *targets.get(index).ok_or("beyond the branch table")?;
            }
            Op::Call { .. } | Op::Return => return Err("handled by the caller".to_owned()),
        }
        Ok(())
    }
}

/// Makes the frame of a call.
fn frame(
    image: &Image,
    function: usize,
    args: &[Vec<u8>],
    result: Option<usize>,
) -> Result<Frame, String> {
    let code = &image.functions[function];
    let mut params = vec![Vec::new(); code.param_count];
    if args.len() != code.formals.len() {
        return Err(format!(
            "{} takes {} arguments",
            code.name,
            code.formals.len()
        ));
    }
    for ((slot, bytes), arg) in code.formals.iter().zip(args) {
        if arg.len() != *bytes {
            return Err(format!("an argument of {} has another size", code.name));
        }
        params[*slot].clone_from(arg);
    }
    if let Some((slot, bytes)) = code.result {
        params[slot] = vec![0xee; bytes];
    }
    Ok(Frame {
        function,
        at: 0,
        registers: vec![None; code.registers.len()],
        params,
        result,
    })
}

fn mask(value: u64, bits: u32) -> u64 {
    if bits == 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

fn read(frame: &Frame, register: usize) -> Result<u64, String> {
    frame.registers[register].ok_or_else(|| "a register is read before it is written".to_owned())
}

fn operand(frame: &Frame, operand: &Operand) -> Result<u64, String> {
    match *operand {
        Operand::Reg(r) => read(frame, r),
        Operand::Value(v) => Ok(v),
        Operand::Special(_) => Err("a special register in an invalid position".to_owned()),
    }
}

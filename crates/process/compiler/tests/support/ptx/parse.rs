//! Parses text into instructions. The compiler writes one statement per line, and the parser relies on it.

use std::collections::HashMap;

use super::{Address, Function, Image, Instruction, Kind, Op, Operand, Type, alu, atomic};

/// A type as PTX writes it, `b32` for example.
pub(crate) fn parse_type(text: &str) -> Option<Type> {
    if text == "pred" {
        let (kind, bits) = (Kind::Pred, 1);
        return Some(Type { kind, bits });
    }
    let (kind, bits) = text.split_at_checked(1)?;
    let kind = match kind {
        "b" => Kind::Bits,
        "u" => Kind::Unsigned,
        "s" => Kind::Signed,
        "f" => Kind::Float,
        _ => return None,
    };
    let bits = bits.parse().ok()?;
    [8, 16, 32, 64]
        .contains(&bits)
        .then_some(Type { kind, bits })
}

pub(crate) fn add(image: &mut Image, text: &str) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    // The names are collected first, because functions call each other in any order.
    for line in &lines {
        if let Some(head) = function_head(line) {
            let name = head_name(head)?;
            let next = image.functions.len();
            if !image.by_name.contains_key(&name) {
                image.by_name.insert(name.clone(), next);
                let function = Function {
                    name,
                    ..Function::default()
                };
                image.functions.push(function);
            }
        }
    }
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if let Some(head) = function_head(line) {
            if line.ends_with(';') {
                continue;
            }
            if lines.get(at) != Some(&"{") {
                return Err(format!("line {at}: a function without a body"));
            }
            let end = (at..lines.len()).find(|&i| lines[i] == "}");
            let end = end.ok_or("a function that does not end")?;
            let body = Parser::new(image, head)?.parse(&lines, at + 1, end)?;
            let index = image.by_name[&body.name];
            if !image.functions[index].code.is_empty() {
                return Err(format!("{} is defined twice", body.name));
            }
            image.functions[index] = body;
            at = end + 1;
        } else if !["", ".version 7.5", ".target sm_80", ".address_size 64"].contains(&line) {
            return Err(format!("line {at}: unknown text {line:?}"));
        }
    }
    match image.functions.iter().find(|f| f.code.is_empty()) {
        Some(f) => Err(format!("{} is declared and never defined", f.name)),
        None => Ok(()),
    }
}

fn function_head(line: &str) -> Option<&str> {
    let line = line.strip_prefix(".visible ").unwrap_or(line);
    line.strip_prefix(".func ")
        .or_else(|| line.strip_prefix(".entry "))
}

/// Splits `(result) name (params)`; the result may be missing.
fn split_head(head: &str) -> Result<(Option<&str>, &str, &str), String> {
    let bad = || format!("a function's head {head:?}");
    let (result, rest) = match head.strip_prefix('(') {
        Some(rest) => {
            let (result, rest) = rest.split_once(')').ok_or_else(bad)?;
            (Some(result), rest)
        }
        None => (None, head),
    };
    let (name, params) = rest.split_once('(').ok_or_else(bad)?;
    let (params, _) = params.rsplit_once(')').ok_or_else(bad)?;
    Ok((result, name.trim(), params))
}

fn head_name(head: &str) -> Result<String, String> {
    split_head(head).map(|(_, name, _)| name.to_owned())
}

/// Whether a line has no effect here: braces, and pragmas for ptxas.
fn does_nothing(line: &str) -> bool {
    matches!(line, "" | "{" | "}" | ".pragma \"nounroll\";")
}

/// A parameter's declaration: its name and size in bytes.
fn parse_param(text: &str) -> Result<(&str, usize), String> {
    let bad = || format!("a parameter {text:?}");
    let text = text.trim().strip_prefix(".param ").ok_or_else(bad)?;
    if let Some(array) = text.strip_prefix(".align 8 .b8 ") {
        let (name, bytes) = array
            .trim_end_matches(']')
            .split_once('[')
            .ok_or_else(bad)?;
        return Ok((name, bytes.parse().map_err(|_| bad())?));
    }
    let (ty, name) = text.split_once(' ').ok_or_else(bad)?;
    let ty = parse_type(ty.trim_start_matches('.')).ok_or_else(bad)?;
    Ok((name, ty.bits as usize / 8))
}

struct Parser<'i> {
    image: &'i Image,
    function: Function,
    params: HashMap<String, usize>,
    registers: HashMap<String, usize>,
    labels: HashMap<String, usize>,
    tables: HashMap<String, Vec<String>>,
}

impl<'i> Parser<'i> {
    fn new(image: &'i Image, head: &str) -> Result<Self, String> {
        let (result, name, params) = split_head(head)?;
        let mut this = Self {
            image,
            function: Function {
                name: name.to_owned(),
                ..Function::default()
            },
            params: HashMap::new(),
            registers: HashMap::new(),
            labels: HashMap::new(),
            tables: HashMap::new(),
        };
        if let Some(result) = result {
            let (name, bytes) = parse_param(result)?;
            this.function.result = Some((this.param(name), bytes));
        }
        for param in params.split(", ").filter(|p| !p.is_empty()) {
            let (name, bytes) = parse_param(param)?;
            let slot = this.param(name);
            this.function.formals.push((slot, bytes));
        }
        Ok(this)
    }

    fn param(&mut self, name: &str) -> usize {
        let next = self.params.len();
        *self.params.entry(name.to_owned()).or_insert(next)
    }

    fn parse(mut self, lines: &[&str], from: usize, to: usize) -> Result<Function, String> {
        let numbered = |i: usize| move |e: String| format!("line {}: {e}\n{}", i + 1, lines[i]);
        // The labels are collected first, so that branches know their targets.
        let mut count = 0;
        for (i, line) in lines[from..to].iter().enumerate() {
            let line = line.trim();
            if let Some((label, rest)) = line.split_once(':').filter(|_| line.starts_with('$')) {
                self.label(label, rest.trim().trim_end_matches(';'), count)
                    .map_err(numbered(from + i))?;
            } else if !does_nothing(line) && !line.starts_with(".reg") {
                count += 1;
            }
        }
        for (i, line) in lines.iter().enumerate().take(to).skip(from) {
            let line = line.trim();
            if does_nothing(line) || line.starts_with('$') {
                continue;
            }
            let Some(line) = line.strip_suffix(';') else {
                return Err(numbered(i)("no semicolon".to_owned()));
            };
            if let Some(registers) = line.strip_prefix(".reg .") {
                self.declare(registers).map_err(numbered(i))?;
                continue;
            }
            let (guard, op) = self.instruction(line).map_err(numbered(i))?;
            let line = i + 1;
            self.function.code.push(Instruction { guard, op, line });
        }
        self.function.param_count = self.params.len();
        Ok(self.function)
    }

    fn label(&mut self, label: &str, rest: &str, at: usize) -> Result<(), String> {
        let label = label.to_owned();
        if let Some(list) = rest.strip_prefix(".branchtargets ") {
            let list = list.split(", ").map(str::to_owned).collect();
            self.tables.insert(label, list);
        } else if !rest.is_empty() {
            return Err(format!("a label before {rest:?}"));
        } else if self.labels.insert(label, at).is_some() {
            return Err("a label is defined twice".to_owned());
        }
        Ok(())
    }

    fn declare(&mut self, text: &str) -> Result<(), String> {
        let (ty, names) = text.split_once(' ').ok_or("a register declaration")?;
        let ty = parse_type(ty).ok_or("a register type")?;
        for name in names.split(", ") {
            if let Some((stem, count)) = name.split_once('<') {
                let count: usize = count.trim_end_matches('>').parse().map_err(|_| "a count")?;
                for i in 0..count {
                    self.register(format!("{stem}{i}"), ty);
                }
            } else {
                self.register(name.to_owned(), ty);
            }
        }
        Ok(())
    }

    fn register(&mut self, name: String, ty: Type) {
        self.registers.insert(name, self.function.registers.len());
        self.function.registers.push(ty);
    }

    fn reg(&self, name: &str) -> Result<usize, String> {
        let found = self.registers.get(name.trim()).copied();
        found.ok_or_else(|| format!("{name:?} is no register"))
    }

    fn target(&self, label: &str) -> Result<usize, String> {
        let found = self.labels.get(label.trim()).copied();
        found.ok_or_else(|| format!("{label:?} is no label"))
    }

    fn operand(&self, text: &str) -> Result<Operand, String> {
        let text = text.trim();
        if let Some(i) = ["%tid.x", "%ntid.x", "%ctaid.x"]
            .iter()
            .position(|s| *s == text)
        {
            return Ok(Operand::Special(i));
        }
        if text.starts_with('%') {
            return self.reg(text).map(Operand::Reg);
        }
        number(text).map(Operand::Value)
    }

    fn instruction(&mut self, line: &str) -> Result<(Option<(usize, bool)>, Op), String> {
        let (guard, line) = match line.strip_prefix('@') {
            None => (None, line),
            Some(rest) => {
                let (pred, rest) = rest.split_once(' ').ok_or("a guard alone")?;
                let negated = pred.starts_with('!');
                let pred = self.reg(pred.trim_start_matches('!'))?;
                (Some((pred, negated)), rest)
            }
        };
        Ok((guard, self.op(line)?))
    }

    fn op(&mut self, line: &str) -> Result<Op, String> {
        if line == "ret" {
            return Ok(Op::Return);
        }
        if line == "fence.sc.gpu" {
            return Ok(Op::Fence);
        }
        if line.starts_with(".param ") {
            let (name, bytes) = parse_param(line)?;
            let param = self.param(name);
            return Ok(Op::Declare { param, bytes });
        }
        let (name, rest) = line
            .split_once(' ')
            .ok_or("an instruction without operands")?;
        match name {
            "bra" => return self.target(rest).map(Op::Branch),
            "brx.idx" => {
                let (index, table) = rest.split_once(", ").ok_or("brx.idx without a table")?;
                let table = self.tables.get(table).ok_or("brx.idx without its table")?;
                let targets = table.iter().map(|l| self.target(l));
                return Ok(Op::Table {
                    index: self.reg(index)?,
                    targets: targets.collect::<Result<_, _>>()?,
                });
            }
            "call" => return self.call(rest),
            _ => {}
        }
        if let Some(name) = name.strip_prefix("atom.acquire.gpu.global.") {
            return self.atomic(name, rest);
        }
        if name == "activemask.b32" {
            // Each thread is the only active lane of its warp.
            return self.op(&format!("mov.b32 {rest}, 1"));
        }
        if name.starts_with("ld.") || name.starts_with("st.") {
            return self.access(name, rest);
        }
        if name == "mov.b64" && rest.contains('{') {
            return self.halves(rest);
        }
        let mut parts = rest.split(", ");
        let to = self.reg(parts.next().ok_or("no target")?)?;
        let mut args = [Operand::Value(0); 4];
        let mut count = 0;
        for part in parts {
            *args.get_mut(count).ok_or("too many operands")? = self.operand(part)?;
            count += 1;
        }
        let name = alu::Name::parse(name)?;
        let of = |o: &Operand| match o {
            Operand::Reg(r) => Some(self.function.registers[*r]),
            Operand::Special(_) | Operand::Value(_) => None,
        };
        let types: Vec<_> = args[..count].iter().map(of).collect();
        name.check(self.function.registers[to], &types)?;
        Ok(Op::Compute {
            name,
            to,
            args,
            count,
        })
    }

    /// A move between a register of 64 bits and two of 32.
    fn halves(&self, rest: &str) -> Result<Op, String> {
        let two = |text: &str| {
            let (low, high) = text.split_once(", ").ok_or("two halves")?;
            let halves = [self.reg(low)?, self.reg(high)?];
            let narrow = |r: &usize| self.function.registers[*r].bits == 32;
            match halves.iter().all(narrow) {
                true => Ok(halves),
                false => Err("a half that has not 32 bits".to_owned()),
            }
        };
        if let Some((halves, from)) = rest.strip_prefix('{').and_then(|r| r.split_once("}, ")) {
            let (to, from) = (two(halves)?, self.reg(from)?);
            return Ok(Op::Split { to, from });
        }
        let (to, halves) = rest.split_once(", {").ok_or("two halves")?;
        let (to, from) = (self.reg(to)?, two(halves.trim_end_matches('}'))?);
        Ok(Op::Join { to, from })
    }

    fn access(&mut self, name: &str, rest: &str) -> Result<Op, String> {
        let parts: Vec<_> = name.split('.').collect();
        let (space, ty) = match parts[1..] {
            [space, ty] => (space, ty),
            ["relaxed", "sys", space, ty] if parts[0] == "ld" => (space, ty),
            ["acquire", "gpu", "global", ty] if parts[0] == "ld" => ("global", ty),
            ["relaxed", "gpu", "global", ty] => ("global", ty),
            _ => return Err(format!("the access {name}")),
        };
        let ty = parse_type(ty).ok_or("an access's type")?;
        let (a, b) = rest.split_once(", ").ok_or("an access of one operand")?;
        let (at, other) = if parts[0] == "ld" { (b, a) } else { (a, b) };
        let at = self.address(space, at)?;
        let value = self.operand(other)?;
        if let Operand::Reg(register) = value
            && self.function.registers[register].bits < ty.bits
        {
            return Err("a register that is too small".to_owned());
        }
        match (parts[0], value) {
            ("st", value) => Ok(Op::Store { ty, at, value }),
            (_, Operand::Reg(to)) => Ok(Op::Load { ty, to, at }),
            _ => Err("a load into a number".to_owned()),
        }
    }

    fn address(&self, space: &str, at: &str) -> Result<Address, String> {
        let at = at.trim_start_matches('[').trim_end_matches(']');
        let (base, offset) = at.split_once('+').unwrap_or((at, "0"));
        let offset: i64 = offset.parse().map_err(|_| "an offset")?;
        if i32::try_from(offset).is_err() {
            return Err("an offset beyond 32 bits".to_owned());
        }
        let at = match space {
            "global" => Address::Memory(self.reg(base)?, offset),
            "param" => Address::Param(
                *self.params.get(base).ok_or("no such parameter")?,
                offset as usize,
            ),
            _ => return Err(format!("the state space {space}")),
        };
        if let Address::Memory(base, _) = at
            && self.function.registers[base].bits != 64
        {
            return Err("an address of 32 bits".to_owned());
        }
        Ok(at)
    }

    /// A read-modify-write with this name, for example `cas.b32`.
    fn atomic(&mut self, name: &str, rest: &str) -> Result<Op, String> {
        let (action, bits, count) = atomic::parse(name)?;
        let parts: Vec<_> = rest.split(", ").collect();
        let [to, at, values @ ..] = parts.as_slice() else {
            return Err("an atomic without operands".to_owned());
        };
        if values.len() != count {
            return Err(format!("{} operands, not {count}", values.len()));
        }
        let to = self.reg(to)?;
        let mut args = [Operand::Value(0); 2];
        for (arg, value) in args.iter_mut().zip(values) {
            *arg = self.operand(value)?;
        }
        let fits = |register: usize| self.function.registers[register].bits == bits;
        let args_fit = args.iter().all(|arg| match arg {
            Operand::Reg(register) => fits(*register),
            _ => true,
        });
        if !args_fit || !fits(to) {
            return Err("a register of another size".to_owned());
        }
        let at = self.address("global", at)?;
        Ok(Op::Atomic {
            action,
            bits,
            to,
            at,
            args,
        })
    }

    fn call(&mut self, rest: &str) -> Result<Op, String> {
        let (result, rest) = match rest.strip_prefix('(') {
            Some(rest) => {
                let (result, rest) = rest.split_once("), ").ok_or("a call's result")?;
                (Some(self.param(result)), rest)
            }
            None => (None, rest),
        };
        let (target, rest) = rest.split_once(", (").ok_or("a call without arguments")?;
        let (args, suffix) = rest.split_once(')').ok_or("a call's arguments")?;
        let args = args.split(", ").filter(|a| !a.is_empty());
        let args = args.map(|a| self.param(a)).collect();
        if !suffix.is_empty() {
            return Err(format!("unknown text {suffix:?} after a call"));
        }
        let target = *(self.image.by_name.get(target)).ok_or("no such function")?;
        Ok(Op::Call {
            result,
            target,
            args,
        })
    }
}

/// A literal as a number of 64 bits.
fn number(text: &str) -> Result<u64, String> {
    let bad = |_| format!("the number {text:?}");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(bad);
    }
    if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0d")) {
        return u64::from_str_radix(hex, 16).map_err(bad);
    }
    if text.starts_with('-') {
        return text.parse::<i64>().map(|n| n as u64).map_err(bad);
    }
    text.parse().map_err(bad)
}

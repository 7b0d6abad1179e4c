//! The code of one function in CUDA C++.
//!
//! WebAssembly's control flow is structured and its stack has a known height everywhere. So each place of the stack becomes a
//! variable, a branch becomes a `goto`, and nothing is decided at run time that validation has decided. A trap sets a number
//! in the guest and jumps to the end of the function; callers look at it after each call. Fuel is counted as wasmtime counts
//! it, which is what the CPU engine runs.

use std::collections::BTreeSet;
use std::fmt::Write;

use wasmparser::{BlockType, MemArg, Operator};

use super::facts::{Facts, Shape, Width};
use super::operators::{self, Plain};
use super::plan::Plan;

/// A bulk operation on up to this many bytes that are known is so cheap that it does not look at the fuel.
const CHEAP_BYTES: u32 = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    Block,
    Loop,
    If,
}

struct Frame {
    kind: Kind,
    /// The height of the stack below its parameters.
    height: usize,
    shape: Shape,
    label: u32,
    /// Whether a branch jumps to the label.
    used: bool,
    /// Where an `if` without its `else` yet goes on.
    otherwise: Option<u32>,
}

pub(super) struct Body<'f, 'm> {
    facts: &'f Facts<'m>,
    plan: &'f Plan,
    /// Bytes of the memory.
    memory: u32,
    out: String,
    stack: Vec<Width>,
    frames: Vec<Frame>,
    locals: Vec<Width>,
    places: BTreeSet<(Width, usize)>,
    labels: u32,
    /// Fuel of operators since it was counted last.
    pending: i64,
    /// The last operator, if it was a constant.
    constant: Option<u32>,
    /// The code cannot be reached: how many blocks begin in it.
    skipped: Option<u32>,
    traps: bool,
}

fn variable(width: Width, height: usize) -> String {
    match width {
        Width::W32 => format!("i{height}"),
        Width::W64 => format!("l{height}"),
    }
}

/// The declaration of a function with this name, up to its body. Several results are references.
pub(super) fn head(plan: &Plan, name: &str, shape: &Shape, acts: bool, more: &str) -> String {
    let result = match shape.results[..] {
        [one] => one.c(),
        _ => "void",
    };
    let mut head = format!("{} {result} {name}(G& g", plan.how(name));
    if acts {
        head.push_str(", ew::Actor& a");
    }
    for (n, width) in shape.params.iter().enumerate() {
        write!(head, ", {} p{n}", width.c()).expect("a string takes it");
    }
    head.push_str(more);
    if shape.results.len() > 1 {
        for (n, width) in shape.results.iter().enumerate() {
            write!(head, ", {}& r{n}", width.c()).expect("a string takes it");
        }
    }
    head.push(')');
    head
}

/// Writes the function with this number, which is not imported.
pub(super) fn write(
    out: &mut String,
    facts: &Facts<'_>,
    plan: &Plan,
    memory: u32,
    function: u32,
) -> Result<(), String> {
    let shape = facts.shape(function)?;
    let code = &facts.bodies[(function - facts.imported) as usize];
    let mut locals = shape.params.clone();
    let reader = code.get_locals_reader().map_err(|e| e.to_string())?;
    for local in reader {
        let (count, ty) = local.map_err(|e| e.to_string())?;
        locals.extend(std::iter::repeat_n(Width::of(ty)?, count as usize));
    }
    let params = shape.params.len();
    let frame = Frame {
        kind: Kind::Function,
        height: 0,
        shape: Shape {
            params: Vec::new(),
            results: shape.results.clone(),
        },
        label: 0,
        used: false,
        otherwise: None,
    };
    let mut body = Body {
        facts,
        plan,
        memory,
        out: String::new(),
        stack: Vec::new(),
        frames: vec![frame],
        locals,
        places: BTreeSet::new(),
        labels: 0,
        // An empty function costs something, too.
        pending: 1,
        constant: None,
        skipped: None,
        traps: false,
    };
    body.check_fuel();
    for operator in code.get_operators_reader().map_err(|e| e.to_string())? {
        let operator = operator.map_err(|e| e.to_string())?;
        body.operator(&operator)?;
        body.constant = match operator {
            Operator::I32Const { value } => Some(value as u32),
            _ => None,
        };
    }
    let name = format!("f{function}");
    let head = head(plan, &name, &shape, plan.acts(function), "");
    let line = |out: &mut String, text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(out, format!("{head} {{"));
    for (n, width) in body.locals.iter().enumerate().skip(params) {
        line(out, format!("  {} p{n} = 0;", width.c()));
    }
    for &(width, height) in &body.places {
        let name = variable(width, height);
        // Written before it is read, which the compiler does not always see.
        line(out, format!("  {} {name} = 0;", width.c()));
    }
    out.push_str(&body.out);
    let many = shape.results.len() > 1;
    for (n, &width) in shape.results.iter().enumerate() {
        let from = variable(width, n);
        line(
            out,
            if many {
                format!("  r{n} = {from};")
            } else {
                format!("  return {from};")
            },
        );
    }
    if body.traps {
        if shape.results.len() != 1 {
            line(out, "  return;".to_owned());
        }
        line(
            out,
            format!("T:\n  if (g.where == ew::NONE) g.where = {function};"),
        );
        if shape.results.len() == 1 {
            line(out, "  return 0;".to_owned());
        }
    }
    line(out, "}".to_owned());
    Ok(())
}

impl Body<'_, '_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str("  ");
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }
    fn place(&mut self, width: Width, height: usize) -> String {
        self.places.insert((width, height));
        variable(width, height)
    }
    fn push(&mut self, width: Width) -> String {
        self.stack.push(width);
        self.place(width, self.stack.len() - 1)
    }
    fn pop(&mut self) -> String {
        let width = self.stack.pop().expect("the module is valid");
        variable(width, self.stack.len())
    }
    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }
    /// Code that fails for this reason.
    fn trap(&mut self, reason: &str) -> String {
        self.traps = true;
        format!("{{ g.trap = MODULE_{reason}; goto T; }}")
    }
    /// Code that goes on failing after something that may have set the reason.
    fn pass_on(&mut self) {
        self.traps = true;
        self.line("if (g.trap != 0) goto T;");
    }

    fn count_fuel(&mut self) {
        let fuel = std::mem::take(&mut self.pending);
        if fuel != 0 {
            self.line(format!("g.fuel += {fuel};"));
        }
    }
    fn check_fuel(&mut self) {
        self.count_fuel();
        let trap = self.trap("FUEL");
        self.line(format!("if (g.fuel >= 0) {trap}"));
    }
    /// The fuel of an operation on that many bytes; `per` is 0 if they cost nothing.
    fn bulk_fuel(&mut self, count: &str, per: u32) {
        match self.constant {
            Some(known) => {
                let fuel = u64::from(known) * u64::from(per);
                self.pending += fuel as i64;
                if fuel > u64::from(CHEAP_BYTES) {
                    self.check_fuel();
                }
            }
            None => {
                self.count_fuel();
                if per != 0 {
                    self.line(format!("g.fuel += (long long){count};"));
                }
                self.check_fuel();
            }
        }
    }

    fn shape_of(&self, ty: BlockType) -> Result<Shape, String> {
        match ty {
            BlockType::Empty => Ok(Shape {
                params: Vec::new(),
                results: Vec::new(),
            }),
            BlockType::Type(ty) => Ok(Shape {
                params: Vec::new(),
                results: vec![Width::of(ty)?],
            }),
            BlockType::FuncType(ty) => self.facts.shape_of_type(ty),
        }
    }
    fn begin(&mut self, kind: Kind, ty: BlockType) -> Result<u32, String> {
        let shape = self.shape_of(ty)?;
        let label = self.label();
        let height = self.stack.len() - shape.params.len();
        self.frames.push(Frame {
            kind,
            height,
            shape,
            label,
            used: false,
            otherwise: None,
        });
        Ok(label)
    }
    /// The stack is as high as at the beginning of the block, with these values on top.
    fn set_stack(&mut self, height: usize, values: &[Width]) {
        self.stack.truncate(height);
        for &width in values {
            self.push(width);
        }
    }
    /// Code that moves what a branch takes along, and jumps.
    fn branch(&mut self, depth: u32) -> String {
        let at = self.frames.len() - 1 - depth as usize;
        let frame = &mut self.frames[at];
        frame.used = true;
        let (label, height) = (frame.label, frame.height);
        let taken = match frame.kind {
            Kind::Loop => frame.shape.params.clone(),
            _ => frame.shape.results.clone(),
        };
        let first = self.stack.len() - taken.len();
        let mut code = String::new();
        // Down the stack, so that nothing is overwritten that is still to be moved.
        for (n, &width) in taken.iter().enumerate() {
            if first != height {
                let (to, from) = (self.place(width, height + n), variable(width, first + n));
                write!(code, "{to} = {from}; ").expect("a string takes it");
            }
        }
        write!(code, "goto L{label};").expect("a string takes it");
        code
    }
    fn end(&mut self) {
        let reached = self.skipped.take().is_none();
        if reached {
            self.count_fuel();
        }
        let frame = self.frames.pop().expect("the module is valid");
        if let Some(otherwise) = frame.otherwise {
            self.line(format!("L{otherwise}:;"));
        }
        let jumped = frame.used && frame.kind != Kind::Loop;
        if jumped {
            self.line(format!("L{}:;", frame.label));
        }
        self.set_stack(frame.height, &frame.shape.results);
        if !(reached || jumped || frame.otherwise.is_some()) {
            self.skipped = Some(0);
        }
    }
    fn otherwise(&mut self) {
        if self.skipped.take().is_none() {
            self.count_fuel();
            let jump = self.branch(0);
            self.line(jump);
        }
        let frame = self.frames.last_mut().expect("the module is valid");
        let otherwise = frame.otherwise.take();
        let (height, params) = (frame.height, frame.shape.params.clone());
        if let Some(otherwise) = otherwise {
            self.line(format!("L{otherwise}:;"));
        }
        self.set_stack(height, &params);
    }

    fn plain(&mut self, plain: &Plain) {
        let mut operands = vec![String::new(); plain.takes.len()];
        for operand in operands.iter_mut().rev() {
            *operand = self.pop();
        }
        let to = self.push(plain.gives);
        let mut code = plain.code.replace("$a", &operands[0]);
        if let Some(b) = operands.get(1) {
            code = code.replace("$b", b);
        }
        self.line(format!("{to} = {code};"));
        if plain.traps {
            self.pass_on();
        }
    }
    fn address(&mut self, from: &str, at: &MemArg, bytes: u32) -> String {
        let trap = self.trap("MEMORY");
        format!(
            "const u64 at = (u64){from} + {}u; if (at + {bytes} > {}u) {trap}",
            at.offset, self.memory
        )
    }
    fn load(&mut self, at: &MemArg, bytes: u32, signed: bool, width: Width) {
        let from = self.pop();
        let address = self.address(&from, at, bytes);
        let to = self.push(width);
        let bits = 8 * bytes;
        let sign = match (signed, bytes) {
            (false, _) => "",
            (true, 1) => "(signed char)",
            (true, 2) => "(short)",
            (true, _) => "(int)",
        };
        let wide = match (signed, width) {
            (true, Width::W32) => "(u32)(int)",
            (true, Width::W64) => "(u64)(long long)",
            (false, _) => "",
        };
        self.line(format!(
            "{{ {address} {to} = {wide}{sign}ew::wasm::load<u{bits}>(g.memory + at); }}"
        ));
    }
    fn store(&mut self, at: &MemArg, bytes: u32) {
        let value = self.pop();
        let to = self.pop();
        let address = self.address(&to, at, bytes);
        let bits = 8 * bytes;
        self.line(format!(
            "{{ {address} ew::wasm::store<u{bits}>(g.memory + at, (u{bits}){value}); }}"
        ));
    }

    /// Calls `name`; `last` are arguments after those on the stack.
    fn call(&mut self, name: &str, shape: &Shape, acts: bool, last: &str) {
        let first = self.stack.len() - shape.params.len();
        let mut arguments = String::from("g");
        if acts {
            arguments.push_str(", a");
        }
        for (n, &width) in shape.params.iter().enumerate() {
            write!(arguments, ", {}", variable(width, first + n)).expect("a string takes it");
        }
        arguments.push_str(last);
        self.stack.truncate(first);
        match shape.results[..] {
            [one] => {
                let to = self.push(one);
                self.line(format!("{to} = {name}({arguments});"));
            }
            _ => {
                for &width in &shape.results {
                    let to = self.push(width);
                    write!(arguments, ", {to}").expect("a string takes it");
                }
                self.line(format!("{name}({arguments});"));
            }
        }
        self.pass_on();
    }
    fn call_function(&mut self, function: u32) -> Result<(), String> {
        self.count_fuel();
        let shape = self.facts.shape(function)?;
        self.call(
            &format!("f{function}"),
            &shape,
            self.plan.acts(function),
            "",
        );
        Ok(())
    }
    fn call_element(&mut self, table: u32, ty: u32) -> Result<(), String> {
        self.count_fuel();
        let shape = self.facts.shape_of_type(ty)?;
        let at = self.pop();
        let acts = self.plan.element_acts(self.facts, table, ty);
        self.call(&format!("t{table}_{ty}"), &shape, acts, &format!(", {at}"));
        Ok(())
    }
    fn leave(&mut self, depth: u32) {
        let jump = self.branch(depth);
        self.line(jump);
        self.skipped = Some(0);
    }

    /// Code that cannot be reached is not translated. Returns whether the operator belongs to it.
    fn skips(&mut self, operator: &Operator<'_>) -> bool {
        let Some(depth) = &mut self.skipped else {
            return false;
        };
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => *depth += 1,
            Operator::End if *depth > 0 => *depth -= 1,
            Operator::Else if *depth > 0 => {}
            Operator::End | Operator::Else => return false,
            _ => {}
        }
        true
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), String> {
        use Width::{W32, W64};
        if self.skips(operator) {
            return Ok(());
        }
        self.pending += operators::fuel(operator);
        if let Some(plain) = operators::plain(operator) {
            self.plain(&plain);
            return Ok(());
        }
        match operator {
            Operator::Nop => {}
            Operator::Drop => {
                self.pop();
            }
            Operator::Unreachable => {
                let trap = self.trap("UNREACHABLE");
                self.pending = 0;
                self.line(trap);
                self.skipped = Some(0);
            }
            Operator::Block { blockty } => {
                self.begin(Kind::Block, *blockty)?;
            }
            Operator::Loop { blockty } => {
                self.count_fuel();
                let label = self.begin(Kind::Loop, *blockty)?;
                self.line(format!("L{label}:;"));
                self.check_fuel();
            }
            Operator::If { blockty } => {
                self.count_fuel();
                let condition = self.pop();
                self.begin(Kind::If, *blockty)?;
                let otherwise = self.label();
                let frame = self.frames.last_mut().expect("it was just added");
                frame.otherwise = Some(otherwise);
                self.line(format!("if ({condition} == 0) goto L{otherwise};"));
            }
            Operator::Else => self.otherwise(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => {
                self.count_fuel();
                self.leave(*relative_depth);
            }
            Operator::BrIf { relative_depth } => {
                self.count_fuel();
                let condition = self.pop();
                let jump = self.branch(*relative_depth);
                self.line(format!("if ({condition} != 0) {{ {jump} }}"));
            }
            Operator::BrTable { targets } => {
                self.count_fuel();
                let at = self.pop();
                self.line(format!("switch ({at}) {{"));
                for (n, depth) in targets.targets().enumerate() {
                    let jump = self.branch(depth.map_err(|e| e.to_string())?);
                    self.line(format!("  case {n}: {jump}"));
                }
                let jump = self.branch(targets.default());
                self.line(format!("  default: {jump}\n  }}"));
                self.skipped = Some(0);
            }
            Operator::Return => {
                self.count_fuel();
                self.leave(self.frames.len() as u32 - 1);
            }
            Operator::Call { function_index } => self.call_function(*function_index)?,
            Operator::ReturnCall { function_index } => {
                self.call_function(*function_index)?;
                self.leave(self.frames.len() as u32 - 1);
            }
            Operator::CallIndirect {
                type_index,
                table_index,
            } => self.call_element(*table_index, *type_index)?,
            Operator::ReturnCallIndirect {
                type_index,
                table_index,
            } => {
                self.call_element(*table_index, *type_index)?;
                self.leave(self.frames.len() as u32 - 1);
            }
            Operator::Select => {
                let (condition, other, one) = (self.pop(), self.pop(), self.pop());
                let width = match one.starts_with('i') {
                    true => W32,
                    false => W64,
                };
                let to = self.push(width);
                self.line(format!("{to} = {condition} != 0 ? {one} : {other};"));
            }
            Operator::TypedSelect { ty } => {
                let width = Width::of(*ty)?;
                let (condition, other, one) = (self.pop(), self.pop(), self.pop());
                let to = self.push(width);
                self.line(format!("{to} = {condition} != 0 ? {one} : {other};"));
            }
            Operator::LocalGet { local_index } => {
                let to = self.push(self.locals[*local_index as usize]);
                self.line(format!("{to} = p{local_index};"));
            }
            Operator::LocalSet { local_index } => {
                let from = self.pop();
                self.line(format!("p{local_index} = {from};"));
            }
            Operator::LocalTee { local_index } => {
                let from = self.pop();
                self.push(self.locals[*local_index as usize]);
                self.line(format!("p{local_index} = {from};"));
            }
            Operator::GlobalGet { global_index } => {
                let global = &self.facts.globals[*global_index as usize];
                let (width, mutable, value) = (global.width.clone()?, global.mutable, global.value);
                let to = self.push(width);
                self.line(match mutable {
                    true => format!("{to} = g.g{global_index};"),
                    false => format!("{to} = {value}ull;"),
                });
            }
            Operator::GlobalSet { global_index } => {
                let from = self.pop();
                self.line(format!("g.g{global_index} = {from};"));
            }
            Operator::I32Const { value } => self.constant(W32, u64::from(*value as u32)),
            Operator::I64Const { value } => self.constant(W64, *value as u64),
            Operator::F32Const { value } => self.constant(W32, value.bits().into()),
            Operator::F64Const { value } => self.constant(W64, value.bits()),
            Operator::I32Load { memarg } | Operator::F32Load { memarg } => {
                self.load(memarg, 4, false, W32);
            }
            Operator::I64Load { memarg } | Operator::F64Load { memarg } => {
                self.load(memarg, 8, false, W64);
            }
            Operator::I32Load8S { memarg } => self.load(memarg, 1, true, W32),
            Operator::I32Load8U { memarg } => self.load(memarg, 1, false, W32),
            Operator::I32Load16S { memarg } => self.load(memarg, 2, true, W32),
            Operator::I32Load16U { memarg } => self.load(memarg, 2, false, W32),
            Operator::I64Load8S { memarg } => self.load(memarg, 1, true, W64),
            Operator::I64Load8U { memarg } => self.load(memarg, 1, false, W64),
            Operator::I64Load16S { memarg } => self.load(memarg, 2, true, W64),
            Operator::I64Load16U { memarg } => self.load(memarg, 2, false, W64),
            Operator::I64Load32S { memarg } => self.load(memarg, 4, true, W64),
            Operator::I64Load32U { memarg } => self.load(memarg, 4, false, W64),
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => {
                self.store(memarg, 1);
            }
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => {
                self.store(memarg, 2);
            }
            Operator::I32Store { memarg }
            | Operator::F32Store { memarg }
            | Operator::I64Store32 { memarg } => self.store(memarg, 4),
            Operator::I64Store { memarg } | Operator::F64Store { memarg } => self.store(memarg, 8),
            Operator::MemorySize { .. } => {
                let pages = u64::from(self.memory) >> self.facts.page_bits;
                self.constant(W32, pages);
            }
            Operator::MemoryGrow { .. } => {
                let by = self.pop();
                self.bulk_fuel(&by, 0);
                let pages = u64::from(self.memory) >> self.facts.page_bits;
                let to = self.push(W32);
                self.line(format!("{to} = {by} == 0 ? {pages}u : 0xffffffffu;"));
            }
            Operator::MemoryCopy { .. } => {
                let (count, from, to) = (self.pop(), self.pop(), self.pop());
                self.bulk(
                    &count,
                    &format!("copy(g.memory, {}u, {to}, {from}, {count})", self.memory),
                );
            }
            Operator::MemoryFill { .. } => {
                let (count, value, to) = (self.pop(), self.pop(), self.pop());
                self.bulk(
                    &count,
                    &format!("fill(g.memory, {}u, {to}, {value}, {count})", self.memory),
                );
            }
            Operator::MemoryInit { data_index, .. } => {
                let (count, from, to) = (self.pop(), self.pop(), self.pop());
                let length = self.facts.data[*data_index as usize].len();
                let data = match length {
                    0 => "nullptr".to_owned(),
                    _ => format!("data{data_index}"),
                };
                self.bulk(
                    &count,
                    &format!(
                        "init(g.memory, {}u, {data}, {length}u, {to}, {from}, {count})",
                        self.memory
                    ),
                );
            }
            Operator::TableSize { table } => {
                let size = self.facts.tables[*table as usize].len() as u64;
                self.constant(W32, size);
            }
            Operator::TableGet { .. }
            | Operator::RefNull { .. }
            | Operator::RefFunc { .. }
            | Operator::RefIsNull => {
                return Err("it has variables that refer to functions".to_owned());
            }
            other => {
                let name = format!("{other:?}");
                let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
                return Err(match name.contains(['x']) || name.starts_with("V128") {
                    true => "it has vectors".to_owned(),
                    false => format!("it has the operator {name}"),
                });
            }
        }
        Ok(())
    }
    fn constant(&mut self, width: Width, bits: u64) {
        let to = self.push(width);
        self.line(match width {
            Width::W32 => format!("{to} = {bits}u;"),
            Width::W64 => format!("{to} = {bits}ull;"),
        });
    }
    fn bulk(&mut self, count: &str, call: &str) {
        self.bulk_fuel(count, 1);
        let trap = self.trap("MEMORY");
        self.line(format!("if (!ew::wasm::{call}) {trap}"));
    }
}

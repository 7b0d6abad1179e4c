//! Writes a divided function: its rest, and its parts.

use wasmparser::ValType;

use super::encode::{
    BLOCK, BR, BR_IF, BR_TABLE, CALL, EMPTY, END, I32, LOCAL_GET, LOCAL_SET, LOCAL_TEE, RETURN,
    UNREACHABLE, constant, number, operator, value_type,
};
use super::places::Places;
use super::regions::{Exit, Region};
use super::scan::{Kind, Op, Scan};

/// A function's body, without its length.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) bytes: Vec<u8>,
    /// For offsets in it, offsets in the original module.
    pub(super) places: Places,
}

/// A part: its type as types are encoded, and its code.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) ty: Vec<u8>,
    pub(super) code: Code,
}

/// The original module and one of its functions.
pub(super) struct Writer<'s> {
    pub(super) bytes: &'s [u8],
    pub(super) scan: &'s Scan,
    /// Where the function's declarations of locals begin.
    pub(super) start: usize,
}

impl Region {
    /// How many ways lead out of it.
    fn ways(&self) -> usize {
        self.exits.len() + usize::from(self.goes_on)
    }

    /// Whether it has to say which one it takes.
    fn says_way(&self) -> bool {
        self.ways() > 1
    }

    fn returns(&self) -> bool {
        self.exits.contains(&Exit::Return)
    }

    /// The number of a way out: that to what follows is 0.
    fn way(&self, exit: usize) -> u32 {
        (exit + usize::from(self.goes_on)) as u32
    }
}

impl Writer<'_> {
    fn op_bytes(&self, at: usize) -> &[u8] {
        let ops = &self.scan.ops;
        let end = ops.get(at + 1).map_or(self.scan.end, |next| next.at);
        &self.bytes[ops[at].at..end]
    }

    /// The rest of the function, whose parts have the numbers from `first` on.
    pub(super) fn function(&self, regions: &[Region], first: u32) -> Option<Code> {
        let mut code = Code::default();
        let Scan {
            ops,
            locals,
            results,
            ..
        } = self.scan;
        // The way out of a part, and what the function is to return.
        let way = locals.len() as u32;
        self.locals(&mut code.bytes, results)?;
        code.places.made(0, self.start);
        let mut at = 0;
        for (region, part) in regions.iter().zip(first..) {
            for op in at..region.from {
                self.copy(&mut code, op);
            }
            let begin = &ops[region.from];
            code.places.made(code.bytes.len(), begin.at);
            let depth = self.scan.blocks[begin.block].depth;
            write_call(
                &mut code.bytes,
                region,
                part,
                (way, results.len()),
                depth,
                |label| self.scan.blocks[label].depth,
            );
            at = region.to;
        }
        for op in at..ops.len() {
            self.copy(&mut code, op);
        }
        Some(code)
    }

    fn copy(&self, code: &mut Code, op: usize) {
        code.places.copied(code.bytes.len(), self.scan.ops[op].at);
        code.bytes.extend_from_slice(self.op_bytes(op));
    }

    /// The function's own declarations of locals, with those for a way out and for results.
    fn locals(&self, out: &mut Vec<u8>, results: &[ValType]) -> Option<()> {
        let (groups, after) = super::encode::read_number(self.bytes, self.start)?;
        number(out, groups + 1 + results.len() as u32);
        out.extend_from_slice(&self.bytes[after..self.scan.ops[0].at]);
        one_local(out, ValType::I32)?;
        results.iter().try_for_each(|ty| one_local(out, *ty))
    }

    /// A part as a function.
    pub(super) fn part(&self, region: &Region) -> Option<Part> {
        let Scan {
            locals, results, ..
        } = self.scan;
        let type_of = |local: &u32| value_type(locals[*local as usize]);
        let returned = match region.returns() {
            true => results.as_slice(),
            false => &[],
        };
        let mut ty = vec![super::encode::FUNCTION];
        number(&mut ty, region.params.len() as u32);
        for local in &region.params {
            ty.push(type_of(local)?);
        }
        let says_way = u32::from(region.says_way());
        number(
            &mut ty,
            region.results.len() as u32 + returned.len() as u32 + says_way,
        );
        for local in &region.results {
            ty.push(type_of(local)?);
        }
        for result in returned {
            ty.push(value_type(*result)?);
        }
        ty.extend(region.says_way().then_some(I32));

        // Its locals: those that it is given, the others, what it returns for the function, and its way out.
        let mut order = region.params.clone();
        order.extend(
            region
                .used
                .iter()
                .filter(|local| !region.params.contains(local)),
        );
        let mut own = vec![0; locals.len()];
        for (new, old) in (0..).zip(&order) {
            own[*old as usize] = new;
        }
        let (first_result, way) = (order.len() as u32, (order.len() + returned.len()) as u32);
        let mut code = Code::default();
        let begin = self.scan.ops[region.from].at;
        code.places.made(0, begin);
        let more = &order[region.params.len()..];
        number(&mut code.bytes, (more.len() + returned.len() + 1) as u32);
        for local in more {
            one_local(&mut code.bytes, locals[*local as usize])?;
        }
        for result in returned {
            one_local(&mut code.bytes, *result)?;
        }
        one_local(&mut code.bytes, ValType::I32)?;

        // A block that all ways out leave, and within it one for each exit, the first one innermost.
        for _ in 0..=region.exits.len() {
            code.bytes.extend([BLOCK, EMPTY]);
        }
        let depth = self.scan.blocks[self.scan.ops[region.from].block].depth;
        let inner = Inner {
            region,
            own: &own,
            first_result,
            returned: returned.len() as u32,
            depth,
        };
        for at in region.from..region.to {
            self.part_op(&mut code, at, &inner)?;
        }
        code.places.made(code.bytes.len(), begin);
        let out = &mut code.bytes;
        if region.goes_on {
            operator(out, BR, region.exits.len() as u32);
        }
        for exit in 0..region.exits.len() {
            out.push(END);
            constant(out, region.way(exit));
            operator(out, LOCAL_SET, way);
            operator(out, BR, (region.exits.len() - 1 - exit) as u32);
        }
        out.push(END);
        for local in &region.results {
            operator(out, LOCAL_GET, own[*local as usize]);
        }
        for result in 0..returned.len() as u32 {
            operator(out, LOCAL_GET, first_result + result);
        }
        if region.says_way() {
            operator(out, LOCAL_GET, way);
        }
        out.push(END);
        Some(Part { ty, code })
    }

    /// Writes an operator of a part.
    fn part_op(&self, code: &mut Code, at: usize, inner: &Inner<'_>) -> Option<()> {
        let Op {
            at: then,
            kind,
            block,
        } = &self.scan.ops[at];
        let now = code.bytes.len();
        let out = &mut code.bytes;
        let depth = self.scan.blocks[*block].depth;
        let label = |to: &usize| inner.label(self.scan, depth, *to);
        let own = |local: &u32| inner.own[*local as usize];
        match kind {
            Kind::Get(local) => operator(out, LOCAL_GET, own(local)),
            Kind::Set(local) => operator(out, LOCAL_SET, own(local)),
            Kind::Tee(local) => operator(out, LOCAL_TEE, own(local)),
            Kind::Branch { to, goes_on: true } => operator(out, BR_IF, label(to.first()?)?),
            Kind::Branch { to, .. } => match to.as_slice() {
                [to] if self.op_bytes(at).first() == Some(&BR) => {
                    match inner.is_return(self.scan, *to) {
                        true => inner.leave(out, depth)?,
                        false => operator(out, BR, label(to)?),
                    }
                }
                to => {
                    operator(out, BR_TABLE, to.len() as u32 - 1);
                    for to in to {
                        number(out, label(to)?);
                    }
                }
            },
            Kind::Return => inner.leave(out, depth)?,
            Kind::Plain
            | Kind::Open(_)
            | Kind::Else(_)
            | Kind::End
            | Kind::Unreachable
            | Kind::Stays => {
                code.places.copied(now, *then);
                code.bytes.extend_from_slice(self.op_bytes(at));
                return Some(());
            }
        }
        code.places.made(now, *then);
        Some(())
    }
}

/// What the operators of a part need.
struct Inner<'r> {
    region: &'r Region,
    /// For each local of the function its number in the part.
    own: &'r [u32],
    /// The local for the function's first result, and how many there are.
    first_result: u32,
    returned: u32,
    /// How many blocks of the function are around the part.
    depth: u32,
}

impl Inner<'_> {
    /// Whether a branch to this block's label leaves the function with values.
    fn is_return(&self, scan: &Scan, to: usize) -> bool {
        to == 0 && scan.blocks[0].arity > 0
    }

    /// The number by which an operator that is `depth` blocks deep in the function names a label.
    fn label(&self, scan: &Scan, depth: u32, to: usize) -> Option<u32> {
        let target = &scan.blocks[to];
        if target.depth > self.depth {
            return Some(depth - target.depth);
        }
        self.exit(depth, Exit::Label(to))
    }

    fn exit(&self, depth: u32, exit: Exit) -> Option<u32> {
        let at = self.region.exits.iter().position(|e| *e == exit)?;
        Some(depth - self.depth + at as u32)
    }

    /// Leaves the function, with its results on the operand stack.
    fn leave(&self, out: &mut Vec<u8>, depth: u32) -> Option<()> {
        for result in (0..self.returned).rev() {
            operator(out, LOCAL_SET, self.first_result + result);
        }
        operator(out, BR, self.exit(depth, Exit::Return)?);
        Some(())
    }
}

/// Declares a local.
fn one_local(out: &mut Vec<u8>, ty: ValType) -> Option<()> {
    number(out, 1);
    out.push(value_type(ty)?);
    Some(())
}

/// Calls a part in its place, `depth` blocks deep, and goes where it leads. `way` is the local for the way out, and the function's
/// results follow it.
fn write_call(
    out: &mut Vec<u8>,
    region: &Region,
    part: u32,
    (way, results): (u32, usize),
    depth: u32,
    depth_of: impl Fn(usize) -> u32,
) {
    let returns = region.returns();
    // The innermost block leads to the return, the one around it to what follows.
    let around = match returns {
        true => 1 + u32::from(region.goes_on),
        false => u32::from(region.goes_on && region.ways() > 2),
    };
    for _ in 0..around {
        out.extend([BLOCK, EMPTY]);
    }
    for &local in &region.params {
        operator(out, LOCAL_GET, local);
    }
    operator(out, CALL, part);
    if region.says_way() {
        operator(out, LOCAL_SET, way);
    }
    if returns {
        for result in (0..results as u32).rev() {
            operator(out, LOCAL_SET, way + 1 + result);
        }
    }
    for &local in region.results.iter().rev() {
        operator(out, LOCAL_SET, local);
    }
    let label = |exit: &Exit| match exit {
        Exit::Return => 0,
        Exit::Label(label) => depth - depth_of(*label) + around,
    };
    match (region.goes_on, region.exits.as_slice()) {
        (true, []) => {}
        (false, []) => out.push(UNREACHABLE),
        (false, [exit]) => operator(out, BR, label(exit)),
        (true, [exit]) if !returns => {
            operator(out, LOCAL_GET, way);
            operator(out, BR_IF, label(exit));
        }
        (goes_on, exits) => {
            operator(out, LOCAL_GET, way);
            operator(out, BR_TABLE, region.ways() as u32 - 1);
            if goes_on {
                number(out, around - 1);
            }
            for exit in exits {
                number(out, label(exit));
            }
        }
    }
    if returns {
        out.push(END);
        for result in 0..results as u32 {
            operator(out, LOCAL_GET, way + 1 + result);
        }
        out.push(RETURN);
    }
    if around > u32::from(returns) {
        out.push(END);
    }
}

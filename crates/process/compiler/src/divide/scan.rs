//! A function's operators with what is known at each: the block that it is in, the operand stack, and about how much text it
//! becomes.

use wasmparser::{
    BlockType, FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator,
    ValType, ValidatorResources, WasmModuleResources,
};

/// What matters of an operator.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    Plain,
    Get(u32),
    Set(u32),
    Tee(u32),
    /// The beginning of the block with this number.
    Open(usize),
    /// The `else` of a condition; then its block has another number.
    Else(usize),
    End,
    /// To the labels of these blocks. Control may go on after it if the branch has a condition.
    Branch {
        to: Vec<usize>,
        goes_on: bool,
    },
    Return,
    Unreachable,
    /// It has to stay in its function.
    Stays,
}

/// An operator.
#[derive(Debug)]
pub(super) struct Op {
    /// Its first byte in the module.
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// The block that it is in. `End` is in the block that it ends.
    pub(super) block: usize,
}

/// A block, a loop, one side of a condition, or the function.
#[derive(Debug)]
pub(super) struct Block {
    /// How many blocks are around it.
    pub(super) depth: u32,
    pub(super) is_loop: bool,
    /// It is the first side of a condition.
    pub(super) is_condition: bool,
    /// How many loops are around its operators.
    pub(super) loops: u32,
    /// How many values a branch to its label takes.
    pub(super) arity: usize,
    /// Its first operator.
    pub(super) first: usize,
    /// The operator that ends it: `else` or `end`.
    pub(super) last: usize,
}

/// A place between operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spot {
    /// Control comes here, and the block has nothing on the operand stack.
    Clean,
    /// Control never comes here.
    Dead,
    /// There are operands.
    Busy,
}

/// A function that may be divided.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) ops: Vec<Op>,
    /// The end of the last operator.
    pub(super) end: usize,
    /// Before each operator, and after the last.
    pub(super) spots: Vec<Spot>,
    /// The text of all operators before each, and of all.
    pub(super) text: Vec<usize>,
    /// The first is the function.
    pub(super) blocks: Vec<Block>,
    pub(super) locals: Vec<ValType>,
    pub(super) results: Vec<ValType>,
}

/// About how many bytes of text an operator becomes, as a mean over the interpreters of Lua, jq and QuickJS.
fn text_of(operator: &Operator<'_>) -> usize {
    match operator {
        Operator::LocalGet { .. }
        | Operator::I32Const { .. }
        | Operator::I64Const { .. }
        | Operator::F32Const { .. }
        | Operator::F64Const { .. }
        | Operator::Drop
        | Operator::Nop => 2,
        Operator::Call { .. } => 900,
        Operator::CallIndirect { .. } => 1200,
        Operator::Loop { .. } => 1000,
        Operator::BrTable { targets } => 60 * (targets.len() as usize + 1),
        Operator::I32Store { .. } | Operator::F32Store { .. } => 560,
        Operator::I64Store { .. } | Operator::F64Store { .. } => 800,
        Operator::I32Load { .. } | Operator::F32Load { .. } => 450,
        Operator::I64Load { .. } | Operator::F64Load { .. } => 550,
        Operator::I32Load8U { .. } | Operator::I32Load8S { .. } | Operator::I32Store8 { .. } => 230,
        Operator::I32Load16U { .. } | Operator::I32Load16S { .. } | Operator::I32Store16 { .. } => {
            450
        }
        Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } => 600,
        _ => 55,
    }
}

impl Scan {
    /// Reads and validates a function. `None` if it is not valid or has something that this does not know.
    pub(super) fn new(
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
    ) -> Option<Self> {
        let ty = function
            .resources
            .sub_type_at(function.ty)?
            .unwrap_func()
            .clone();
        let mut validator = function.into_validator(FuncValidatorAllocations::default());
        let mut reader = body.get_locals_reader().ok()?;
        for _ in 0..reader.get_count() {
            let offset = reader.original_position();
            let (count, ty) = reader.read().ok()?;
            validator.define_locals(offset, count, ty).ok()?;
        }
        let count = validator.len_locals();
        let locals = (0..count).map(|local| validator.get_local_type(local));
        let mut scan = Self {
            ops: Vec::new(),
            end: body.range().end,
            spots: vec![Spot::Clean],
            text: vec![0],
            blocks: vec![Block {
                depth: 0,
                is_loop: false,
                is_condition: false,
                loops: 0,
                arity: ty.results().len(),
                first: 0,
                last: 0,
            }],
            results: ty.results().to_vec(),
            locals: locals.collect::<Option<_>>()?,
        };
        let mut open = vec![0];
        let mut operators = body.get_operators_reader().ok()?;
        while !operators.eof() {
            let (operator, at) = operators.read_with_offset().ok()?;
            validator.op(at, &operator).ok()?;
            let block = *open.last()?;
            let kind = scan.kind(&operator, &mut open, &validator)?;
            scan.ops.push(Op { at, kind, block });
            scan.text.push(scan.text.last()? + text_of(&operator));
            scan.spots.push(spot(&validator));
        }
        operators.finish().ok()?;
        open.is_empty().then_some(scan)
    }

    /// What matters of the operator that comes next, which has been validated.
    fn kind(
        &mut self,
        operator: &Operator<'_>,
        open: &mut Vec<usize>,
        validator: &FuncValidator<ValidatorResources>,
    ) -> Option<Kind> {
        let label = |out: u32| open.len().checked_sub(1 + out as usize).map(|at| open[at]);
        Some(match operator {
            Operator::LocalGet { local_index } => Kind::Get(*local_index),
            Operator::LocalSet { local_index } => Kind::Set(*local_index),
            Operator::LocalTee { local_index } => Kind::Tee(*local_index),
            Operator::Block { blockty } => {
                let arity = arity(*blockty, false, validator)?;
                Kind::Open(self.push_block(open, arity, false, false)?)
            }
            Operator::If { blockty } => {
                let arity = arity(*blockty, false, validator)?;
                Kind::Open(self.push_block(open, arity, false, true)?)
            }
            Operator::Loop { blockty } => {
                let arity = arity(*blockty, true, validator)?;
                Kind::Open(self.push_block(open, arity, true, false)?)
            }
            Operator::Else => {
                let then = open.pop()?;
                self.blocks[then].last = self.ops.len();
                let Block { arity, .. } = self.blocks[then];
                Kind::Else(self.push_block(open, arity, false, false)?)
            }
            Operator::End => {
                self.blocks[open.pop()?].last = self.ops.len();
                Kind::End
            }
            Operator::Br { relative_depth } => Kind::Branch {
                to: vec![label(*relative_depth)?],
                goes_on: false,
            },
            Operator::BrIf { relative_depth } => Kind::Branch {
                to: vec![label(*relative_depth)?],
                goes_on: true,
            },
            Operator::BrTable { targets } => {
                let all = targets.targets().chain([Ok(targets.default())]);
                let to = all.map(|out| label(out.ok()?)).collect::<Option<_>>()?;
                Kind::Branch { to, goes_on: false }
            }
            Operator::Return => Kind::Return,
            Operator::Unreachable => Kind::Unreachable,
            Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. } => Kind::Stays,
            _ => Kind::Plain,
        })
    }

    /// A block begins, with the operator that comes next. What is open is around it.
    fn push_block(
        &mut self,
        open: &mut Vec<usize>,
        arity: usize,
        is_loop: bool,
        is_condition: bool,
    ) -> Option<usize> {
        let around = &self.blocks[*open.last()?];
        let block = Block {
            depth: around.depth + 1,
            is_loop,
            is_condition,
            loops: around.loops + u32::from(is_loop),
            arity,
            first: self.ops.len() + 1,
            last: 0,
        };
        self.blocks.push(block);
        open.push(self.blocks.len() - 1);
        Some(self.blocks.len() - 1)
    }

    /// The place after an operator, or after all that belongs to the block that it begins.
    pub(super) fn behind(&self, op: usize) -> usize {
        let mut at = op;
        while let Kind::Open(block) | Kind::Else(block) = self.ops[at].kind {
            at = self.blocks[block].last;
        }
        at + 1
    }

    /// The text of the operators in a range.
    pub(super) fn text_in(&self, from: usize, to: usize) -> usize {
        self.text[to] - self.text[from]
    }
}

/// How many values a branch to the label of a block of this type takes.
fn arity(
    ty: BlockType,
    is_loop: bool,
    validator: &FuncValidator<ValidatorResources>,
) -> Option<usize> {
    Some(match (ty, is_loop) {
        (BlockType::Empty, _) | (BlockType::Type(_), true) => 0,
        (BlockType::Type(_), false) => 1,
        (BlockType::FuncType(ty), _) => {
            let ty = validator.resources().sub_type_at(ty)?.unwrap_func();
            match is_loop {
                true => ty.params().len(),
                false => ty.results().len(),
            }
        }
    })
}

/// What is known about the place after the operator that was validated last.
fn spot(validator: &FuncValidator<ValidatorResources>) -> Spot {
    let height = validator.operand_stack_height() as usize;
    match validator.get_control_frame(0) {
        Some(frame) if frame.unreachable => Spot::Dead,
        Some(frame) if frame.height == height => Spot::Clean,
        _ => Spot::Busy,
    }
}

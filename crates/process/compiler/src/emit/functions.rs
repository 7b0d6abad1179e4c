//! The functions of a module, which are translated independently of each other and so on several threads.

use std::collections::BTreeSet;

use wasmparser::{FuncToValidate, FuncValidatorAllocations, FunctionBody, ValidatorResources};

use crate::context::Context;
use crate::emit::body::{Body, Scratch, Texts};
use crate::error::CompileError;
use crate::facts::types::ValueType;
use crate::parallel;

/// A function that is not validated yet.
pub(crate) type Function<'b> = (FuncToValidate<ValidatorResources>, FunctionBody<'b>);

/// Bytes of code that are translated on one thread at a time, some 5 ms of work: much more than it takes to begin
/// a thread, and little enough that all end at about the same time.
const PART_BYTES: usize = 1 << 15;

/// Functions that follow each other, translated.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) texts: Texts,
    /// What each saves at most when it is suspended.
    pub(crate) frames: Vec<usize>,
    /// Canonical types and tables of indirect calls.
    pub(crate) indirect: BTreeSet<(u32, u32)>,
    /// The functions that the image is not to have.
    pub(crate) missing: Vec<u32>,
}

/// Validates and translates all functions, in their order. Of errors the first function's is reported, however many
/// threads there are.
pub(crate) fn translate(
    context: Context<'_>,
    functions: Vec<Function<'_>>,
) -> Result<Vec<Part>, CompileError> {
    let parts = parallel::map(divide(functions), |part| translate_part(context, part));
    parts.into_iter().collect()
}

/// Divides functions into parts that follow each other.
fn divide(functions: Vec<Function<'_>>) -> Vec<Vec<Function<'_>>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for function in functions {
        if bytes >= PART_BYTES {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += function.1.range().len();
        parts.last_mut().expect("there is one").push(function);
    }
    parts
}

fn translate_part(
    context: Context<'_>,
    functions: Vec<Function<'_>>,
) -> Result<Part, CompileError> {
    let mut part = Part::default();
    let mut allocations = FuncValidatorAllocations::default();
    let mut scratch = Scratch::default();
    for (function, body) in functions {
        let mut validator = function.into_validator(allocations);
        let index = validator.index();
        let mut out = Body::within(context, index, scratch);
        translate_one(&mut out, Some(&mut validator), &body, &[])?;
        let mut tight = Vec::new();
        for round in 0.. {
            if out.tightened().is_empty() {
                break;
            }
            match round {
                0 | 1 => tight.extend_from_slice(out.tightened()),
                // One local may follow from the next in a chain as long as the function.
                _ => tight = (0..out.local_count()).collect(),
            }
            out = Body::within(context, index, out.into_scratch());
            translate_one(&mut out, None, &body, &tight)?;
        }
        let calls: Vec<_> = out.indirect().collect();
        let finished = out.finish(body.range().start, &mut part.texts);
        // Also of missing functions, so that the other text of an image does not depend on which ones it has.
        part.indirect.extend(calls);
        if finished.missing {
            part.missing.push(index);
        }
        let frame = finished.frame + context.tails.frame(index);
        part.frames.push(frame);
        (scratch, allocations) = (finished.scratch, validator.into_allocations());
    }
    Ok(part)
}

/// Translates one function, operator by operator; and validates it, unless that has been done. In the locals that
/// are named NaNs keep their bits.
fn translate_one(
    out: &mut Body<'_>,
    mut validator: Option<&mut wasmparser::FuncValidator<ValidatorResources>>,
    body: &FunctionBody<'_>,
    tight: &[u32],
) -> Result<(), CompileError> {
    let mut reader = body.get_locals_reader()?;
    for _ in 0..reader.get_count() {
        let offset = reader.original_position();
        let (count, ty) = reader.read()?;
        if let Some(validator) = validator.as_mut() {
            validator.define_locals(offset, count, ty)?;
        }
        out.declare_locals(count, ValueType::new(ty, offset)?);
    }
    out.tighten(tight);
    out.set_assigned(body);
    let mut operators = body.get_operators_reader()?;
    let mut ended = false;
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset()?;
        if let Some(validator) = validator.as_mut() {
            validator.op(offset, &operator)?;
        }
        ended = out.operator(&operator, offset)?;
    }
    operators.finish()?;
    debug_assert!(ended, "validated code ends with its function");
    Ok(())
}

//! The functions of a module, validated on several cores: it is most of the work for a module of megabytes.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread::available_parallelism;

use everwarp_engine::sync::{lock, on_threads};
use wasmparser::{
    BinaryReaderError, FuncToValidate, FuncValidatorAllocations, FunctionBody, ValidatorResources,
};

/// A function that is to be validated.
pub(crate) type Function<'b> = (FuncToValidate<ValidatorResources>, FunctionBody<'b>);

/// Bytes that are worth a thread: about a millisecond of work.
const EACH_THREAD: usize = 128 << 10;
/// Functions that a thread takes at a time.
const TAKEN: usize = 16;

/// Validates functions. The error is that of the first one that is not valid, in the order of the functions.
pub(crate) fn validate(functions: Vec<Function<'_>>) -> Result<(), BinaryReaderError> {
    let bytes: usize = functions.iter().map(|(_, body)| body.range().len()).sum();
    let cores = available_parallelism().map_or(1, NonZero::get);
    validate_on((bytes / EACH_THREAD).clamp(1, cores), functions)
}

fn validate_on(threads: usize, functions: Vec<Function<'_>>) -> Result<(), BinaryReaderError> {
    let queue = Mutex::new(functions.into_iter().enumerate());
    // Functions are taken in their order, and each that is taken is validated, so the first error is among those returned.
    let work = || {
        let mut allocations = FuncValidatorAllocations::default();
        loop {
            let taken: Vec<_> = lock(&queue).by_ref().take(TAKEN).collect();
            if taken.is_empty() {
                return None;
            }
            for (number, (function, body)) in taken {
                let mut validator = function.into_validator(allocations);
                if let Err(error) = validator.validate(&body) {
                    return Some((number, error));
                }
                allocations = validator.into_allocations();
            }
        }
    };
    let errors = on_threads(threads, work).into_iter().flatten();
    match errors.min_by_key(|(number, _)| *number) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use wasmparser::{Parser, ValidPayload, Validator};

    use super::*;

    /// A module of functions; these ones are not valid.
    fn module(count: usize, wrong: &[usize]) -> Vec<u8> {
        let mut text = String::from("(module");
        for number in 0..count {
            let body = match wrong.contains(&number) {
                true => "(i64.const 1)",
                false => "(i32.add (local.get 0) (i32.const 1))",
            };
            let _ = write!(text, "(func (param i32) (result i32) {body})");
        }
        text.push(')');
        let buffer = wast::parser::ParseBuffer::new(&text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        wat.encode().expect("it can be encoded")
    }

    fn validated(threads: usize, bytes: &[u8]) -> Result<(), usize> {
        let (mut validator, mut functions) = (Validator::new(), Vec::new());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.expect("it has the form of a module");
            let checked = validator.payload(&payload).expect("its types are right");
            if let ValidPayload::Func(function, body) = checked {
                functions.push((function, body));
            }
        }
        validate_on(threads, functions).map_err(|error| error.offset())
    }

    #[test]
    fn the_first_function_that_is_not_valid_is_reported() {
        for wrong in [&[][..], &[0], &[99], &[16, 17, 98], &[5, 40, 70]] {
            let bytes = module(100, wrong);
            let whole = Validator::new().validate_all(&bytes).map(drop);
            let expected = whole.map_err(|error| error.offset());
            assert_eq!(expected.is_err(), !wrong.is_empty());
            for threads in [1, 2, 7] {
                assert_eq!(validated(threads, &bytes), expected, "{wrong:?} {threads}");
            }
        }
    }
}

//! Values and their nesting.

use alloc::vec::Vec;

use super::number::number;
use super::text::string;

/// What is wrong, and the offset of the byte where it is; the length of the document is "at its end".
pub(super) type Wrong = (usize, &'static str);

/// An offset behind what has been understood.
pub(super) type Step = Result<usize, Wrong>;

fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Step {
    let matching = word
        .iter()
        .zip(&bytes[at..])
        .take_while(|(a, b)| a == b)
        .count();
    match matching == word.len() {
        true => Ok(at + matching),
        false => Err((at + matching, "this is neither `true`, `false` nor `null`")),
    }
}

/// A value that holds no other one.
fn scalar(bytes: &[u8], at: usize) -> Step {
    match bytes.get(at) {
        Some(b'"') => string(bytes, at + 1),
        Some(b'-' | b'0'..=b'9') => number(bytes, at),
        Some(b't') => word(bytes, at, b"true"),
        Some(b'f') => word(bytes, at, b"false"),
        Some(b'n') => word(bytes, at, b"null"),
        Some(_) => Err((at, "a value cannot begin with this")),
        None => Err((at, "the document ends where a value is due")),
    }
}

/// A name and the colon behind it, up to where its value begins.
fn name(bytes: &[u8], at: usize) -> Step {
    let at = match bytes.get(at) {
        Some(b'"') => space(bytes, string(bytes, at + 1)?),
        Some(_) => return Err((at, "a name in quotes is due here")),
        None => return Err((at, "the document ends where a name is due")),
    };
    match bytes.get(at) {
        Some(b':') => Ok(space(bytes, at + 1)),
        Some(_) => Err((at, "a colon is due here")),
        None => Err((at, "the document ends where a colon is due")),
    }
}

/// Checks a whole document. Nesting is kept in a vector, so that no depth exhausts the stack.
pub(crate) fn document(bytes: &[u8]) -> Result<(), Wrong> {
    // For each open one, whether it is an object.
    let mut open: Vec<bool> = Vec::new();
    let mut at = space(bytes, 0);
    'value: loop {
        match bytes.get(at) {
            Some(b'{') => {
                at = space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    at = name(bytes, at)?;
                    open.push(true);
                    continue 'value;
                }
                at += 1;
            }
            Some(b'[') => {
                at = space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    open.push(false);
                    continue 'value;
                }
                at += 1;
            }
            _ => at = scalar(bytes, at)?,
        }
        // A value has ended, and perhaps with it what holds it.
        loop {
            at = space(bytes, at);
            let Some(object) = open.last() else {
                return match at == bytes.len() {
                    true => Ok(()),
                    false => Err((at, "there is more behind the document's value")),
                };
            };
            match (bytes.get(at), object) {
                (Some(b','), true) => {
                    at = name(bytes, space(bytes, at + 1))?;
                    continue 'value;
                }
                (Some(b','), false) => {
                    at = space(bytes, at + 1);
                    continue 'value;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    open.pop();
                    at += 1;
                }
                (Some(_), true) => return Err((at, "a comma or a closing brace is due here")),
                (Some(_), false) => return Err((at, "a comma or a closing bracket is due here")),
                (None, true) => return Err((at, "the document ends within an object")),
                (None, false) => return Err((at, "the document ends within an array")),
            }
        }
    }
}

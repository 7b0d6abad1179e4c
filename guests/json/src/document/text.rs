//! Strings.

use super::descent::{Step, Wrong};

const END: &str = "the document ends within a string";

/// One escape, from behind the backslash.
fn escape(bytes: &[u8], at: usize) -> Step {
    match bytes.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => {
            for at in at + 1..at + 5 {
                match bytes.get(at) {
                    Some(b) if b.is_ascii_hexdigit() => {}
                    Some(_) => return Err((at, "a hexadecimal digit is due here")),
                    None => return Err((at, END)),
                }
            }
            Ok(at + 5)
        }
        Some(_) => Err((at, "there is no such escape")),
        None => Err((at, END)),
    }
}

/// One character of several bytes (RFC 3629): no overlong form, no surrogate, nothing beyond U+10FFFF.
fn character(bytes: &[u8], at: usize) -> Step {
    let wrong: Wrong = (at, "this is not UTF-8");
    let byte = |n: usize| bytes.get(at + n).copied().unwrap_or(0);
    let (length, second) = match byte(0) {
        0xc2..=0xdf => (2, 0x80..=0xbf),
        0xe0 => (3, 0xa0..=0xbf),
        0xed => (3, 0x80..=0x9f),
        0xe1..=0xef => (3, 0x80..=0xbf),
        0xf0 => (4, 0x90..=0xbf),
        0xf1..=0xf3 => (4, 0x80..=0xbf),
        0xf4 => (4, 0x80..=0x8f),
        _ => return Err(wrong),
    };
    let rest = 0x80..=0xbf;
    let good = second.contains(&byte(1)) && (2..length).all(|n| rest.contains(&byte(n)));
    if good { Ok(at + length) } else { Err(wrong) }
}

/// A string, from behind its first quote.
pub(super) fn string(bytes: &[u8], mut at: usize) -> Step {
    loop {
        at = match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => escape(bytes, at + 1)?,
            Some(0..0x20) => return Err((at, "a control character must be escaped")),
            Some(0x20..0x80) => at + 1,
            Some(_) => character(bytes, at)?,
            None => return Err((at, END)),
        }
    }
}

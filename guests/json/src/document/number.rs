//! Numbers.

use super::descent::Step;

/// At least one digit.
fn digits(bytes: &[u8], at: usize) -> Step {
    let count = bytes[at..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    match count {
        0 => Err((at, "a digit is due here")),
        count => Ok(at + count),
    }
}

/// A number, from its first byte on.
pub(super) fn number(bytes: &[u8], mut at: usize) -> Step {
    at += usize::from(bytes.get(at) == Some(&b'-'));
    at = match bytes.get(at) {
        Some(b'0') => match bytes.get(at + 1) {
            Some(b'0'..=b'9') => return Err((at + 1, "a number has no leading zero")),
            _ => at + 1,
        },
        _ => digits(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at = digits(bytes, at)?;
    }
    Ok(at)
}

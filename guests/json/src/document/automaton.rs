//! Whether a document is valid, said by one loop.
//!
//! The descent of [`super::descent`] has a loop for each nested thing and leaves each by many ways. A GPU runs 32
//! processes in step as long as they are at the same place of the program, and with 32 different documents they
//! hardly ever are: then the instructions of one are executed after those of another. In this loop all are always
//! at the same place. A round passes over up to four bytes behind which only the state changes, by a table, and
//! then handles one behind which more does, an *event*, if there is one among them. What depends on the kind of
//! event is selected, or takes a few instructions that others wait for.
//!
//! Memory would be slow to ask often: each process has its own, so that 32 loads are of 32 places. A step takes one
//! load, which does not depend on the step before, and all else is in variables.

use alloc::vec::Vec;
use core::hint::select_unpredictable as select;

// The states, times four as the table has them. Behind the first nothing is valid any more.
const WRONG: u64 = 0;
const VALUE: u64 = 4;
const VALUE_OR_END: u64 = 8;
const NAME_OR_END: u64 = 12;
const NAME: u64 = 16;
const BEHIND_NAME: u64 = 20;
const BEHIND_VALUE: u64 = 24;
const IN_NAME: u64 = 28;
const IN_TEXT: u64 = 32;
const MINUS: u64 = 36;
const ZERO: u64 = 40;
const DIGITS: u64 = 44;
const POINT: u64 = 48;
const FRACTION: u64 = 52;
const EXPONENT: u64 = 56;
/// Not a state: what comes next depends on more than the state before, on what is open or on further bytes.
const EVENT: u64 = 60;

/// The state behind a byte.
const fn next(state: u64, byte: u8) -> u64 {
    match (state, byte) {
        (EVENT, _) => EVENT,
        (IN_NAME, b'"') => BEHIND_NAME,
        (IN_TEXT, b'"') => BEHIND_VALUE,
        (IN_NAME | IN_TEXT, b'\\' | 0x80..) => EVENT,
        (IN_NAME | IN_TEXT, 0x20..) => state,
        (VALUE..=BEHIND_VALUE, b' ' | b'\n' | b'\r' | b'\t') => state,
        (VALUE | VALUE_OR_END, b'"') => IN_TEXT,
        (VALUE | VALUE_OR_END, b'{' | b'[' | b't' | b'f' | b'n') => EVENT,
        (VALUE | VALUE_OR_END, b'-') => MINUS,
        (VALUE | VALUE_OR_END | MINUS, b'0') => ZERO,
        (VALUE | VALUE_OR_END | MINUS, b'1'..=b'9') => DIGITS,
        (NAME | NAME_OR_END, b'"') => IN_NAME,
        (BEHIND_NAME, b':') => VALUE,
        (POINT, b'0'..=b'9') => FRACTION,
        (DIGITS | FRACTION | EXPONENT, b'0'..=b'9') => state,
        (ZERO | DIGITS, b'.') => POINT,
        (ZERO | DIGITS | FRACTION, b'e' | b'E') => EVENT,
        (ZERO | DIGITS | FRACTION | EXPONENT, b' ' | b'\n' | b'\r' | b'\t') => BEHIND_VALUE,
        (BEHIND_VALUE | ZERO | DIGITS | FRACTION | EXPONENT, b',') => EVENT,
        (BEHIND_VALUE | ZERO | DIGITS | FRACTION | EXPONENT, b'}' | b']') => EVENT,
        (VALUE_OR_END, b']') | (NAME_OR_END, b'}') => EVENT,
        _ => WRONG,
    }
}

/// For each byte the states behind each state, in four bits each: so a step is a load that waits for no other step,
/// and a shift.
static STEPS: [u64; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = WRONG;
        while state <= EVENT {
            let next = next(state, byte as u8) / 4;
            steps[byte] |= next << state;
            state += 4;
        }
        byte += 1;
    }
    steps
};

/// What is open, beyond what fits into a word.
type Outer = Vec<u32>;

struct Automaton<'d> {
    /// The document and four spaces.
    bytes: &'d [u8],
    at: usize,
    state: u64,
    /// For each that is open, whether it is an object, the innermost in the lowest bit; above them a one. So 31
    /// fit in, and more than those are put aside.
    open: u32,
}

impl Automaton<'_> {
    /// Four bytes from as many behind the present one on.
    #[inline(always)]
    fn ahead(&self, by: usize) -> Option<u32> {
        let bytes = self.bytes.get(self.at + by..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Goes on in this state behind as many bytes, if all is well.
    #[inline(always)]
    fn go(&mut self, good: bool, bytes: usize, state: u64) {
        self.at += bytes;
        self.state = select(good, state, WRONG);
    }

    /// An opening or closing byte, or a comma.
    #[inline(always)]
    fn nest(&mut self, outer: &mut Outer, byte: u8) {
        // Braces have a bit that brackets do not have.
        let object = u32::from(byte >> 5 & 1);
        let opens = byte | 0x20 == b'{';
        let closes = byte | 0x20 == b'}';
        let top = self.open & 1;
        let allowed = opens | ((self.open != 1) & (!closes | (top == object)));
        if opens & (self.open >> 31 != 0) {
            outer.push(self.open);
            self.open = 1;
        }
        let closed = self.open >> u32::from(closes);
        self.open = select(opens, self.open << 1 | object, closed);
        if self.open <= 1 {
            self.open = outer.pop().unwrap_or(1);
        }
        let behind_opening = select(object != 0, NAME_OR_END, VALUE_OR_END);
        let behind_comma = select(top != 0, NAME, VALUE);
        let behind = select(closes, BEHIND_VALUE, behind_comma);
        let behind = select(opens, behind_opening, behind);
        self.go(allowed, 1, behind);
    }

    /// The first letter of a word: the others have to follow.
    #[inline(always)]
    fn word(&mut self, byte: u8, behind: u32) {
        const TRUE: u32 = u32::from_le_bytes(*b"rue\0");
        const FALSE: u32 = u32::from_le_bytes(*b"alse");
        const NULL: u32 = u32::from_le_bytes(*b"ull\0");
        let word = select(byte == b'n', NULL, FALSE);
        let word = select(byte == b't', TRUE, word);
        let long = byte == b'f';
        let good = (behind ^ word) & select(long, !0, 0xff_ffff) == 0;
        self.go(good, select(long, 5, 4), BEHIND_VALUE);
    }

    /// The `e` of a number: a digit has to follow, or a sign and a digit.
    #[inline(always)]
    fn exponent(&mut self, behind: u32) {
        let [first, second, ..] = behind.to_le_bytes();
        let sign = (first == b'+') | (first == b'-');
        let good = select(sign, second, first).is_ascii_digit();
        self.go(good, select(sign, 3, 2), EXPONENT);
    }

    /// A backslash.
    #[inline(always)]
    fn escape(&mut self, behind: u32) {
        let byte = behind as u8;
        if byte == b'u' {
            let digits = self.ahead(2).unwrap_or(0).to_le_bytes();
            let good = digits.iter().all(u8::is_ascii_hexdigit);
            return self.go(good, 6, self.state);
        }
        // Of the letters, which begin at 0x60: b, f, n, r, t.
        let letters: u32 = 1 << 2 | 1 << 6 | 1 << 14 | 1 << 18 | 1 << 20;
        let letter = (byte >> 5 == 3) & (letters.wrapping_shr(byte.into()) & 1 != 0);
        let good = letter | (byte == b'"') | (byte == b'/') | (byte == b'\\');
        self.go(good, 2, self.state);
    }

    /// The first byte of a character of several (RFC 3629): no overlong form, no surrogate, nothing beyond U+10FFFF.
    #[inline(always)]
    fn character(&mut self, byte: u8, behind: u32) {
        let least = select(byte == 0xe0, 0xa0, 0x80);
        let least = select(byte == 0xf0, 0x90, least);
        let most = select(byte == 0xed, 0x9f, 0xbf);
        let most = select(byte == 0xf4, 0x8f, most);
        let second = behind as u8;
        let more = 1 + usize::from(byte >= 0xe0) + usize::from(byte >= 0xf0);
        let bits = 0xc0_c0c0 & ((1 << (8 * more)) - 1);
        let rest = (behind ^ 0x80_8080) & bits == 0;
        let first = (0xc2..=0xf4).contains(&byte);
        let good = first & rest & (least <= second) & (second <= most);
        self.go(good, 1 + more, self.state);
    }

    #[inline(always)]
    fn event(&mut self, outer: &mut Outer, byte: u8) {
        // What brackets and braces, opening and closing, have in common.
        const ALIKE: u8 = !(b'[' ^ b'}');
        if (byte == b',') | (byte & ALIKE == b'[' & ALIKE) {
            return self.nest(outer, byte);
        }
        let behind = self.ahead(1).unwrap_or(0);
        if byte == b'\\' {
            self.escape(behind);
        } else if byte >= 0x80 {
            self.character(byte, behind);
        } else if byte | 0x20 == b'e' {
            self.exponent(behind);
        } else {
            self.word(byte, behind);
        }
    }
}

/// The state behind a byte, the lowest of these.
#[inline(always)]
fn step(state: u64, bytes: u32) -> u64 {
    STEPS[bytes as usize & 0xff] >> state << 2 & 60
}

/// Whether it is a valid document.
pub(crate) fn valid(document: &mut Vec<u8>) -> bool {
    let length = document.len();
    // They may be there, end a number, and are there for who looks ahead.
    document.extend_from_slice(b"    ");
    let mut a = Automaton {
        bytes: document,
        at: 0,
        state: VALUE,
        open: 1,
    };
    let mut outer = Vec::new();
    while let Some(bytes) = a.ahead(0)
        && a.state != WRONG
    {
        let first = step(a.state, bytes);
        let second = step(first, bytes >> 8);
        let third = step(second, bytes >> 16);
        let fourth = step(third, bytes >> 24);
        if fourth == EVENT {
            // The state before the event, which is all that follows it.
            let plain = [first, second, third].map(|state| state != EVENT);
            a.state = select(plain[0], first, a.state);
            a.state = select(plain[1], second, a.state);
            a.state = select(plain[2], third, a.state);
            let steps = plain.into_iter().map(usize::from).sum::<usize>();
            a.at += steps;
            a.event(&mut outer, (bytes >> (8 * steps)) as u8);
        } else {
            a.go(true, 4, fourth);
        }
    }
    let valid = (a.state == BEHIND_VALUE) & (a.open == 1);
    document.truncate(length);
    valid
}

//! Keys and the mouse, from the bytes that a terminal sends.

/// Modifiers, as bits of a record's flags.
const SHIFT: u16 = 1;
const ALT: u16 = 2;
const CONTROL: u16 = 4;
/// What the mouse has done, as bits of a record's flags.
const PRESS: u16 = 0x100;
const RELEASE: u16 = 0x200;
const MOVE: u16 = 0x400;

/// Keys with a character of their own.
const BACKSPACE: u32 = 8;
const TAB: u32 = 9;
const ENTER: u32 = 13;
const ESCAPE: u32 = 27;
/// Keys without a character have numbers after the last of Unicode. A sequence that is not known has the first.
const UNKNOWN: u32 = 0x11_0000;
const UP: u32 = UNKNOWN + 1;
const DOWN: u32 = UNKNOWN + 2;
const RIGHT: u32 = UNKNOWN + 3;
const LEFT: u32 = UNKNOWN + 4;
const HOME: u32 = UNKNOWN + 5;
const END: u32 = UNKNOWN + 6;
const PAGE_UP: u32 = UNKNOWN + 7;
const PAGE_DOWN: u32 = UNKNOWN + 8;
const INSERT: u32 = UNKNOWN + 9;
const DELETE: u32 = UNKNOWN + 10;
/// F1 has the next number, and so on.
const F0: u32 = UNKNOWN + 32;

/// Bytes of a sequence; a longer one is not known.
const SEQUENCE_MOST: usize = 64;

/// A key that was pressed, or what the mouse has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Key {
        key: u32,
        modifiers: u16,
    },
    Mouse {
        button: u32,
        flags: u16,
        column: i64,
        row: i64,
    },
}

/// What the first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// The beginning of something: more has to come.
    Begin,
    /// This, and how many bytes it takes.
    Whole(Pressed, usize),
}

/// Bytes that have come and not been read as keys yet.
#[derive(Default)]
pub(super) struct Decoder(Vec<u8>);

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether bytes are left, which may be the beginning of a sequence, or an Escape key.
    pub(super) fn is_pending(&self) -> bool {
        !self.0.is_empty()
    }

    /// The next key. If nothing has followed for a while (`over`), what may be a beginning is taken as it is.
    pub(super) fn next(&mut self, over: bool) -> Option<Pressed> {
        if self.0.is_empty() {
            return None;
        }
        match parse(&self.0, over) {
            Parsed::Begin => None,
            Parsed::Whole(pressed, bytes) => {
                self.0.drain(..bytes);
                Some(pressed)
            }
        }
    }
}

fn key(key: u32, modifiers: u16) -> Pressed {
    Pressed::Key { key, modifiers }
}

/// Reads the first key of bytes that are not empty.
fn parse(bytes: &[u8], over: bool) -> Parsed {
    let begin = |otherwise: Parsed| if over { otherwise } else { Parsed::Begin };
    if bytes[0] != 0x1b {
        return character(bytes, over);
    }
    match bytes.get(1) {
        None => begin(Parsed::Whole(key(ESCAPE, 0), 1)),
        Some(0x1b) => Parsed::Whole(key(ESCAPE, 0), 1),
        Some(b'[') => match sequence(&bytes[2..]) {
            Some((pressed, taken)) => Parsed::Whole(pressed, 2 + taken),
            None => begin(Parsed::Whole(key('['.into(), ALT), 2)),
        },
        Some(b'O') => match bytes.get(2) {
            None => begin(Parsed::Whole(key('O'.into(), ALT), 2)),
            Some(&last) => Parsed::Whole(key(of_letter(last), 0), 3),
        },
        Some(_) => match character(&bytes[1..], over) {
            Parsed::Whole(Pressed::Key { key: of, modifiers }, taken) => {
                Parsed::Whole(key(of, modifiers | ALT), taken + 1)
            }
            other => other,
        },
    }
}

/// A character: UTF-8, or a control character.
fn character(bytes: &[u8], over: bool) -> Parsed {
    let control = |of: u8| key((of | 0x40).to_ascii_lowercase().into(), CONTROL);
    match bytes[0] {
        0 => return Parsed::Whole(key(' '.into(), CONTROL), 1),
        9 => return Parsed::Whole(key(TAB, 0), 1),
        13 => return Parsed::Whole(key(ENTER, 0), 1),
        127 => return Parsed::Whole(key(BACKSPACE, 0), 1),
        of @ ..32 => return Parsed::Whole(control(of), 1),
        _ => {}
    }
    let length = match bytes[0] {
        ..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return Parsed::Whole(key(char::REPLACEMENT_CHARACTER.into(), 0), 1),
    };
    let there = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(there) {
        Ok(text) => match text.chars().next() {
            Some(of) => Parsed::Whole(key(of.into(), 0), length),
            None => Parsed::Begin,
        },
        // Only the end is missing.
        Err(error) if error.error_len().is_none() && !over => Parsed::Begin,
        Err(_) => Parsed::Whole(key(char::REPLACEMENT_CHARACTER.into(), 0), 1),
    }
}

/// A key of the sequences that end with a letter.
fn of_letter(letter: u8) -> u32 {
    match letter {
        b'A' => UP,
        b'B' => DOWN,
        b'C' => RIGHT,
        b'D' => LEFT,
        b'H' => HOME,
        b'F' => END,
        b'P'..=b'S' => F0 + 1 + u32::from(letter - b'P'),
        _ => UNKNOWN,
    }
}

/// A key of the sequences that end with `~`.
fn of_number(number: u32) -> u32 {
    match number {
        1 | 7 => HOME,
        2 => INSERT,
        3 => DELETE,
        4 | 8 => END,
        5 => PAGE_UP,
        6 => PAGE_DOWN,
        11..=15 => F0 + number - 10,
        17..=21 => F0 + number - 11,
        23 | 24 => F0 + number - 12,
        _ => UNKNOWN,
    }
}

/// What follows `ESC [`, and how many bytes of it; `None` if its end is missing.
fn sequence(bytes: &[u8]) -> Option<(Pressed, usize)> {
    let parameters = bytes
        .iter()
        .position(|byte| !(0x20..0x40).contains(byte))
        .filter(|at| *at < SEQUENCE_MOST);
    let Some(end) = parameters else {
        // Longer than any that is known.
        return (bytes.len() >= SEQUENCE_MOST).then(|| (key(UNKNOWN, 0), SEQUENCE_MOST));
    };
    let last = bytes[end];
    if !(0x40..0x7f).contains(&last) {
        // What interrupts a sequence belongs to the next key.
        return Some((key(UNKNOWN, 0), end));
    }
    let text = std::str::from_utf8(&bytes[..end]).unwrap_or("");
    if let Some(numbers) = text.strip_prefix('<') {
        return Some((mouse(numbers, last), end + 1));
    }
    let number = |part: &str| {
        if part.is_empty() {
            Some(1)
        } else {
            part.parse().ok()
        }
    };
    let numbers: Option<Vec<u32>> = text.split(';').map(number).collect();
    let numbers = numbers.unwrap_or_default();
    let modifiers = numbers
        .get(1)
        .map_or(0, |bits| (bits.wrapping_sub(1) & 7) as u16);
    let pressed = match (last, numbers.first()) {
        (_, None) => key(UNKNOWN, 0),
        (b'~', Some(&number)) => key(of_number(number), modifiers),
        (b'Z', _) => key(TAB, SHIFT),
        (letter, _) => key(of_letter(letter), modifiers),
    };
    Some((pressed, end + 1))
}

/// The mouse: `button;column;row`, and `M` for a press or `m` for a release.
fn mouse(numbers: &str, last: u8) -> Pressed {
    let numbers: Option<Vec<u32>> = numbers.split(';').map(|part| part.parse().ok()).collect();
    let (Some(&[bits, column, row]), b'M' | b'm') = (numbers.as_deref(), last) else {
        return key(UNKNOWN, 0);
    };
    // They begin with 1.
    let (Some(column), Some(row)) = (column.checked_sub(1), row.checked_sub(1)) else {
        return key(UNKNOWN, 0);
    };
    let mut flags = match (bits & 32 != 0, last) {
        (true, _) => MOVE,
        (false, b'M') => PRESS,
        (false, _) => RELEASE,
    };
    for (bit, modifier) in [(4, SHIFT), (8, ALT), (16, CONTROL)] {
        if bits & bit != 0 {
            flags |= modifier;
        }
    }
    Pressed::Mouse {
        // After three buttons and none come the directions of the wheel.
        button: bits & 3 | if bits & 64 != 0 { 4 } else { 0 },
        flags,
        column: column.into(),
        row: row.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Pressed> {
        let mut decoder = Decoder::default();
        decoder.feed(bytes);
        let mut keys: Vec<_> = std::iter::from_fn(|| decoder.next(false)).collect();
        keys.extend(std::iter::from_fn(|| decoder.next(true)));
        assert!(!decoder.is_pending());
        keys
    }

    #[test]
    fn characters_and_controls_are_keys() {
        for (bytes, of, modifiers) in [
            (&b"a"[..], u32::from('a'), 0),
            (b"A", 'A'.into(), 0),
            ("é".as_bytes(), 'é'.into(), 0),
            ("🙂".as_bytes(), '🙂'.into(), 0),
            (b"\r", ENTER, 0),
            (b"\t", TAB, 0),
            (b"\x7f", BACKSPACE, 0),
            (b"\x01", 'a'.into(), CONTROL),
            (b"\0", ' '.into(), CONTROL),
            (b"\x1c", '\\'.into(), CONTROL),
            (b"\x1b", ESCAPE, 0),
            (b"\x1bx", 'x'.into(), ALT),
            (b"\x1b\x01", 'a'.into(), ALT | CONTROL),
            ("\x1bé".as_bytes(), 'é'.into(), ALT),
        ] {
            assert_eq!(all(bytes), [key(of, modifiers)], "{bytes:?}");
        }
    }

    #[test]
    fn sequences_are_keys_with_modifiers() {
        for (bytes, of, modifiers) in [
            ("\x1b[A", UP, 0),
            ("\x1bOB", DOWN, 0),
            ("\x1b[1;5C", RIGHT, CONTROL),
            ("\x1b[1;4D", LEFT, SHIFT | ALT),
            ("\x1b[3~", DELETE, 0),
            ("\x1b[5;3~", PAGE_UP, ALT),
            ("\x1bOP", F0 + 1, 0),
            ("\x1b[15~", F0 + 5, 0),
            ("\x1b[24;2~", F0 + 12, SHIFT),
            ("\x1b[Z", TAB, SHIFT),
            ("\x1b[99~", UNKNOWN, 0),
            ("\x1b[?1;2c", UNKNOWN, 0),
        ] {
            assert_eq!(all(bytes.as_bytes()), [key(of, modifiers)], "{bytes:?}");
        }
    }

    #[test]
    fn the_mouse_presses_moves_releases_and_turns_its_wheel() {
        let mouse = |button, flags, column, row| Pressed::Mouse {
            button,
            flags,
            column,
            row,
        };
        let bytes = b"\x1b[<0;1;1M\x1b[<32;20;3M\x1b[<0;20;3m\x1b[<64;5;6M\x1b[<21;9;9M";
        assert_eq!(
            all(bytes),
            [
                mouse(0, PRESS, 0, 0),
                mouse(0, MOVE, 19, 2),
                mouse(0, RELEASE, 19, 2),
                mouse(4, PRESS, 4, 5),
                mouse(1, PRESS | SHIFT | CONTROL, 8, 8),
            ]
        );
        assert_eq!(all(b"\x1b[<0;0;1M"), [key(UNKNOWN, 0)]);
    }

    /// However the bytes are cut, the keys are the same.
    #[test]
    fn pieces_make_the_same_keys() {
        let bytes = "a\x1b[1;5Cé\x1b[<0;10;2M🙂\x1bOPz".as_bytes();
        let whole = all(bytes);
        assert_eq!(whole.len(), 7);
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::default();
            let mut keys = Vec::new();
            for piece in [&bytes[..cut], &bytes[cut..]] {
                decoder.feed(piece);
                keys.extend(std::iter::from_fn(|| decoder.next(false)));
            }
            assert_eq!(keys, whole, "{cut}");
        }
    }

    /// Whatever comes, each byte is taken, and none twice.
    #[test]
    fn no_bytes_are_stuck() {
        let mut state = 0x9e37_79b9_u32;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..12)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    let alphabet = b"\x1b\x1b[[O<;1M~A\xc3\xa9\xf0\xff\x01 ";
                    alphabet[state as usize % alphabet.len()]
                })
                .collect();
            assert!(all(&bytes).len() <= bytes.len(), "{bytes:?}");
        }
        let long = [b"\x1b[".to_vec(), vec![b'1'; 1000]].concat();
        assert_eq!(all(&long)[0], key(UNKNOWN, 0));
        for wrong in [&b"\xff"[..], b"\xc3", b"\xe2\x82"] {
            let lost = key(char::REPLACEMENT_CHARACTER.into(), 0);
            assert!(all(wrong).iter().all(|key| *key == lost), "{wrong:?}");
        }
        assert_eq!(all(b"\x1b[1\x1b[A"), [key(UNKNOWN, 0), key(UP, 0)]);
    }
}

//! The two parsers of `json`, compiled for this machine: the automaton must agree with the recursive descent.

use everwarp_testkit::cases;

use crate::Case;
use crate::document::{automaton, check, descent};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] = cases![
    parsers_agree_on_all_short_documents,
    parsers_agree_on_any_byte_anywhere,
    parsers_agree_on_characters,
    parsers_agree_on_words_and_escapes,
    parsers_agree_on_deep_nesting
];

/// Fails unless both parsers agree; returns whether the document is valid.
fn agree(document: &[u8]) -> bool {
    let mut copy = document.to_vec();
    let valid = automaton::valid(&mut copy);
    assert_eq!(copy, document, "the document is not changed");
    let says = descent::document(document);
    let text = String::from_utf8_lossy(document);
    assert_eq!(valid, says.is_ok(), "{text:?}: {says:?}");
    assert_eq!(check(&mut copy), says, "{text:?}");
    valid
}

const BASES: [&str; 5] = [
    r#" {"k\u00e9y": [1, -2.5e+10, true, false, null, "tæxt\n"], "": {"a": []}} "#,
    "[1.5e-3,-0.0,0,10,1E5,-0e1,0.0e-0,\t\r\n 12]",
    "\"\u{e9}\u{20ac}\u{10348}\u{fffd}\u{d7ff}\\\"\\\\\\/\\b\\f\\u12aF\"",
    "[[[{},[]],{\"a\":{\"b\":[{}]}}]]",
    " null\n",
];

fn parsers_agree_on_all_short_documents() {
    let alphabet = b"{}[],:\"\\ 01-.e+t\n\xc3\xa9";
    let mut valid = 0;
    for length in 0..5 {
        for number in 0..alphabet.len().pow(length) {
            let mut rest = number;
            let document: Vec<_> = (0..length)
                .map(|_| {
                    let byte = alphabet[rest % alphabet.len()];
                    rest /= alphabet.len();
                    byte
                })
                .collect();
            valid += usize::from(agree(&document));
        }
    }
    assert!(valid > 400, "{valid} of them are valid");
}

fn parsers_agree_on_any_byte_anywhere() {
    for base in BASES {
        assert!(agree(base.as_bytes()), "{base}");
        for at in 0..base.len() {
            agree(&base.as_bytes()[..at]);
            for byte in 0..=255 {
                let mut document = base.as_bytes().to_vec();
                document[at] = byte;
                agree(&document);
                document.insert(at, base.as_bytes()[at]);
                agree(&document);
            }
        }
    }
}

/// Each first and second byte of a character, and a third and a fourth at the edges.
fn parsers_agree_on_characters() {
    let edges = [0x20, 0x7f, 0x80, 0xbf, 0xc0, 0xff];
    for first in 0x80..=255 {
        for second in 0..=255 {
            for rest in [vec![], vec![0x80], vec![0xbf, 0xbf]] {
                agree(&[&[b'"', first, second], &rest[..], b"\""].concat());
            }
        }
        for third in edges {
            for fourth in edges {
                agree(&[b'"', first, 0x90, third, fourth, b'"']);
            }
        }
    }
}

fn parsers_agree_on_words_and_escapes() {
    for base in [
        "[true]",
        "[false]",
        "[null]",
        "\"\\u0fA9\"",
        "\"\\n\"",
        "1e+5 ",
    ] {
        for at in 0..base.len() {
            for byte in 0..=255 {
                let mut document = base.as_bytes().to_vec();
                document[at] = byte;
                agree(&document);
                for length in 0..document.len() {
                    agree(&document[..length]);
                }
            }
        }
    }
}

/// The open brackets do not fit into a word; the last closing one is of the wrong kind, is missing, or is one too many.
fn parsers_agree_on_deep_nesting() {
    for depth in (1..=5).chain(28..36).chain(60..66).chain([93, 94, 1000]) {
        for objects in [1, 2, 3, usize::MAX] {
            let object = |level: usize| level.is_multiple_of(objects);
            let mut document = Vec::new();
            for level in 0..depth {
                document.extend_from_slice(if object(level) { b"{\"\":" } else { b"[" });
            }
            document.push(b'0');
            let inner = document.len();
            for level in (0..depth).rev() {
                document.push(if object(level) { b'}' } else { b']' });
            }
            assert!(agree(&document));
            for at in inner..document.len() {
                for byte in *b"[]{},0" {
                    let mut document = document.clone();
                    document[at] = byte;
                    agree(&document);
                    if at % 16 == 0 {
                        document.insert(at, b',');
                        agree(&document);
                    }
                }
                agree(&document[..at]);
            }
            for next in *b"[]{},0 " {
                document.push(next);
                agree(&document);
                document.pop();
            }
        }
    }
}

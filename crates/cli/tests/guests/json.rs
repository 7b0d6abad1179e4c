//! `json` on documents that were written by hand, and compared with another parser on broken ones.

use std::path::Path;

use everwarp_testkit::cases;

use crate::{Case, Ended, ONE_PAGE, data, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    valid_documents_are_accepted,
    the_first_error_is_reported_with_its_position,
    an_unreadable_document_is_reported,
    a_document_larger_than_the_memory_ends_the_process_with_a_message,
    broken_documents_are_judged_as_another_parser_judges_them
];

const VALID: &[&str] = &[
    "null",
    " true\n",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    "0",
    "-0",
    "-12.50e+007",
    "1E-2",
    "1e999",
    r#""""#,
    r#""\"\\\/\b\f\n\r\t\u00e9\uD834""#,
    "\"\u{e9}\u{20ac}\u{10348}\u{7f}\"",
    "[1,[2,[3,{\"a\":[]}]],4]",
    "{\"a\":1,\"a\":{\"b\":null},\"\":\"\"}",
    "\t[\r\n1\n,\n2 ]\n\n",
];

/// Documents with the line, the column and the description of their first error.
const WRONG: &[(&[u8], &str)] = &[
    (b"", "1:1: the document ends where a value is due"),
    (b" \n ", "2:2: the document ends where a value is due"),
    (b"nul", "1:4: this is neither `true`, `false` nor `null`"),
    (
        b"[1,\n trve]",
        "2:4: this is neither `true`, `false` nor `null`",
    ),
    (b"[1,]", "1:4: a value cannot begin with this"),
    (b"[1 2]", "1:4: a comma or a closing bracket is due here"),
    (b"[1}", "1:3: a comma or a closing bracket is due here"),
    (b"[[1]", "1:5: the document ends within an array"),
    (b"{\"a\":1", "1:7: the document ends within an object"),
    (b"{\"a\":1]", "1:7: a comma or a closing brace is due here"),
    (b"{\"a\"}", "1:5: a colon is due here"),
    (b"{\"a\"", "1:5: the document ends where a colon is due"),
    (b"{a:1}", "1:2: a name in quotes is due here"),
    (b"{\"a\":1,}", "1:8: a name in quotes is due here"),
    (b"{", "1:2: the document ends where a name is due"),
    (b"01", "1:2: a number has no leading zero"),
    (b"-", "1:2: a digit is due here"),
    (b"1.", "1:3: a digit is due here"),
    (b"1.e3", "1:3: a digit is due here"),
    (b"2e+", "1:4: a digit is due here"),
    (b"+1", "1:1: a value cannot begin with this"),
    (
        b"null null",
        "1:6: there is more behind the document's value",
    ),
    (b"\"a", "1:3: the document ends within a string"),
    (b"\"a\\", "1:4: the document ends within a string"),
    (b"\"\\x\"", "1:3: there is no such escape"),
    (b"\"\\u12G4\"", "1:6: a hexadecimal digit is due here"),
    (b"\"a\nb\"", "1:3: a control character must be escaped"),
    (b"\"\xc0\xaf\"", "1:2: this is not UTF-8"),
    (b"\"\xed\xa0\x80\"", "1:2: this is not UTF-8"),
    (b"\"\xf4\x90\x80\x80\"", "1:2: this is not UTF-8"),
    (b"\"\xe2\x82\"", "1:2: this is not UTF-8"),
    (
        b"[\"\xc3\xa9\", \xc3]",
        "1:8: a value cannot begin with this",
    ),
];

/// Puts documents into files and validates all of them in one process; returns a line for each.
fn validate(folder: &Path, documents: &[Vec<u8>]) -> Vec<String> {
    let mut args = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        std::fs::write(folder.join(number.to_string()), document).expect("it is writable");
        args.push(format!("/data/{number}"));
    }
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let ended = run("json", &["--dir", &data(folder)], &args, b"");
    assert_eq!(ended.err, "");
    let lines: Vec<_> = ended.out.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), documents.len());
    let all = lines.iter().all(|line| line.ends_with(": valid"));
    assert_eq!(ended.code, i32::from(!all));
    lines
}

fn valid_documents_are_accepted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut documents: Vec<_> = VALID.iter().map(|d| d.as_bytes().to_vec()).collect();
    // Deeper than any stack, and longer than one read.
    documents.push([vec![b'['; 100_000], vec![b']'; 100_000]].concat());
    documents.push(format!("[{}1]", "\"some text\", ".repeat(20_000)).into_bytes());
    let lines = validate(folder.path(), &documents);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("/data/{number}: valid"));
    }
    assert_eq!(
        run("json", &[], &[], b"[1]"),
        Ended::new(0, "-: valid\n", "")
    );
}

fn the_first_error_is_reported_with_its_position() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let documents: Vec<_> = WRONG.iter().map(|(d, _)| d.to_vec()).collect();
    let lines = validate(folder.path(), &documents);
    for (number, ((_, says), line)) in WRONG.iter().zip(&lines).enumerate() {
        assert_eq!(*line, format!("/data/{number}:{says}"));
    }
}

fn an_unreadable_document_is_reported() {
    let ended = run("json", &[], &["/data/none"], b"");
    let says = "json: /data/none: not beneath a directory that this process was given\n";
    assert_eq!(ended, Ended::new(1, "", says));
}

fn a_document_larger_than_the_memory_ends_the_process_with_a_message() {
    let document = [b' '; 100_000];
    let ended = run("json", &["--memory", ONE_PAGE], &[], &document);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    let says = [
        "memory allocation of ",
        "trap: unreachable in",
        "rust_begin_unwind",
    ];
    for says in says {
        assert!(ended.err.contains(says), "{}", ended.err);
    }
}

/// Whether the document is UTF-8 and another parser accepts it.
fn is_valid(document: &[u8]) -> bool {
    std::str::from_utf8(document).is_ok()
        && serde_json::from_slice::<serde::de::IgnoredAny>(document).is_ok()
}

fn broken_documents_are_judged_as_another_parser_judges_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A linear congruential generator modulo 2^64 with Knuth's factor; its high bits are good enough here.
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let base = r#" {"k\u00e9y": [1, -2.5e+10, true, false, null, "tæxt\n"], "": {"a": []}} "#;
    let alphabet = b"{}[],:\"\\ \n0123456789-+.eEtrufalsn\xc3\xa9\xff\x00";
    let documents: Vec<Vec<u8>> = (0..3000)
        .map(|_| {
            let mut document = base.as_bytes().to_vec();
            for _ in 0..below(3) {
                let at = below(document.len());
                let byte = alphabet[below(alphabet.len())];
                match below(4) {
                    0 => document[at] = byte,
                    1 => document.insert(at, byte),
                    2 => drop(document.remove(at)),
                    _ => document.truncate(at + 1),
                }
            }
            document
        })
        .collect();
    let valid = documents.iter().filter(|d| is_valid(d)).count();
    assert!(
        (500..2500).contains(&valid),
        "{valid} of them are valid, so one verdict is hardly tested"
    );
    let lines = validate(folder.path(), &documents);
    for (line, document) in lines.iter().zip(&documents) {
        let text = String::from_utf8_lossy(document);
        assert_eq!(
            line.ends_with(": valid"),
            is_valid(document),
            "{line}\n{text}"
        );
    }
}

//! Compares the PTX of small functions line by line. The expected PTX follows the module in the input file; `BLESS=1`
//! writes it again.

#[path = "support/encode.rs"]
mod encode;

use std::fmt::Write;
use std::path::Path;

use encode::encode;
use everwarp_compiler::{CompileOptions, compile};

const MARK: &str = "\n;; --- what is emitted ---\n";

/// The PTX of the module's own functions: `f` and a number, or `i` for indirect calls.
fn own_functions(ptx: &str) -> String {
    let mut out = String::new();
    let mut lines = ptx.lines().peekable();
    while let Some(line) = lines.next() {
        let name = line.split(") ").nth(1).unwrap_or_default();
        let own =
            name.starts_with(['f', 'i']) && name[1..].starts_with(|c: char| c.is_ascii_digit());
        if !line.starts_with(".func") || !own || lines.peek() != Some(&"{") {
            continue;
        }
        writeln!(out, "{line}").expect("a String takes text");
        for line in lines.by_ref() {
            writeln!(out, "{line}").expect("a String takes text");
            if line == "}" {
                break;
            }
        }
    }
    out
}

#[test]
fn the_ptx_of_small_functions_is_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let (module, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let bytes = encode(module);
        let compiled =
            compile(&bytes, &CompileOptions::default()).expect("the module is supported");
        let mut emitted = String::new();
        for line in own_functions(&compiled.ptx).lines() {
            writeln!(emitted, ";; {line}").expect("a String takes text");
        }
        if std::env::var_os("BLESS").is_some() {
            let text = format!("{}\n{MARK}{emitted}", module.trim_end());
            std::fs::write(&path, text).expect("the file can be written");
        } else {
            assert_eq!(
                emitted,
                expected,
                "the PTX of {} has changed: check it, then run with BLESS=1",
                path.display()
            );
        }
        files += 1;
    }
    assert!(files >= 7, "all inputs must be found");
}

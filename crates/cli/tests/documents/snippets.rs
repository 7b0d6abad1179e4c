//! Code in documents is the code of files that are compiled and tested.
//!
//! A fenced block after `<!-- file: PATH -->` has the whole file; one after `<!-- part of: PATH -->` has some lines of it
//! that follow each other.

use crate::markdown::with_code;
use crate::{check, documents, read, writing};

/// The path in a comment of this kind.
fn named<'l>(line: &'l str, kind: &str) -> Option<&'l str> {
    line.strip_prefix("<!-- ")?
        .strip_prefix(kind)?
        .strip_suffix(" -->")
        .map(str::trim)
}

#[test]
fn code_in_documents_is_that_of_the_files_it_names() {
    let _writing = writing();
    let mut snippets = 0;
    for (document, text) in documents() {
        let wanted = with_code(&text, |block| {
            if let Some(path) = named(block.before, "file:") {
                snippets += 1;
                return Some(read(path).trim_end().to_owned() + "\n");
            }
            let path = named(block.before, "part of:")?;
            snippets += 1;
            assert!(
                read(path).contains(block.code.trim_end()),
                "{document}: this is not in {path}:\n{}",
                block.code
            );
            None
        });
        check(&document, &wanted);
    }
    assert!(
        snippets >= 4,
        "only {snippets} snippets were found: does the test still read documents right?"
    );
}

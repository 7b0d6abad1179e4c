//! The documents are true: paths, symbols, results and links that they name exist, examples are those that run,
//! and terminal output is what the command prints.
//!
//! `EVERWARP_WRITE=1 cargo test -p everwarp-cli --test documents` writes generated parts and outputs again.

mod commands;
mod console;
mod lengths;
mod links;
mod markdown;
mod paths;
mod snippets;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every document, as its path in the repository and its text. Raw results are not documents.
fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for folder in ["guests", "docs", "docs/decisions", "docs/reference"] {
        for file in std::fs::read_dir(top().join(folder)).expect("the folder is there") {
            let name = file.expect("the folder can be read").file_name();
            let name = name.into_string().expect("a plain name");
            if name.ends_with(".md") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    names.sort();
    let read = |name: String| (name.clone(), read(&name));
    names.into_iter().map(read).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// True if documents shall be written again instead of compared.
fn update() -> bool {
    std::env::var_os("EVERWARP_WRITE").is_some()
}

/// Held by a test from reading documents to writing them, so that two tests do not overwrite each other's changes.
fn writing() -> MutexGuard<'static, ()> {
    static WRITING: Mutex<()> = Mutex::new(());
    // A failed test holds no half-written document.
    everwarp::process::sync::lock(&WRITING)
}

/// Compares a document with the text that it should have, or writes it.
fn check(path: &str, text: &str) {
    let file = top().join(path);
    if std::fs::read_to_string(&file).is_ok_and(|committed| committed == text) {
        return;
    }
    assert!(
        update(),
        "{path} is out of date: run EVERWARP_WRITE=1 cargo test -p everwarp-cli --test documents, and look at the difference"
    );
    std::fs::write(file, text).expect("the document can be written");
}

//! The official test suite on the engine that processes run on: the same files as the GPU's compiler is tested with
//! (`crates/process/compiler/tests`).
//!
//! `counts.txt` states for each file what holds and what is not supported, so that neither can change unnoticed.
//! `BLESS=1` writes it anew; nothing may fail in any case.

#[path = "../../../compiler/tests/support/spec/counts.rs"]
mod counts;
#[path = "../../../compiler/tests/support/spec/files.rs"]
mod files;
mod run;
mod values;

use std::path::Path;

use counts::{compare, none_failed};

#[test]
fn all_files() {
    let only = std::env::var("SPEC_FILE").ok();
    let (mut table, mut failed) = (String::new(), Vec::new());
    for file in files::files() {
        if only.as_ref().is_some_and(|o| *o != file.name) {
            continue;
        }
        let counts = run::run(file.source);
        table.push_str(&counts.section(&file.name));
        failed.extend(counts.failed.iter().map(|f| format!("{}, {f}", file.name)));
    }
    none_failed(&failed);
    if only.is_some() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/counts.txt");
    compare(&path, &table);
}

//! The official test suite on the engine that processes run on: the same files as the GPU's compiler is tested with
//! (`crates/wasm/tests`).
//!
//! `counts.txt` states for each file what holds and what is not supported, so that neither can change unnoticed.
//! `BLESS=1` writes it anew; nothing may fail in any case.

#[path = "../../../wasm/tests/support/spec/files.rs"]
mod files;
mod run;
mod values;

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

#[test]
fn all_files() {
    let only = std::env::var("SPEC_FILE").ok();
    let (mut table, mut failed) = (String::new(), Vec::new());
    for file in files::files() {
        if only.as_ref().is_some_and(|o| *o != file.name) {
            continue;
        }
        let counts = run::run(file.source);
        let passed: Vec<_> = (counts.passed.iter())
            .map(|(k, n)| format!("{k} {n}"))
            .collect();
        writeln!(table, "{}: {}", file.name, passed.join(", ")).expect("a String takes text");
        for (why, n) in &counts.unsupported {
            writeln!(table, "  unsupported {n}: {why}").expect("a String takes text");
        }
        failed.extend(counts.failed.iter().map(|f| format!("{}, {f}", file.name)));
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    if only.is_some() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/counts.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &table).expect("the table can be written");
    }
    let stated = std::fs::read_to_string(&path).expect("the table is there");
    let only_in = |one: &str, other: &str| -> Vec<String> {
        let other: HashSet<_> = other.lines().collect();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(str::to_owned).collect()
    };
    assert!(
        table == stated,
        "what holds or is supported has changed; see BLESS\nfound: {:#?}\nstated: {:#?}",
        only_in(&table, &stated),
        only_in(&stated, &table)
    );
}

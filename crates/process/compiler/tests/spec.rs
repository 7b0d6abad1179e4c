//! Runs the official test suites of WebAssembly 2.0 with vectors, of extended constants, of tail calls and of threads
//! on the emitted PTX.
//!
//! `spec-2.0.txt` states for each file how many directives hold and how many are not supported, so that neither number
//! can change unnoticed. `BLESS=1` writes it again; a directive that fails is an error in any case.

mod support;

use std::path::Path;

use support::{machine, spec};

#[test]
fn core_2_0() {
    let only = std::env::var("SPEC_FILE").ok();
    let (mut table, mut failed) = (String::new(), Vec::new());
    for file in spec::files() {
        if only
            .as_ref()
            .is_some_and(|o| !file.name.starts_with(o.as_str()))
        {
            continue;
        }
        let counts = spec::run(file.source, machine::interpreter());
        table.push_str(&counts.section(&file.name));
        failed.extend(counts.failed.iter().map(|f| format!("{}, {f}", file.name)));
    }
    spec::none_failed(&failed);
    if only.is_some() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec-2.0.txt");
    spec::compare(&path, &table);
}

/// Runs the files of the suite itself and the files about vectors with interleaved memories: the same number of
/// directives must hold.
#[test]
fn core_2_0_with_interleaved_memories() {
    spec::interleave(true);
    same_directives_hold(|name| !name.contains("threads/"));
}

/// The same with functions that are divided wherever they can be.
#[test]
fn core_2_0_divided() {
    spec::divide(200);
    same_directives_hold(|_| true);
}

fn same_directives_hold(chosen: impl Fn(&str) -> bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec-2.0.txt");
    let stated = std::fs::read_to_string(&path).expect("the table can be read");
    let mut others = Vec::new();
    for file in spec::files() {
        if !chosen(&file.name) {
            continue;
        }
        let counts = spec::run(file.source, machine::interpreter());
        assert!(
            counts.failed.is_empty(),
            "{}: {:?}",
            file.name,
            counts.failed
        );
        let section = counts.section(&file.name);
        if !stated.contains(&section) {
            others.push(section);
        }
    }
    assert!(others.is_empty(), "{}", others.concat());
}

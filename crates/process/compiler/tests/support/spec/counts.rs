//! What became of the suite's files, and the tables that state it.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;

/// What became of a file's directives.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    /// By kind of directive: those that hold.
    pub(crate) passed: BTreeMap<&'static str, usize>,
    /// Why directives could not be decided, and how many.
    pub(crate) unsupported: BTreeMap<String, usize>,
    /// Directives that do not hold.
    pub(crate) failed: Vec<String>,
}

/// How a directive ended, if it did not hold.
pub(crate) enum Miss {
    Unsupported(String),
    Failed(String),
}

impl Counts {
    /// What a table has to say of a file of this name.
    pub(crate) fn section(&self, name: &str) -> String {
        let passed: Vec<_> = (self.passed.iter())
            .map(|(k, n)| format!("{k} {n}"))
            .collect();
        let mut section = format!("{name}: {}\n", passed.join(", "));
        for (why, n) in &self.unsupported {
            writeln!(section, "  unsupported {n}: {why}").expect("a String takes text");
        }
        section
    }

    /// Counts a directive of this kind.
    pub(crate) fn add(&mut self, line: usize, kind: &'static str, outcome: Result<(), Miss>) {
        match outcome {
            Ok(()) => *self.passed.entry(kind).or_default() += 1,
            Err(Miss::Unsupported(why)) => *self.unsupported.entry(why).or_default() += 1,
            Err(Miss::Failed(why)) => self.failed.push(format!("line {line}: {kind}: {why}")),
        }
    }
}

/// Fails with all that do not hold, if any do not.
#[allow(dead_code, reason = "not every test binary runs the files")]
pub(crate) fn none_failed(failed: &[String]) {
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Compares a table with the one that is committed, which `BLESS=1` writes anew.
#[allow(dead_code, reason = "as above")]
pub(crate) fn compare(path: &Path, table: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, table).expect("the table can be written");
    }
    let stated = std::fs::read_to_string(path).expect("the table is there");
    let only_in = |one: &str, other: &str| -> Vec<String> {
        let other: HashSet<_> = other.lines().collect();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(str::to_owned).collect()
    };
    assert!(
        table == stated,
        "what holds or is supported has changed; see BLESS\nfound: {:#?}\nstated: {:#?}",
        only_in(table, &stated),
        only_in(&stated, table)
    );
}

//! The results of the suite's files, and the tables that state them.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;

/// The results of a file's directives.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    /// The number of directives that hold, by kind.
    pub(crate) passed: BTreeMap<&'static str, usize>,
    /// The number of undecided directives, by reason.
    pub(crate) unsupported: BTreeMap<String, usize>,
    /// The directives that do not hold.
    pub(crate) failed: Vec<String>,
}

/// Why a directive did not hold.
pub(crate) enum Miss {
    Unsupported(String),
    Failed(String),
}

impl Counts {
    /// The section of a table about a file with this name.
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

/// Panics with a list of all directives that do not hold, if there are any.
#[allow(dead_code, reason = "not every test binary runs the files")]
pub(crate) fn none_failed(failed: &[String]) {
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Compares a table with the committed one. `BLESS=1` writes the committed table again.
#[allow(dead_code, reason = "as above")]
pub(crate) fn compare(path: &Path, table: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, table).expect("the table can be written");
    }
    let stated = std::fs::read_to_string(path).expect("the table can be read");
    let only_in = |one: &str, other: &str| -> Vec<String> {
        let other: HashSet<_> = other.lines().collect();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(str::to_owned).collect()
    };
    assert!(
        table == stated,
        "the stated counts have changed: check them, then run with BLESS=1\nfound: {:#?}\nstated: {:#?}",
        only_in(table, &stated),
        only_in(&stated, table)
    );
}

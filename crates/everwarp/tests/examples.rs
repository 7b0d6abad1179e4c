//! The example programs, run as a user runs them from the repository's root. README shows the same texts.
//!
//! `cargo test` builds examples before tests. `cargo test --test examples` does not: build them first with
//! `cargo build --examples`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use everwarp_testkit::run;

/// No example takes longer, even if it compiles an image for a GPU first.
const LIMIT: Duration = Duration::from_secs(180);
/// A program in README has at most this many lines of code.
const LINES_MOST: usize = 15;

/// The output of an example. Cargo puts examples next to the folder of the tests.
fn output_of(example: &str) -> String {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("two folders");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = folder.join("examples").join(example);
    let finished = run(Command::new(&program).current_dir(root), LIMIT);
    let finished = finished.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let output = finished.success();
    output.unwrap_or_else(|why| panic!("{example}: {why}"))
}

#[test]
fn hundred_processes_write_their_numbers_and_succeed() {
    let output = output_of("processes");
    let mut numbers: Vec<u32> = output
        .lines()
        .filter_map(|line| line.strip_prefix("argument 1: ")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    let last = output.lines().last();
    assert_eq!(last, Some("100 of 100 processes succeeded"));
}

#[test]
fn tasks_add_up() {
    let output = output_of("tasks");
    assert_eq!(output, "the squares of 1 to 100 add up to 338350\n");
}

#[test]
fn examples_are_short() {
    for (name, text) in [
        ("processes", include_str!("../examples/processes.rs")),
        ("tasks", include_str!("../examples/tasks.rs")),
    ] {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.starts_with("//");
        let lines = text.lines().filter(is_code).count();
        assert!(lines <= LINES_MOST, "{name} has {lines} lines");
    }
}

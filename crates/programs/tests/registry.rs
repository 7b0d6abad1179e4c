//! The registry, and what is made from it.

use std::path::{Path, PathBuf};

use everwarp::{Device, Select};
use everwarp_programs::{OptionValues, REGISTRY, Registered, find};

/// The documents in which programs may be listed.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    if let Ok(book) = std::fs::read_dir(root.join("docs")) {
        files.extend(book.map(|entry| entry.expect("the folder can be read").path()));
    }
    let documents = files
        .into_iter()
        .filter(|f| f.extension().is_some_and(|e| e == "md"));
    documents
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a document can be read");
            (file, text)
        })
        .collect()
}

/// The rows of the table of programs in a document: the name and the line about it.
fn table(text: &str) -> Vec<(String, String)> {
    let from_head = text
        .lines()
        .skip_while(|line| *line != "| program | what it does |");
    let rows = from_head.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').splitn(2, '|').map(str::trim);
        let name = cells.next().unwrap_or_default().trim_matches('`');
        (name.to_owned(), cells.next().unwrap_or_default().to_owned())
    })
    .collect()
}

#[test]
fn the_documents_list_the_programs_of_the_registry() {
    let expected: Vec<_> = REGISTRY
        .iter()
        .map(|entry| (entry.name().to_owned(), entry.about().to_owned()))
        .collect();
    let rows: Vec<_> = expected
        .iter()
        .map(|(name, about)| format!("| `{name}` | {about} |"))
        .collect();
    let mut tables = 0;
    for (file, text) in documents() {
        let listed = table(&text);
        if !listed.is_empty() {
            assert_eq!(
                listed,
                expected,
                "{}: the rows should be\n{}",
                file.display(),
                rows.join("\n")
            );
            tables += 1;
        }
    }
    assert!(
        tables > 0,
        "README.md or a page of docs lists the programs:\n| program | what it does |\n|---|---|\n{}",
        rows.join("\n")
    );
}

#[test]
fn every_program_is_found_by_its_name() {
    for entry in REGISTRY {
        let found = find(entry.name()).expect("it is listed");
        assert!(std::ptr::eq(found.program(), entry.program()));
    }
    assert!(find("nothing-of-this-name").is_none());
}

/// Runs an entry on the CPU engine and compares its result with the reference.
fn run(entry: &'static dyn Registered, values: &OptionValues) {
    let device = Device::open(Select::Cpu).expect("it is always there");
    let engine = device.engine().program(entry.program()).size(2).start();
    let engine = engine.expect("it starts");
    let prepared = entry.prepare(values, &mut |_, _| {});
    let prepared = prepared.unwrap_or_else(|e| panic!("{}: {e}", entry.name()));
    let finished = prepared.run(&engine).expect("it runs");
    let verified = finished.verify();
    assert_eq!(verified, Ok(()), "{}", entry.name());
}

#[test]
fn every_program_runs_its_example() {
    for entry in REGISTRY {
        run(entry, &entry.example_values());
    }
}

/// A number of 0 or 1 is a run with little or nothing to do, or an error; never a panic.
#[test]
fn small_numbers_run_or_are_refused() {
    for entry in REGISTRY {
        for option in entry.options() {
            for number in ["0", "1"] {
                let Ok(value @ everwarp_programs::OptionValue::Number(_)) = option.parse(number)
                else {
                    continue;
                };
                let mut values = entry.example_values();
                values.set(option, value);
                if entry.prepare(&values, &mut |_, _| {}).is_ok() {
                    run(entry, &values);
                }
            }
        }
    }
}

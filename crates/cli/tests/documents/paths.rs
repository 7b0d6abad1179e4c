//! Paths, symbols and result files that documents name exist.

use std::path::Path;

use crate::markdown::{prose, spans};
use crate::{documents, read, top};

/// The folders of the repository that a path can begin with.
const FOLDERS: [&str; 6] = ["crates/", "bench/", "data/", "guests/", ".ci/", "docs/"];
/// Endings of raw results.
const RESULTS: [&str; 4] = [".txt", ".json", ".csv", ".html"];

fn is_path(span: &str) -> bool {
    !span.contains(|c: char| c.is_whitespace() || "<>{}*".contains(c))
        && FOLDERS.iter().any(|f| span.starts_with(f))
}

/// True for the name of a raw result without its folder.
fn is_result(span: &str) -> bool {
    !span.contains(|c: char| c.is_whitespace() || "/<>{}*".contains(c))
        && RESULTS
            .iter()
            .any(|e| span.len() > e.len() && span.ends_with(e))
}

/// The names of all raw results, without their folders.
fn results() -> Vec<String> {
    let folders = std::fs::read_dir(top().join("bench/results")).expect("the results are there");
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("readable").path()));
    let names = files.flatten().map(|f| f.expect("readable").file_name());
    names
        .map(|n| n.into_string().expect("a plain name"))
        .collect()
}

#[test]
fn every_path_in_a_document_exists() {
    let mut paths = 0;
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let text = prose(&text);
        for (span, _) in spans(&text).into_iter().filter(|(s, _)| is_path(s)) {
            paths += 1;
            if !top().join(span).exists() {
                missing.push(format!("{document}: {span}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "these paths do not exist:\n{}",
        missing.join("\n")
    );
    assert!(
        paths > 100,
        "only {paths} paths were found: does the test still read documents right?"
    );
}

#[test]
fn every_result_file_in_a_document_exists() {
    let results = results();
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let text = prose(&text);
        let folder = Path::new(&document).parent().expect("a folder").to_owned();
        for (span, _) in spans(&text).into_iter().filter(|(s, _)| is_result(s)) {
            let next_to_it = top().join(&folder).join(span).exists();
            if !next_to_it && !results.iter().any(|r| r == span) {
                missing.push(format!("{document}: {span}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "these results do not exist:\n{}",
        missing.join("\n")
    );
}

/// Where a document says "`symbol` in `path`", the file contains the symbol.
#[test]
fn every_symbol_that_a_document_places_in_a_file_is_there() {
    let mut symbols = 0;
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let text = prose(&text);
        for pair in spans(&text).windows(2) {
            let [(symbol, between), (path, _)] = pair else {
                continue;
            };
            if between.trim() != "in" || !is_path(path) || !top().join(path).is_file() {
                continue;
            }
            symbols += 1;
            let name = symbol.rsplit("::").next().unwrap_or(symbol);
            let name = name.split('(').next().unwrap_or(name);
            if !read(path).contains(name) {
                missing.push(format!("{document}: {symbol} in {path}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "these symbols are not there:\n{}",
        missing.join("\n")
    );
    assert!(
        symbols >= 5,
        "only {symbols} symbols were found: does the test still read documents right?"
    );
}

/// ARCHITECTURE.md has a table "To change X, open Y", and each of its rows names a path.
#[test]
fn the_table_of_changes_names_a_path_in_every_row() {
    let text = read("ARCHITECTURE.md");
    let (_, rest) = text.split_once("| to change").expect("the table is there");
    let rows: Vec<&str> = rest
        .lines()
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .collect();
    assert!(rows.len() >= 15, "the table has {} rows only", rows.len());
    for row in rows {
        let paths = spans(row).into_iter().filter(|(s, _)| is_path(s)).count();
        assert!(paths > 0, "this row names no path: {row}");
    }
}

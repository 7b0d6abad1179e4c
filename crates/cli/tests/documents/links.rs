//! Links lead to files and headings that exist, and the book's summary lists every page.

use std::path::{Component, Path, PathBuf};

use crate::markdown::{anchor, prose};
use crate::{documents, read, top};

/// The targets of the links in a document: what is between `](` and the next `)`.
fn targets(prose: &str) -> Vec<&str> {
    let parts = prose.split("](").skip(1);
    parts
        .filter_map(|part| part.split_once(')'))
        .map(|(target, _)| target)
        .collect()
}

/// The headings of a document, as links name them.
fn anchors(text: &str) -> Vec<String> {
    let text = prose(text);
    let headings = text.lines().filter(|l| l.starts_with('#'));
    headings
        .map(|l| anchor(l.trim_start_matches('#').trim()))
        .collect()
}

/// A path without `..`, relative to the top.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[test]
fn every_link_leads_to_a_file_and_heading_that_exist() {
    let mut links = 0;
    let mut broken = Vec::new();
    for (document, text) in documents() {
        let folder = Path::new(&document).parent().expect("a folder");
        let text = prose(&text);
        for target in targets(&text) {
            if target.starts_with("https://") {
                continue;
            }
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => PathBuf::from(&document),
                file => plain(&folder.join(file)),
            };
            let exists = top().join(&path).exists();
            let found = heading.is_empty()
                || exists
                    && anchors(&read(&path.to_string_lossy()))
                        .iter()
                        .any(|a| a == heading);
            if !exists || !found {
                broken.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "these links lead nowhere:\n{}",
        broken.join("\n")
    );
    assert!(
        links > 60,
        "only {links} links were found: does the test still read documents right?"
    );
}

#[test]
fn the_summary_lists_every_page_of_the_book_once() {
    let summary = read("docs/SUMMARY.md");
    let listed = targets(&summary);
    for (document, _) in documents() {
        let Some(page) = document
            .strip_prefix("docs/")
            .filter(|p| *p != "SUMMARY.md")
        else {
            continue;
        };
        let count = listed.iter().filter(|l| **l == page).count();
        assert_eq!(count, 1, "docs/SUMMARY.md lists {page} {count} times");
    }
}

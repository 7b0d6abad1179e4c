//! The files of this crate form layers: no file uses a file that uses it in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The modules of the crate, each with the other modules that its files name.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = BTreeMap::new();
    collect(&folder, None, &mut uses);
    uses
}

fn collect(folder: &Path, module: Option<&str>, uses: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = module.or(stem).expect("the name is text").to_owned();
        if path.is_dir() {
            collect(&path, Some(&name), uses);
            continue;
        }
        if name == "lib" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is text");
        let names = text.split("crate::").skip(1).map(|after| {
            let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            after[..end.unwrap_or(after.len())].to_owned()
        });
        let others = names.filter(|other| *other != name);
        uses.entry(name.clone()).or_default().extend(others);
    }
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let mut uses = uses();
    assert!(uses.len() > 20, "the files were not found: {uses:?}");
    // Modules that use none of the others are taken away, until none is left or all are in circles.
    loop {
        let is_free = |used: &BTreeSet<String>| used.iter().all(|name| !uses.contains_key(name));
        let free: Vec<_> = uses
            .iter()
            .filter(|(_, used)| is_free(used))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        uses.retain(|name, _| !free.contains(name));
    }
    assert!(uses.is_empty(), "these use each other in circles: {uses:?}");
}

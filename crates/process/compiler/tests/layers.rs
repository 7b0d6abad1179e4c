//! Checks the floors of the compiler: a file may import from its own floor and from lower floors, never from a higher
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The floors from the lowest to the highest, by the first segment of a module's path in the crate.
const FLOORS: [&[&str]; 7] = [
    &["error", "parallel"],
    &["divide", "facts"],
    &["context", "text"],
    &["emit"],
    &["stack_need"],
    &["compiled", "compile"],
    &["instance"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// All source files but the crate's root, as the path of their module and their text.
fn sources() -> BTreeMap<String, String> {
    fn add(folder: &Path, path: &str, all: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let file = entry.expect("the folder can be listed").path();
            let name = file.file_stem().expect("a file has a name");
            let name = name.to_str().expect("the name is text");
            let module = match (path, name) {
                ("", name) => name.to_owned(),
                (path, "mod") => path.to_owned(),
                (path, name) => format!("{path}::{name}"),
            };
            if file.is_dir() {
                add(&file, &module, all);
            } else if file.extension().is_some_and(|e| e == "rs") && module != "lib" {
                let text = std::fs::read_to_string(&file).expect("the file can be read");
                all.insert(module, text);
            }
        }
    }
    let mut all = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    add(&root, "", &mut all);
    all
}

/// The paths after `crate::` in the code of a file. Comments are left out, and each nested import is a path of its
/// own.
fn crate_paths(text: &str) -> Vec<String> {
    let code: Vec<_> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let path = &rest[..end];
        if rest[end..].starts_with('{') {
            let close = rest.find('}').expect("an import list ends");
            let names = rest[end + 1..close].split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            paths.extend(names.map(|name| format!("{path}{name}")));
        } else {
            paths.push(path.to_owned());
        }
    }
    paths
}

#[test]
fn no_file_imports_from_a_floor_above_its_own() {
    let sources = sources();
    assert!(sources.len() > 40, "all sources must be found");
    let mut wrong = Vec::new();
    for (module, text) in &sources {
        let first = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
        let own = floor(&first(module)).unwrap_or_else(|| panic!("{module} is on no floor"));
        for path in crate_paths(text) {
            // A name that the root re-exports hides the floor from which it comes.
            match floor(&first(&path)) {
                None => wrong.push(format!("{module} uses crate::{path}, which names no floor")),
                Some(other) if other > own => {
                    wrong.push(format!(
                        "{module} uses crate::{path}, a floor above its own"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn imports_among_facts_have_no_cycle() {
    let sources = sources();
    let facts = sources.iter().filter(|(m, _)| m.starts_with("facts::"));
    let mut left: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (module, text) in facts {
        let used = crate_paths(text).into_iter().filter_map(|path| {
            let name = path.split("::").take(2).collect::<Vec<_>>().join("::");
            (sources.contains_key(&name) && name != *module && name != "facts").then_some(name)
        });
        left.insert(module, used.collect());
    }
    // Removes the files that import none of the remaining files, until nothing changes.
    loop {
        let free: Vec<_> = (left.iter())
            .filter(|(_, used)| used.iter().all(|u| !left.contains_key(u.as_str())))
            .map(|(module, _)| *module)
            .collect();
        if free.is_empty() {
            break;
        }
        for module in free {
            left.remove(module);
        }
    }
    assert!(left.is_empty(), "these import each other: {left:#?}");
}

#[test]
fn facts_write_no_ptx() {
    for (module, text) in sources() {
        if module.starts_with("facts") {
            assert!(!text.contains("line!("), "{module} writes PTX");
        }
    }
}

#[test]
fn nested_imports_are_found() {
    let text =
        "use crate::facts::{abi, names};\n// use crate::no::such;\nlet a = crate::text::Reg;\n";
    assert_eq!(
        crate_paths(text),
        ["facts::abi", "facts::names", "text::Reg"]
    );
}

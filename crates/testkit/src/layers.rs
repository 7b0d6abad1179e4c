//! Circles of imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The modules of a crate that use each other in circles, each with the modules that it uses; empty if the modules form
/// layers.
///
/// A module is a file of the folder `src`, or a folder with all its files. It uses each module that it names after
/// `crate::`.
///
/// # Panics
/// The folder cannot be read.
pub fn circular_modules(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut uses = BTreeMap::new();
    collect(src, None, &mut uses);
    assert!(!uses.is_empty(), "{} has no modules", src.display());
    // Modules that use none of the others are taken away, until none is left or all are in circles.
    loop {
        let is_free = |used: &BTreeSet<String>| used.iter().all(|name| !uses.contains_key(name));
        let free: BTreeSet<_> = uses
            .iter()
            .filter(|(_, used)| is_free(used))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            return uses;
        }
        uses.retain(|name, _| !free.contains(name));
    }
}

/// Adds what the files of a folder use. `module` is the name of the folder's module.
fn collect(folder: &Path, module: Option<&str>, uses: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
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
        let text = std::fs::read_to_string(&path).expect("the file is text");
        let names = text.split("crate::").skip(1).map(|after| {
            let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            after[..end.unwrap_or(after.len())].to_owned()
        });
        let others = names.filter(|other| *other != name);
        uses.entry(name.clone()).or_default().extend(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("everwarp-layers-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for (path, text) in files {
            let path = folder.join(path);
            let parent = path.parent().expect("it is in the folder");
            std::fs::create_dir_all(parent).expect("the folder is writable");
            std::fs::write(path, text).expect("the folder is writable");
        }
        let found = circular_modules(&folder);
        std::fs::remove_dir_all(&folder).expect("the folder is writable");
        found.into_keys().collect()
    }

    #[test]
    fn layers_have_no_circles() {
        let files = [
            ("lib.rs", "use crate::a::A;"),
            ("a.rs", "use crate::b::B; use crate::c;"),
            ("b.rs", "use crate::c::C;"),
            ("c/mod.rs", "use crate::c::one::One;"),
            ("c/one.rs", "use crate::c::two::Two;"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_circle_through_a_folder_is_found_with_its_users() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "mod part;"),
            ("b/part.rs", "use crate::a::A;"),
            ("user.rs", "use crate::a::A;"),
            ("free.rs", ""),
        ];
        assert_eq!(circles(&files), ["a", "b", "user"]);
    }
}

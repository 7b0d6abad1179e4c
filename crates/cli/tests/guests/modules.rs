//! The modules themselves: built from the sources that are there, small, and accepted by both compilers.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use everwarp_testkit::cases;

use crate::{Case, GUESTS, ONE_PAGE, WITH_STD, folder, module};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] = cases![
    the_modules_are_built_from_the_sources_that_are_there,
    the_modules_are_those_of_the_guests_and_small,
    every_module_becomes_ptx_and_starts_with_one_page
];

/// The files that the modules are built from, relative to the folder of the guests.
fn sources(top: &Path, inner: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(top.join(inner)).expect("the folder is there") {
        let entry = entry.expect("the folder can be read");
        let path = inner.join(entry.file_name());
        let name = path.to_str().expect("the names are plain").to_owned();
        if ["target", "built", "c", "actors", "notes/site"].contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().expect("it has a type").is_dir() {
            sources(top, &path, found);
        } else if !["build", "EVENTS.md", "GPU.md", "NET.md", "README.md"].contains(&name.as_str())
        {
            found.insert(name.replace('\\', "/"));
        }
    }
}

/// The sources that the modules of a folder were built from, which must not have changed since.
pub(crate) fn listed(top: &Path) -> BTreeSet<String> {
    let list = std::fs::read_to_string(top.join("built/SOURCES")).expect("the list is there");
    let check = |line: &str| {
        let (hash, name) = line.split_once("  ").expect("a hash and a name");
        let bytes = std::fs::read(top.join(name)).expect("a listed source is there");
        let now: String = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let build = top.join("build");
        assert_eq!(now, hash, "{name} has changed: run {}", build.display());
        name.to_owned()
    };
    list.lines().map(check).collect()
}

fn the_modules_are_built_from_the_sources_that_are_there() {
    let top = folder();
    let mut found = BTreeSet::new();
    sources(&top, Path::new(""), &mut found);
    assert_eq!(
        listed(&top),
        found,
        "a source was added or removed: run guests/build"
    );
}

fn the_modules_are_those_of_the_guests_and_small() {
    let mut built = BTreeSet::new();
    for entry in std::fs::read_dir(folder().join("built")).expect("the folder is there") {
        let entry = entry.expect("the folder can be read");
        let name = entry
            .file_name()
            .into_string()
            .expect("the names are plain");
        if let Some(guest) = name.strip_suffix(".wasm") {
            let bytes = entry.metadata().expect("it is a file").len();
            let most = if WITH_STD.contains(&guest) { 140 } else { 40 };
            assert!(bytes <= most << 10, "{name} has {bytes} bytes");
            built.insert(guest.to_owned());
        }
    }
    let all = GUESTS.iter().chain(&WITH_STD);
    assert_eq!(built, all.map(|guest| (*guest).to_owned()).collect());
}

fn every_module_becomes_ptx_and_starts_with_one_page() {
    for guest in GUESTS {
        let compile = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
            let command = command.arg("compile").arg(module(guest)).args(args);
            let output = everwarp_testkit::output(command);
            let text = |bytes| String::from_utf8(bytes).expect("it is text");
            let errors = text(output.stderr);
            assert!(output.status.success(), "{guest}: {errors}");
            text(output.stdout)
        };
        let ptx = compile(&["--emit", "ptx"]);
        assert!(ptx.contains(".visible .entry"), "{guest}");
        let json: serde_json::Value = serde_json::from_str(&compile(&["--json"])).expect("JSON");
        let exports = json["exports"].as_array().expect("a list");
        assert!(exports.iter().any(|e| e["name"] == "_start"), "{guest}");
        let run = |memory: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
            let command = command
                .arg("run")
                .arg(module(guest))
                .args(["--memory", memory]);
            let output = everwarp_testkit::output(command);
            String::from_utf8(output.stderr).expect("it is text")
        };
        let fits = run(ONE_PAGE);
        assert!(!fits.contains("starts with"), "{guest}: {fits}");
        assert!(run("65535").contains("starts with"), "{guest}");
    }
}

//! The guests in C, which do the same as the guests in Rust with these names, and the header for `everwarp:gpu`.

use std::collections::BTreeSet;

use crate::modules::listed;
use everwarp_testkit::cases;

use crate::{Case, folder, run};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] =
    cases![the_modules_are_built_from_the_sources_that_are_there];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    hello_prints_its_arguments_environment_and_input_length,
    three_processes_find_the_same_primes_as_in_rust,
    every_import_of_the_header_returns_the_promised_result
];

fn the_modules_are_built_from_the_sources_that_are_there() {
    let top = folder().join("c");
    let entries = std::fs::read_dir(&top).expect("the folder is there");
    let names = entries.map(|entry| {
        let name = entry.expect("the folder can be read").file_name();
        name.into_string().expect("the names are plain")
    });
    let sources: BTreeSet<_> = names
        .filter(|name| name.ends_with(".c") || name.ends_with(".h"))
        .collect();
    assert_eq!(listed(&top), sources, "run guests/c/build");
}

fn hello_prints_its_arguments_environment_and_input_length() {
    let input = vec![b'x'; 10_000];
    let options = ["--env", "A=1", "--env", "B=two words"];
    let args = ["one", "", "three words"];
    let ended = run("c/hello", &options, &args, &input);
    let mut lines = ended.out.lines();
    assert_eq!(lines.next(), Some("hello"));
    let name = lines.next().expect("its name");
    assert!(name.starts_with("argument 0: ") && name.ends_with("hello.wasm"));
    let rest: Vec<_> = lines.collect();
    let expected = [
        "argument 1: one",
        "argument 2: ",
        "argument 3: three words",
        "variable A=1",
        "variable B=two words",
        "standard input: 10000 bytes",
    ];
    assert_eq!((ended.code, rest), (0, expected.to_vec()));
}

fn three_processes_find_the_same_primes_as_in_rust() {
    for args in [["0"], ["2"], ["3"], ["64"], ["65"], ["20000"]] {
        let ended = run("c/pipeline", &[], &args, b"");
        assert_eq!(ended, run("pipeline", &[], &args, b""));
        assert!(ended.out.ends_with("three processes ended\n"), "{ended:?}");
    }
    for wrong in ["x", "-1", " 1", "", "100000001"] {
        let ended = run("c/pipeline", &[], &[wrong], b"");
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{wrong:?}");
    }
}

fn every_import_of_the_header_returns_the_promised_result() {
    let ended = run("c/imports", &[], &[], b"");
    let header = std::fs::read_to_string(folder().join("c/everwarp.h")).expect("it is there");
    let imports = header.matches("EVERWARP_IMPORT(\"").count();
    let promised = ended.out.matches(": as promised\n").count();
    assert!(promised >= imports, "{imports} imports: {ended:?}");
    assert!(ended.out.ends_with("instance 0: 0 wrong\n"), "{ended:?}");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let module = std::fs::read(crate::module("c/imports")).expect("it is there");
    for line in header.split("EVERWARP_IMPORT(\"").skip(1) {
        let name = line.split('"').next().expect("a name");
        // A name as a module holds it: its length, and its bytes.
        let held = [&[name.len() as u8], name.as_bytes()].concat();
        assert!(module.windows(held.len()).any(|w| w == held), "{name}");
    }
}

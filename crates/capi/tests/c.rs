//! Compiles the examples in C with the header, runs them with the shared library, and looks for leaks.
#![cfg(target_os = "linux")]

mod programs;

use std::process::Command;

use programs::{HERE, compile, moves_money, run, text};

#[test]
fn the_example_runs_processes_and_frees_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("run", "cc", &["-std=c11"], folder.path());
    let hello = format!("{HERE}/../../guests/built/hello.wasm");
    let done = run(&program, &[&hello, "3"]);
    assert!(
        done.status.success(),
        "{:?} {}",
        done.status,
        text(&done.stderr)
    );
    let expected: String = (0..3)
        .map(|n| {
            format!(
                "{n}: code 0\nhello\nargument 0: hello.wasm\nargument 1: process {n}\nstandard input: 0 bytes\n"
            )
        })
        .collect();
    assert_eq!(text(&done.stdout), expected);
    let done = run(&program, &["missing.wasm", "1"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("run: missing.wasm: "),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn every_wrong_use_is_a_status_with_a_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("bad_use", "cc", &["-std=c11"], folder.path());
    let done = run(&program, &[]);
    assert!(
        done.status.success(),
        "{:?} {}",
        done.status,
        text(&done.stderr)
    );
    let lines = text(&done.stdout);
    for part in [
        "kind: 1: there is no engine called `gpu`",
        "null: 1: kind is a null pointer",
        "place: 1: the place for the result is a null pointer",
        "open: 0: \n",
        "file: 3: missing.wasm: ",
        "bytes: 3: this is no WebAssembly module",
        "none: 1: instances must be at least 1",
        "start: 1: module is a null pointer",
        "wait: 7: the processes have not ended",
        "end: 0: \nget: 0: \nreason 2\n",
        "number: 1: there are 2 exits, and none has the number 2",
        "fuel: 0: \nget: 0: \nreason 3\n",
        "variable: 1: the variable \"NAME\" is not of the form NAME=VALUE",
        "array: 1: env is a null pointer",
        "no kinds: 3: the program `actors` cannot be made: give it at least one module",
        "no module: 3: `text` is not a module that can handle messages",
        "actors: 0: \nno kind: 1: the program `actors` has no kind called `other`; it has `own`\n",
        "no place: 1: ids is a null pointer",
        "spawn: 0: \nno message: 1: no kind of the program `actors` handles a message called `other`; they handle `f`\n",
        "no fields: 1: the message is f(0: i64): it has 1 fields, and 0 were given",
        "words: 1: field 0 has 2 words, and there are 1 actors: give one for each, or one for all",
        "null field: 1: fields is a null pointer",
        "no reply: 1: the message is f(0: i64): its reply has 0 words, and there is room for 1 each",
        "ends: 10: the ask has no reply: ",
        "gone: 9: ",
        "dead: 0: \ndead 1\n",
        "no actors run on \"\": \"\"\n",
        "failures: 0: \nwhich: 1: there are 1 failures, and none has the number 1",
    ] {
        assert!(lines.contains(part), "{part:?} is missing in:\n{lines}");
    }
}

#[test]
fn the_example_of_actors_moves_money_and_names_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("actors", "cc", &["-std=c11"], folder.path());
    let account = format!("{HERE}/../../guests/actors/built/account.wasm");
    let place = moves_money(&program, &account, "cpu");
    assert_eq!(place, "on cpu: it was asked for");
    let done = run(&program, &["missing.wasm", "3"]);
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn nothing_is_leaked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, args) in [
        ("run", &["guests/built/hello.wasm", "50"][..]),
        ("actors", &["guests/actors/built/account.wasm", "50"][..]),
        ("bad_use", &[][..]),
    ] {
        let program = compile(name, "cc", &["-std=c11", "-fsanitize=leak"], folder.path());
        let module = format!("{HERE}/../../{}", args.first().copied().unwrap_or_default());
        let args: Vec<&str> = args.iter().skip(1).copied().collect();
        let args = if args.is_empty() {
            vec![]
        } else {
            vec![module.as_str(), args[0]]
        };
        let done = run(&program, &args);
        let errors = text(&done.stderr);
        assert!(done.status.success(), "{:?}\n{errors}", done.status);
        assert!(!errors.contains("LeakSanitizer"), "{errors}");
    }
}

#[test]
fn the_header_is_also_for_cpp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("header.cpp");
    std::fs::write(
        &file,
        "#include <everwarp.h>\nint main() { return *ew_version() == 0; }\n",
    )
    .expect("the folder is writable");
    let done = Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .arg(format!("-I{HERE}/include"))
        .arg(&file)
        .output()
        .expect("there is a C++ compiler");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn header_and_library_declare_the_same_functions() {
    let header =
        std::fs::read_to_string(format!("{HERE}/include/everwarp.h")).expect("it is there");
    let names = |text: &str, before: &str| -> Vec<String> {
        let mut found: Vec<_> = text
            .match_indices("ew_")
            .filter(|(at, _)| text[..*at].ends_with(before))
            .filter_map(|(at, _)| {
                let rest = &text[at..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
                rest[end..].starts_with('(').then(|| rest[..end].to_owned())
            })
            .collect();
        found.sort();
        found
    };
    // In the header a function's name follows its type; a mention in a comment ends with `()`.
    let mut declared: Vec<_> = names(&header, " ")
        .into_iter()
        .chain(names(&header, "*"))
        .collect();
    declared.retain(|name| !header.contains(&format!("{name}().")));
    declared.push("ew_error_message".to_owned());
    declared.sort();
    declared.dedup();
    let mut defined = Vec::new();
    for file in std::fs::read_dir(format!("{HERE}/src")).expect("it is there") {
        let path = file.expect("it can be listed").path();
        let text = std::fs::read_to_string(path).expect("it can be read");
        defined.extend(names(&text, "extern \"C\" fn "));
    }
    defined.sort();
    assert_eq!(declared, defined);
}

//! `everwarp run` of native programs.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_result_without_a_place_is_refused_before_the_work() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("none/levels.tsv");
    for (output, says) in [
        (missing.as_path(), "there is no folder"),
        (folder.path(), "is a directory"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command.args(["run", "bfs", "--engine", "cpu", "--generate", "chain:10"]);
        let output = everwarp_testkit::output(command.arg("--output").arg(output));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            output.stdout.is_empty() && errors.contains(says),
            "{errors}"
        );
    }
    assert!(!folder.path().join("none").exists());
}

/// The command with these arguments: its exit code, standard output and standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    let output = everwarp_testkit::output(command.args(args));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn an_arena_without_room_is_refused_by_the_name_of_its_variable() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.args(["run", "words", "--engine", "cpu", "--generate", "1"]);
    let output = everwarp_testkit::output(command.env("EVERWARP_FILE_ARENA", "5"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let says = "EVERWARP_FILE_ARENA is `5`: give a number, the arena's bytes, from ";
    assert!(
        output.stdout.is_empty() && errors.contains(says),
        "{errors}"
    );
}

/// A program of the list used to run `noop` when the command had no code for it.
#[test]
fn every_listed_program_runs_itself() {
    let (code, listed, _) = run(&["programs", "--json"]);
    assert_eq!(code, Some(0));
    let listed: Value = serde_json::from_str(&listed).expect("it is JSON");
    let rows = listed.as_array().expect("it is a list");
    assert!(rows.len() >= 9, "{listed}");
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let (code, help, _) = run(&["run", name, "--help"]);
        assert_eq!(code, Some(0), "{name}");
        let example = help
            .lines()
            .find_map(|line| line.strip_prefix("Example: everwarp "));
        let example = example.expect("the help has an example");
        let mut args: Vec<_> = example.split(' ').collect();
        args.extend(["--engine", "cpu", "--json"]);
        let (code, report, errors) = run(&args);
        assert_eq!(code, Some(0), "{example}: {errors}");
        let report: Value = serde_json::from_str(&report).expect("it is JSON");
        assert_eq!(report["program"], name);
        assert_eq!(report["verified"], true, "{example}");
    }
}

#[test]
fn help_shows_only_the_options_that_apply() {
    for (name, shown, hidden) in [
        ("bfs", "--source", ["--n ", "--instances", "--iterations"]),
        ("fib", "--n ", ["--source", "--instances", "--graph"]),
        ("x.wasm", "--instances", ["--source", "--n ", "--verify"]),
    ] {
        let (code, help, _) = run(&["run", name, "--help"]);
        assert_eq!(code, Some(0));
        assert!(help.contains(shown) && help.contains("--engine"), "{help}");
        assert!(hidden.iter().all(|option| !help.contains(option)), "{help}");
    }
}

#[test]
fn an_option_that_does_not_apply_is_named_with_the_programs_that_take_it() {
    let (code, _, errors) = run(&["run", "fib", "--source", "3"]);
    assert_eq!(code, Some(2), "{errors}");
    let words: Vec<_> = errors.split_whitespace().collect();
    let errors = words.join(" ");
    assert!(
        errors.contains("`--source` does not apply to `fib`"),
        "{errors}"
    );
    assert!(errors.contains("it applies to bfs"), "{errors}");
}

#[test]
fn options_may_come_before_the_program() {
    let (code, report, errors) = run(&["run", "--engine", "cpu", "--n=10", "fib", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    assert_eq!(report["result"], 55);
}

#[test]
fn words_of_a_file_are_counted_and_wrong_files_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("text");
    std::fs::write(&path, "some words \n".repeat(50_000)).expect("it is writable");
    let text = path.to_str().expect("it is text");
    let words = ["run", "words", "--engine", "cpu"];
    let with = |more: &[&str]| run(&[&words, more].concat());
    let (code, report, errors) = with(&["--file", text, "--piece", "1", "--verify", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    assert_eq!(
        (&report["result"], &report["verified"]),
        (&100_000.into(), &true.into())
    );
    let none = folder.path().join("none");
    let none = none.to_str().expect("it is text");
    let here = folder.path().to_str().expect("it is text");
    for (arguments, code, says) in [
        (&[][..], 2, "needs a file"),
        (&["--file", none], 1, none),
        (&["--file", here], 1, "not a regular file"),
        (&["--file", text, "--buffers", "0"], 2, "--buffers"),
        (&["--file", text, "--generate", "1"], 2, "--generate"),
    ] {
        let (got, report, errors) = with(arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {errors}");
        assert!(report.is_empty() && errors.contains(says), "{errors}");
    }
}

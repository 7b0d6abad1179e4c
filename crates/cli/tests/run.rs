//! `everwarp run` with results that have no place.

use std::process::Command;

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
        let output = command.arg("--output").arg(output).output();
        let output = output.expect("the command starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            output.stdout.is_empty() && errors.contains(says),
            "{errors}"
        );
    }
    assert!(!folder.path().join("none").exists());
}

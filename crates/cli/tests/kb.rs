//! `everwarp kb` as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

fn kb(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("kb")
        .args(args)
        .env("EVERWARP_DATA_DIR", folder);
    everwarp_testkit::output(&mut command)
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&text(output)).expect("it is JSON")
}

/// The exit code and the first line of an error.
fn error(output: &Output) -> (Option<i32>, String) {
    assert!(output.stdout.is_empty());
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn search_skill_detail_and_stats_print_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = json(&kb(
        folder.path(),
        &["search", "radix sort", "--json", "--limit", "2"],
    ));
    assert_eq!(found[0]["id"], 321);
    assert!(found.as_array().expect("a list").len() <= 2);
    let table = text(&kb(
        folder.path(),
        &["search", "--persistent", "kernel", "--limit=3"],
    ));
    assert!(
        !table.contains('\u{1b}'),
        "there are no links in a pipe: {table}"
    );
    let topics = text(&kb(folder.path(), &["skill"]));
    assert!(topics.lines().count() >= 10 && topics.contains("megakernels"));
    assert!(text(&kb(folder.path(), &["skill", "GPU", "scheduling"])).contains("GPREEMPT"));
    let detail = text(&kb(folder.path(), &["detail", "451"]));
    assert!(
        detail.contains("https://") && detail.contains("not measured here yet"),
        "{detail}"
    );
    assert_eq!(
        json(&kb(folder.path(), &["stats", "--json"]))["findings"],
        71
    );
    let nothing = text(&kb(folder.path(), &["search", "xyzzyplugh"]));
    assert!(
        nothing.starts_with("nothing found; the nearest topics are"),
        "{nothing}"
    );
}

#[test]
fn own_findings_are_kept_and_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let add = [
        "add",
        "--topic",
        "io",
        "--claim",
        "Quokka drives are quick.",
        "--source",
        "measured",
        "--tags",
        "quokka",
    ];
    assert!(text(&kb(folder.path(), &add)).contains("added finding 10000"));
    assert_eq!(
        json(&kb(folder.path(), &["search", "quokka", "--json"]))[0]["id"],
        10_000
    );
    assert_eq!(json(&kb(folder.path(), &["stats", "--json"]))["own"], 1);
}

#[test]
fn wrong_use_gets_one_clear_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, words) = error(&kb(folder.path(), &["skill", "megakernals"]));
    assert!(
        code == Some(2) && words.contains("the nearest is `megakernels`"),
        "{words}"
    );
    let (code, words) = error(&kb(folder.path(), &["detail", "452000"]));
    assert!(
        code == Some(2) && words.contains("the nearest is 550"),
        "{words}"
    );
    let (code, words) = error(&kb(folder.path(), &["check", "304"]));
    assert!(
        code == Some(2) && words.contains("no benchmark tests"),
        "{words}"
    );
    let (code, words) = error(&kb(folder.path(), &["advise", "--piece", "20us"]));
    assert!(code == Some(2) && words.contains("--count"), "{words}");
    std::fs::write(folder.path().join("findings.toml"), "[[finding]]\nid = 1\n")
        .expect("it can be written");
    let (code, words) = error(&kb(folder.path(), &["search", "sort"]));
    assert!(code == Some(1) && words.contains("line 1"), "{words}");
    let blocked = folder.path().join("findings.toml/below");
    let (code, _) = error(&kb(
        &blocked,
        &["add", "--topic", "io", "--claim", "x", "--source", "y"],
    ));
    assert_eq!(code, Some(1));
}

#[test]
fn checks_are_shown_with_the_figures_of_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench/results/h200-2026-11-21/bench.json");
    let report = report.to_str().expect("it is text");
    let checked = json(&kb(folder.path(), &["check", "--report", report, "--json"]));
    let checked = checked.as_array().expect("a list");
    assert!(checked.len() >= 10);
    for finding in checked {
        assert_eq!(finding["device"], "NVIDIA H200");
        for row in finding["measured"].as_array().expect("a list") {
            assert!(row["value"].as_f64().is_some_and(|v| v > 0.0), "{row}");
        }
    }
    let one = text(&kb(folder.path(), &["check", "451", "--report", report]));
    assert!(
        one.contains("here:   8.74 us, launch and synchronize (NVIDIA H200)"),
        "{one}"
    );
}

#[test]
fn checks_are_measured_and_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = json(&kb(
        folder.path(),
        &["check", "443", "--engine", "cpu", "--json"],
    ));
    let value = &first[0]["measured"][0]["value"];
    assert!(value.as_f64().is_some_and(|v| v > 0.0), "{first}");
    // The second call reads the figures that the first one kept.
    let again = json(&kb(folder.path(), &["detail", "443", "--json"]));
    assert_eq!(&again["measured"][0]["value"], value);
}

#[test]
fn advice_follows_from_the_five_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let advise = |piece, count, depends| {
        let args = [
            "advise",
            "--piece",
            piece,
            "--count",
            count,
            "--depends",
            depends,
            "--bytes",
            "0",
            "--latency",
            "any",
            "--json",
        ];
        json(&kb(folder.path(), &args))["tool"]
            .as_str()
            .expect("a tool")
            .to_owned()
    };
    assert_eq!(advise("1ms", "1", "none"), "cpu");
    assert_eq!(advise("1us", "1e7", "unknown"), "tasks");
    assert_eq!(advise("1us", "1e7", "none"), "kernel");
}

#[test]
fn chapter_of_the_book_is_generated_from_the_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let report = top.join("bench/results/h200-2026-11-21/bench.json");
    let made = text(&kb(
        folder.path(),
        &["chapter", "--report", report.to_str().expect("it is text")],
    ));
    let page = top.join("docs/knowledge.md");
    if std::env::var_os("EVERWARP_UPDATE").is_some() {
        std::fs::write(&page, &made).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&page).expect("the page is committed");
    assert!(
        committed == made,
        "docs/knowledge.md is old: EVERWARP_UPDATE=1 cargo test -p everwarp-cli --test kb writes it"
    );
}

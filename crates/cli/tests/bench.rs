//! The benchmarks' command from end to end, on the engine that is everywhere.

use std::path::Path;
use std::process::{Command, Output};

fn everwarp(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_everwarp");
    everwarp_testkit::output(Command::new(program).args(args))
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn a_run_checks_its_results_and_leaves_a_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("made/by/it");
    let path = out.to_str().expect("a plain path");
    let output = everwarp(&["bench", "E", "--engine", "cpu", "--json", "--out", path]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");

    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let written: serde_json::Value =
        serde_json::from_str(&read(&out, "bench.json")).expect("it is JSON");
    assert_eq!(printed, written);
    let rows = written["rows"].as_array().expect("rows");
    // Five ways without the engine and one with it, at three sizes.
    assert_eq!(rows.len(), 18);
    for row in rows {
        assert_eq!(row["verified"], true, "{row}");
        let ours = row["role"] == "ours";
        assert_eq!(ours, row["row"] == "tasks");
        assert_eq!(
            row["rivals"].as_array().map(Vec::len),
            Some(if ours { 5 } else { 0 })
        );
        assert!(row["min_s"].as_f64() <= row["median_s"].as_f64());
        assert!(row["median_s"].as_f64() <= row["p99_s"].as_f64());
    }
    assert_eq!(read(&out, "bench.csv").lines().count(), 19);
    let plot = read(&out, "E.svg");
    assert_eq!(plot.matches("<polyline").count(), 6);
    let page = read(&out, "report.html");
    assert!(page.contains(&plot), "the page holds its plot");
    for elsewhere in ["src=", "href=", "<script", "@import", "url("] {
        assert!(!page.contains(elsewhere), "the page needs {elsewhere}");
    }
}

/// The rows of a part of `io` on the CPU engine.
fn rows_of_io(part: &[&str]) -> Vec<serde_json::Value> {
    let args = [&["bench", "io", "--engine", "cpu", "--row"], part].concat();
    let output = everwarp(&args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let row = |line| serde_json::from_str(line).expect("it is JSON");
    text.lines().map(row).collect()
}

#[test]
fn native_tasks_echo_next_to_threads_of_the_host() {
    for part in [
        &["native_echo"][..],
        &["native_echo_many", "--connections", "30"],
    ] {
        let rows = rows_of_io(part);
        let names: Vec<_> = rows.iter().map(|row| row["row"].as_str()).collect();
        let looped = format!("loop ({})", part[0]);
        assert_eq!(names, [Some(part[0]), Some(&looped)]);
        for row in &rows {
            assert_eq!(row["verified"], true, "{row}");
            assert_eq!(
                (&row["unit"], &row["engine"]),
                (&"request".into(), &"cpu".into())
            );
        }
    }
}

#[test]
fn tasks_that_reply_are_measured_next_to_servers() {
    let rows = rows_of_io(&["native_http"]);
    let row = |name: &str| rows.iter().find(|row| row["row"] == name);
    for name in ["native_http", "loop (native_http)", "nginx (native_http)"] {
        let row = row(name).expect("a row or why there is none");
        let nginx_is_missing =
            row["skipped"] == "nginx is not installed: apt-get install nginx-light";
        assert!(row["verified"] == true || nginx_is_missing, "{row}");
    }
}

#[test]
fn files_of_native_tasks_are_measured_next_to_threads_of_the_host() {
    for (part, expected) in [
        ("read_4k", &["read_4k", "loop (read_4k)"][..]),
        ("background", &["background (alone)", "background"]),
        ("misses", &["misses", "misses (buffers)", "loop (misses)"]),
        ("in_order", &["in_order", "loop (in_order)"]),
        (
            "hits",
            &[
                "hits",
                "buffer (hits)",
                "hits (words)",
                "buffer (hits (words))",
            ],
        ),
        ("gather", &["gather", "loop (gather)", "PyTorch (gather)"]),
    ] {
        let rows = rows_of_io(&[part]);
        let names: Vec<_> = rows.iter().map(|row| row["row"].as_str()).collect();
        let expected: Vec<_> = expected.iter().copied().map(Some).collect();
        assert_eq!(names, expected);
        for row in &rows {
            let torch_is_missing = row["row"] == "PyTorch (gather)" && row["skipped"].is_string();
            assert!(row["verified"] == true || torch_is_missing, "{row}");
        }
        // How files were read is part of the row.
        let what = rows[0]["what"].as_str().expect("text");
        let named = ["threads", "io_uring"]
            .iter()
            .any(|name| what.ends_with(name));
        assert!(named || part == "hits", "{what}");
    }
}

#[test]
fn timers_of_native_tasks_are_never_early() {
    let rows = rows_of_io(&["timers", "--timers", "2000"]);
    let names: Vec<_> = rows.iter().map(|row| row["row"].as_str()).collect();
    assert_eq!(names, [Some("timers"), Some("timers (spread)")]);
    for row in &rows {
        assert_eq!(row["verified"], true, "{row}");
        assert_eq!(
            (&row["unit"], &row["units"]),
            (&"timer".into(), &2000.0.into())
        );
        let names = row["raw"].as_array().expect("a list").iter();
        let names: Vec<_> = names.map(|pair| pair[0].as_str()).collect();
        assert_eq!(names, ["late_median_s", "late_p99_s", "set_s"].map(Some));
    }
}

#[test]
fn a_server_is_measured_next_to_threads_of_the_host() {
    let output = everwarp(&["bench", "io", "--engine", "cpu", "--row", "echo"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    let names: Vec<_> = rows.iter().map(|row| row["row"].as_str()).collect();
    assert_eq!(names, [Some("echo"), Some("loop (echo)")]);
    for row in &rows {
        assert_eq!(row["verified"], true, "{row}");
        assert_eq!(row["unit"], "request");
        let names = row["raw"].as_array().expect("a list").iter();
        let names: Vec<_> = names.map(|pair| pair[0].as_str()).collect();
        assert_eq!(
            names,
            ["request_median_s", "request_p99_s", "start_s"].map(Some)
        );
    }
    let what = rows[0]["what"].as_str().expect("it is text");
    assert!(what.contains("epoll"), "the backend is named: {what}");
}

#[test]
fn an_unknown_benchmark_or_row_is_an_error_that_lists_the_known_ones() {
    for (args, known) in [
        (
            &["bench", "F"][..],
            "core, A, B, C, D, E, P, actors, io, S or all",
        ),
        (
            &["bench", "E", "--engine", "cpu", "--row", "fused"],
            "loop_fused, tasks",
        ),
    ] {
        let output = everwarp(args);
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ");
        assert!(errors.contains(known), "{errors}");
    }
}

#[test]
fn a_part_without_its_input_is_reported_as_left_out() {
    // The roads are the only part of C that asks for a file; a part by itself must say so too.
    let output = everwarp(&["bench", "C", "--engine", "cpu", "--row", "roads"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("--roads"), "{errors}");
}

/// Without a GPU, processes are measured on the CPU engine, which is wasmtime. They check their own results.
#[test]
fn processes_are_measured_on_every_engine() {
    let output = everwarp(&["bench", "P", "--engine", "cpu", "--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = printed["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().filter_map(|row| row["row"].as_str()).collect();
    let all = [
        "call", "calls", "read", "reads", "life", "life", "life", "begin", "messages", "children",
    ];
    assert_eq!(names, all);
    for row in rows {
        assert_eq!(row["verified"], true, "{row}");
        assert!(row["min_s"].as_f64() > Some(0.0), "{row}");
    }
}

/// Every command of S runs with a few processes: alone, in a service, and two at a time. The documents are real ones.
#[test]
fn whole_commands_are_measured_with_and_without_a_service() {
    let output = everwarp(&[
        "bench",
        "S",
        "--engine",
        "cpu",
        "--processes",
        "60",
        "--json",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = printed["rows"].as_array().expect("rows");
    let mut names = Vec::new();
    for row in rows {
        assert_eq!(row["verified"], true, "{row}");
        let case = row["case"].as_str().expect("a case");
        let name = row["row"].as_str().expect("a name");
        if row["role"] != "limit" {
            names.push(format!("{name}: {case}"));
        }
    }
    let expected = [
        "whole: 1 hello, alone",
        "whole: 1 hello, service",
        "whole: 60 hello, alone",
        "whole: 60 hello, service",
        "service: 1 hello",
        "alone: 1 hello",
        "service: 60 hello",
        "alone: 60 hello",
        "service: 60 documents, 0 MB",
        "alone: 60 documents, 0 MB",
        "service: 60 hashes",
        "two clients: 60 hello",
        "one client: 60 hello",
        "idle: idle",
    ];
    assert_eq!(names, expected);
    let limits = |case: &str| {
        let limit = |row: &&serde_json::Value| row["role"] == "limit" && row["case"] == case;
        rows.iter().filter(limit).count()
    };
    assert!(limits("driver") > 2 && limits("1 hello, service") > 2);
}

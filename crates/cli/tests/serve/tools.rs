//! Clients that others have written, where they are installed: CI installs them, and elsewhere a missing one is named.

use std::process::Command;

use crate::server::{Server, guest, site};

/// Runs a client; `None` if it is not installed and need not be.
fn client(name: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(name);
    command.args(args);
    if Command::new(name).arg("-V").output().is_err() {
        let needed = std::env::var_os("EVERWARP_NEEDS_CLIENTS").is_some();
        assert!(!needed, "{name} is not installed: .ci/run installs it");
        eprintln!("skipped: {name} is not installed");
        return None;
    }
    let output = everwarp_testkit::output(&mut command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name} {args:?}: {out}{err}");
    Some(out)
}

fn server(folder: &std::path::Path) -> (Server, String) {
    let route = format!("/cgi={}", guest("c/built/cgi.wasm").display());
    let server = Server::with_files(folder, &["--route", &route]);
    let url = format!("http://{}", server.address);
    (server, url)
}

#[test]
fn curl_gets_posts_and_resumes() {
    let folder = site();
    let (server, url) = server(folder.path());
    let at = |path: &str| format!("{url}{path}");
    let curl = |args: &[&str]| client("curl", &[&["-sS", "--max-time", "60"], args].concat());
    let Some(text) = curl(&[&at("/a.txt"), &at("/a.txt")]) else {
        return;
    };
    assert_eq!(text, "0123456789".repeat(2));
    assert_eq!(curl(&["-r", "2-4", &at("/a.txt")]).as_deref(), Some("234"));
    let posted = curl(&["-d", "a=1&b=2", &at("/cgi/form?q")]).expect("it is installed");
    assert!(
        posted.contains("POST /form\nquery: q\n") && posted.ends_with("a=1&b=2\n7 bytes\n"),
        "{posted}"
    );
    // A larger body makes curl wait for a word first; and one without a length is sent in chunks.
    let large = folder.path().join("large");
    let from = format!("@{}", large.display());
    for how in [
        &["--data-binary", &from, "-H", "Expect: 100-continue"][..],
        &["--data-binary", &from, "-H", "Transfer-Encoding: chunked"],
    ] {
        let posted = curl(&[how, &[&at("/cgi")]].concat()).expect("it is installed");
        assert!(
            posted.ends_with("\n1048576 bytes\n"),
            "{} bytes",
            posted.len()
        );
    }
    let code = curl(&["-o", "/dev/null", "-w", "%{http_code}", &at("/missing")]);
    assert_eq!(code.as_deref(), Some("404"));
    server.end();
}

#[test]
fn ab_sends_a_thousand_requests() {
    let folder = site();
    let (server, url) = server(folder.path());
    let report = client(
        "ab",
        &[
            "-q",
            "-k",
            "-n",
            "1000",
            "-c",
            "20",
            &format!("{url}/a.txt"),
        ],
    );
    if let Some(report) = report {
        assert!(report.contains("Complete requests:      1000"), "{report}");
        assert!(report.contains("Failed requests:        0"), "{report}");
        server.end();
    }
}

#[test]
fn wrk_finds_no_error() {
    let folder = site();
    let (server, url) = server(folder.path());
    let report = client(
        "wrk",
        &["-t", "1", "-c", "20", "-d", "2s", &format!("{url}/cgi/x")],
    );
    if let Some(report) = report {
        assert!(
            !report.contains("Non-2xx") && !report.contains("Socket errors"),
            "{report}"
        );
        assert!(report.contains("requests in"), "{report}");
        server.end();
    }
}

/// Slow headers, slow bodies and slow reading, from 300 connections at a time: a probe gets its answer all the same.
#[test]
fn slowhttptest_finds_the_server_available() {
    let folder = site();
    let (server, url) = server(folder.path());
    let at = |path: &str| format!("{url}{path}");
    let (file, large, cgi) = (at("/a.txt"), at("/large"), at("/cgi"));
    let modes = [
        &["-H", "-u", &file][..],
        &["-B", "-u", &cgi],
        &["-X", "-k", "3", "-u", &large],
    ];
    for mode in modes {
        let common = ["-c", "300", "-r", "200", "-i", "2", "-l", "6", "-p", "5"];
        let Some(text) = client("slowhttptest", &[mode, &common].concat()) else {
            return;
        };
        let last = text.rfind("service available:").map(|at| &text[at..]);
        let last = last.unwrap_or_else(|| panic!("{mode:?}: {text}"));
        let line = last.lines().next().unwrap_or_default();
        assert!(line.contains("YES"), "{mode:?}: {text}");
    }
    server.end();
}

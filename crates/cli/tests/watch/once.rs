//! `everwarp top --once`, for people and for scripts.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use serde_json::Value;

use crate::sandbox::{Sandbox, words};

#[test]
fn without_an_engine_it_is_one_error() {
    let sandbox = Sandbox::new();
    for args in [
        &["top", "--once"][..],
        &["top"],
        &["top", "--once", "--json"],
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty());
        assert!(
            words(&output.stderr).starts_with("Error: × no engine runs help:"),
            "{output:?}"
        );
    }
}

#[test]
fn processes_of_a_run_are_shown_as_text_and_as_json() {
    let sandbox = Sandbox::new();
    let engine = sandbox.looping(5, &[]);
    let text = sandbox.printed(&["top", "--once"]);
    assert!(text.contains("processes\nPROGRAM"), "{text}");
    assert_eq!(text.matches("loop.wasm").count(), 5, "{text}");
    let json = sandbox.printed(&["top", "--once", "--json", "--most", "3"]);
    let seen: Value = serde_json::from_str(&json).expect("one object");
    let program = &seen["programs"][0];
    assert_eq!(program["os_pid"], engine.id());
    let host = &program["hosts"][0];
    assert_eq!(
        (&host["running"], &host["waiting"], &host["left_out"]),
        (&2.into(), &3.into(), &2.into())
    );
    assert_eq!(host["processes"].as_array().map(Vec::len), Some(3));
    assert_eq!(host["health"]["state"], "ok");
    assert!(host["totals"].is_null(), "nothing was asked for");
}

#[test]
fn a_screen_needs_a_terminal() {
    let sandbox = Sandbox::new();
    let _engine = sandbox.looping(2, &[]);
    let output = sandbox.run(&["top"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output.stderr).contains("use --once"), "{output:?}");
    for wrong in [
        &["top", "--json"][..],
        &["top", "--every", "0"],
        &["top", "--every", "x"],
    ] {
        assert_eq!(sandbox.run(wrong).status.code(), Some(2));
    }
}

#[test]
fn times_of_processes_are_measured_where_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let _engine = sandbox.looping(5, &["--measure"]);
    let json = sandbox.printed(&["top", "--once", "--json"]);
    let seen: Value = serde_json::from_str(&json).expect("one object");
    let totals = &seen["programs"][0]["hosts"][0]["totals"];
    assert_eq!(
        (&totals["started"], &totals["succeeded"]),
        (&2.into(), &0.into()),
        "{totals}"
    );
    assert_eq!(totals["wait"]["count"], 2);
    assert!(totals["calls"].as_u64() >= Some(2), "{totals}");
}

/// A program of another release, such as an old wheel in a Python that runs on, does not keep the others from being shown.
#[test]
fn engine_of_another_release_is_named_and_the_others_are_shown() {
    let sandbox = Sandbox::new();
    let engine = sandbox.looping(2, &[]);
    let own = std::process::id();
    let socket = sandbox.path("everwarp").join(format!("{own}.sock"));
    let listener = UnixListener::bind(&socket).expect("the folder of sockets is there");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(stream);
            // A look whether it is there sends nothing.
            if reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                drop(reader.get_mut().write_all(b"{\"answer\":\"panorama\"}\n"));
            }
        }
    });
    let wanted = format!("engine {own} sent an answer that this command does not understand");
    let output = sandbox.run(&["top", "--once"]);
    assert!(output.status.success(), "{output:?}");
    let (shown, told) = (words(&output.stdout), words(&output.stderr));
    assert_eq!(shown.matches("loop.wasm").count(), 2, "{shown}");
    assert!(shown.contains(&format!("{own} ? ? silent")), "{shown}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(told.contains(&wanted), "{told}");
    assert!(
        told.contains(&format!("use everwarp {version} for both")),
        "{told}"
    );
    let json = sandbox.printed(&["top", "--once", "--json"]);
    let seen: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(seen["silent"][0]["os_pid"], own);
    assert_eq!(seen["programs"][0]["os_pid"], engine.id());
}

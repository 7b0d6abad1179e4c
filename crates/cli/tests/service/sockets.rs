//! Sockets of their own and events, for processes of the service.

use std::path::Path;
use std::process::Output;

use crate::echo::Echo;
use crate::sandbox::Sandbox;

/// Runs a guest on the CPU engine, in the service of a sandbox unless the options say otherwise.
fn run(sandbox: &Sandbox, guest: &str, options: &[&str], args: &[&str]) -> Output {
    let guest = format!("{}/../../guests/{guest}", env!("CARGO_MANIFEST_DIR"));
    assert!(Path::new(&guest).exists(), "{guest}");
    let mut all = vec!["run", &guest, "--engine", "cpu", "--verbose"];
    all.extend(options);
    all.push("--");
    all.extend(args);
    sandbox.run(&all)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const IN_SERVICE: &str = "the service runs this on its cpu engine";

#[test]
fn processes_of_the_service_connect_and_bind_as_they_do_alone() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let echo = Echo::start();
    let taken = [echo.stream, echo.datagrams, echo.closed];
    let forbidden = (1..u16::MAX).find(|port| !taken.contains(port));
    let forbidden = forbidden
        .expect("there are more than three ports")
        .to_string();
    let rule = format!("{},{},{},1024-65535", taken[0], taken[1], taken[2]);
    let args = [&echo.args()[..], &[forbidden]].concat();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let options = ["--connect", &rule, "--bind", "0,1024-65535"];
    let served = run(&sandbox, "built/dial.wasm", &options, &args);
    let alone = [&options[..], &["--alone"]].concat();
    let alone = run(&sandbox, "built/dial.wasm", &alone, &args);
    let (said, out) = (text(&served.stderr), text(&served.stdout));
    assert!(said.contains(IN_SERVICE), "{said}");
    assert!(!text(&alone.stderr).contains(IN_SERVICE));
    assert!(out.contains("stream: \"true WouldBlock 1"), "{out}");
    assert_eq!((served.status.code(), out), (Some(0), text(&alone.stdout)));
    // What was refused comes back to the command, each sentence once.
    let refused = |said: &str| {
        let lines = said
            .lines()
            .filter(|line| line.contains("a process may not"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let there = refused(&said);
    assert!(!there.is_empty(), "{said}");
    assert_eq!(there, refused(&text(&alone.stderr)));
}

#[test]
fn processes_of_the_service_without_rules_open_no_sockets() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let output = run(&sandbox, "built/dial.wasm", &[], &["1", "1", "1", "1"]);
    let out = text(&output.stdout);
    assert!(text(&output.stderr).contains(IN_SERVICE), "{output:?}");
    assert!(out.contains("stream: error Some(76)"), "{out}");
}

#[test]
fn processes_of_the_service_have_timers() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let expected = [
        "request 1 for 5 refused: 28",
        "timer 1 expired 1 time",
        "timer 2 expired ten times",
        "timer 3 cancelled: true",
        "timer 4 cancelled: false",
    ];
    for (instances, count) in [(&[][..], 1), (&["--instances", "20"], 20)] {
        let options = [&["--events"], instances].concat();
        let output = run(&sandbox, "built/arrivals.wasm", &options, &["timers"]);
        let said = text(&output.stderr);
        assert!(
            output.status.success() && said.contains(IN_SERVICE),
            "{said}"
        );
        let out = text(&output.stdout);
        let mut lines: Vec<_> = out.lines().collect();
        lines.sort_unstable();
        let expected: Vec<_> = expected
            .iter()
            .flat_map(|line| std::iter::repeat_n(*line, count))
            .collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn events_of_very_many_processes_take_an_engine_of_the_commands_own() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let options = ["--events", "--instances", "65"];
    let output = run(&sandbox, "built/arrivals.wasm", &options, &["timers"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("gives events to 64 processes at most"),
        "{said}"
    );
}

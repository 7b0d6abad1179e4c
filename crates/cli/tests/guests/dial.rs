//! Guests that open sockets themselves: in Rust and in C, as guests on either engine, and in C as a program of this machine.

use std::path::Path;
use std::process::{Command, Stdio};

use everwarp_testkit::{Running, cases};

use crate::echo::Echo;
use crate::sockets::{ended, engines, refused};
use crate::{Case, Ended, alone, folder};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] = cases![a_rule_that_is_none_names_the_forms_to_use];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    c_prints_what_it_prints_natively,
    rust_uses_what_is_granted_and_nothing_else,
    a_refusal_names_the_option_that_would_allow_it
];

fn as_guest(engine: &str, guest: &str, options: &[&str], args: &[String]) -> Ended {
    let mut command = alone(engine, guest, options, args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ended(Running::start(&mut command))
}

/// Compiles the C program for this machine, and runs it.
fn natively(args: &[String]) -> Ended {
    let to = tempfile::tempdir().expect("a temporary folder");
    let program = to.path().join("dial");
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-O1", "-o"])
        .arg(&program)
        .arg(folder().join(Path::new("c/dial.c")));
    let output = everwarp_testkit::output(&mut command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ended(Running::start(&mut command))
}

fn c_prints_what_it_prints_natively() {
    let echo = Echo::start();
    let args = echo.args();
    let natively = natively(&args);
    assert_eq!((natively.code, natively.err.as_str()), (0, ""));
    for line in [
        "recv before connect: ENOTCONN",
        "echo: 85000",
        "send after the end: EPIPE",
        "sendto: 9",
        "peek: 4",
        "bind what is taken: EADDRINUSE",
        "recv: 6",
        "connect to nothing: ECONNREFUSED",
        "localhost: 1",
    ] {
        assert!(natively.out.contains(line), "{line}:\n{}", natively.out);
    }
    let options = ["--connect", "*:*", "--bind", "*:*"];
    for engine in engines() {
        let guest = as_guest(engine, "c/dial", &options, &args);
        assert_eq!((guest.code, guest.err.as_str()), (0, ""), "{engine}");
        assert_eq!(guest.out, natively.out, "{engine}");
    }
}

/// The arguments of the guest in Rust, and its grants: everything but a port that it tries too.
fn granted(echo: &Echo) -> (Vec<String>, String) {
    let mut args = echo.args().to_vec();
    let forbidden =
        (1..u16::MAX).find(|port| ![echo.stream, echo.datagrams, echo.closed].contains(port));
    let forbidden = forbidden.expect("there are more than three ports");
    args.push(forbidden.to_string());
    // What it binds has a port from the system's range, which begins far above the first.
    let rule = format!(
        "{},{},{},1024-65535",
        echo.stream, echo.datagrams, echo.closed
    );
    (args, rule)
}

fn rust_uses_what_is_granted_and_nothing_else() {
    let echo = Echo::start();
    let (args, rule) = granted(&echo);
    let bytes = "a long text; ".len() * 20_000;
    let of_family = format!(
        "stream: \"true WouldBlock 1 {bytes}\"\n\
         datagrams: \"true 4 8192 Some(35)\"\n\
         both sides: \"true AddrInUse WouldBlock askanswer\"\n"
    );
    let expected = format!(
        "{of_family}{of_family}\
         names: \"true\"\n\
         closed: ConnectionRefused\n\
         forbidden: error Some(76)\n\
         forbidden name: error Some(76)\n\
         forbidden address: error Some(76)\n\
         forbidden datagram: error Some(76)\n"
    );
    for engine in engines() {
        let options = ["--connect", &rule, "--bind", "0,1024-65535"];
        let ended = as_guest(engine, "dial", &options, &args);
        assert_eq!(ended, Ended::new(0, &expected, ""), "{engine}");
    }
}

fn a_refusal_names_the_option_that_would_allow_it() {
    let echo = Echo::start();
    let (args, rule) = granted(&echo);
    let forbidden = &args[3];
    for engine in engines() {
        let options = ["--connect", &rule, "--bind", "0,1024-65535", "--verbose"];
        let ended = as_guest(engine, "dial", &options, &args);
        for sentence in [
            format!("everwarp: a process may not connect to 127.0.0.1:{forbidden}: --connect 127.0.0.1:{forbidden} would allow it"),
            "everwarp: a process may not look up example.com: --connect example.com:PORTS would allow it".to_owned(),
            "everwarp: a process may not bind 0.0.0.0:0: --bind 0.0.0.0:0 would allow it".to_owned(),
        ] {
            let said = ended.err.lines().filter(|line| **line == sentence).count();
            assert_eq!(said, 1, "{engine}: {sentence}\n{}", ended.err);
        }
        let nothing = as_guest(engine, "dial", &["--verbose"], &args);
        let sentence = "a process may not open a socket: --connect HOST:PORTS or --bind ADDRESS:PORTS would allow it";
        assert!(nothing.err.contains(sentence), "{engine}: {}", nothing.err);
        assert!(
            nothing.out.contains("stream: error Some(76)"),
            "{engine}: {}",
            nothing.out
        );
    }
}

fn a_rule_that_is_none_names_the_forms_to_use() {
    for (options, says) in [
        (["--connect", "example.com"], "HOST:PORTS"),
        (["--connect", "http://example.com:80"], "HOST:PORTS"),
        (["--bind", "1-"], "HOST:PORTS"),
        (
            ["--bind", "example.com:80"],
            "a name cannot be bound: use PORTS, or ADDRESS:PORTS",
        ),
    ] {
        let (code, message) = refused("dial", &options);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(says), "{message}");
    }
}

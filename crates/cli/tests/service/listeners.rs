//! Listeners through the service: the command opens them, and the processes of the service accept on them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::sandbox::{PATIENCE, Sandbox, finish, wait_for};

/// The guest that answers clients with what they have sent, in capitals.
fn guest() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built/sockets.wasm");
    path.to_str().expect("a plain path").to_owned()
}

/// Runs the guest with a listener, and returns its address and what the command has said before.
fn listen(sandbox: &Sandbox, args: &[&str]) -> (Child, SocketAddr, String) {
    let guest = guest();
    let all = [
        "run",
        &guest,
        "--engine",
        "cpu",
        "--listen",
        "0",
        "--verbose",
    ];
    let mut command = sandbox.command(&all);
    command.args(args);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    let address = loop {
        let before = said.len();
        assert!(
            errors.read_line(&mut said).expect("it is text") > 0,
            "{said}"
        );
        if let Some((_, address)) = said[before..].trim_end().rsplit_once(" listens on ") {
            break address.parse().expect("an address");
        }
    };
    child.stderr = Some(errors.into_inner());
    (child, address, said)
}

fn ask(address: SocketAddr, text: &str) -> String {
    let mut peer = TcpStream::connect(address).expect("it listens");
    peer.set_read_timeout(Some(PATIENCE)).expect("a limit");
    peer.write_all(text.as_bytes()).expect("it is read");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it ends");
    answer
}

#[test]
fn processes_of_the_service_accept_on_the_listeners_of_a_command() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let (child, address, said) = listen(&sandbox, &["--", "2"]);
    assert!(
        said.contains("the service runs this on its cpu engine"),
        "{said}"
    );
    assert!(said.contains("descriptor 3 listens on"), "{said}");
    assert_eq!(ask(address, "first"), "FIRST");
    assert_eq!(ask(address, "second"), "SECOND");
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "client 0: 5 bytes\nclient 1: 6 bytes\ndone\n");
    // No part of the service keeps the listener.
    wait_for("the port is free", || {
        TcpStream::connect(address).is_err().then_some(())
    });
}

#[test]
fn many_processes_share_a_listener_and_a_command_that_is_killed_frees_it() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let (mut child, address, _) = listen(&sandbox, &["--instances", "20"]);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert_eq!(ask(address, "one of many"), "ONE OF MANY"));
        }
    });
    child.kill().expect("it runs");
    finish(child);
    wait_for("the port is free", || {
        TcpStream::connect(address).is_err().then_some(())
    });
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
}

#[test]
fn connections_take_an_engine_of_the_commands_own() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let words = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built/words.wasm");
    let mut command = sandbox.command(&["run"]);
    command.arg(words);
    command.args(["--listen", "0", "--per-connection", "--verbose"]);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("is a process") {
        let read = errors.read_line(&mut said).expect("it is text");
        assert!(read > 0, "{said}");
    }
    child.stderr = Some(errors.into_inner());
    let address = said.split(' ').find_map(|word| word.parse().ok());
    assert_eq!(ask(address.expect("an address"), "two words"), "0 2 9 -\n");
    assert!(said.contains("no connections yet"), "{said}");
    child.kill().expect("it runs");
    finish(child);
}

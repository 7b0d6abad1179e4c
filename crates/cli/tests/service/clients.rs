//! Many clients at the same time.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::sandbox::{CAT, Sandbox, endless, finish, output, wait_for};

#[test]
fn a_hundred_clients_at_once_get_their_own_output() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module("cat.wasm", CAT);
    let module = module.to_str().expect("a plain path");
    let children: Vec<_> = (0..100)
        .map(|number| {
            let mut child = sandbox
                .command(&["run", module, "--size", "2"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command starts");
            let mut stdin = child.stdin.take().expect("it is piped");
            write!(stdin, "client {number}").expect("it is read");
            // All of them wait for the end of their input, so all of them are there at the same time.
            (number, child, stdin)
        })
        .collect();
    wait_for("all are there", || (sandbox.clients() == 100).then_some(()));
    for (number, child, stdin) in children {
        drop(stdin);
        let output = finish(child);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, format!("client {number}").as_bytes());
    }
    wait_for("all are gone", || (sandbox.clients() == 0).then_some(()));
}

#[test]
fn a_client_that_never_reads_holds_up_no_other() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module("writer.wasm", crate::sandbox::WRITER);
    let mut stuck: Vec<_> = (0..4)
        .map(|_| {
            let child = sandbox
                .command(&[
                    "run",
                    module.to_str().expect("a plain path"),
                    "--instances",
                    "100",
                ])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            child.expect("the command starts")
        })
        .collect();
    for client in &stuck {
        let pipe = client.stdout.as_ref().expect("it is piped");
        crate::sandbox::wait_until_full(pipe);
    }
    let hello = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let args = [
        "run",
        hello.to_str().expect("a plain path"),
        "--instances",
        "100",
    ];
    assert!(output(sandbox.command(&args)).status.success());
    for client in &mut stuck {
        client.kill().expect("it runs");
        client.wait().expect("it ends");
    }
}

#[test]
fn a_stopped_client_gets_no_output_until_it_goes_on() {
    use rustix::process::Signal;

    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module("writer.wasm", crate::sandbox::WRITER);
    let mut client = sandbox
        .command(&["run", module.to_str().expect("a plain path")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut pipe = client.stdout.take().expect("it is piped");
    let mut bytes = vec![0; 4096];
    pipe.read_exact(&mut bytes).expect("it writes");
    crate::sandbox::signal(client.id(), Signal::TSTP);
    let stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.id()));
        let stat = stat.expect("it is there");
        stat.contains(") T ").then_some(())
    };
    wait_for("it stops", stopped);
    // What was written before is read, and then nothing comes.
    rustix::io::ioctl_fionbio(&pipe, true).expect("a pipe can be");
    while pipe.read(&mut bytes).is_ok_and(|count| count > 0) {}
    std::thread::sleep(std::time::Duration::from_millis(100));
    let early = pipe.read(&mut bytes).expect_err("nothing comes");
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    crate::sandbox::signal(client.id(), Signal::CONT);
    wait_for("it goes on", || pipe.read(&mut bytes).ok());
    crate::sandbox::signal(client.id(), Signal::TERM);
    drop(pipe);
    let code = finish(client).status.code();
    assert!(matches!(code, Some(143 | 141)), "{code:?}");
}

#[test]
fn the_service_reads_no_more_of_standard_input_than_its_process() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    // This one reads nothing at all, and the shell's next command gets everything.
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let script = format!(
        "printf 'one\\ntwo\\n' | ({} run {}; cat)",
        env!("CARGO_BIN_EXE_everwarp"),
        module.display()
    );
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script])
        .env("XDG_RUNTIME_DIR", sandbox.path());
    assert_eq!(output(command).stdout, b"one\ntwo\n");
}

#[test]
fn processes_of_one_client_are_not_those_of_another() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let first = endless(&sandbox, &["--size", "1"]);
    let second = endless(&sandbox, &["--size", "1"]);
    // Ctrl-C of one ends its own processes only.
    crate::sandbox::signal(first.id(), rustix::process::Signal::INT);
    assert_eq!(finish(first).status.code(), Some(130));
    wait_for("it is gone", || (sandbox.clients() == 1).then_some(()));
    let mut second = second;
    assert!(second.try_wait().expect("it can be asked").is_none());
    second.kill().expect("it runs");
    second.wait().expect("it ends");
}

//! `ps` and `kill` as views of the service.

use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, endless, finish, wait_for, words};

fn ps(sandbox: &Sandbox, args: &[&str]) -> Value {
    let output = sandbox.run(&[&["ps", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn clients_of_the_service_are_listed_and_their_processes_killed() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let client = endless(&sandbox, &["--size", "1", "--instances", "3"]);
    // A process may be listed a moment before the service knows its number.
    let listed = wait_for("all have numbers", || {
        let listed = ps(&sandbox, &[]);
        let rows = listed["engines"][0]["processes"].as_array()?.clone();
        let numbered = rows.iter().all(|row| row["instance"].is_u64());
        (rows.len() == 3 && numbered).then_some(listed)
    });
    let engine = &listed["engines"][0];
    assert_eq!(engine["os_pid"], client.id());
    assert_eq!(engine["engine"], "cpu");
    assert!(
        engine["module"]
            .as_str()
            .expect("a name")
            .ends_with("loop.wasm")
    );
    assert_eq!(
        (&engine["running"], &engine["waiting"]),
        (&1.into(), &2.into())
    );
    let rows = engine["processes"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    let mut instances: Vec<_> = rows.iter().map(|row| row["instance"].as_u64()).collect();
    instances.sort();
    assert_eq!(instances, [Some(0), Some(1), Some(2)]);
    assert_eq!(ps(&sandbox, &["--most", "1"])["engines"][0]["left_out"], 2);

    let unknown = sandbox.run(&["kill", "99.1"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        words(&unknown.stderr).contains("has no process 99.1"),
        "{unknown:?}"
    );
    for row in rows {
        let pid = row["pid"].as_str().expect("a pid");
        let killed = sandbox.run(&["kill", pid, "--engine", &client.id().to_string()]);
        assert!(killed.status.success(), "{killed:?}");
    }
    let output = finish(client);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output.stderr).contains("3 killed"), "{output:?}");
    assert_eq!(
        ps(&sandbox, &[])["engines"].as_array().map(Vec::len),
        Some(0)
    );
}

#[test]
fn engines_of_commands_and_clients_of_the_service_are_listed_together() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let served = endless(&sandbox, &["--size", "1"]);
    let alone = endless(&sandbox, &["--size", "1", "--alone"]);
    let listed = ps(&sandbox, &[]);
    let pids = listed["engines"].as_array().expect("engines").iter();
    let mut pids: Vec<_> = pids.map(|engine| engine["os_pid"].as_u64()).collect();
    pids.sort();
    let mut expected = [served.id(), alone.id()].map(|pid| Some(u64::from(pid)));
    expected.sort();
    assert_eq!(pids, expected);
    let which = sandbox.run(&["kill", "0.1"]);
    assert!(
        words(&which.stderr).contains("several engines run"),
        "{which:?}"
    );
    for mut client in [served, alone] {
        let number = client.id().to_string();
        assert!(
            sandbox
                .run(&["kill", "0.1", "--engine", &number])
                .status
                .success()
        );
        drop(client.stdout.take());
        assert!(!finish(client).status.success());
    }
}

#[test]
fn status_describes_the_service_and_its_absence() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.status()["up"], false);
    let text = |args: &[&str]| String::from_utf8(sandbox.run(args).stdout).expect("it is text");
    assert_eq!(text(&["status"]), "no service is up\n");
    let service = sandbox.up(&["--idle-exit", "1h"]);
    let status = text(&["status"]);
    assert!(
        status.starts_with(&format!("service {}: version ", service.child.id())),
        "{status}"
    );
    assert!(status.contains("cpu: ready on host"), "{status}");
    assert!(
        status.contains("ends after 3600 s without clients"),
        "{status}"
    );
    let report = sandbox.status();
    assert_eq!(report["engines"][0]["engine"], "cpu");
    assert_eq!(report["idle_exit_s"], 3600.0);
    let wrong = sandbox
        .command(&["up", "--idle-exit", "1d"])
        .stderr(Stdio::piped())
        .output();
    let wrong = wrong.expect("the command starts");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

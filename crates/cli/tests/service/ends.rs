//! What happens when a client, an engine or the service ends at any moment.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::sandbox::{CAT, Sandbox, WRITER, endless, finish, lives, signal, wait_for, words};

#[test]
fn processes_of_a_client_that_dies_end() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let mut client = endless(&sandbox, &[]);
    wait_for("it is there", || (sandbox.clients() == 1).then_some(()));
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    computes_nothing(sandbox.engine_pid());
}

/// Checks that a process of the system uses no time.
fn computes_nothing(os_pid: u32) {
    let used = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{os_pid}/stat")).expect("it lives");
        let (_, rest) = stat.rsplit_once(')').expect("a name");
        rest.split_whitespace()
            .nth(11)
            .expect("its time")
            .parse()
            .expect("a number")
    };
    let before = used();
    std::thread::sleep(Duration::from_millis(300));
    assert!(used() - before < 10, "it still runs");
}

/// The definition of fib(47) takes ten billion tasks: minutes.
#[test]
fn a_native_program_of_a_client_that_dies_ends() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let engine = sandbox.engine_pid();
    let start = || {
        let args = ["run", "fib", "--n", "47", "--engine", "cpu"];
        let client = sandbox.command(&args).stdout(Stdio::null()).spawn();
        let client = client.expect("the command starts");
        // The engine of the program has threads with its name.
        wait_for("the program runs", || {
            let tasks = std::fs::read_dir(format!("/proc/{engine}/task")).expect("it lives");
            let mut names = tasks
                .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
            names
                .any(|name| name.starts_with("everwarp-"))
                .then_some(())
        });
        client
    };
    for end in [Signal::KILL, Signal::INT] {
        let mut client = start();
        signal(client.id(), end);
        client.wait().expect("it ends");
        wait_for("the client is gone", || {
            (sandbox.clients() == 0).then_some(())
        });
        computes_nothing(engine);
    }
    assert_eq!(sandbox.engine_pid(), engine, "the engine has not ended");
    let quick = sandbox.run(&["run", "fib", "--n", "10", "--engine", "cpu"]);
    assert!(quick.status.success(), "{quick:?}");
}

#[test]
fn a_client_that_is_killed_at_any_moment_leaves_nothing() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module("writer.wasm", WRITER);
    let module = module.to_str().expect("a plain path");
    let engine = sandbox.engine_pid();
    let files = || std::fs::read_dir(format!("/proc/{engine}/fd")).map_or(0, Iterator::count);
    // The first client makes what all share: the compiled module, and with many processes the pool of instances.
    let mut first = sandbox
        .command(&["run", module, "--instances", "100"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut byte = [0];
    let stdout = first.stdout.as_mut().expect("it is piped");
    stdout.read_exact(&mut byte).expect("the processes run");
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    wait_for("it is gone", || (sandbox.clients() == 0).then_some(()));
    let before = files();
    // From before the connection to the midst of output.
    for step in 0..40_u64 {
        let mut client = sandbox
            .command(&["run", module, "--instances", "50"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(Duration::from_micros(step * step * 25));
        client.kill().expect("it is there");
        client.wait().expect("it ends");
    }
    wait_for("the clients are gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    wait_for("their files are closed", || {
        (files() <= before).then_some(())
    });
    assert_eq!(sandbox.engine_pid(), engine, "the engine has not ended");
}

/// A client whose reader does not read blocks a thread of the service in a write.
#[test]
fn a_client_that_dies_while_its_output_is_not_read_leaves_nothing() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module("writer.wasm", WRITER);
    let mut client = sandbox
        .command(&["run", module.to_str().expect("a plain path")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let pipe = client.stdout.take().expect("it is piped");
    crate::sandbox::wait_until_full(&pipe);
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    drop(pipe);
}

#[test]
fn clients_of_an_engine_that_dies_get_one_error_and_the_next_engine_serves() {
    let sandbox = Sandbox::new();
    let service = sandbox.up(&[]);
    let client = endless(&sandbox, &[]);
    let engine = sandbox.engine_pid();
    signal(engine, Signal::KILL);
    let output = finish(client);
    assert_eq!(output.status.code(), Some(1));
    let told = words(&output.stderr);
    assert!(
        told.contains("the engine has ended: the service has closed the connection"),
        "{told}"
    );
    assert_eq!(told.matches('×').count(), 1, "{told}");
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let again = sandbox.run(&["run", "-v", module.to_str().expect("a plain path")]);
    assert!(again.status.success(), "{again:?}");
    assert!(
        words(&again.stderr).contains("the service runs this"),
        "{again:?}"
    );
    let status = sandbox.status();
    assert_eq!(status["os_pid"], service.child.id());
    assert_eq!(status["engines"][0]["starts"], 2);
}

#[test]
fn clients_of_a_service_that_dies_get_one_error_and_no_orphans_stay() {
    let sandbox = Sandbox::new();
    let service = sandbox.up(&[]);
    let client = endless(&sandbox, &[]);
    let engine = sandbox.engine_pid();
    signal(service.child.id(), Signal::KILL);
    let output = finish(client);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output.stderr).contains("the engine has ended"),
        "{output:?}"
    );
    wait_for("the engine ends", || (!lives(engine)).then_some(()));
    // The socket is there and no program listens. The next command removes it and runs alone.
    assert!(sandbox.socket().exists());
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let module = module.to_str().expect("a plain path");
    let alone = sandbox.run(&["run", "-v", module]);
    assert!(alone.status.success(), "{alone:?}");
    assert!(
        words(&alone.stderr).contains("no service is up"),
        "{alone:?}"
    );
    assert!(!sandbox.socket().exists());
    drop(service);
    // And the next service starts.
    let _service = sandbox.up(&[]);
    assert!(sandbox.run(&["run", module]).status.success());
}

#[test]
fn a_service_that_is_killed_at_any_moment_leaves_clients_with_an_end() {
    let sandbox = Sandbox::new();
    let module = sandbox.module("cat.wasm", CAT);
    let module = module.to_str().expect("a plain path");
    for step in 0..12_u64 {
        let service = sandbox.up(&[]);
        let engine = sandbox.engine_pid();
        let client = sandbox
            .command(&["run", module, "--instances", "20000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(Duration::from_micros(step * step * 300));
        signal(service.child.id(), Signal::KILL);
        drop(service);
        let output = finish(client);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{output:?}");
        if code == Some(1) {
            let told = words(&output.stderr);
            assert!(
                told.contains("service") || told.contains("engine"),
                "{told}"
            );
        }
        wait_for("the engine ends", || (!lives(engine)).then_some(()));
    }
}

#[test]
fn a_second_service_is_refused() {
    let sandbox = Sandbox::new();
    let service = sandbox.up(&[]);
    for args in [&["up"][..], &["up", "--detach"]] {
        let second = sandbox.run(args);
        assert_eq!(second.status.code(), Some(1), "{args:?}");
        let told = words(&second.stderr);
        assert!(told.contains("a service is up already"), "{told}");
    }
    assert_eq!(sandbox.status()["os_pid"], service.child.id());
}

#[test]
fn down_waits_for_clients_and_a_new_service_takes_over_meanwhile() {
    let sandbox = Sandbox::new();
    let mut old = sandbox.up(&[]);
    let client = endless(&sandbox, &[]);
    let down = sandbox.run(&["down"]);
    assert!(down.status.success(), "{down:?}");
    // The old service still has its client, and a new one is up at the same time.
    let new = sandbox.up(&[]);
    assert_eq!(sandbox.status()["os_pid"], new.child.id());
    assert!(old.child.try_wait().expect("it can be asked").is_none());
    signal(client.id(), Signal::INT);
    let output = finish(client);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    wait_for("the old service ends", || {
        old.child.try_wait().expect("it can be asked")
    });
}

#[test]
fn down_now_ends_clients() {
    let sandbox = Sandbox::new();
    let mut service = sandbox.up(&[]);
    let client = endless(&sandbox, &[]);
    let engine = sandbox.engine_pid();
    let down = sandbox.run(&["down", "--now"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(finish(client).status.code(), Some(1));
    let status = wait_for("the service ends", || {
        service.child.try_wait().expect("it can be asked")
    });
    assert!(status.success());
    assert!(!lives(engine));
    assert!(!sandbox.socket().exists());
    let none = sandbox.run(&["down"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(words(&none.stderr).contains("no service is up"));
}

#[test]
fn signals_end_the_service_and_its_children() {
    for with in [Signal::TERM, Signal::INT, Signal::HUP] {
        let sandbox = Sandbox::new();
        let mut service = sandbox.up(&[]);
        let engine = sandbox.engine_pid();
        signal(service.child.id(), with);
        let status = wait_for("it ends", || {
            service.child.try_wait().expect("it can be asked")
        });
        assert!(status.success(), "{status}");
        assert!(!lives(engine) && !sandbox.socket().exists());
    }
}

#[test]
fn a_detached_service_outlives_its_command_and_logs() {
    let sandbox = Sandbox::new();
    let up = sandbox.run(&["up", "--detach", "--engine", "cpu", "--log", "debug"]);
    assert!(up.status.success(), "{up:?}");
    let status = sandbox.status();
    assert_eq!(status["up"], true);
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    assert!(
        sandbox
            .run(&["run", module.to_str().expect("a plain path")])
            .status
            .success()
    );
    assert!(sandbox.run(&["down", "--now"]).status.success());
    let pid = status["os_pid"].as_u64().expect("a number") as u32;
    wait_for("it ends", || (!lives(pid)).then_some(()));
    let log = std::fs::read_to_string(sandbox.path().join("everwarp/service.log"));
    let log = log.expect("it logs");
    assert!(
        log.contains("the service is up") && log.contains("has connected"),
        "{log}"
    );
}

#[test]
fn an_idle_service_ends() {
    let sandbox = Sandbox::new();
    let mut service = sandbox.up(&["--idle-exit", "1s"]);
    let client = endless(&sandbox, &[]);
    // A client keeps it, for longer than the idle time.
    std::thread::sleep(Duration::from_millis(1300));
    assert!(service.child.try_wait().expect("it can be asked").is_none());
    signal(client.id(), Signal::TERM);
    assert_eq!(finish(client).status.code(), Some(143));
    let status = wait_for("it ends", || {
        service.child.try_wait().expect("it can be asked")
    });
    assert!(status.success());
}

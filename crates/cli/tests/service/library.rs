//! The public crate as a client: processes in the service are used like local ones.

use std::time::Duration;

use everwarp::operator::{ClientSnapshot, Operator};
use everwarp::process::serving::Folder;
use everwarp::process::{ChannelError, Command, ExitStatus, Host, HostError, Module, Output};
use everwarp::{EngineKind, Select, Service};

use crate::client::{self, module};
use crate::sandbox::{LOOP, Sandbox, wait_for};

pub(crate) fn connect(sandbox: &Sandbox) -> Service {
    client::connect(sandbox, Select::Cpu)
}

fn guest(name: &str) -> Module {
    let built = format!(
        "{}/../../guests/built/{name}.wasm",
        env!("CARGO_MANIFEST_DIR")
    );
    Module::from_file(built).expect("the guests are built")
}

#[test]
fn processes_of_a_service_are_used_like_local_ones() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let service = connect(&sandbox);
    assert_eq!(service.kind(), EngineKind::Cpu);
    let hello = guest("hello");
    let host = service.host().module(&hello).start().expect("it starts");
    assert_eq!(host.kind(), EngineKind::Cpu);
    assert!(host.width(&hello) > 0);
    let exit = Command::new(&host, &hello)
        .arg("world")
        .stdin("typed")
        .output();
    let exit = exit.expect("it runs");
    assert!(exit.success());
    let text = String::from_utf8_lossy(exit.stdout_bytes()).into_owned();
    assert!(text.contains("world") && text.contains("5 bytes"), "{text}");

    // Each gets its own arguments, and exits come in order.
    let children = Command::new(&host, &hello)
        .stdout(Output::capture(1000))
        .spawn_each(300, |number, start| start.arg(&[&format!("n{number}")]))
        .expect("they start");
    let mut seen = 0;
    children
        .wait_each(|_, exit| {
            let text = String::from_utf8_lossy(exit.stdout_bytes()).into_owned();
            assert!(text.contains(&format!("argument 1: n{seen}\n")), "{text}");
            seen += 1;
        })
        .expect("the service is up");
    assert_eq!(seen, 300);
    // More output than one message holds.
    let limited = Command::new(&host, &hello)
        .stdout(Output::capture(3))
        .status();
    let limited = limited.expect("it runs").stdout.expect("it is captured");
    assert_eq!((&limited.bytes[..], limited.refused), (&b"hel"[..], true));
}

#[test]
fn waiting_killing_and_listing_work_across_the_socket() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let service = connect(&sandbox);
    let endless = module("loop", LOOP);
    let host = service.host().module(&endless).start().expect("it starts");
    let mut command = Command::new(&host, &endless);
    command.stdout(Output::capture(10));
    let mut child = command.spawn().expect("it starts");
    let early = child.wait_timeout(Duration::from_millis(20));
    assert!(early.expect("the service is up").is_none());
    let listing = host.list(10).expect("the service is up");
    assert_eq!(listing.rows.len(), 1);
    assert_eq!(listing.rows[0].pid, child.pid());
    assert!(
        !host
            .kill(everwarp::process::Pid::new(77, 1))
            .expect("the service is up")
    );
    child.kill().expect("the service is up");
    let pid = child.pid();
    assert_eq!(child.wait().expect("it ends").status, ExitStatus::Killed);
    assert_eq!(host.wait(pid), Err(HostError::UnknownPid(pid)));
    // A module can be loaded later.
    let limited = module("later", LOOP);
    host.load(&limited, &everwarp::process::LoadConfig::default())
        .expect("it is loaded");
    let exit = Command::new(&host, &limited)
        .stdout(Output::capture(10))
        .fuel(100_000)
        .status();
    assert_eq!(exit.expect("it runs").status, ExitStatus::OutOfFuel);
}

#[test]
fn hosts_of_one_program_are_apart_and_end_when_they_are_dropped() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let service = connect(&sandbox);
    let endless = module("loop", LOOP);
    let start = || service.host().module(&endless).start().expect("it starts");
    let (first, second): (Host, Host) = (start(), start());
    let spawn = |host: &Host| {
        let mut command = Command::new(host, &endless);
        command
            .stdout(Output::capture(10))
            .spawn()
            .expect("it starts")
    };
    let (a, b) = (spawn(&first), spawn(&second));
    wait_for("both are there", || (sandbox.clients() == 2).then_some(()));
    assert_eq!(first.list(10).expect("the service is up").rows.len(), 1);
    first.kill_all().expect("the service is up");
    assert_eq!(a.wait().expect("it ends").status, ExitStatus::Killed);
    assert_eq!(second.list(10).expect("the service is up").running, 1);
    drop((first, second, b));
    wait_for("both have gone", || (sandbox.clients() == 0).then_some(()));
}

#[test]
fn channels_reach_processes_in_the_service() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let service = connect(&sandbox);
    let pipeline = guest("pipeline");
    let host = service.host().module(&pipeline).start().expect("it starts");
    let (sender, receiver) = host.channel(4, 16).expect("the module uses channels");
    sender.send(b"one").expect("there is room");
    sender.try_send(b"two").expect("there is room");
    assert_eq!(receiver.receive().expect("it was sent"), b"one");
    assert_eq!(receiver.try_receive().expect("it was sent"), b"two");
    assert_eq!(receiver.try_receive(), Err(ChannelError::Again));
    assert_eq!(sender.send(&[0; 17]), Err(ChannelError::Size));
    drop(sender);
    wait_for("the other side is closed", || {
        (receiver.try_receive() == Err(ChannelError::Closed)).then_some(())
    });
}

#[test]
fn a_service_that_ends_is_an_error_of_each_call_and_no_hang() {
    let sandbox = Sandbox::new();
    let up = sandbox.up(&[]);
    let service = connect(&sandbox);
    let endless = module("loop", LOOP);
    let host = service.host().module(&endless).start().expect("it starts");
    let child = Command::new(&host, &endless)
        .stdout(Output::capture(10))
        .spawn();
    let child = child.expect("it starts");
    let waiting = std::thread::spawn(move || child.wait());
    drop(up);
    let lost = waiting.join().expect("it does not panic");
    assert!(matches!(lost, Err(HostError::Lost { .. })), "{lost:?}");
    assert!(matches!(host.list(1), Err(HostError::Lost { .. })));
    assert!(matches!(host.kill_all(), Err(HostError::Lost { .. })));
    assert!(service.host().module(&endless).start().is_err());
}

#[test]
fn a_program_that_asks_is_operator_and_others_are_not() {
    let sandbox = Sandbox::new();
    let up = sandbox.up(&[]);
    let service = connect(&sandbox);
    let endless = module("loop", LOOP);
    let host = service.host().module(&endless).start().expect("it starts");
    let mut command = Command::new(&host, &endless);
    command.stdout(Output::capture(10));
    let child = command.spawn().expect("it starts");
    // Another connection of the same program does not see it.
    let other = connect(&sandbox);
    let other = other.host().module(&endless).start().expect("it starts");
    assert_eq!(other.list(10).expect("the service is up").total(), 0);
    assert!(!other.kill(child.pid()).expect("the service is up"));

    let folder = Folder::at(sandbox.path().join("everwarp"));
    let operator = Operator::connect(&folder).expect("it can be used");
    let mut operator = operator.expect("it is up");
    // The engine's process reports its clients to that of the service.
    let status = wait_for("both clients are counted", || {
        let status = operator.status().expect("it is up");
        (status.engines[0].clients == 2).then_some(status)
    });
    assert_eq!(status.os_pid, up.child.id());
    let own = std::process::id();
    let clients = wait_for("the process runs", || {
        let clients = operator.list(10).expect("it is up");
        let running = clients.iter().any(|client| client.running == 1);
        running.then_some(clients)
    });
    assert!(clients.iter().all(|client| client.os_pid == own));
    let pid = child.pid();
    let seen = |client: &ClientSnapshot| client.rows.iter().any(|row| row.process.pid == pid);
    assert_eq!(clients.iter().filter(|client| seen(client)).count(), 1);
    assert!(operator.kill(own, pid).expect("it is up"));
    let exit = child.wait().expect("it ends");
    assert_eq!(exit.status, ExitStatus::Killed);
}

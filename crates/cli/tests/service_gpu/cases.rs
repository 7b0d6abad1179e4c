//! The cases. Each starts a service that has an engine on a GPU.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use everwarp::process::{Command, ExitStatus, LoadConfig};
use everwarp::{Device, Select};
use everwarp_testkit::cases;
use rustix::process::Signal;

use crate::client::{OUTPUT_QUOTA, captured_output_counts, connect, module};
use crate::sandbox::{
    Sandbox, Service, WRITER, endless, finish, lives, output, signal, wait_for, wait_until_full,
    words,
};

pub(crate) const ALL: &[(&str, fn())] = cases![
    results_are_those_of_an_engine_of_the_commands_own,
    a_hundred_clients_of_several_kinds_run_at_once,
    a_client_that_never_reads_holds_up_no_other,
    clients_that_are_killed_at_any_moment_leave_nothing,
    an_engine_that_is_killed_is_started_anew_and_its_memory_comes_back,
    native_programs_run_next_to_processes,
    a_clients_quotas_hold
];

/// What a place of these modules takes: a page and a small table.
const ONE_PAGE: &str = "68K";

fn up() -> (Sandbox, Service) {
    let sandbox = Sandbox::new();
    let service = sandbox.up_on("cuda", &[]);
    (sandbox, service)
}

fn guest(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../guests/built");
    let path = folder.join(name).with_extension("wasm");
    path.to_str().expect("a plain path").to_owned()
}

/// Starts `run` on the GPU.
fn start(sandbox: &Sandbox, args: &[&str]) -> Child {
    let mut command = sandbox.command(&["run"]);
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// The exit code, the lines of standard output in any order, and whether anything is on standard error. The words of
/// reports contain times.
fn comparable(output: &Output) -> (Option<i32>, Vec<String>, bool) {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    (output.status.code(), lines, output.stderr.is_empty())
}

fn results_are_those_of_an_engine_of_the_commands_own() {
    let (sandbox, _service) = up();
    let [hello, hashes, json, words, pipeline] =
        ["hello", "hashes", "json", "words", "pipeline"].map(guest);
    let trap = r#"(module (func $f unreachable) (func (export "_start") call $f))"#;
    let trap = sandbox.module("trap.wasm", trap);
    let trap = trap.to_str().expect("a plain path");
    let big = sandbox.module(
        "big.wasm",
        r#"(module (memory 100) (func (export "_start")))"#,
    );
    let big = big.to_str().expect("a plain path");
    let lines = sandbox.path().join("lines");
    std::fs::write(&lines, "[1,2]\n{\"a\":\n{}\n").expect("it is writable");
    let lines = lines.to_str().expect("a plain path");
    let cases: &[&[&str]] = &[
        &[&hello, "--", "x", "y"],
        &[
            &hello,
            "--env",
            "A=1",
            "--instances",
            "300",
            "--",
            "{instance}",
        ],
        &[
            &hello,
            "--interleave",
            "--instances",
            "300",
            "--",
            "{instance}",
        ],
        &[&hello, "--contract", "--stack", "48K"],
        &[&hello, "--stack", "1K"],
        &[&hello, "--fuel", "10"],
        &[&hello, "--size", "1"],
        &[
            &hashes,
            "--memory",
            ONE_PAGE,
            "--instances",
            "2000",
            "--",
            "mix",
            "50",
        ],
        &[&json, "--memory", "1M", "--stdin-lines", lines],
        &[&words],
        &[&pipeline, "--", "40"],
        &[trap],
        &[big, "--memory", ONE_PAGE],
        &["missing.wasm"],
    ];
    for case in cases {
        let run = |place: &[&str]| {
            let mut command = sandbox.command(&["run", "--engine", "cuda"]);
            command.args(place).args(*case);
            output(command)
        };
        let (served, alone) = (run(&[]), run(&["--alone"]));
        assert_eq!(
            comparable(&served),
            comparable(&alone),
            "{case:?}: {served:?} {alone:?}"
        );
    }
}

/// The lines that a process of `hello` writes with one argument.
fn greeted(output: &Output, arguments: u32) {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let of_arguments = text.lines().filter(|line| line.starts_with("argument 1: "));
    let found: BTreeSet<_> = of_arguments.map(str::to_owned).collect();
    let expected: BTreeSet<_> = (0..arguments).map(|n| format!("argument 1: {n}")).collect();
    assert_eq!(found, expected);
}

fn a_hundred_clients_of_several_kinds_run_at_once() {
    let (sandbox, _service) = up();
    let [hello, hashes, pipeline] = ["hello", "hashes", "pipeline"].map(guest);
    let trap = r#"(module (func $f unreachable) (func (export "_start") call $f))"#;
    let trap = sandbox.module("trap.wasm", trap);
    let trap = trap.to_str().expect("a plain path");
    let on_gpu = ["--engine", "cuda"];
    let kinds: [&[&str]; 5] = [
        &[&hello, "--instances", "400", "--", "{instance}"],
        &[
            &hashes,
            "--memory",
            ONE_PAGE,
            "--instances",
            "1000",
            "--",
            "mix",
            "50",
        ],
        &[
            &hello,
            "--interleave",
            "--instances",
            "100",
            "--",
            "{instance}",
        ],
        &[trap, "--instances", "7"],
        &[&pipeline, "--", "40"],
    ];
    let expected = {
        let mut command = sandbox.command(&["run", "--alone"]);
        command.args(on_gpu).args(kinds[4]);
        output(command).stdout
    };
    let children: Vec<_> = (0..100)
        .map(|number| start(&sandbox, &[&on_gpu, kinds[number % kinds.len()]].concat()))
        .collect();
    for (number, child) in children.into_iter().enumerate() {
        let output = finish(child);
        let text = String::from_utf8_lossy(&output.stdout);
        match number % kinds.len() {
            0 => greeted(&output, 400),
            1 => {
                assert!(output.status.success(), "{output:?}");
                let lines: BTreeSet<_> = text.lines().collect();
                assert_eq!((lines.len(), text.lines().count()), (1, 1000));
            }
            2 => greeted(&output, 100),
            3 => assert!(words(&output.stderr).contains("trap"), "{output:?}"),
            _ => assert_eq!(output.stdout, expected, "{output:?}"),
        }
    }
    wait_for("all are gone", || (sandbox.clients() == 0).then_some(()));
}

/// Checks that the service runs processes.
fn serves(sandbox: &Sandbox) {
    let hello = guest("hello");
    let args = [
        "--engine",
        "cuda",
        &hello,
        "--instances",
        "200",
        "--",
        "{instance}",
    ];
    greeted(&finish(start(sandbox, &args)), 200);
}

fn a_client_that_never_reads_holds_up_no_other() {
    let (sandbox, _service) = up();
    let writer = sandbox.module("writer.wasm", WRITER);
    let writer = writer.to_str().expect("a plain path");
    let args = ["--engine", "cuda", writer, "--instances", "100"];
    let mut stuck: Vec<_> = (0..3).map(|_| start(&sandbox, &args)).collect();
    for client in &stuck {
        wait_until_full(client.stdout.as_ref().expect("it is piped"));
    }
    serves(&sandbox);
    for client in &mut stuck {
        client.kill().expect("it runs");
        client.wait().expect("it ends");
    }
    wait_for("they are gone", || (sandbox.clients() == 0).then_some(()));
    serves(&sandbox);
}

fn clients_that_are_killed_at_any_moment_leave_nothing() {
    let (sandbox, _service) = up();
    let engine = sandbox.engine_pid();
    let mut client = endless(&sandbox, &["--engine", "cuda", "--instances", "100"]);
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    wait_for("it is gone", || (sandbox.clients() == 0).then_some(()));
    let writer = sandbox.module("writer.wasm", WRITER);
    let writer = writer.to_str().expect("a plain path");
    for step in 0..25_u64 {
        let args = ["--engine", "cuda", writer, "--instances", "50"];
        let mut client = start(&sandbox, &args);
        std::thread::sleep(Duration::from_micros(step * step * 80));
        client.kill().expect("it is there");
        client.wait().expect("it ends");
    }
    wait_for("they are gone", || (sandbox.clients() == 0).then_some(()));
    serves(&sandbox);
    assert_eq!(sandbox.engine_pid(), engine, "the engine has not ended");
}

/// Bytes of the GPU's memory that are free.
fn free_bytes() -> u64 {
    let device = Device::open(Select::Cuda).expect("there is a GPU");
    let gpu = device.cuda().expect("it is one");
    gpu.memory().expect("the driver says").0
}

fn an_engine_that_is_killed_is_started_anew_and_its_memory_comes_back() {
    let (sandbox, service) = up();
    let client = endless(&sandbox, &["--engine", "cuda", "--instances", "20"]);
    signal(sandbox.engine_pid(), Signal::KILL);
    let output = finish(client);
    assert_eq!(output.status.code(), Some(1));
    let told = words(&output.stderr);
    assert!(told.contains("the engine has ended"), "{told}");
    serves(&sandbox);
    let status = sandbox.status();
    assert_eq!(status["engines"][0]["starts"], 2);
    let engine = sandbox.engine_pid();
    // By now those before it have given theirs back.
    let with_engine = free_bytes();
    // The service dies, and its engine with it.
    signal(service.child.id(), Signal::KILL);
    drop(service);
    wait_for("the engine ends", || (!lives(engine)).then_some(()));
    wait_for("its memory is free", || {
        (free_bytes() > with_engine + (1 << 30)).then_some(())
    });
}

fn native_programs_run_next_to_processes() {
    let (sandbox, _service) = up();
    let bfs = || {
        let output = sandbox.run(&[
            "run",
            "bfs",
            "--generate",
            "chain:5000",
            "--engine",
            "cuda",
            "--verify",
        ]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("verified"), "{text}");
    };
    bfs();
    let mut client = endless(&sandbox, &["--engine", "cuda", "--instances", "20"]);
    bfs();
    assert!(client.try_wait().expect("it can be asked").is_none());
    client.kill().expect("it runs");
    client.wait().expect("it ends");
}

fn a_clients_quotas_hold() {
    let sandbox = Sandbox::new();
    let config = sandbox.path().join("config.toml");
    let quotas = format!("[quota]\nmemory = {}\n{OUTPUT_QUOTA}\n", 8 << 20);
    std::fs::write(&config, quotas).expect("the folder is writable");
    let _service = sandbox.up_on(
        "cuda",
        &["--config", config.to_str().expect("a plain path")],
    );
    let connect = || connect(&sandbox, Select::Cuda);
    // A process of 200 pages needs more than the client may take; one of 46 does not, and nor do others that wait for it.
    let big = module("big", r#"(module (memory 200) (func (export "_start")))"#);
    let refused = connect().host().module(&big).start();
    let told = refused.expect_err("it does not fit").to_string();
    assert!(told.contains("bytes of device memory"), "{told}");
    let fits = module("fits", r#"(module (memory 46) (func (export "_start")))"#);
    let service = connect();
    let host = service.host().module(&fits).spare_places(8);
    let host = host.start().expect("it fits");
    let children = Command::new(&host, &fits)
        .spawn_many(10)
        .expect("they start");
    let exits = children.wait_all().expect("they end");
    assert!(
        exits
            .iter()
            .all(|exit| exit.status == ExitStatus::Exited(0))
    );
    let eight = LoadConfig {
        places: 8,
        children: 0,
        ..LoadConfig::default()
    };
    // A second module of the same client finds too little left.
    let other = module("other", r#"(module (memory 100) (func (export "_start")))"#);
    let told = host.load(&other, &eight);
    let told = told.expect_err("it does not fit").to_string();
    assert!(told.contains("bytes of device memory"), "{told}");
    captured_output_counts(&connect(), true);
}

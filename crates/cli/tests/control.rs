//! `everwarp ps` and `everwarp kill`, with running engines.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everwarp::process::sync::lock;
use everwarp::{Device, Select};
use everwarp_testkit::{Running, cases, needs_gpu};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;

/// One engine at a time uses the GPU.
static GPU: Mutex<()> = Mutex::new(());

/// Writes a line and loops for ever.
const LOOP: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 16) "on\n") (func $nothing)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 3))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (loop $forever (call $nothing) (br $forever))))"#;

/// No test waits longer for anything, including the first start on a GPU.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for the sockets and modules of one test.
struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .args(args)
            .env("XDG_RUNTIME_DIR", self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        everwarp_testkit::output(&mut self.command(args))
    }

    /// Starts an engine of two threads with this many processes, and waits until two of them run.
    fn engine(&self, instances: u32) -> Running {
        self.engine_with(&["--engine", "cpu", "--size", "2"], instances)
    }

    /// Starts an engine with this many processes, and waits until two of them run. On a GPU all of them run soon, and
    /// their output is collected until there is more of it.
    fn engine_with(&self, options: &[&str], instances: u32) -> Running {
        let module = self.0.path().join("loop.wasm");
        let bytes = wat::parse_str(LOOP).expect("the text is right");
        std::fs::write(&module, bytes).expect("the folder is writable");
        let (module, instances) = (
            module.to_str().expect("a plain path"),
            instances.to_string(),
        );
        let mut engine = Running::start(
            self.command(&["run", module])
                .args(options)
                .args(["--instances", &instances])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let begin = Instant::now();
        if options.contains(&"cuda") {
            while !self.all_run() {
                assert!(begin.elapsed() < PATIENCE, "they do not run");
            }
            return engine;
        }
        let mut lines = [0; 6];
        let stdout = engine.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut lines).expect("two processes run");
        assert_eq!(&lines, b"on\non\n");
        engine
    }

    /// Whether there are processes and all of them have memory.
    fn all_run(&self) -> bool {
        let listed = self.ps(&[]);
        let rows = listed["engines"][0]["processes"].as_array();
        rows.is_some_and(|rows| {
            let runs = |row: &Value| row["memory_bytes"].is_number();
            !rows.is_empty() && rows.iter().all(runs)
        })
    }

    fn socket(&self, engine: &Running) -> PathBuf {
        self.0.path().join(format!("everwarp/{}.sock", engine.id()))
    }

    fn ps(&self, args: &[&str]) -> Value {
        let output = self.run(&[&["ps", "--json"], args].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("one object")
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

/// The words of a report, which is wrapped to the width of a terminal.
fn words(bytes: &[u8]) -> String {
    let words = text(bytes).split_whitespace().filter(|w| *w != "│");
    words.collect::<Vec<_>>().join(" ")
}

/// Sends bytes to a socket and reads what comes back.
fn talk(socket: &Path, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(socket).expect("the engine listens");
    // A request that is too long is answered before all of it is read.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    serde_json::from_slice(&answer).expect("one object")
}

/// Lists and kills five processes. `running` of them run at the same time.
fn list_and_kill(kind: &str, options: &[&str], running: usize) {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.ps(&[])["engines"], Value::Array(Vec::new()));
    let none = sandbox.run(&["kill", "0.1"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(words(&none.stderr).contains("no engine runs"));

    let engine = sandbox.engine_with(options, 5);
    let number = engine.id().to_string();
    let listed = sandbox.ps(&["--engine", &number]);
    let found = &listed["engines"][0];
    assert_eq!(found["os_pid"], engine.id());
    assert_eq!(found["engine"], kind);
    assert_eq!(
        (&found["running"], &found["waiting"]),
        (&running.into(), &(5 - running).into())
    );
    assert_eq!(
        (&found["ended"], &found["left_out"]),
        (&0.into(), &0.into())
    );
    let rows = found["processes"].as_array().expect("a list");
    assert_eq!(rows.len(), 5);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row["pid"], format!("{n}.1"));
        assert_eq!(row["instance"], n);
        let running = n < running;
        let state = if running {
            "running"
        } else {
            "waiting for a place"
        };
        assert_eq!(row["state"], state);
        // On a GPU it is known when the process is suspended for the first time. The CPU engine counts only under a limit.
        if kind == "cpu" {
            assert!(row["fuel_used"].is_null());
        }
        assert_eq!(row["memory_bytes"].as_u64(), running.then_some(1 << 16));
    }
    let short = sandbox.ps(&["--most", "1"]);
    let short = &short["engines"][0];
    assert_eq!(short["left_out"], 4);
    assert_eq!(short["processes"].as_array().map(Vec::len), Some(1));
    let shown = sandbox.run(&["ps", "--most", "1"]);
    let shown = text(&shown.stdout);
    let waiting = 5 - running;
    let counts = format!("{running} running, {waiting} waiting for a place, 0 ended");
    assert!(shown.contains(&counts), "{shown}");
    assert!(shown.contains("4 more are not shown"), "{shown}");

    for pid in ["0.1", "1.1", "2.1", "3.1", "4.1"] {
        let killed = sandbox.run(&["kill", pid]);
        assert!(killed.status.success(), "{killed:?}");
    }
    let mut engine = engine;
    let status = engine.wait();
    assert_eq!(status.code(), Some(1));
    let mut told = Vec::new();
    let stderr = engine.stderr.as_mut().expect("it is piped");
    stderr.read_to_end(&mut told).expect("it has ended");
    assert!(text(&told).contains("5 killed"), "{}", text(&told));
    assert!(
        !sandbox.socket(&engine).exists(),
        "it is removed at the end"
    );
}

fn processes_are_listed_and_killed() {
    list_and_kill("cpu", &["--engine", "cpu", "--size", "2"], 2);
}

/// The GPU, for one test at a time.
fn gpu() -> MutexGuard<'static, ()> {
    // The lock protects no data, so a test that has failed leaves nothing inconsistent.
    lock(&GPU)
}

fn processes_on_a_gpu_are_listed_and_killed() {
    let _alone = gpu();
    list_and_kill("cuda", &["--engine", "cuda"], 5);
}

/// A process with a child, which has four children of its own.
const FAMILY: &str = include_str!("../../process/cuda/tests/modules/family.wat");

/// Lists processes with their parents, and kills some by their pids.
fn list_and_kill_children(options: &[&str]) {
    let sandbox = Sandbox::new();
    let path = sandbox.0.path().join("family.wasm");
    let bytes = wat::parse_str(FAMILY).expect("the text is right");
    std::fs::write(&path, bytes).expect("the folder is writable");
    let module = path.to_str().expect("a plain path");
    let mut engine = Running::start(
        sandbox
            .command(&[&["run", module], options, &["--", "n"]].concat())
            .stderr(Stdio::piped()),
    );
    let text_of = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
    let states = |listed: &Value, parent: Option<&str>| -> Vec<(String, String)> {
        let rows = listed["engines"][0]["processes"].as_array();
        let rows = rows.into_iter().flatten();
        let rows = rows.filter(|row| text_of(row, "parent").as_deref() == parent);
        let pair = |row: &Value| Some((text_of(row, "state")?, text_of(row, "pid")?));
        rows.filter_map(pair).collect()
    };
    let begin = Instant::now();
    let (parent, mut children) = loop {
        let listed = sandbox.ps(&[]);
        let own = states(&listed, None);
        let of_own = own
            .first()
            .map_or(Vec::new(), |(_, pid)| states(&listed, Some(pid)));
        let parent = of_own.first().map(|(_, pid)| pid.clone());
        let children = parent
            .as_deref()
            .map_or(Vec::new(), |pid| states(&listed, Some(pid)));
        let count = |state| children.iter().filter(|(s, _)| s == state).count();
        let all = (
            count("running"),
            count("in a host call"),
            count("ended: exit code 3"),
        );
        if let (Some(parent), (1, 2, 1)) = (parent, all) {
            assert_eq!(
                text_of(&listed["engines"][0]["processes"][0], "pid").as_deref(),
                Some("0.1")
            );
            break (parent, children);
        }
        assert!(begin.elapsed() < PATIENCE, "{listed}");
    };
    let shown = sandbox.run(&["ps"]);
    let line = text(&shown.stdout)
        .lines()
        .find(|line| line.contains("ended: exit code 3"));
    assert!(line.is_some_and(|line| line.contains(&parent)), "{shown:?}");
    children.retain(|(state, _)| !state.starts_with("ended"));
    for (_, pid) in children {
        let killed = sandbox.run(&["kill", &pid]);
        assert!(killed.status.success(), "{killed:?}");
    }
    let status = engine.wait();
    assert_eq!(status.code(), Some(43), "the family ended as it should");
}

fn children_are_listed_and_killed() {
    list_and_kill_children(&["--engine", "cpu", "--size", "6"]);
}

fn children_on_a_gpu_are_listed_and_killed() {
    let _alone = gpu();
    list_and_kill_children(&["--engine", "cuda"]);
}

fn an_unknown_engine_or_process_is_an_error() {
    let sandbox = Sandbox::new();
    let (one, two) = (sandbox.engine(2), sandbox.engine(2));
    let which = sandbox.run(&["kill", "0.1"]);
    assert_eq!(which.status.code(), Some(1));
    let told = words(&which.stderr);
    for engine in [&one, &two] {
        assert!(told.contains(&engine.id().to_string()), "{told}");
    }
    let number = one.id().to_string();
    for pid in ["7.1", "0.2"] {
        let missing = sandbox.run(&["kill", pid, "--engine", &number]);
        assert_eq!(missing.status.code(), Some(1));
        assert!(words(&missing.stderr).contains(&format!("no process {pid}")));
    }
    for pid in ["x", "1", "-1.1"] {
        let wrong = sandbox.run(&["kill", "--engine", &number, "--", pid]);
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    }
    let other = sandbox.run(&["ps", "--engine", "4294967295"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(words(&other.stderr).contains("no engine 4294967295"));
}

fn an_engine_that_was_killed_is_not_listed() {
    let sandbox = Sandbox::new();
    let mut killed = sandbox.engine(2);
    let left = sandbox.engine(2);
    killed.kill();
    assert!(
        sandbox.socket(&killed).exists(),
        "it was killed before it could remove its socket"
    );
    let listed = sandbox.ps(&[]);
    let engines = listed["engines"].as_array().expect("a list");
    assert_eq!(engines.len(), 1);
    assert_eq!(engines[0]["os_pid"], left.id());
    assert_eq!(listed["silent"], Value::Array(Vec::new()));
    assert!(
        !sandbox.socket(&killed).exists(),
        "the stale socket is removed"
    );
}

fn hostile_requests_are_refused_and_others_are_served() {
    let sandbox = Sandbox::new();
    let engine = sandbox.engine(2);
    let socket = sandbox.socket(&engine);
    for (bytes, says) in [
        (b"\n".to_vec(), "not understood"),
        (b"{}\n".to_vec(), "not understood"),
        (b"\xff\xfe\n".to_vec(), "not understood"),
        (
            b"{\"ask\":\"view\",\"most\":-1}\n".to_vec(),
            "not understood",
        ),
        (
            b"{\"ask\":\"view\",\"most\":1,\"x\":1}\n".to_vec(),
            "not understood",
        ),
        (
            b"{\"ask\":\"order\",\"source\":null,\"target\":\"../0.1\",\"order\":\"kill\"}\n"
                .to_vec(),
            "is no process",
        ),
        (
            [b"[".repeat(4096), b"\n".to_vec()].concat(),
            "not understood",
        ),
        (vec![b'x'; 5000], "more than 4096 bytes"),
    ] {
        let answer = talk(&socket, &bytes);
        assert_eq!(answer["answer"], "refused", "{answer}");
        assert!(
            answer["reason"].as_str().is_some_and(|r| r.contains(says)),
            "{answer}"
        );
    }
    // Silent connections are closed after a while, and there is a limit to their number.
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(&socket).expect("the engine listens"))
        .collect();
    for mut stream in silent {
        let mut nothing = Vec::new();
        assert_eq!(stream.read_to_end(&mut nothing).expect("it is closed"), 0);
    }
    assert_eq!(sandbox.ps(&[])["engines"][0]["running"], 2);
}

fn a_folder_that_other_users_may_change_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let folder = sandbox.0.path().join("everwarp");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder, mode).expect("it is ours");
    let refused = sandbox.run(&["ps"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused.stderr).contains("not a folder that only you can use"));
    // The run continues, with a warning.
    let module = sandbox.0.path().join("end.wasm");
    let bytes = wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    std::fs::write(&module, bytes.expect("the text is right")).expect("the folder is writable");
    let ran = sandbox.run(&["run", module.to_str().expect("a plain path")]);
    assert!(ran.status.success());
    assert!(text(&ran.stderr).contains("`everwarp ps` will not find this"));
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0);
}

const TESTS: &[(&str, fn())] = cases![
    processes_are_listed_and_killed,
    children_are_listed_and_killed,
    an_unknown_engine_or_process_is_an_error,
    an_engine_that_was_killed_is_not_listed,
    hostile_requests_are_refused_and_others_are_served,
    a_folder_that_other_users_may_change_is_not_used
];
const GPU_TESTS: &[(&str, fn())] = cases![
    processes_on_a_gpu_are_listed_and_killed,
    children_on_a_gpu_are_listed_and_killed
];

fn main() {
    let trial = |&(name, test): &(&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let gpu = needs_gpu(&Device::open(Select::Cuda));
    let on_gpu = GPU_TESTS.iter().map(|test| gpu.trial(trial(test)));
    let tests = TESTS.iter().map(trial).chain(on_gpu).collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}

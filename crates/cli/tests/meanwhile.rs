//! Commands that begin on the CPU engine while the code for a GPU is assembled. Without a GPU every case is ignored.

use std::path::PathBuf;
use std::process::Output;

use everwarp::{Device, Select};
use everwarp_testkit::{cases, run_on_gpu};
use serde_json::Value;

const CASES: &[(&str, fn())] = cases![
    processes_begin_on_the_cpu_engine_and_the_others_run_on_the_gpu,
    a_gpu_that_is_not_needed_any_more_is_not_waited_for,
    without_the_gpus_code_all_run_on_the_cpu_engine
];

/// A folder for a cache and sockets of its own.
struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Runs a guest with a page of memory.
    fn run(&self, guest: &str, args: &[&str], variable: (&str, &str)) -> Output {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../guests/built");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .arg("run")
            .arg(folder.join(guest).with_extension("wasm"))
            .args(["--memory", "68K", "--json"])
            .args(args)
            .env("EVERWARP_CACHE_DIR", self.0.path().join("cache"))
            .env("XDG_RUNTIME_DIR", self.0.path())
            .env(variable.0, variable.1);
        everwarp_testkit::output(&mut command)
    }
}

const NOTHING: (&str, &str) = ("EVERWARP_TEST", "");

/// The report, and the lines that processes wrote, in order.
fn parts(output: &Output) -> (Value, Vec<String>) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let mut lines: Vec<_> = errors.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (report, lines)
}

fn processes_begin_on_the_cpu_engine_and_the_others_run_on_the_gpu() {
    const COUNT: u64 = 100_000;
    let sandbox = Sandbox::new();
    // The engine's own code is compiled once; from now on only modules are missing.
    let first = sandbox.run("hello", &["--engine", "cuda", "--", "x"], NOTHING);
    assert_eq!(parts(&first).0["engine"], "cuda");
    // Some milliseconds each on a core, so that the CPU engine cannot do all of them meanwhile.
    let count = COUNT.to_string();
    let args = ["--instances", &count, "--", "fnv", "2000000"];
    let (report, lines) = parts(&sandbox.run("hashes", &args, NOTHING));
    assert_eq!(report["engine"], "cuda");
    let on_cpu = report["started_on_cpu"]
        .as_u64()
        .expect("some started there");
    assert!(0 < on_cpu && on_cpu < COUNT, "{on_cpu}");
    assert_eq!(report["succeeded"], COUNT);
    // The code is in the cache now.
    let (again, same) = parts(&sandbox.run("hashes", &args, NOTHING));
    assert_eq!(
        (&again["engine"], &again["started_on_cpu"]),
        (&"cuda".into(), &Value::Null)
    );
    assert_eq!(lines.len() as u64, COUNT);
    assert!(lines == same, "the output differs");
}

fn a_gpu_that_is_not_needed_any_more_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let args = ["--instances", "4", "-v", "--", "{instance}"];
    let (report, lines) = parts(&sandbox.run("hello", &args, NOTHING));
    assert_eq!(
        (&report["engine"], &report["succeeded"]),
        (&"cpu".into(), &4.into())
    );
    let said = lines
        .iter()
        .any(|line| line.contains("4 processes started on the CPU engine"));
    assert!(said, "{lines:?}");
}

fn without_the_gpus_code_all_run_on_the_cpu_engine() {
    let sandbox = Sandbox::new();
    // Enough of them that some have not started when the compiler is missed.
    let args = ["--instances", "10000", "--", "fnv", "2000000"];
    let broken = ("EVERWARP_NVRTC", "/nowhere");
    let (report, lines) = parts(&sandbox.run("hashes", &args, broken));
    assert_eq!(
        (&report["engine"], &report["succeeded"]),
        (&"cpu".into(), &10_000.into())
    );
    let warned = lines
        .iter()
        .any(|line| line.contains("the GPU's engine did not start"));
    assert!(warned, "{:?}", &lines[..10]);
}

fn main() {
    run_on_gpu(&Device::open(Select::Cuda), CASES)
}

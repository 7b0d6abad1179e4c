//! `--trace`: the file is decoded by a reader of its own.

use std::path::Path;

use crate::handlers::{ASKS, RING, check_asks, check_ring};
use crate::perfetto::{Slice, Trace, read};
use crate::sandbox::{Sandbox, words};

fn decoded(path: &Path) -> Trace {
    read(&std::fs::read(path).expect("the trace is there"))
}

#[test]
fn every_task_is_a_slice_and_flows_lead_to_it() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("fib.pftrace");
    let path = file.to_str().expect("a plain path");
    let args = [
        "run", "fib", "--n", "12", "--engine", "cpu", "--size", "2", "--trace", path,
    ];
    let output = sandbox.run(&args);
    assert!(output.status.success(), "{output:?}");
    assert!(words(&output.stderr).contains("none lost"), "{output:?}");
    let trace = decoded(&file);
    assert!(!trace.lossy);
    let count = |name: &str| {
        trace
            .slices
            .iter()
            .filter(|slice| slice.name == name)
            .count()
    };
    // fib(12) is 465 calls; 232 of them fork, and a sum follows each.
    assert_eq!((count("fib/call"), count("fib/sum")), (465, 232));
    // A task's argument is shown with it.
    let root = trace.slices.iter().find(|slice| slice.number == 12);
    assert!(root.is_some_and(|slice| slice.name == "fib/call"));
    assert!(
        trace.tracks.iter().any(|track| track == "worker 0"),
        "{:?}",
        trace.tracks
    );
    // Every flow has both of its ends: a task was queued once and ran once.
    assert!(trace.flows.len() > 100, "{}", trace.flows.len());
    assert!(trace.flows.values().all(|ends| *ends == (1, 1)));
    // The command's own spans are on the same clock.
    let command = trace
        .slices
        .iter()
        .find(|slice| slice.name.contains("image") || slice.name.contains("engine"));
    if let Some(command) = command {
        assert!(command.begin <= trace.slices.iter().map(|s| s.end).max().unwrap_or(0));
    }
}

#[test]
fn handlers_lie_within_turns_and_messages_have_flows_to_them() {
    let sandbox = Sandbox::new();
    for (program, check) in [
        (RING, check_ring as fn(&Trace, fn(&Slice) -> u64, &str)),
        (ASKS, check_asks),
    ] {
        let file = sandbox.path("actors.pftrace");
        let path = file.to_str().expect("a plain path");
        let options = [
            "--verify", "--engine", "cpu", "--size", "2", "--trace", path,
        ];
        let output = sandbox.run(&[&["run"], program, &options].concat());
        assert!(output.status.success(), "{output:?}");
        assert!(words(&output.stderr).contains("none lost"), "{output:?}");
        // Each slice is that of one message.
        check(&decoded(&file), |_| 1, "host_tell");
    }
}

#[test]
fn host_calls_lie_within_processes() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("hello.pftrace");
    let path = file.to_str().expect("a plain path");
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");
    let args = [
        "run",
        module,
        "--instances",
        "20",
        "--engine",
        "cpu",
        "--trace",
        path,
        "--",
        "{instance}",
    ];
    let output = sandbox.run(&args);
    assert!(output.status.success(), "{output:?}");
    let trace = decoded(&file);
    let processes = trace.slices.iter().filter(|slice| slice.name == "process");
    assert!(processes.count() >= 20);
    let calls: Vec<_> = trace
        .slices
        .iter()
        .filter(|slice| slice.within == ["process"])
        .collect();
    assert!(calls.iter().all(|call| call.begin <= call.end));
    let count = |name: &str| calls.iter().filter(|call| call.name == name).count();
    // It writes one line for each of its parts, and asks for its arguments and variables.
    for name in [
        "args_get",
        "args_sizes_get",
        "environ_sizes_get",
        "fd_write",
    ] {
        assert!(count(name) >= 20, "{name}: {}", count(name));
    }
    assert_eq!(count("host call"), 0, "all of them have names");
}

#[test]
fn a_trace_keeps_to_its_limit_and_counts_what_it_loses() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("long.pftrace");
    let path = file.to_str().expect("a plain path");
    let args = [
        "run",
        "fib",
        "--n",
        "22",
        "--engine",
        "cpu",
        "--size",
        "1",
        "--trace",
        path,
        "--trace-limit",
        "1M",
    ];
    let output = sandbox.run(&args);
    assert!(output.status.success(), "{output:?}");
    let told = words(&output.stderr);
    let lost = told
        .split(" older ones lost")
        .next()
        .and_then(|text| text.rsplit(' ').next());
    let lost: u64 = lost
        .and_then(|lost| lost.parse().ok())
        .expect("the losses are counted");
    let trace = decoded(&file);
    assert!(trace.lossy);
    let kept = trace
        .slices
        .iter()
        .filter(|slice| slice.name.starts_with("fib/"))
        .count() as u64;
    // 57,313 calls and 28,656 sums, each with a slice; the begins of flows are events too.
    assert!(
        kept > 300 && kept + lost >= 57_313 + 28_656,
        "{kept} + {lost}"
    );
    assert!(std::fs::metadata(&file).expect("it is there").len() <= 1 << 20);
    assert!(trace.flows.values().all(|ends| *ends == (1, 1)));
}

#[test]
fn a_trace_that_cannot_be_written_is_one_error_and_loses_nothing_else() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| {
        sandbox.run(
            &[
                &["run", "fib", "--n", "10", "--engine", "cpu", "--json"],
                args,
            ]
            .concat(),
        )
    };
    let full = run(&["--trace", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    let told = words(&full.stderr);
    assert!(
        told.contains("the trace was not written") && told.contains("No space left"),
        "{told}"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&full.stdout).expect("the result is printed");
    assert_eq!(report["result"], 55);

    let missing = sandbox.path("none/fib.pftrace");
    let nowhere = run(&["--trace", missing.to_str().expect("a plain path")]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(nowhere.stdout.is_empty(), "it is known before the run");

    let small = run(&["--trace", "/dev/null", "--trace-limit", "1K"]);
    assert_eq!(small.status.code(), Some(2));
    assert!(words(&small.stderr).contains("raise the limit"));
    assert_eq!(
        run(&["--trace-limit", "1M"]).status.code(),
        Some(2),
        "it needs --trace"
    );
}

#[test]
fn file_size_limit_is_an_error_of_the_trace_and_no_signal() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("traces");
    std::fs::create_dir(&folder).expect("it is new");
    let file = folder.join("fib.pftrace");
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_everwarp"))
        .args(["run", "fib", "--n", "16", "--engine", "cpu", "--json"])
        .arg("--trace")
        .arg(&file)
        .env("XDG_RUNTIME_DIR", &folder);
    let output = everwarp_testkit::output(&mut limited);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = words(&output.stderr);
    assert!(
        told.contains("the trace was not written") && told.contains("File too large"),
        "{told}"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("the result is printed");
    assert_eq!(report["result"], 987);
    let left = std::fs::read_dir(&folder).expect("it is there").flatten();
    let left: Vec<_> = left.filter(|e| e.path().is_file()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn times_choose_an_engine_that_has_them_and_refuse_others() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("never.pftrace");
    let path = file.to_str().expect("a plain path");
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");
    let refusals: [(&[&str], &str); 4] = [
        (&["fib", "--engine", "wgpu", "--measure"], "--measure"),
        (&[module, "--engine", "wgpu", "--measure"], "--measure"),
        (&["fib", "--engine", "wgpu", "--trace", path], "--trace"),
        (&[module, "--engine", "wgpu", "--trace", path], "--trace"),
    ];
    for (args, flag) in refusals {
        let refused = sandbox.run(&[&["run"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let told = words(&refused.stderr);
        assert!(
            told.contains(&format!("{flag} is not there for --engine wgpu yet"))
                && told.contains("--engine cpu or cuda"),
            "{told}"
        );
    }
    assert!(!file.exists());
    // Without a GPU the engine is what is missing, and not the measurement.
    let on_cuda = ["run", module, "--engine", "cuda"];
    let plain = sandbox.run(&on_cuda);
    for measured in [&["--measure"][..], &["--trace", path]] {
        let ran = sandbox.run(&[&on_cuda, measured].concat());
        assert_eq!(
            (ran.status.code(), words(&ran.stdout)),
            (plain.status.code(), words(&plain.stdout)),
            "{ran:?}"
        );
        if !plain.status.success() {
            let told = words(&ran.stderr);
            assert!(told.contains(&words(&plain.stderr)), "{told}");
        }
    }
    let chosen = sandbox.run(&["run", "fib", "--n", "5", "--measure", "--json"]);
    let printed: serde_json::Value =
        serde_json::from_slice(&chosen.stdout).expect("it prints one object");
    // Where there is an adapter and no GPU that CUDA has, too.
    let engine = printed["engine"].as_str();
    assert!(matches!(engine, Some("cpu" | "cuda")), "{printed}");
}

//! The command and adapters of Vulkan: which one runs a program, and what it says if none can.

use std::process::{Command, Output};

use everwarp::Device;
use everwarp_testkit::Needed;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

fn main() {
    let adapter = Needed::look("an adapter of wgpu", &Device::adapters());
    type Test = fn() -> Result<(), Failed>;
    let any = |name, test: Test| Trial::test(name, test);
    let with = |name, test: Test| adapter.trial(Trial::test(name, test));
    let trials = vec![
        any("no_loader_and_no_driver_have_different_messages", no_driver),
        any("auto_takes_the_cpu_and_says_why", auto_says_why),
        any("a_module_names_the_engines_that_run_it", modules),
        with("a_software_adapter_runs_when_asked_for", asked_for),
        with("auto_does_not_take_a_software_adapter", not_by_itself),
        with("an_unknown_adapter_is_answered_with_a_list", unknown),
        with("doctor_lists_adapters", doctor),
        with("a_stressed_run_has_the_same_result", stressed),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit();
}

/// The command, with the GPUs of CUDA hidden.
fn everwarp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.args(arguments).env("CUDA_VISIBLE_DEVICES", "");
    command
}
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}
/// What a command that fails says, in one line.
fn refusal(mut command: Command) -> String {
    let output = everwarp_testkit::output(&mut command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    text.split_whitespace()
        .filter(|word| *word != "│")
        .collect::<Vec<_>>()
        .join(" ")
}

const FIB: [&str; 7] = ["run", "fib", "--n", "16", "--alone", "--verify", "--json"];

/// Without any driver, the loader is there or not; both say what to install.
fn no_driver() -> Result<(), Failed> {
    let mut command = everwarp(&["run", "fib", "--engine", "wgpu"]);
    command
        .env("VK_DRIVER_FILES", "/nonexistent/icd.json")
        .env("VK_ICD_FILENAMES", "/nonexistent/icd.json");
    let text = refusal(command);
    let loader = text.contains("the library libvulkan.so.1 was not found");
    let driver = text.contains("no driver offers an adapter");
    assert!(loader != driver, "{text}");
    assert!(text.contains("install"), "{text}");
    Ok(())
}

fn auto_says_why() -> Result<(), Failed> {
    let mut command = everwarp(&FIB);
    command
        .env("VK_DRIVER_FILES", "/nonexistent/icd.json")
        .env("VK_ICD_FILENAMES", "/nonexistent/icd.json");
    let report = json(&everwarp_testkit::output(&mut command));
    assert_eq!(report["engine"], "cpu", "{report}");
    assert_eq!(report["verified"], true, "{report}");
    let why = report["why"].as_str().expect("a reason");
    assert!(why.contains("no GPU can be used"), "{why}");
    assert!(why.contains("no other adapter either"), "{why}");
    Ok(())
}

fn modules() -> Result<(), Failed> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");
    let mut command = everwarp(&["run", path, "--engine", "wgpu"]);
    let output = everwarp_testkit::output(&mut command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(
        text.contains("the wgpu engine runs no WebAssembly"),
        "{text}"
    );
    assert!(text.contains("--engine cpu or --engine cuda"), "{text}");
    Ok(())
}

fn asked_for() -> Result<(), Failed> {
    for extra in [&["--adapter", "0"][..], &[]] {
        let mut command = everwarp(&FIB);
        command.args(["--engine", "wgpu"]).args(extra);
        let report = json(&everwarp_testkit::output(&mut command));
        assert_eq!(report["engine"], "wgpu", "{report}");
        assert_eq!(report["result"], 987, "{report}");
        assert_eq!(report["tasks"], 4789, "{report}");
        assert_eq!(report["verified"], true, "{report}");
    }
    Ok(())
}

/// True of every adapter where tests run without a GPU.
fn only_software() -> bool {
    let list = Device::adapters().expect("there are some");
    list.iter().all(|adapter| adapter.software)
}

fn not_by_itself() -> Result<(), Failed> {
    let report = json(&everwarp_testkit::output(&mut everwarp(&FIB)));
    if only_software() {
        assert_eq!(report["engine"], "cpu", "{report}");
        let why = report["why"].as_str().expect("a reason");
        assert!(why.contains("there is only the software adapter"), "{why}");
        assert!(why.contains("--engine wgpu"), "{why}");
    } else {
        assert_eq!(report["engine"], "wgpu", "{report}");
    }
    Ok(())
}

fn unknown() -> Result<(), Failed> {
    for wanted in ["Voodoo", "99"] {
        let text = refusal(everwarp(&[
            "run",
            "fib",
            "--engine",
            "wgpu",
            "--adapter",
            wanted,
        ]));
        let first = &Device::adapters().expect("there are some")[0].name;
        assert!(
            text.contains(&format!("there is no adapter `{wanted}`")),
            "{text}"
        );
        assert!(text.contains("0 is "), "{text}");
        let word = first.split_whitespace().next().expect("a name");
        assert!(text.contains(word), "{text}");
    }
    Ok(())
}

fn doctor() -> Result<(), Failed> {
    let list = json(&everwarp_testkit::output(&mut everwarp(&[
        "doctor", "--json",
    ])));
    let list = list.as_array().expect("a list").clone();
    let found: Vec<_> = list.iter().filter(|f| f["what"] == "adapter").collect();
    let adapters = Device::adapters().expect("there are some");
    assert_eq!(found.len(), adapters.len(), "{list:?}");
    for (number, (finding, adapter)) in found.iter().zip(&adapters).enumerate() {
        let text = finding["found"].as_str().expect("a text");
        assert!(
            text.starts_with(&format!("{number}: {}", adapter.name)),
            "{text}"
        );
        assert_eq!(finding["ok"], adapter.fault.is_none(), "{text}");
        if adapter.fault.is_none() {
            assert!(text.contains("long loops run to their end"), "{text}");
        }
    }
    Ok(())
}

fn stressed() -> Result<(), Failed> {
    for graph in ["grid:30x30", "rmat:10:8:1"] {
        let mut command = everwarp(&["run", "bfs", "--generate", graph, "--verify", "--json"]);
        command
            .args(["--engine", "wgpu"])
            .env("EVERWARP_WGPU_STRESS", "1");
        let report = json(&everwarp_testkit::output(&mut command));
        assert_eq!(report["verified"], true, "{graph}: {report}");
        assert_eq!(report["engine"], "wgpu", "{graph}: {report}");
    }
    Ok(())
}

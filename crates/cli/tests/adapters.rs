//! The command and adapters of Vulkan: which one runs a program, and what it says if none can.

use std::process::{Command, Output};

use everwarp::{Device, EngineError, Error, HeapConfig, Program, ProgramRef};
use everwarp_programs::fib;
use everwarp_testkit::Needed;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

fn main() {
    let adapter = Needed::look("an adapter of wgpu", &Device::adapters());
    type Test = fn() -> Result<(), Failed>;
    let any = |name, test: Test| Trial::test(name, test);
    let with = |name, test: Test| adapter.trial(Trial::test(name, test));
    let trials = vec![
        any("a_loader_that_is_not_there_is_named", no_loader),
        any("auto_takes_the_cpu_and_says_why", auto_says_why),
        any("a_module_names_the_engines_that_run_it", modules),
        with("no_driver_is_an_error_that_says_what_to_install", no_driver),
        with("a_software_adapter_runs_when_asked_for", asked_for),
        with("auto_does_not_take_a_software_adapter", not_by_itself),
        with("an_unknown_adapter_is_answered_with_a_list", unknown),
        with("doctor_lists_adapters", doctor),
        with("a_stressed_run_has_the_same_result", stressed),
        with("a_setting_that_is_no_number_is_named", settings),
        with("times_that_no_adapter_measures_are_named", times),
        with("a_device_lost_amid_work_is_an_error", lost),
        with(
            "wgsl_that_does_not_compile_is_named_with_its_line",
            wrong_wgsl,
        ),
        with(
            "a_buffer_beyond_the_window_is_refused_with_its_size",
            beyond,
        ),
        with("a_damaged_pipeline_on_disk_is_compiled_again", damaged),
        with("validation_without_layers_is_an_error", no_layers),
        layers().trial(Trial::test("validation_layers_are_heard", canary)),
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

/// Vulkan's validation layers; a variable says where they are.
fn layers() -> Needed {
    let names = ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH"];
    let folder = names.into_iter().find_map(std::env::var_os);
    let folder = folder.ok_or("VK_LAYER_PATH is not set");
    Needed::look("Vulkan's validation layers", &folder)
}

/// A file that is no library hides the system's loader, if there is one.
fn no_loader() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("libvulkan.so.1"), b"")?;
    let mut command = everwarp(&["run", "fib", "--engine", "wgpu"]);
    command.env("LD_LIBRARY_PATH", folder.path());
    let text = refusal(command);
    assert!(
        text.contains("the library libvulkan.so.1 was not loaded"),
        "{text}"
    );
    assert!(
        text.contains("install your system's Vulkan loader"),
        "{text}"
    );
    Ok(())
}

fn no_driver() -> Result<(), Failed> {
    let mut command = everwarp(&["run", "fib", "--engine", "wgpu"]);
    command
        .env("VK_DRIVER_FILES", "/nonexistent/icd.json")
        .env("VK_ICD_FILENAMES", "/nonexistent/icd.json");
    let text = refusal(command);
    assert!(text.contains("no driver offers an adapter"), "{text}");
    assert!(text.contains("install the GPU's Vulkan driver"), "{text}");
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
    // Every name contains an empty one.
    for wanted in ["Voodoo", "99", ""] {
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
            // A busy host may be too late to write while a dispatch in software runs.
            let tested = text.contains("what the host writes");
            assert_eq!(tested, adapter.backend == "Vulkan", "{text}");
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

fn settings() -> Result<(), Failed> {
    for name in ["EVERWARP_WGPU_STRESS", "EVERWARP_WGPU_LOSE"] {
        let mut command = everwarp(&["run", "fib", "--engine", "wgpu"]);
        command.env(name, "yes");
        let text = refusal(command);
        let expected = format!("{name} is `yes`: give a whole number");
        assert!(text.contains(&expected), "{text}");
    }
    Ok(())
}

fn times() -> Result<(), Failed> {
    for (value, expected) in [
        (
            "on",
            "the wgpu engine measures no times: only the cpu and cuda engines do",
        ),
        ("yes", r#"EVERWARP_TELEMETRY is on or off, not "yes""#),
    ] {
        let mut command = everwarp(&FIB);
        command.args(["--engine", "wgpu"]);
        command.env("EVERWARP_TELEMETRY", value);
        let output = everwarp_testkit::output(&mut command);
        assert_eq!(json(&output)["engine"], "wgpu");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.matches(expected).count(), 1, "{text}");
    }
    Ok(())
}

fn lost() -> Result<(), Failed> {
    let mut command = everwarp(&["run", "fib", "--n", "30", "--engine", "wgpu"]);
    command.env("EVERWARP_WGPU_LOSE", "4");
    let text = refusal(command);
    assert!(text.contains("the driver has lost the device"), "{text}");
    assert!(text.contains("start another engine"), "{text}");
    Ok(())
}

/// Starts an engine with `fib`, whose WGSL is another.
fn start_with(wgsl: &str) -> Error {
    let program = Program {
        wgsl_source: wgsl.to_owned().into(),
        ..fib::PROGRAM.clone()
    };
    let device = Device::open_adapter(None).expect("there is one");
    let program = ProgramRef::Shared(program.into());
    let started = device.engine().program(program).start();
    started.expect_err("it does not compile")
}

fn wrong_wgsl() -> Result<(), Failed> {
    let right = &fib::PROGRAM.wgsl_source;
    for (wrong, line, what) in [
        // A mistake of grammar, a name that does not exist, and a type that does not fit.
        ("fn fib_call() { let = 1u; }\nfn fib_sum() {}\n", 1, "="),
        (
            "fn fib_call() {}\nfn fib_sum() { nothing(); }\n",
            2,
            "nothing",
        ),
        (
            "fn fib_call() {}\n\nfn fib_sum() { let a: u32 = 1.5; }\n",
            3,
            "a",
        ),
    ] {
        let error = start_with(wrong);
        let text = error.to_string();
        assert!(
            matches!(error, Error::Engine(EngineError::Compile(_))),
            "{text}"
        );
        let place = format!("program `fib`, line {line} of its WGSL");
        assert!(text.contains(&place) && text.contains(what), "{text}");
    }
    // A function that is missing has no line in the program.
    let text = start_with(&right.replace("fn fib_sum", "fn fib_some")).to_string();
    assert!(text.contains("fib_sum"), "{text}");
    // Valid, but more than the adapter has: workgroup memory of 1 GiB.
    let large = format!("{right}\nvar<workgroup> much: array<u32, 268435456>;\n");
    let large = large.replace("fn fib_sum() {", "fn fib_sum() { much[ew_lo()] = 1u;");
    let error = start_with(&large);
    let named = error.to_string().contains("bytes of workgroup memory");
    assert!(named, "{error}");
    Ok(())
}

fn beyond() -> Result<(), Failed> {
    let device = Device::open_adapter(None)?;
    let window = Device::adapters()?[0].window_bytes;
    let engine = device.engine().program(&fib::PROGRAM).start()?;
    for bytes in [window as usize + 1, 1 << 40] {
        let error = engine.buffer::<u8>(bytes).expect_err("there is no room");
        let text = error.to_string();
        assert!(
            text.contains("a window of") && text.contains(&bytes.to_string()),
            "{text}"
        );
    }
    let heap = HeapConfig::of(window);
    let error = device.engine().program(&fib::PROGRAM).heap(heap).start();
    let text = error.expect_err("the heap is too large").to_string();
    assert!(
        text.contains("a window of") && text.contains(&window.to_string()),
        "{text}"
    );
    let skynet = [
        "run", "skynet", "--n", "10000000", "--alone", "--engine", "wgpu",
    ];
    let text = refusal(everwarp(&skynet));
    assert!(text.contains("choose smaller numbers"), "{text}");
    // Nothing of it was taken.
    let most = engine.buffer::<u8>(window as usize / 2)?;
    drop(most);
    let instance = fib::instance(&engine)?;
    assert_eq!(fib::run(&engine, &instance, 15)?, fib::reference(15));
    Ok(())
}

fn damaged() -> Result<(), Failed> {
    let adapter = &Device::adapters()?[0];
    if !adapter.features.contains(&"PIPELINE_CACHE") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let run = || {
        let mut command = everwarp(&FIB);
        command.args(["--engine", "wgpu"]);
        command.env("EVERWARP_CACHE_DIR", folder.path());
        let output = everwarp_testkit::output(&mut command);
        assert_eq!(json(&output)["verified"], true, "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let entry = || {
        let files = std::fs::read_dir(folder.path()).expect("it is a folder");
        let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    };
    assert_eq!(run(), "");
    let whole = std::fs::read(entry())?;
    assert_eq!(run(), "");
    assert_eq!(std::fs::read(entry())?, whole, "it was used as it was");
    let mut broken = whole.clone();
    let last = broken.len() - 1;
    broken[last] ^= 1;
    std::fs::write(entry(), broken)?;
    let warning = run();
    assert!(warning.contains("is damaged"), "{warning}");
    assert_eq!(run(), "", "it was written again");
    Ok(())
}

/// The command with the validation layers, and what it writes to standard error.
fn validated(settings: &[(&str, &str)]) -> String {
    let mut command = everwarp(&FIB);
    command.args(["--engine", "wgpu"]);
    command.env("EVERWARP_WGPU_VALIDATION", "1");
    command.envs(settings.iter().copied());
    let output = everwarp_testkit::output(&mut command);
    assert_eq!(json(&output)["verified"], true, "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// wgpu would go on without the layers, and a test under validation would see nothing.
fn no_layers() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut command = everwarp(&["run", "fib", "--engine", "wgpu"]);
    command
        .env("EVERWARP_WGPU_VALIDATION", "1")
        .env("VK_LAYER_PATH", folder.path())
        .env_remove("VK_ADD_LAYER_PATH");
    let text = refusal(command);
    assert!(text.contains("EVERWARP_WGPU_VALIDATION is set"), "{text}");
    assert!(
        text.contains("has no layer VK_LAYER_KHRONOS_validation"),
        "{text}"
    );
    Ok(())
}

/// The layers say nothing; with their advice on best practices, which some call always breaks, they do.
fn canary() -> Result<(), Failed> {
    assert_eq!(validated(&[]), "");
    let advice = "VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT";
    let text = validated(&[("VK_LAYER_ENABLES", advice)]);
    assert!(text.contains("everwarp: wgpu: WARN"), "{text}");
    assert!(text.contains("BestPractices"), "{text}");
    Ok(())
}

//! Actors of C on a GPU. Without one every case is reported as ignored.
#![cfg(target_os = "linux")]

mod programs;

use everwarp::{Device, Select};
use everwarp_testkit::{cases, run_on_gpu};
use programs::{HERE, compile, moves_money, run, text};

const CASES: &[(&str, fn())] = cases![
    the_example_of_actors_runs_on_a_gpu,
    a_gpu_has_one_system_at_a_time_and_not_every_module
];

fn account() -> String {
    format!("{HERE}/../../guests/actors/built/account.wasm")
}

fn the_example_of_actors_runs_on_a_gpu() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("actors", "cc", &["-std=c11"], folder.path());
    for engine in ["cuda", "auto"] {
        let place = moves_money(&program, &account(), engine);
        assert_eq!(place, "on cuda: the GPU runs all kinds of the system");
    }
}

fn a_gpu_has_one_system_at_a_time_and_not_every_module() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("places", "cc", &["-std=c11"], folder.path());
    let done = run(&program, &[&account()]);
    let lines = format!("\n{}", text(&done.stdout));
    assert!(done.status.success(), "{lines}{}", text(&done.stderr));
    const REFUSED: &str = "4: these actors run on the CPU engine only";
    const FIX: &str = r#"; open an engine "auto", which runs them on the CPU, or "cpu""#;
    const CIRCLE: &str = "`circle` does not run on a GPU, because ";
    const OTHERS: &str = "the GPU has other actors of this engine";
    const PROCESSES: &str = "processes were started on this engine, and the GPU is theirs";
    const GPU: &str = "on cuda: the GPU runs all kinds of the system";
    const NO_PROCESS: &str = r#"4: actors of this engine run on the GPU and need it alone: close them first, or open an engine "cpu" for the processes"#;
    let parts = |kind: &str| {
        let found = lines.split("\nengine ").find(|part| part.starts_with(kind));
        let found = found.unwrap_or_else(|| panic!("no engine is {kind}: {lines}"));
        format!("{}\n", found.trim_end())
    };
    let has = |kind: &str, wanted: &str| {
        let part = parts(kind);
        assert!(part.contains(wanted), "{wanted:?} is missing in:\n{part}");
    };
    has("cuda\n", &format!("circle: {REFUSED}: {CIRCLE}"));
    has("cuda\n", &format!("second: {REFUSED}: {OTHERS}{FIX}\n"));
    has(
        "cuda\n",
        &format!("next to processes: {REFUSED}: {PROCESSES}{FIX}\n"),
    );
    has("auto\n", &format!("circle on cpu: {CIRCLE}"));
    has("auto\n", &format!("second on cpu: {OTHERS}\n"));
    has(
        "auto\n",
        &format!("next to processes on cpu: {PROCESSES}\n"),
    );
    for kind in ["cuda\n", "auto\n"] {
        has(kind, &format!("first {GPU}\n"));
        has(kind, &format!("third {GPU}\n"));
        has(kind, &format!("process next to actors: {NO_PROCESS}\n"));
        has(kind, "process: 0: \n");
    }
}

fn main() {
    run_on_gpu(&Device::open(Select::Cuda), CASES)
}

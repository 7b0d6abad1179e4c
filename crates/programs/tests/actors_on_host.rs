//! The device code of actors, compiled as C++ and run on the host: lanes in random schedules, with an audit of all messages
//! and slots after each scenario, and lanes as threads under ThreadSanitizer. The tests need a C++ compiler but no GPU.
//! Without one they are reported as ignored.
//!
//! `actors_on_host/block.cuh` stands in for the headers of the engine; everything in `actor` is the source of the images.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use everwarp::cuda::image::source;
use everwarp_programs::actor_probe::PROBE;
use everwarp_runtime::Image;
use everwarp_testkit::{Needed, cases};
use libtest_mimic::{Arguments, Failed, Trial};

const COMPILER: &str = "c++";
const LIMIT: Duration = Duration::from_secs(120);

/// A test, and the flags that it is compiled with.
type HostCase = fn(&Path) -> Result<(), Failed>;

const ALL: &[(&str, HostCase)] = cases![
    random_schedules_lose_no_message_and_no_slot,
    lanes_that_are_threads_have_no_data_race,
    uninitialized_list_of_free_cells_is_noticed,
];

fn main() {
    let args = Arguments::from_args();
    let found = Command::new(COMPILER).arg("--version").output();
    let needed = Needed::look("a C++ compiler", &found);
    let trials = ALL.iter().map(|&(name, case)| {
        let test = move || {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            write_sources(&folder)?;
            case(&folder)
        };
        needed.trial(Trial::test(name, test))
    });
    libtest_mimic::run(&args, trials.collect()).exit();
}

fn random_schedules_lose_no_message_and_no_slot(folder: &Path) -> Result<(), Failed> {
    run(&compile(folder, &["-O1"])?, 1, 400)
}

fn lanes_that_are_threads_have_no_data_race(folder: &Path) -> Result<(), Failed> {
    // A fence that orders an ask's end before its count, which ThreadSanitizer does not know.
    let flags = ["-O1", "-DTHREADS", "-fsanitize=thread", "-Wno-tsan"];
    run(&compile(folder, &flags)?, 1, 60)
}

/// The scenarios notice the defect that made actors wrong on GPUs at first.
fn uninitialized_list_of_free_cells_is_noticed(folder: &Path) -> Result<(), Failed> {
    let file = folder.join("everwarp/actor/actor.cuh");
    let right = std::fs::read_to_string(&file)?;
    let wrong = right.replace("spare_first(0)", "spare_first(1)");
    assert_ne!(right, wrong, "the initializer has another form now");
    std::fs::write(&file, wrong)?;
    match run(&compile(folder, &["-O1"])?, 1, 4) {
        Ok(()) => Err("the scenarios passed".into()),
        Err(_) => Ok(()),
    }
}

/// Writes what an image of the program contains, with the engine replaced by `block.cuh`.
fn write_sources(folder: &Path) -> Result<(), Failed> {
    let image = Image::of(vec![PROBE.program()]);
    for (name, text) in source(&image).headers {
        if name == "everwarp/contract.cuh" || name.starts_with("everwarp/actor/") {
            write(&folder.join(name), &text)?;
        }
    }
    write(
        &folder.join("everwarp/block/block.cuh"),
        include_str!("actors_on_host/block.cuh"),
    )?;
    write(
        &folder.join("main.cpp"),
        include_str!("actors_on_host/main.cpp"),
    )?;
    let mut unit = String::from("#include \"everwarp/block/block.cuh\"\n");
    let mut cases = String::new();
    for (id, program, function) in image.functions() {
        let name = format!("{}_{}", program.name, function.name);
        writeln!(unit, "constexpr u32 FN_{name} = {id};")?;
        writeln!(
            cases,
            "    case FN_{name}: t.limit = {}; return {name}(t, s);",
            function.max_spawn
        )?;
    }
    for program in &image.programs {
        program.params.write_once(&mut unit)?;
        unit.push_str(&program.device_source);
    }
    writeln!(
        unit,
        "static void dispatch(u32 fn, ew::Lane& t, const DevActors& s) {{\n  switch (fn) {{\n{cases}  }}\n}}\n\
         #include \"main.cpp\""
    )?;
    write(&folder.join("unit.cpp"), &unit)
}

fn write(path: &Path, text: &str) -> Result<(), Failed> {
    std::fs::create_dir_all(path.parent().expect("it has a folder"))?;
    Ok(std::fs::write(path, text)?)
}

fn compile(folder: &Path, flags: &[&str]) -> Result<PathBuf, Failed> {
    let program = folder.join("lanes");
    let mut command = Command::new(COMPILER);
    command
        .current_dir(folder)
        // The offsets are checked by another compiler's builtin.
        .args(["-std=c++20", "-Dstatic_assert(x...)=", "-w", "-I."])
        .args(flags)
        .args(["-pthread", "unit.cpp", "-o"])
        .arg(&program);
    everwarp_testkit::run(&mut command, LIMIT)?.success()?;
    Ok(program)
}

fn run(program: &Path, seed: u64, scenarios: u64) -> Result<(), Failed> {
    let mut command = Command::new(program);
    command.args([seed.to_string(), scenarios.to_string()]);
    Ok(everwarp_testkit::run(&mut command, LIMIT)?
        .success()
        .map(drop)?)
}

//! Loading a module while processes run.

use std::time::Duration;

use everwarp_process::{
    ExitStatus, LoadConfig, LoadedModule, Module, ModuleId, ProcessEngine, Stage, StartError,
};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{MODULES, config, normal, number, run, same, spawn_many, wait};

/// Adds up numbers in a long loop, through calls, with values on the stack of operands and in locals; exits with code 0 if
/// the sum is right.
const LATE: &str = include_str!("../modules/late.wat");

/// How long processes should be paused at most.
const GOAL: Duration = Duration::from_millis(5);

pub(super) fn module(name: &str, text: &str) -> Module {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    let bytes = wat.encode().expect("it can be encoded");
    Module::new(name, bytes).expect("it is valid")
}

pub(super) fn load_config(places: u32, children: u32, threads: u32, memory: u64) -> LoadConfig {
    LoadConfig {
        places,
        children,
        threads,
        memory: Some(memory),
        memory_budget: Some(1 << 30),
        ..LoadConfig::default()
    }
}

fn places(places: u32) -> LoadConfig {
    load_config(places, 0, 0, 4 << 16)
}

pub(super) fn report(loaded: &LoadedModule) {
    eprintln!(
        "loaded as number {} in {:?}; the engine went on after {:?}",
        loaded.id, loaded.compiling, loaded.pause
    );
}

/// Processes that compute, wait for the host, wait for a place and have not been made ready continue while modules are
/// loaded, and the loaded modules run.
pub(super) fn processes_run_on_while_modules_are_loaded(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let sleep = number("sleep");
    let waiting = spawn_many(host, sleep, &config(&[]), host.width(sleep) as usize + 5)?;
    let endless = spawn_many(host, number("ends"), &config(&["l"]), 1000)?;
    let late = host.load(&module("late", LATE), &places(500))?;
    report(&late);
    // Its id follows those of the modules that the host started with.
    if (late.id.0 as usize) < MODULES.len() {
        return Err(format!("{} is the number of another module", late.id).into());
    }
    // While another module is loaded, wave after wave of these computes, so that some are suspended in the middle.
    let again = std::thread::scope(|scope| {
        let loading = scope.spawn(|| host.load(&module("again", LATE), &places(100)));
        while !loading.is_finished() {
            let computing = spawn_many(host, late.id, &config(&[]), 500)?;
            let short = spawn_many(host, number("sum"), &config(&[]), 3000)?;
            for pid in computing.into_iter().chain(short) {
                normal(&wait(host, pid)?, 0)?;
            }
        }
        let loaded = loading.join().expect("it does not panic");
        loaded.map_err(Failed::from)
    })?;
    report(&again);
    same(again.id, ModuleId(late.id.0 + 1))?;
    for pid in spawn_many(host, again.id, &config(&[]), 300)? {
        normal(&wait(host, pid)?, 0)?;
    }
    normal(&run(host, "hello", &config(&[]))?, 7)?;
    let listing = host.list(usize::MAX)?;
    same(listing.total(), waiting.len() + endless.len())?;
    for row in listing.rows {
        let expected = match endless.contains(&row.pid) {
            true => row.stage == Stage::Running,
            false => matches!(row.stage, Stage::Calling | Stage::Waiting),
        };
        same((row.pid, expected), (row.pid, true))?;
    }
    host.kill_all()?;
    for pid in waiting.into_iter().chain(endless) {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    for loaded in [late, again] {
        if loaded.pause > GOAL {
            eprintln!("the pause was longer than the goal of {GOAL:?}");
        }
    }
    Ok(())
}

/// Modules without an entry and modules without enough places are refused, and other processes run as before.
pub(super) fn a_refused_module_changes_nothing(host: &CudaProcesses) -> Result<(), Failed> {
    let library = Module::library("bad", b"\0asm\x01\0\0\0".to_vec())?;
    let bad = host.load(&library, &places(1));
    if !matches!(bad, Err(StartError::Load { .. })) {
        return Err(format!("a module without a start: {bad:?}").into());
    }
    let many = host.load(&module("late", LATE), &places(1 << 20));
    if !matches!(many, Err(StartError::Spare { .. })) {
        return Err(format!("more places than are left: {many:?}").into());
    }
    // Each process has places for its threads, and the module has places for children.
    let threads = super::MODULES[number("threads").0 as usize].1;
    for (config, text, needs) in [
        (load_config(3, 0, 999, 4 << 16), threads, 3000),
        (load_config(3, 3000, 0, 4 << 16), LATE, 3003),
    ] {
        match host.load(&module("late", text), &config) {
            Err(e @ StartError::Spare { places, .. }) => {
                same(places, needs)?;
                same(e.to_string().contains("`spare_places`"), true)?;
            }
            other => return Err(format!("more places than are left: {other:?}").into()),
        }
    }
    normal(&run(host, "sum", &config(&[]))?, 0)
}

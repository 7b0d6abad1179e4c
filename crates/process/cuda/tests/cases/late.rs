//! Modules that are loaded while the engine runs, with channels, children or threads.

use everwarp_process::{Exit, ExitStatus, LoadConfig, ModuleId, ProcessEngine, SpawnError};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::load::{load_config, module, report};
use super::{
    MODULES, PATIENCE, children, config, normal, number, same, spawn, spawn_many, text, wait,
};

const FAMILY: &str = "late-family";

fn run(host: &CudaProcesses, module: ModuleId, args: &[&str]) -> Result<Exit, Failed> {
    let pid = spawn(host, module, &config(args))?;
    wait(host, pid)
}

/// Loads a module of the tests under another name.
fn load(
    host: &CudaProcesses,
    name: &str,
    text: &str,
    config: &LoadConfig,
) -> Result<ModuleId, Failed> {
    let loaded = host.load(&module(name, MODULES[number(text).0 as usize].1), config)?;
    report(&loaded);
    Ok(loaded.id)
}

fn load_family(host: &CudaProcesses) -> Result<ModuleId, Failed> {
    let config = load_config(40, 200, 0, 4 << 16);
    load(host, FAMILY, "family", &config)
}

fn load_threads(host: &CudaProcesses) -> Result<ModuleId, Failed> {
    let config = load_config(4, 0, 64, (4 << 16) + 1024);
    load(host, "late-threads", "threads", &config)
}

/// Does all that families do: messages, children, kills by parents and by the host, and messages of the host.
fn live(host: &CudaProcesses, family: ModuleId) -> Result<(), Failed> {
    let many = [("p", 500, 60), ("s", 0, 5), ("k", 0, 2), ("x", 0, 2)];
    for (mode, code, count) in many {
        for pid in spawn_many(host, family, &config(&[mode]), count)? {
            normal(&wait(host, pid)?, code)?;
        }
    }
    let talks = run(host, family, &["o"])?;
    normal(&talks, 0)?;
    let expected = "child\nchild\nchild\nparent\n";
    same(text(&talks.stdout), expected.to_owned())?;
    children::listed_of(host, family)?;
    let (to, from) = host.channel(4, 8)?;
    let config = config(&["c"]).granted(|grants| grants.ends = vec![from.end()]);
    let sum = spawn(host, family, &config)?;
    drop((config, from));
    for n in 1..=100u32 {
        to.send(&n.to_le_bytes())?;
    }
    drop(to);
    normal(&wait(host, sum)?, 50)?;
    // A process that spawns without end takes all places, and gives them back.
    let bomb = spawn(host, family, &super::config(&["b"]))?;
    same(host.wait(bomb, Some(PATIENCE / 200)).is_err(), true)?;
    host.kill(bomb)?;
    same(wait(host, bomb)?.status, ExitStatus::Killed)?;
    normal(&run(host, family, &["s"])?, 0)
}

/// A family is loaded while other families run. Each finds the other's module by its name.
pub(super) fn families_of_late_and_earlier_modules_find_each_other(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let before = number("family");
    // No module has this name yet.
    normal(&run(host, before, &["y", FAMILY])?, 107)?;
    let endless = spawn_many(host, before, &config(&["b"]), 3)?;
    let late = load_family(host)?;
    for pid in &endless {
        same(host.knows(*pid)?, true)?;
    }
    for pid in endless {
        host.kill(pid)?;
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    live(host, late)?;
    normal(&run(host, before, &["y", FAMILY])?, 0)?;
    normal(&run(host, late, &["y", "hello"])?, 7)?;
    live(host, before)
}

/// Runs more processes with threads than there are places for.
fn run_threads(host: &CudaProcesses, late: ModuleId) -> Result<(), Failed> {
    let modes = ["c", "n", "t", "g", "j", "d", "l", "x", "e", "b", "r"];
    let mut pids = Vec::new();
    for mode in modes {
        pids.push((mode, spawn(host, late, &config(&[mode]))?));
    }
    for (mode, pid) in pids {
        let reason = wait(host, pid)?.status;
        let right = match mode {
            "x" => matches!(reason, ExitStatus::Trapped(_)),
            "e" => reason == ExitStatus::Exited(7),
            "b" => reason == ExitStatus::Exited(64),
            _ => reason == ExitStatus::Exited(0),
        };
        same((mode, right, reason.clone()), (mode, true, reason))?;
    }
    let endless = spawn(host, late, &config(&["k"]))?;
    host.kill(endless)?;
    same(wait(host, endless)?.status, ExitStatus::Killed)
}

/// A module with threads is loaded where another one has threads too.
pub(super) fn a_late_module_has_threads(host: &CudaProcesses) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)
}

/// A module with threads is loaded where no module has any.
pub(super) fn a_late_module_has_threads_where_no_module_had_any(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)?;
    normal(&run(host, ModuleId(0), &[])?, 7)
}

/// A family is loaded where no module has channels. Modules that were there before have none afterwards either.
pub(super) fn a_late_family_works_where_no_module_had_channels(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let late = load_family(host)?;
    live(host, late)?;
    normal(&run(host, late, &["y", FAMILY])?, 0)?;
    // The module has no places for children, so it cannot be spawned by name.
    normal(&run(host, late, &["y", "hello"])?, 107)?;
    let (to, _from) = host.channel(1, 8)?;
    let given = config(&[]).granted(|grants| grants.ends = vec![to.end()]);
    match spawn(host, ModuleId(0), &given) {
        Err(SpawnError::Ends { ends: 1, most: 0 }) => {}
        other => return Err(format!("{other:?}").into()),
    }
    normal(&run(host, ModuleId(0), &[])?, 7)
}

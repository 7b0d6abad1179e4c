//! Modules that are loaded late and whose processes meet: by `everwarp:gpu`, or as threads.

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

/// All that families do: messages, children, ends from within and from outside, and what the host sends.
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
    // A bomb takes as many places as there are, and gives them back.
    let bomb = spawn(host, family, &super::config(&["b"]))?;
    same(host.wait(bomb, Some(PATIENCE / 200)).is_err(), true)?;
    host.kill(bomb)?;
    same(wait(host, bomb)?.status, ExitStatus::Killed)?;
    normal(&run(host, family, &["s"])?, 0)
}

/// A family that is loaded beside other families; each finds the other's module by its name.
pub(super) fn family(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Threads of all kinds, more processes than there are places for.
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

/// A module with threads that is loaded beside others.
pub(super) fn threads(host: &CudaProcesses) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)
}

/// Threads where nobody has any.
pub(super) fn threads_beside_others(host: &CudaProcesses) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)?;
    normal(&run(host, ModuleId(0), &[])?, 7)
}

/// A family where nobody has channels, whether or not threads have come before. What was there before has none
/// afterwards either.
pub(super) fn family_beside_others(host: &CudaProcesses) -> Result<(), Failed> {
    let late = load_family(host)?;
    live(host, late)?;
    normal(&run(host, late, &["y", FAMILY])?, 0)?;
    // It has no places for children, so that it cannot be named.
    normal(&run(host, late, &["y", "hello"])?, 107)?;
    let (to, _from) = host.channel(1, 8)?;
    let given = config(&[]).granted(|grants| grants.ends = vec![to.end()]);
    match spawn(host, ModuleId(0), &given) {
        Err(SpawnError::Ends { ends: 1, most: 0 }) => {}
        other => return Err(format!("{other:?}").into()),
    }
    normal(&run(host, ModuleId(0), &[])?, 7)
}

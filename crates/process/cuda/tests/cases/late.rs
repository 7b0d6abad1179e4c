//! Modules that are loaded late and whose processes meet: by `everwarp:gpu`, or as threads.

use everwarp_process_cuda::{Config, Exit, Host, LoadConfig, Reason, SpawnError};
use libtest_mimic::Failed;

use super::load::{module, report};
use super::{MODULES, PATIENCE, children, config, normal, number, same, text, wait};

const FAMILY: &str = "late-family";

fn run(host: &Host, module: usize, args: &[&str]) -> Result<Exit, Failed> {
    let pid = host.spawn(module, &config(args))?;
    wait(host, pid)
}

/// Loads a module of the tests under another name.
fn load(host: &Host, name: &str, text: &str, config: &LoadConfig) -> Result<usize, Failed> {
    let loaded = host.load(&module(name, MODULES[number(text)].1), config)?;
    report(&loaded);
    Ok(loaded.module)
}

fn load_family(host: &Host) -> Result<usize, Failed> {
    let config = LoadConfig {
        places: 40,
        children: 200,
        threads: 0,
        memory: Some(4 << 16),
        memory_budget: 1 << 30,
    };
    load(host, FAMILY, "family", &config)
}

fn load_threads(host: &Host) -> Result<usize, Failed> {
    let config = LoadConfig {
        places: 4,
        children: 0,
        threads: 64,
        memory: Some((4 << 16) + 1024),
        memory_budget: 1 << 30,
    };
    load(host, "late-threads", "threads", &config)
}

/// All that families do: messages, children, ends from within and from outside, and what the host sends.
fn live(host: &Host, family: usize) -> Result<(), Failed> {
    let many = [("p", 500, 60), ("s", 0, 5), ("k", 0, 2), ("x", 0, 2)];
    for (mode, code, count) in many {
        for pid in host.spawn_many(family, &config(&[mode]), count)? {
            normal(&wait(host, pid)?, code)?;
        }
    }
    let talks = run(host, family, &["o"])?;
    normal(&talks, 0)?;
    let expected = "child\nchild\nchild\nparent\n";
    same(text(&talks.stdout), expected.to_owned())?;
    children::listed_of(host, family)?;
    let (to, from) = host.channel(4, 8)?;
    let config = Config {
        ends: vec![from.end()],
        ..config(&["c"])
    };
    let sum = host.spawn(family, &config)?;
    drop((config, from));
    for n in 1..=100u32 {
        to.send(&n.to_le_bytes())?;
    }
    drop(to);
    normal(&wait(host, sum)?, 50)?;
    // A bomb takes as many places as there are, and gives them back.
    let bomb = host.spawn(family, &super::config(&["b"]))?;
    same(host.wait_timeout(bomb, PATIENCE / 200).is_err(), true)?;
    host.kill(bomb)?;
    same(wait(host, bomb)?.reason, Reason::Killed)?;
    normal(&run(host, family, &["s"])?, 0)
}

/// A family that is loaded beside other families; each finds the other's module by its name.
pub(super) fn family(host: &Host) -> Result<(), Failed> {
    let before = number("family");
    // No module has this name yet.
    normal(&run(host, before, &["y", FAMILY])?, 107)?;
    let endless = host.spawn_many(before, &config(&["b"]), 3)?;
    let late = load_family(host)?;
    same(endless.iter().all(|pid| host.knows(*pid)), true)?;
    for pid in endless {
        host.kill(pid)?;
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    live(host, late)?;
    normal(&run(host, before, &["y", FAMILY])?, 0)?;
    normal(&run(host, late, &["y", "hello"])?, 7)?;
    live(host, before)
}

/// Threads of all kinds, more processes than there are places for.
fn run_threads(host: &Host, late: usize) -> Result<(), Failed> {
    let modes = ["c", "n", "t", "g", "j", "d", "l", "x", "e", "b", "r"];
    let mut pids = Vec::new();
    for mode in modes {
        pids.push((mode, host.spawn(late, &config(&[mode]))?));
    }
    for (mode, pid) in pids {
        let reason = wait(host, pid)?.reason;
        let right = match mode {
            "x" => matches!(reason, Reason::Trap { .. }),
            "e" => reason == Reason::Normal(7),
            "b" => reason == Reason::Normal(64),
            _ => reason == Reason::Normal(0),
        };
        same((mode, right, reason.clone()), (mode, true, reason))?;
    }
    let endless = host.spawn(late, &config(&["k"]))?;
    host.kill(endless)?;
    same(wait(host, endless)?.reason, Reason::Killed)
}

/// A module with threads that is loaded beside others.
pub(super) fn threads(host: &Host) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)
}

/// Threads where nobody has any.
pub(super) fn threads_beside_others(host: &Host) -> Result<(), Failed> {
    let late = load_threads(host)?;
    run_threads(host, late)?;
    normal(&run(host, 0, &[])?, 7)
}

/// A family where nobody has channels, whether or not threads have come before. What was there before has none
/// afterwards either.
pub(super) fn family_beside_others(host: &Host) -> Result<(), Failed> {
    let late = load_family(host)?;
    live(host, late)?;
    normal(&run(host, late, &["y", FAMILY])?, 0)?;
    // It has no places for children, so that it cannot be named.
    normal(&run(host, late, &["y", "hello"])?, 107)?;
    let (to, _from) = host.channel(1, 8)?;
    let given = Config {
        ends: vec![to.end()],
        ..config(&[])
    };
    match host.spawn(0, &given) {
        Err(SpawnError::Ends { ends: 1, most: 0 }) => {}
        other => return Err(format!("{other:?}").into()),
    }
    normal(&run(host, 0, &[])?, 7)
}

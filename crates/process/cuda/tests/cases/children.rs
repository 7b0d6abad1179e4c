//! Processes that other processes have spawned, as the host lists and kills them. The CPU engine does the same
//! (`crates/process/cpu/tests/channels.rs`).

use std::collections::BTreeMap;
use std::time::Instant;

use everwarp_process::{ExitStatus, Listing, ModuleId, Pid, ProcessEngine, ProcessSnapshot, Stage};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, same, spawn, spawn_many, wait};

/// The rows that have this parent.
fn children(listing: &Listing, parent: Option<Pid>) -> Vec<&ProcessSnapshot> {
    let rows = listing.rows.iter();
    rows.filter(|row| row.parent == parent).collect()
}

/// Lists processes until the listing is the expected one.
fn until<T>(host: &CudaProcesses, expected: impl Fn(&Listing) -> Option<T>) -> Result<T, Failed> {
    let begin = Instant::now();
    loop {
        let listing = host.list(usize::MAX)?;
        match expected(&listing) {
            Some(found) => return Ok(found),
            None if begin.elapsed() > PATIENCE => return Err(format!("{listing:?}").into()),
            None => std::thread::yield_now(),
        }
    }
}

/// Children of another module run at the same time as processes of that module which the host has spawned. Their memories
/// may be interleaved although their parents' are not.
pub(super) fn children_of_other_modules_exit_like_spawned_processes(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let family = number("family");
    for module in ["hello", "neighbour"] {
        let spawned = spawn_many(host, number(module), &config(&["e"]), 64)?;
        let parents = spawn_many(host, family, &config(&["y", module]), 64)?;
        let mut codes = Vec::new();
        for pid in spawned.into_iter().chain(parents) {
            codes.push(wait(host, pid)?.status);
        }
        let (spawned, of_children) = codes.split_at(64);
        same(of_children, spawned)?;
        same(
            spawned
                .iter()
                .all(|reason| matches!(reason, ExitStatus::Exited(_))),
            true,
        )?;
    }
    normal(&super::run(host, "family", &config(&["y", "hello"]))?, 7)
}

/// A process, its child and that child's four children are listed with what they do. Kills end exactly the processes that
/// they name.
pub(super) fn children_are_listed_and_killed_by_the_host(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    listed_of(host, number("family"))
}

/// The same with a module that is loaded later.
pub(super) fn listed_of(host: &CudaProcesses, family: ModuleId) -> Result<(), Failed> {
    let root = spawn(host, family, &config(&["n"]))?;
    let ended = |code: &str| Stage::Ended(code.to_owned());
    let stages =
        |rows: &[&ProcessSnapshot]| rows.iter().map(|r| r.stage.clone()).collect::<Vec<_>>();
    let expected = [
        Stage::Running,
        Stage::Calling,
        Stage::Calling,
        ended("exit code 3"),
    ];
    let (parent, pids) = until(host, |listing| {
        let own = children(listing, None);
        let of_root = children(listing, Some(root));
        let [parent] = of_root[..] else { return None };
        let mut rows = children(listing, Some(parent.pid));
        // The places of children have no fixed order.
        rows.sort_by_key(|row| expected.iter().position(|stage| *stage == row.stage));
        let there = |row: &&ProcessSnapshot| match row.stage {
            Stage::Ended(_) => row.memory_bytes.is_none() && row.fuel_used.is_some(),
            _ => row.memory_bytes == Some(1 << 16),
        };
        let all = own.iter().map(|row| row.pid).eq([root])
            && stages(&rows) == expected
            && rows.iter().all(there)
            && stages(&[own[0], parent]) == [Stage::Calling, Stage::Calling]
            && (listing.running, listing.waiting, listing.ended) == (5, 0, 1);
        all.then(|| {
            (
                parent.pid,
                rows.iter().map(|row| row.pid).collect::<Vec<_>>(),
            )
        })
    })?;
    same(host.list(2)?.rows.len(), 2)?;
    let [loops, first, second, done] = pids[..] else {
        return Err("there are not four children".into());
    };
    for pid in [loops, first, second, done, parent] {
        same(host.knows(pid)?, true)?;
        let other = Pid::new(pid.slot(), pid.generation() + 1);
        same(host.knows(other)?, false)?;
        // No process has this pid.
        host.kill(other)?;
    }
    // It has exited: a kill changes nothing.
    host.kill(done)?;
    for pid in [first, second] {
        host.kill(pid)?;
        until(host, |listing| {
            let mut rows = listing.rows.iter();
            rows.any(|row| row.pid == pid && row.stage == ended("killed"))
                .then_some(())
        })?;
    }
    let left = host.list(usize::MAX)?;
    same((left.running, left.ended), (3, 3))?;
    same(
        host.wait(root, Some(std::time::Duration::ZERO)).is_err(),
        true,
    )?;
    host.kill(loops)?;
    normal(&wait(host, root)?, 43)?;
    same(host.list(usize::MAX)?.total(), 0)?;
    for pid in [loops, first, second, done, parent] {
        same(host.knows(pid)?, false)?;
    }
    // A kill of the child ends its children too.
    let root = spawn(host, family, &config(&["n"]))?;
    let parent = until(host, |listing| {
        let of_root = children(listing, Some(root));
        let parent = of_root.first()?.pid;
        (children(listing, Some(parent)).len() == 4).then_some(parent)
    })?;
    host.kill(parent)?;
    match wait(host, root)?.status {
        ExitStatus::Trapped(_) => {}
        other => return Err(format!("the parent did not trap: {other:?}").into()),
    }
    same(host.list(usize::MAX)?.total(), 0)
}

/// Pids of children that have been waited for name no process, although other children have their places. Children are
/// killed while they start, exit and are waited for.
pub(super) fn old_pids_of_children_reach_no_process(host: &CudaProcesses) -> Result<(), Failed> {
    let family = number("family");
    let spawn = |mode| spawn_many(host, family, &config(&[mode]), 20);
    let (untouched, bereaved) = (spawn("s")?, spawn("g")?);
    let mut last = BTreeMap::<u32, u32>::new();
    let (mut stale, mut killed) = (0, 0);
    loop {
        let listing = host.list(usize::MAX)?;
        if listing.total() == listing.ended {
            break;
        }
        for row in &listing.rows {
            let Some(parent) = row.parent else { continue };
            let pid = row.pid;
            let before = last.insert(pid.slot(), pid.generation());
            if let Some(generation) = before.filter(|before| *before < pid.generation()) {
                stale += 1;
                host.kill(Pid::new(pid.slot(), generation))?;
            }
            if bereaved.contains(&parent) {
                killed += 1;
                host.kill(pid)?;
            }
        }
    }
    eprintln!("{stale} kills of children that were gone, {killed} of others");
    for pid in untouched.into_iter().chain(bereaved) {
        normal(&wait(host, pid)?, 0)?;
    }
    same(host.list(usize::MAX)?.total(), 0)
}

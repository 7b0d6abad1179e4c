//! The ways in which processes end.

use std::time::Instant;

use everwarp_process::{ExitStatus, HostError, ProcessEngine, Stage};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, same, spawn, spawn_many, wait};

pub(super) fn exit_codes(host: &CudaProcesses) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["-"]))?, 0)?;
    normal(&run(host, "ends", &config(&["x"]))?, 125)
}

pub(super) fn traps(host: &CudaProcesses) -> Result<(), Failed> {
    for (how, sentence) in [
        ("u", "trap: unreachable in `parse_header`: at offset 0x"),
        (
            "d",
            "trap: integer divide by zero in `parse_header`: at offset 0x",
        ),
        (
            "o",
            "trap: integer overflow in `parse_header`: at offset 0x",
        ),
        (
            "n",
            "trap: invalid conversion to integer in `parse_header`: at offset 0x",
        ),
        (
            "m",
            "trap: out of bounds memory access in `parse_header`: at offset 0x",
        ),
        (
            "e",
            "trap: undefined element in `parse_header`: at offset 0x",
        ),
        (
            "i",
            "trap: uninitialized element in `parse_header`: at offset 0x",
        ),
        (
            "t",
            "trap: indirect call type mismatch in `parse_header`: at offset 0x",
        ),
        ("s", "trap: call stack exhausted in `recurse`: at offset 0x"),
    ] {
        match run(host, "ends", &config(&[how]))?.status {
            ExitStatus::Trapped(trap) if trap.to_string().starts_with(sentence) => {}
            other => return Err(format!("{how}: expected {sentence}, found {other:?}").into()),
        }
    }
    Ok(())
}

pub(super) fn fuel(host: &CudaProcesses) -> Result<(), Failed> {
    let config = config(&["l"]).granted(|grants| {
        grants.fuel = Some(1_000_000);
    });
    same(run(host, "ends", &config)?.status, ExitStatus::OutOfFuel)
}

/// It may have 3 pages, of which it has 1.
pub(super) fn memory_limit(host: &CudaProcesses) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["g"]))?, 3)
}

pub(super) fn kill_a_loop(host: &CudaProcesses) -> Result<(), Failed> {
    let endless = spawn_many(host, number("ends"), &config(&["l"]), 40)?;
    // A neighbour in the same module ends by itself meanwhile.
    normal(&run(host, "ends", &config(&["x"]))?, 125)?;
    for pid in &endless {
        host.kill(*pid)?;
    }
    for pid in endless {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

pub(super) fn kill_a_wait(host: &CudaProcesses) -> Result<(), Failed> {
    for _ in 0..50 {
        let pid = spawn(host, number("sleep"), &config(&[]))?;
        host.kill(pid)?;
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    let pids = spawn_many(host, number("sleep"), &config(&[]), 100)?;
    // By the time this has gone through the same queues, those wait.
    run(host, "facts", &config(&[]))?;
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

pub(super) fn kill_in_the_queue(host: &CudaProcesses) -> Result<(), Failed> {
    let sleep = number("sleep");
    let count = host.width(sleep) as usize + 10;
    let mut pids = spawn_many(host, sleep, &config(&[]), count)?;
    for pid in pids.split_off(count - 10) {
        host.kill(pid)?;
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

pub(super) fn stale_pids(host: &CudaProcesses) -> Result<(), Failed> {
    let pid = spawn(host, number("sum"), &config(&[]))?;
    normal(&wait(host, pid)?, 0)?;
    same(host.wait(pid, None), Err(HostError::UnknownPid(pid)))?;
    let again = spawn(host, number("sleep"), &config(&[]))?;
    same(again.slot(), pid.slot())?;
    // The old name does not reach the new process.
    host.kill(pid)?;
    host.kill(again)?;
    same(wait(host, again)?.status, ExitStatus::Killed)
}

/// What the host tells of processes that loop, wait for the host, wait for a place and have ended.
pub(super) fn listing(host: &CudaProcesses) -> Result<(), Failed> {
    let ended = spawn(host, number("sum"), &config(&[]))?;
    let looping = spawn(host, number("ends"), &config(&["l"]))?;
    let places = host.width(number("sleep")) as usize;
    let sleeping = spawn_many(host, number("sleep"), &config(&[]), places + 3)?;
    let begin = Instant::now();
    let expected = |pid| match pid {
        pid if pid == ended => Stage::Ended("exit code 0".to_owned()),
        pid if pid == looping => Stage::Running,
        pid if sleeping[places..].contains(&pid) => Stage::Waiting,
        _ => Stage::Calling,
    };
    let listing = loop {
        let listing = host.list(usize::MAX)?;
        let mut rows = listing.rows.iter();
        if rows.all(|row| row.stage == expected(row.pid)) {
            break listing;
        }
        if begin.elapsed() > PATIENCE {
            let (waiting, running) = (listing.waiting, listing.running);
            return Err(format!("{waiting} wait, {running} have places").into());
        }
    };
    eprintln!("listing {} processes: {:?}", listing.rows.len(), {
        let begin = Instant::now();
        host.list(usize::MAX)?;
        begin.elapsed()
    });
    same(
        (listing.running, listing.waiting, listing.ended),
        (places + 1, 3, 1),
    )?;
    same(listing.rows.len(), places + 5)?;
    for row in &listing.rows {
        let placed = matches!(row.stage, Stage::Running | Stage::Calling);
        same(
            row.memory_bytes.is_some_and(|bytes| bytes >= 1 << 16),
            placed,
        )?;
    }
    same(host.list(2)?.rows.len(), 2)?;
    host.kill_all()?;
    normal(&wait(host, ended)?, 0)?;
    for pid in sleeping.into_iter().chain([looping]) {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    same(host.list(usize::MAX)?.total(), 0)
}

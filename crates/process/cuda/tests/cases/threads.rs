//! Threads of one process. The CPU engine runs the same module with the same results
//! (`crates/process/cpu/tests/threads.rs`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everwarp_process::{Exit, ExitStatus, ProcessEngine, Stage, TrapKind};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{config, normal, number, run, same, spawn, text, wait};

/// Waits that take longer are reported.
const SLOW: Duration = Duration::from_millis(200);

fn exit(host: &CudaProcesses, mode: &str) -> Result<Exit, Failed> {
    let begin = Instant::now();
    let exit = run(host, "threads", &config(&[mode]))?;
    eprintln!("threads {mode}: {:?}", begin.elapsed());
    Ok(exit)
}

fn all_well(host: &CudaProcesses, mode: &str) -> Result<(), Failed> {
    normal(&exit(host, mode)?, 0)
}

/// A lock that waits and a lock that spins exclude threads, also between lanes of one warp.
pub(super) fn locks_exclude_threads_of_one_warp(host: &CudaProcesses) -> Result<(), Failed> {
    all_well(host, "c")?;
    all_well(host, "l")
}

/// Each notification wakes the number of threads that it asks for.
pub(super) fn a_notification_wakes_as_many_threads_as_it_asks_for(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    all_well(host, "n")
}

/// Waits end when their time is over. A thread that is notified earlier can call the host afterwards.
pub(super) fn waits_end_in_time(host: &CudaProcesses) -> Result<(), Failed> {
    all_well(host, "t")
}

/// All threads see the memory that any of them has grown.
pub(super) fn threads_see_memory_that_others_have_grown(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    all_well(host, "g")
}

/// Places of threads are used again, and threads start threads.
pub(super) fn places_of_threads_are_used_again(host: &CudaProcesses) -> Result<(), Failed> {
    all_well(host, "j")?;
    all_well(host, "d")
}

/// Lines of several threads do not mix.
pub(super) fn lines_of_threads_stay_whole(host: &CudaProcesses) -> Result<(), Failed> {
    let exit = exit(host, "o")?;
    normal(&exit, 0)?;
    let mut lines = BTreeMap::new();
    for line in text(&exit.stdout).lines() {
        *lines.entry(line.to_owned()).or_insert(0) += 1;
    }
    let expected = (0..=20).map(|n| (format!("a line of thread {n:02}"), 10));
    same(lines, expected.collect())
}

/// A trap or an exit of one thread ends all threads of the process.
pub(super) fn the_end_of_one_thread_ends_all(host: &CudaProcesses) -> Result<(), Failed> {
    for (mode, trap, function) in [
        ("x", TrapKind::Unreachable, "culprit"),
        ("a", TrapKind::UnalignedAtomic, "first"),
        ("w", TrapKind::MemoryOutOfBounds, "first"),
    ] {
        match exit(host, mode)?.status {
            ExitStatus::Trapped(found) => same(
                (found.kind, found.function.as_deref()),
                (trap, Some(function)),
            )?,
            other => return Err(format!("{mode}: {other:?}").into()),
        }
    }
    normal(&exit(host, "e")?, 7)?;
    normal(&exit(host, "r")?, 0)
}

/// All threads use the fuel of their process.
pub(super) fn fuel_belongs_to_the_whole_process(host: &CudaProcesses) -> Result<(), Failed> {
    let limited = |mode: &str, fuel| {
        config(&[mode]).granted(|grants| {
            grants.fuel = Some(fuel);
        })
    };
    let spinning = run(host, "threads", &limited("f", 1_000_000))?;
    same(spinning.status, ExitStatus::OutOfFuel)?;
    same(spinning.fuel_used <= Some(1_000_000), true)?;
    let churning = run(host, "threads", &limited("j", 1 << 40))?;
    normal(&churning, 0)?;
    same(
        churning.fuel_used > Some(300) && churning.fuel_used < Some(1 << 32),
        true,
    )?;
    let endless = exit(host, "c")?.fuel_used;
    same(endless > Some(40 * 100) && endless < Some(1 << 32), true)
}

/// A kill ends all threads: waiting, sleeping and spinning ones.
pub(super) fn a_kill_ends_all_threads(host: &CudaProcesses) -> Result<(), Failed> {
    for (mode, at_once) in [("k", false), ("k", true), ("f", true)].repeat(3) {
        let pid = spawn(host, number("threads"), &config(&[mode]))?;
        let calls = || -> Result<bool, Failed> {
            let rows = host.list(1)?.rows;
            Ok(rows.first().is_some_and(|row| row.stage == Stage::Calling))
        };
        while !(at_once || calls()?) {
            std::thread::yield_now();
        }
        host.kill(pid)?;
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

/// A process that starts threads without end gets an error at its limit.
pub(super) fn a_thread_beyond_the_limit_is_refused(host: &CudaProcesses) -> Result<(), Failed> {
    normal(&exit(host, "b")?, 64)
}

/// More processes with threads than there are places for run one after the other, and free all their places.
pub(super) fn processes_with_threads_run_at_the_same_time(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let threads = number("threads");
    let mut pids = Vec::new();
    for n in 0..2 * host.width(threads) as usize {
        let mode = ["c", "n", "x", "d", "e", "b"][n % 6];
        pids.push((mode, spawn(host, threads, &config(&[mode]))?));
    }
    let begin = Instant::now();
    let count = pids.len();
    for (mode, pid) in pids {
        let before = begin.elapsed();
        let reason = wait(host, pid)?.status;
        let waited = begin.elapsed().saturating_sub(before);
        if waited > SLOW {
            eprintln!("the wait for {mode} took {waited:?}");
        }
        let expected = match mode {
            "x" => matches!(reason, ExitStatus::Trapped(_)),
            "e" => reason == ExitStatus::Exited(7),
            "b" => reason == ExitStatus::Exited(64),
            _ => reason == ExitStatus::Exited(0),
        };
        if !expected {
            return Err(format!("{mode}: {reason:?}").into());
        }
    }
    eprintln!("{count} processes with threads: {:?}", begin.elapsed());
    Ok(())
}

//! Many processes at once.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Instant;

use everwarp_process::{
    Directory, ExitStatus, Output, ProcessEngine, SpawnRequest, StartWriter, TrapKind,
};
use everwarp_process_cuda::{CudaProcesses, raise_descriptor_limit};
use libtest_mimic::Failed;
use tempfile::TempDir;

use super::{Launch, PATIENCE, config, normal, number, run, same, spawn_many, wait};

/// As many processes wait as there are places. Processes of another module still run.
pub(super) fn waiting_processes_hold_no_lane(host: &CudaProcesses) -> Result<(), Failed> {
    let sleep = number("sleep");
    let pids = spawn_many(host, sleep, &config(&[]), host.width(sleep) as usize)?;
    for _ in 0..10 {
        normal(&run(host, "facts", &config(&[]))?, 0)?;
    }
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        wait(host, pid)?;
    }
    Ok(())
}

/// There are more processes that loop for ever than warps, and each gets its turn, and so do others. The fuel in a record
/// changes only when a process gives up its lane.
pub(super) fn endless_loops_share_their_lanes(host: &CudaProcesses) -> Result<(), Failed> {
    let ends = number("ends");
    let pids = spawn_many(host, ends, &config(&["l"]), host.width(ends) as usize - 1)?;
    let begin = Instant::now();
    loop {
        let listing = host.list(usize::MAX)?;
        let turns = listing
            .rows
            .iter()
            .filter(|row| row.fuel_used > Some(0))
            .count();
        if turns == pids.len() {
            break;
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("{turns} of {} have had a turn", pids.len()).into());
        }
    }
    eprintln!(
        "{} loops have had a turn: {:?}",
        pids.len(),
        begin.elapsed()
    );
    for _ in 0..10 {
        normal(&run(host, "facts", &config(&[]))?, 0)?;
    }
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

/// Every process's memory is zero at first and stays its own, although hostile processes write beyond theirs.
pub(super) fn a_hostile_process_does_not_reach_its_neighbours(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let module = number("neighbour");
    let mut wrong = Vec::new();
    for round in 0..3 {
        let good = spawn_many(host, module, &config(&["good"]), 500)?;
        let hostile = spawn_many(host, module, &config(&["hostile"]), 50)?;
        let more = spawn_many(host, module, &config(&["good"]), 500)?;
        for pid in hostile {
            match wait(host, pid)?.status {
                ExitStatus::Trapped(trap) if trap.kind == TrapKind::MemoryOutOfBounds => {}
                other => return Err(format!("a hostile process ended by {other:?}").into()),
            }
        }
        for pid in good.into_iter().chain(more) {
            let exit = wait(host, pid)?;
            if exit.status != ExitStatus::Exited(0) {
                let found = exit.stdout.expect("it was captured").bytes;
                let words: Vec<_> = found
                    .chunks(8)
                    .map(|w| w.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b)))
                    .collect();
                wrong.push(format!(
                    "round {round}: {pid} ended by {:?}; at, found, expected: {words:x?}",
                    exit.status
                ));
            }
        }
    }
    if !wrong.is_empty() {
        wrong.truncate(20);
        return Err(wrong.join("\n").into());
    }
    Ok(())
}

pub(super) fn a_hundred_thousand_processes_exit(host: &CudaProcesses) -> Result<(), Failed> {
    let lines = Output::Lines {
        tag: true,
        to_stderr: false,
    };
    let config = config(&[]).granted(|grants| grants.stdout = lines);
    for pid in spawn_many(host, number("sum"), &config, 100_000)? {
        normal(&wait(host, pid)?, 0)?;
    }
    Ok(())
}

/// Several threads spawn many processes, each with an input of its own, and each process prints its own input.
pub(super) fn each_of_many_processes_reads_its_own_input(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    const COUNT: u32 = 20_000;
    let text = |number: u32| format!("{number} ").repeat(number as usize % 40);
    let pids = Mutex::new(vec![None; COUNT as usize]);
    host.spawn(&SpawnRequest {
        module: number("cat"),
        grants: &config(&[]).grants,
        count: COUNT,
        write: &|number, writer: &mut dyn StartWriter| {
            writer.arg(&["program"]);
            writer.stdin(text(number).into_bytes().into());
        },
        started: &|first, started| {
            let mut pids = pids.lock().expect("no other holder panics");
            for (number, pid) in (first as usize..).zip(started) {
                pids[number] = Some(*pid);
            }
            ControlFlow::Continue(())
        },
    })?;
    let pids: Option<Vec<_>> = pids.into_inner()?.into_iter().collect();
    let pids = pids.ok_or("a number was left out")?;
    let (mut number, mut wrong) = (0, Vec::new());
    host.wait_each(&pids, &mut |pid, exit| {
        let right = exit.status == ExitStatus::Exited(0)
            && pid == pids[number as usize]
            && exit
                .stdout
                .is_some_and(|out| out.bytes == text(number).as_bytes());
        if !right {
            wrong.push(number);
        }
        number += 1;
    })?;
    same((number, wrong), (COUNT, Vec::new()))
}

/// Runs `count` processes, each with a thousand calls of the host, and reports how long each says that they took.
fn timed(host: &CudaProcesses, module: &str, config: &Launch, count: usize) -> Result<(), Failed> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for pid in spawn_many(host, number(module), config, count)? {
        let exit = wait(host, pid)?;
        normal(&exit, 0)?;
        let bytes = exit.stdout.expect("it was captured").bytes;
        let took = u64::from_le_bytes(bytes.as_slice().try_into()?);
        times.push(took / 1000);
    }
    let rate = count as f64 * 1000.0 / begin.elapsed().as_secs_f64();
    times.sort_unstable();
    eprintln!(
        "{count} {module} a thousand times each: {rate:.0} a second; {} ns each, up to {} ns",
        times[count / 2],
        times[count - 1]
    );
    Ok(())
}

/// One process and thousands of processes call the host.
pub(super) fn thousands_of_processes_call_the_host_at_once(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    for count in [1, 1, 8, 31, 64, 500, 4000] {
        timed(host, "calls", &config(&[]), count)?;
    }
    Ok(())
}

/// Makes a directory with a file of 8-byte numbers, as the modules `reads` and `pieces` expect it.
fn with_numbers(bytes: u64) -> Result<(TempDir, Launch), Failed> {
    let folder = tempfile::tempdir()?;
    let number = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let bytes: Vec<u8> = (0..bytes).step_by(8).flat_map(number).collect();
    std::fs::write(folder.path().join("numbers"), bytes)?;
    let directory = Directory::open(folder.path(), "/data")?;
    let config = config(&[]).granted(|grants| grants.directories = vec![directory]);
    Ok((folder, config))
}

/// The number of processes that may each have a file open, up to the number of places.
fn most_readers(host: &CudaProcesses, module: &str) -> Result<usize, Failed> {
    let limit = usize::try_from(raise_descriptor_limit() / 2)?;
    Ok(limit.min(host.width(number(module)) as usize))
}

/// One process and thousands of processes read pages of a file.
pub(super) fn thousands_of_processes_read_a_file_at_once(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let (_folder, config) = with_numbers((1 << 20) + 4096)?;
    for count in [1, 8, 64, most_readers(host, "reads")?.min(1000)] {
        timed(host, "reads", &config, count)?;
    }
    Ok(())
}

/// There are more readers than areas for what they read, so some find no free area and read less at a time. All of them see
/// the whole file.
pub(super) fn readers_without_a_free_area_see_the_whole_file(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    const BYTES: u64 = 64 << 10;
    let (_folder, config) = with_numbers(BYTES)?;
    let mut pieces = 0;
    let count = most_readers(host, "pieces")?;
    for pid in spawn_many(host, number("pieces"), &config, count)? {
        let exit = wait(host, pid)?;
        normal(&exit, 0)?;
        let written = exit.stdout.expect("it was captured").bytes;
        let (words, _) = written.as_chunks::<8>();
        let words: Vec<_> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
        same(words.first(), Some(&BYTES))?;
        pieces += words.get(1).ok_or("it did not count its pieces")?;
    }
    eprintln!("{count} readers of {BYTES} bytes in {pieces} pieces");
    Ok(())
}

/// There are far more readers than files that may be open at the same time, so some readers of a warp have a file open and
/// others wait until one is closed. All of them finish, because a reader with an open file waits for none of the others.
pub(super) fn readers_wait_until_others_close_their_files(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    const BYTES: u64 = 1 << 10;
    let (_folder, config) = with_numbers(BYTES)?;
    let pieces = number("pieces");
    for (files, count) in [(2, 100), (50, 1000), (1000, host.width(pieces) as usize)] {
        host.limit_files(files);
        for pid in spawn_many(host, pieces, &config, count)? {
            let exit = wait(host, pid)?;
            normal(&exit, 0)?;
            let written = exit.stdout.expect("it was captured").bytes;
            same(written.get(..8), Some(&BYTES.to_le_bytes()[..]))?;
        }
    }
    host.limit_files(raise_descriptor_limit() / 2);
    Ok(())
}

//! Many processes at once.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Instant;

use everwarp_process::{
    Directory, ExitStatus, Output, ProcessEngine, SpawnRequest, StartWriter, TrapKind,
};
use everwarp_process_cuda::{CudaProcesses, descriptor_limit};
use libtest_mimic::Failed;
use tempfile::TempDir;

use super::{Launch, PATIENCE, config, normal, number, run, same, spawn_many, wait};

/// As many processes wait as there are places; another one's work goes on beside them.
pub(super) fn waits_hold_no_lane(host: &CudaProcesses) -> Result<(), Failed> {
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

/// More processes that loop for ever than there are warps: each gets its turn, and so do others. What a record says of
/// fuel changes only when a process gives up its lane.
pub(super) fn loops_share_their_lanes(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Every process's memory is zero at first and stays its own, whatever a hostile one beside it tries.
pub(super) fn neighbours(host: &CudaProcesses) -> Result<(), Failed> {
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

pub(super) fn a_hundred_thousand(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Many that several threads spawn, each with an input of its own: each answers with that one.
pub(super) fn each_its_own(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Runs so many processes, each of which writes how long its thousand calls took; says how long they took.
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

/// Calls of the host by one process and by thousands at once.
pub(super) fn many_callers(host: &CudaProcesses) -> Result<(), Failed> {
    for count in [1, 1, 8, 31, 64, 500, 4000] {
        timed(host, "calls", &config(&[]), count)?;
    }
    Ok(())
}

/// A directory with a file of 8-byte numbers, as the modules that read expect it.
fn with_numbers(bytes: u64) -> Result<(TempDir, Launch), Failed> {
    let folder = tempfile::tempdir()?;
    let number = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let bytes: Vec<u8> = (0..bytes).step_by(8).flat_map(number).collect();
    std::fs::write(folder.path().join("numbers"), bytes)?;
    let directory = Directory::open(folder.path(), "/data")?;
    let config = config(&[]).granted(|grants| grants.directories = vec![directory]);
    Ok((folder, config))
}

/// As many processes as may each have a file open, and no more than there are places.
fn most_readers(host: &CudaProcesses, module: &str) -> Result<usize, Failed> {
    let limit = usize::try_from(descriptor_limit() / 2)?;
    Ok(limit.min(host.width(number(module)) as usize))
}

/// Reads of pages of a file, by one process and by thousands at once.
pub(super) fn many_readers(host: &CudaProcesses) -> Result<(), Failed> {
    let (_folder, config) = with_numbers((1 << 20) + 4096)?;
    for count in [1, 8, 64, most_readers(host, "reads")?.min(1000)] {
        timed(host, "reads", &config, count)?;
    }
    Ok(())
}

/// As many at once as there are areas for what they read, so that some find none and read less at a time: all see
/// all of the file.
pub(super) fn readers_without_room(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Far more than may have a file open together, so that of neighbours some have one and others wait for theirs to be
/// closed: all get through, because nobody who has one waits for them.
pub(super) fn readers_in_turn(host: &CudaProcesses) -> Result<(), Failed> {
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
    host.limit_files(descriptor_limit() / 2);
    Ok(())
}

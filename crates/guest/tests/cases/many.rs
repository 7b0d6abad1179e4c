//! Many processes at once.

use std::time::Instant;

use everwarp_guest::{Config, Directory, Host, Output, Reason, descriptor_limit};
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, wait};

/// As many processes wait as there are places; another one's work goes on beside them.
pub(super) fn waits_hold_no_lane(host: &Host) -> Result<(), Failed> {
    let sleep = number("sleep");
    let pids = host.spawn_many(sleep, &config(&[]), host.places(sleep) as usize)?;
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
pub(super) fn loops_share_their_lanes(host: &Host) -> Result<(), Failed> {
    let ends = number("ends");
    let pids = host.spawn_many(ends, &config(&["l"]), host.places(ends) as usize - 1)?;
    let begin = Instant::now();
    loop {
        let listing = host.processes(usize::MAX)?;
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
        super::same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    Ok(())
}

/// Every process's memory is zero at first and stays its own, whatever a hostile one beside it tries.
pub(super) fn neighbours(host: &Host) -> Result<(), Failed> {
    let module = number("neighbour");
    let mut wrong = Vec::new();
    for round in 0..3 {
        let good = host.spawn_many(module, &config(&["good"]), 500)?;
        let hostile = host.spawn_many(module, &config(&["hostile"]), 50)?;
        let more = host.spawn_many(module, &config(&["good"]), 500)?;
        for pid in hostile {
            match wait(host, pid)?.reason {
                Reason::Trap { sentence, .. }
                    if sentence.starts_with("out of bounds memory access") => {}
                other => return Err(format!("a hostile process ended by {other:?}").into()),
            }
        }
        for pid in good.into_iter().chain(more) {
            let exit = wait(host, pid)?;
            if exit.reason != Reason::Normal(0) {
                let found = exit.stdout.expect("it was captured").bytes;
                let words: Vec<_> = found
                    .chunks(8)
                    .map(|w| w.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b)))
                    .collect();
                wrong.push(format!(
                    "round {round}: {pid} ended by {:?}; at, found, expected: {words:x?}",
                    exit.reason
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

pub(super) fn a_hundred_thousand(host: &Host) -> Result<(), Failed> {
    let config = Config {
        stdout: Output::Lines {
            tag: true,
            to_stderr: false,
        },
        ..config(&[])
    };
    for pid in host.spawn_many(number("sum"), &config, 100_000)? {
        normal(&wait(host, pid)?, 0)?;
    }
    Ok(())
}

/// Runs so many processes, each of which writes how long its thousand calls took; says how long they took.
fn timed(host: &Host, module: &str, config: &Config, count: usize) -> Result<(), Failed> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for pid in host.spawn_many(number(module), config, count)? {
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
pub(super) fn many_callers(host: &Host) -> Result<(), Failed> {
    for count in [1, 1, 8, 31, 64, 500, 4000] {
        timed(host, "calls", &config(&[]), count)?;
    }
    Ok(())
}

/// Reads of pages of a file, by one process and by thousands at once.
pub(super) fn many_readers(host: &Host) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let numbers = (0..(1_u64 << 20) + 4096).step_by(8);
    let bytes: Vec<u8> = numbers
        .flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    std::fs::write(folder.path().join("numbers"), bytes)?;
    let config = Config {
        directories: vec![Directory::open(folder.path(), "/data")?],
        ..config(&[])
    };
    // Each has a descriptor of its own.
    let most = usize::try_from(descriptor_limit() / 2)?.min(1000);
    for count in [1, 8, 64, most] {
        timed(host, "reads", &config, count)?;
    }
    Ok(())
}

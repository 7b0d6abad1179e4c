//! The ways in which processes end.

use std::time::Instant;

use everwarp_process_cuda::{Config, Host, Reason, Stage};
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, same, wait};

pub(super) fn exit_codes(host: &Host) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["-"]))?, 0)?;
    normal(&run(host, "ends", &config(&["x"]))?, 125)
}

pub(super) fn traps(host: &Host) -> Result<(), Failed> {
    for (how, sentence) in [
        ("u", "unreachable in `parse_header` +0x"),
        ("d", "integer divide by zero in `parse_header` +0x"),
        ("o", "integer overflow in `parse_header` +0x"),
        ("n", "invalid conversion to integer in `parse_header` +0x"),
        ("m", "out of bounds memory access in `parse_header` +0x"),
        ("e", "undefined element in `parse_header` +0x"),
        ("i", "uninitialized element in `parse_header` +0x"),
        ("t", "indirect call type mismatch in `parse_header` +0x"),
        ("s", "call stack exhausted in `recurse` +0x"),
    ] {
        match run(host, "ends", &config(&[how]))?.reason {
            Reason::Trap {
                sentence: found, ..
            } if found.starts_with(sentence) => {}
            other => return Err(format!("{how}: expected {sentence}, found {other:?}").into()),
        }
    }
    Ok(())
}

pub(super) fn fuel(host: &Host) -> Result<(), Failed> {
    let config = Config {
        fuel: Some(1_000_000),
        ..config(&["l"])
    };
    same(run(host, "ends", &config)?.reason, Reason::OutOfFuel)
}

/// It may have 3 pages, of which it has 1.
pub(super) fn memory_limit(host: &Host) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["g"]))?, 3)
}

pub(super) fn kill_a_loop(host: &Host) -> Result<(), Failed> {
    let endless = host.spawn_many(number("ends"), &config(&["l"]), 40)?;
    // A neighbour in the same module ends by itself meanwhile.
    normal(&run(host, "ends", &config(&["x"]))?, 125)?;
    for pid in &endless {
        host.kill(*pid)?;
    }
    for pid in endless {
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    Ok(())
}

pub(super) fn kill_a_wait(host: &Host) -> Result<(), Failed> {
    for _ in 0..50 {
        let pid = host.spawn(number("sleep"), &config(&[]))?;
        host.kill(pid)?;
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    let pids = host.spawn_many(number("sleep"), &config(&[]), 100)?;
    // By the time this has gone through the same queues, those wait.
    run(host, "facts", &config(&[]))?;
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    Ok(())
}

pub(super) fn kill_in_the_queue(host: &Host) -> Result<(), Failed> {
    let sleep = number("sleep");
    let count = host.places(sleep) as usize + 10;
    let mut pids = host.spawn_many(sleep, &config(&[]), count)?;
    for pid in pids.split_off(count - 10) {
        host.kill(pid)?;
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    Ok(())
}

pub(super) fn stale_pids(host: &Host) -> Result<(), Failed> {
    let pid = host.spawn(number("sum"), &config(&[]))?;
    normal(&wait(host, pid)?, 0)?;
    same(host.wait(pid)?, None)?;
    let again = host.spawn(number("sleep"), &config(&[]))?;
    same(again.slot(), pid.slot())?;
    // The old name does not reach the new process.
    host.kill(pid)?;
    host.kill(again)?;
    same(wait(host, again)?.reason, Reason::Killed)
}

/// What the host tells of processes that loop, wait for the host, wait for a place and have ended.
pub(super) fn listing(host: &Host) -> Result<(), Failed> {
    let ended = host.spawn(number("sum"), &config(&[]))?;
    let looping = host.spawn(number("ends"), &config(&["l"]))?;
    let places = host.places(number("sleep")) as usize;
    let sleeping = host.spawn_many(number("sleep"), &config(&[]), places + 3)?;
    let begin = Instant::now();
    let expected = |pid| match pid {
        pid if pid == ended => Stage::Ended("exit code 0".to_owned()),
        pid if pid == looping => Stage::Running,
        pid if sleeping[places..].contains(&pid) => Stage::Waiting,
        _ => Stage::Calling,
    };
    let listing = loop {
        let listing = host.processes(usize::MAX)?;
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
        host.processes(usize::MAX)?;
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
    same(host.processes(2)?.rows.len(), 2)?;
    host.kill_all()?;
    normal(&wait(host, ended)?, 0)?;
    for pid in sleeping.into_iter().chain([looping]) {
        same(wait(host, pid)?.reason, Reason::Killed)?;
    }
    same(host.processes(usize::MAX)?.total(), 0)
}

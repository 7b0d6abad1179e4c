//! The ways in which processes end.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use everwarp_process::{ExitStatus, HostError, ModuleId, ProcessEngine, SpawnError, Stage};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, same, spawn, spawn_many, wait};

pub(super) fn a_process_exits_with_its_code(host: &CudaProcesses) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["-"]))?, 0)?;
    normal(&run(host, "ends", &config(&["x"]))?, 125)
}

pub(super) fn a_trap_names_its_kind_and_its_function(host: &CudaProcesses) -> Result<(), Failed> {
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

pub(super) fn a_process_ends_when_its_fuel_is_used(host: &CudaProcesses) -> Result<(), Failed> {
    let config = config(&["l"]).granted(|grants| {
        grants.fuel = Some(1_000_000);
    });
    same(run(host, "ends", &config)?.status, ExitStatus::OutOfFuel)
}

/// The process starts with 1 page and may have 3.
pub(super) fn memory_grows_up_to_its_limit(host: &CudaProcesses) -> Result<(), Failed> {
    normal(&run(host, "ends", &config(&["g"]))?, 3)
}

pub(super) fn a_kill_ends_a_loop(host: &CudaProcesses) -> Result<(), Failed> {
    let endless = spawn_many(host, number("ends"), &config(&["l"]), 40)?;
    // Meanwhile another process of the module exits by itself.
    normal(&run(host, "ends", &config(&["x"]))?, 125)?;
    for pid in &endless {
        host.kill(*pid)?;
    }
    for pid in endless {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

pub(super) fn a_kill_ends_a_call_that_waits(host: &CudaProcesses) -> Result<(), Failed> {
    for _ in 0..50 {
        let pid = spawn(host, number("sleep"), &config(&[]))?;
        host.kill(pid)?;
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    let pids = spawn_many(host, number("sleep"), &config(&[]), 100)?;
    // When this process has gone through the same queues, the others wait.
    run(host, "facts", &config(&[]))?;
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

pub(super) fn a_kill_ends_a_process_that_waits_for_a_place(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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

pub(super) fn an_old_pid_does_not_reach_a_new_process(host: &CudaProcesses) -> Result<(), Failed> {
    let pid = spawn(host, number("sum"), &config(&[]))?;
    normal(&wait(host, pid)?, 0)?;
    same(host.wait(pid, None), Err(HostError::UnknownPid(pid)))?;
    let again = spawn(host, number("sleep"), &config(&[]))?;
    same(again.slot(), pid.slot())?;
    // The old pid does not reach the new process.
    host.kill(pid)?;
    host.kill(again)?;
    same(wait(host, again)?.status, ExitStatus::Killed)
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A future that waits for a process is pending while the process runs, and is woken by its exit.
pub(super) fn a_future_is_woken_by_the_exit(host: &CudaProcesses) -> Result<(), Failed> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let pids = spawn_many(host, number("sleep"), &config(&[]), 100)?;
    for pid in &pids {
        same(host.poll_wait(*pid, &mut context), Poll::Pending)?;
    }
    for pid in pids {
        host.kill(pid)?;
        let begin = Instant::now();
        let exit = loop {
            match host.poll_wait(pid, &mut context) {
                Poll::Ready(exit) => break exit?,
                Poll::Pending if begin.elapsed() > PATIENCE => {
                    return Err(format!("{pid} was killed and has not exited").into());
                }
                Poll::Pending => thread::park_timeout(PATIENCE),
            }
        };
        same(begin.elapsed() < PATIENCE, true)?;
        same(exit.status, ExitStatus::Killed)?;
        let unknown = Poll::Ready(Err(HostError::UnknownPid(pid)));
        same(host.poll_wait(pid, &mut context), unknown)?;
    }
    Ok(())
}

/// Unknown modules and pids are errors, and fuel must be positive.
pub(super) fn unknown_modules_and_pids_are_refused(host: &CudaProcesses) -> Result<(), Failed> {
    let unknown = ModuleId(200);
    same(host.width(unknown), 0)?;
    match spawn(host, unknown, &config(&[])) {
        Err(SpawnError::UnknownModule(id)) => same(id, unknown)?,
        other => return Err(format!("an unknown module: {other:?}").into()),
    }
    let nothing = config(&[]).granted(|grants| grants.fuel = Some(0));
    match spawn(host, number("sum"), &nothing) {
        Err(SpawnError::Fuel { fuel: 0 }) => {}
        other => return Err(format!("no fuel: {other:?}").into()),
    }
    let pid = spawn(host, number("sum"), &config(&[]))?;
    normal(&wait(host, pid)?, 0)?;
    same(host.kill(pid)?, false)?;
    same(host.knows(pid)?, false)
}

/// Processes that loop, wait for the host, wait for a place and have exited are listed as such.
pub(super) fn a_listing_shows_what_each_process_does(host: &CudaProcesses) -> Result<(), Failed> {
    let ended = spawn(host, number("sum"), &config(&[]))?;
    let looping = spawn(host, number("ends"), &config(&["l"]))?;
    let places = host.width(number("sleep")) as usize;
    // Several threads spawn many processes, in any order; those that come later find no places.
    let mut sleeping = spawn_many(host, number("sleep"), &config(&[]), places)?;
    sleeping.extend(spawn_many(host, number("sleep"), &config(&[]), 3)?);
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

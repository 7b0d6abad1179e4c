//! The threads that all hosts of this program may have together, and the processes that wait: the pool has an instance for
//! each of them.
//!
//! A host always has one thread, so that no host waits for another one. Further threads come and go with its work, as
//! long as there are any left. How many there may be is settled when the pool is made or the first of them is taken; until then
//! a host can ask for more.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::worker_load::WorkerLoad;

/// Hosts at the same time.
const HOSTS_MOST: usize = 1024;
/// Threads beyond the first ones, and processes that wait, unless a host asks for more. One host may ask for this many
/// threads.
pub(crate) const EXTRAS_LEAST: usize = 1024;
/// Instances of the largest pool. Each takes 4 GiB of addresses and its guard, there are two pools, and x86-64 has 128 TiB.
const POOL_MOST: usize = 14_000;

static WANTED: AtomicUsize = AtomicUsize::new(EXTRAS_LEAST);
static SETTLED: OnceLock<usize> = OnceLock::new();

static HOSTS: AtomicUsize = AtomicUsize::new(0);
static EXTRAS: AtomicUsize = AtomicUsize::new(0);

/// How many extras there may be, from now on for good.
fn extras_most() -> usize {
    *SETTLED.get_or_init(|| WANTED.load(Ordering::SeqCst))
}

/// Instances that exist at the same time, from now on for good.
pub(crate) fn pool() -> usize {
    HOSTS_MOST + extras_most()
}

/// The most extras that a system with this many mappings for each program has room for.
fn extras_for(mappings: usize) -> usize {
    /// Those of code, threads and the heap.
    const OTHERS: usize = 2000;
    /// Of an instance: the stack and its guard in both pools, and the memory of the one that runs.
    const EACH: usize = 6;
    let pool = (mappings.saturating_sub(OTHERS) / EACH).min(POOL_MOST);
    pool.saturating_sub(HOSTS_MOST).max(EXTRAS_LEAST)
}

/// Linux's limit for the mappings of a program, or its default where it cannot be read.
fn mappings_most() -> usize {
    const DEFAULT: usize = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let read = text.ok().and_then(|text| text.trim().parse().ok());
    read.unwrap_or(DEFAULT)
}

/// Sees to it that there may be this many extras.
///
/// # Errors
/// The system has no room for them, or the pool has been made without them.
pub(crate) fn reserve(extras: usize) -> io::Result<()> {
    if extras <= EXTRAS_LEAST {
        return Ok(());
    }
    let most = extras_for(mappings_most());
    if extras > most {
        return Err(io::Error::other(format!(
            "{extras} were asked for, and the system's limit vm.max_map_count has room for {most}"
        )));
    }
    WANTED.fetch_max(extras, Ordering::SeqCst);
    match SETTLED.get() {
        Some(settled) if *settled < extras => Err(io::Error::other(format!(
            "{extras} were asked for after this program's first host had made room for {settled}: start this host first"
        ))),
        _ => Ok(()),
    }
}

/// Adds one to a count, unless it is at its limit. The counts order nothing else.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |have: usize| Some(have + 1).filter(|have| *have <= most);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.is_ok()
}

/// The right to be a host with one thread.
pub(crate) struct HostPermit(());

impl HostPermit {
    pub(crate) fn take() -> io::Result<Self> {
        match take(&HOSTS, HOSTS_MOST) {
            true => Ok(Self(())),
            false => Err(io::Error::other(format!(
                "this program has {HOSTS_MOST} hosts already: end one of them"
            ))),
        }
    }
}

impl Drop for HostPermit {
    fn drop(&mut self) {
        HOSTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to have one more thread.
#[must_use]
pub(crate) fn take_extra() -> bool {
    take(&EXTRAS, extras_most())
}

/// Gives a thread's right back.
pub(crate) fn give_extra() {
    EXTRAS.fetch_sub(1, Ordering::Relaxed);
}

/// The right of a process to an instance of its own, from its first wait for a socket to its end: its thread runs others
/// next to it, whether it waits or not.
pub(crate) struct WaitingPermit {
    load: Arc<WorkerLoad>,
}

impl WaitingPermit {
    pub(crate) fn take(load: &Arc<WorkerLoad>) -> Option<Self> {
        take_extra().then(|| {
            load.add_apart();
            Self {
                load: Arc::clone(load),
            }
        })
    }
}

impl Drop for WaitingPermit {
    fn drop(&mut self) {
        self.load.remove_apart();
        give_extra();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_limits_the_pool() {
        assert_eq!(extras_for(0), EXTRAS_LEAST);
        // Linux's default, and what some distributions set.
        assert_eq!(extras_for(65_530), 9564);
        assert_eq!(extras_for(1 << 20), POOL_MOST - HOSTS_MOST);
    }

    #[test]
    fn more_than_the_system_has_room_for_is_an_error_that_names_the_limit() {
        let error = reserve(1 << 30).expect_err("no system has room for that");
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        reserve(EXTRAS_LEAST).expect("there is always room for these");
    }
}

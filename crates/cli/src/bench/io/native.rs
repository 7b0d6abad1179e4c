//! Timers and sockets of native tasks.

use std::io::Read;
use std::time::Duration;

use everwarp::files::{FilesError, Listener};
use everwarp::{Device, Select};
use everwarp_programs::RunError;
use everwarp_programs::echo::{self, Echo};
use everwarp_programs::naps::{self, Naps, Sleepers};

use super::server::{Protocol, Server};
use super::{BACKEND, descriptors, failed, next_to_loop};
use crate::bench::experiment::Context;
use crate::bench::stats::{Row, median};
use crate::error::CliError;
use crate::output::print;

/// Bytes of memory for each connection.
const PIECE: u32 = 4096;
/// Rounds of timers, after one that warms up.
const ROUNDS: usize = 5;
/// Timers that expire in a second where they do not expire at the same time.
const PER_SECOND: u64 = 250_000;

fn files(error: FilesError) -> CliError {
    RunError::from(error).into()
}

/// Serves with the program `echo` until standard input ends, and says where first. With a reply, that answers requests of HTTP.
pub(super) fn serve(engine: &str, slots: u32, reply: &[u8]) -> Result<(), CliError> {
    descriptors();
    let failed = failed("native");
    let address = "0".parse().expect("any port of this machine");
    let listener = Listener::bind(&address).map_err(|e| failed(std::io::Error::other(e)))?;
    let device = Device::open(engine.parse::<Select>()?)?;
    let engine = device.engine().program(&echo::PROGRAM).start()?;
    let server = Echo::answering(&engine, &listener, slots, PIECE, reply).map_err(files)?;
    let mut pending = server.start(&engine).map_err(files)?;
    print(&listener.local_address().to_string())?;
    // The benchmark holds the other end.
    let _ = std::io::stdin().read(&mut [0]);
    server.stop();
    pending.wait()?;
    Ok(())
}

/// The program `echo` next to threads of the host.
pub(super) fn echo(
    cx: &Context<'_>,
    connections: usize,
    each: usize,
    single: bool,
) -> Result<(), CliError> {
    descriptors();
    let what = |how: &str| format!("{connections} connections, 64 bytes and their echo; {how}");
    let how = format!("tasks of the native program `echo`, their sockets by {BACKEND}");
    let ours = |engine: &str| Server::native(engine, connections + 1);
    let looped = (Protocol::Echo, what("two threads with an epoll each"));
    next_to_loop(cx, (ours, what(&how)), looped, connections, (each, single))
}

/// Timers that expire at the same time, and timers that expire one after the other.
pub(super) fn timers(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = cx.device.engine().program(&naps::PROGRAM).start()?;
    let count = cx.timers;
    let sleepers = Sleepers::new(&engine, count).map_err(files)?;
    let gap = Duration::from_nanos(1_000_000_000 / PER_SECOND);
    // How long asking takes is measured first.
    let sleep = |lead, gap| sleepers.sleep(&engine, lead, gap).map_err(files);
    let first = sleep(Duration::ZERO, Duration::ZERO)?;
    let lead = Duration::from_secs_f64(first.asking_s * 1.5) + Duration::from_millis(20);
    let rounds =
        |gap| -> Result<Vec<Naps>, CliError> { (0..ROUNDS).map(|_| sleep(lead, gap)).collect() };
    let together = rounds(Duration::ZERO)?;
    emit(cx, cx.part, "at the same time", &together)?;
    let spread = rounds(gap)?;
    let how = format!("{PER_SECOND} in a second");
    emit(cx, &format!("{} (spread)", cx.part), &how, &spread)
}

fn emit(cx: &Context<'_>, name: &str, how: &str, rounds: &[Naps]) -> Result<(), CliError> {
    let count = cx.timers;
    let mut late: Vec<f64> = rounds
        .iter()
        .flat_map(|naps| &naps.late_s)
        .copied()
        .collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() as f64 * share).ceil() as usize).max(1) - 1];
    let right = |naps: &Naps| naps.early == 0 && naps.late_s.len() == count as usize;
    let what = format!("{count} timers of native tasks are set, and expire {how}; tasks go on");
    let times = rounds.iter().map(|naps| naps.waking_s).collect();
    let row = Row::new(&what, "timer", count.into(), times)
        .case(cx.part)
        .verified(rounds.iter().all(right))
        .raw("late_median_s", at(0.5))
        .raw("late_p99_s", at(0.99))
        .raw(
            "set_s",
            median(rounds.iter().map(|naps| naps.asking_s).collect()),
        );
    cx.emit_as(name, row)
}

//! WASI calls of modules with threads that may wait for long: they must not keep the other threads from calling.
//!
//! A `poll_oneoff` for nothing but time is carried out here. Before a `poll_oneoff` for standard input, and before a read
//! of it, a thread waits for input without the lock of the descriptors.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everwarp_process::imports::WASI_MODULE;
use everwarp_telemetry::processes::host_call_is;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};
use wasmtime::{AsContextMut, Caller, Extern, Linker, SharedMemory};
use wasmtime_wasi::cli::StdinStream;
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::types::Filetype;
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::{GuestError, GuestMemory, GuestPtr};

use super::HostCall;
use super::arguments::{Argument, U32, as_errno, refused};
use super::sockets::find;
use super::threads::group;
use crate::guest::Guest;
use crate::numbers::Numbered;
use crate::threads::Descriptors;

/// "Bad file descriptor".
const BAD_DESCRIPTOR: i32 = 8;
/// Kinds of subscriptions and events.
const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
/// Clocks.
const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
/// In a subscription's flags: the time is a moment, not a duration.
const ABSTIME: u16 = 1;

/// A clock of a poll.
struct ClockWait {
    /// The caller's tag, which its event returns.
    userdata: u64,
    left: Duration,
}

/// What a poll waits for.
#[derive(Default)]
struct PollWaits {
    clocks: Vec<ClockWait>,
    /// Standard input.
    input: bool,
    /// Anything else.
    others: bool,
}

fn shared(caller: &mut Caller<'_, Guest>) -> wasmtime::Result<SharedMemory> {
    match caller.get_export("memory") {
        Some(Extern::SharedMemory(memory)) => Ok(memory),
        _ => Err(wasmtime::Error::msg("missing required memory export")),
    }
}

/// Locks the descriptors again.
async fn lock_descriptors(caller: &mut Caller<'_, Guest>) -> OwnedMutexGuard<WasiP1Ctx> {
    let wasi = Arc::clone(group(caller).wasi());
    let fuel = caller.as_context_mut().hostcall_fuel();
    let mut wasi = wasi.lock_owned().await;
    wasi.set_hostcall_fuel(fuel);
    wasi
}

/// Locks shared descriptors again for the rest of a host call that has let other threads call.
pub(super) async fn relock(caller: &mut Caller<'_, Guest>) {
    if caller.data().threads.is_some() {
        let locked = lock_descriptors(caller).await;
        caller.data_mut().wasi = Descriptors::Shared(Some(locked));
    }
}

/// Whether a descriptor is a stream rather than a file or a directory.
async fn is_stream(wasi: &mut WasiP1Ctx, memory: &mut GuestMemory<'_>, fd: u32) -> bool {
    let stat = wasi.fd_fdstat_get(memory, fd.into()).await;
    stat.is_ok_and(|s| !matches!(s.fs_filetype, Filetype::RegularFile | Filetype::Directory))
}

fn subscriptions(memory: &GuestMemory<'_>, from: u32, count: u32) -> Result<PollWaits, GuestError> {
    let mut wanted = PollWaits::default();
    for n in 0..count {
        let at = n.checked_mul(48).and_then(|n| n.checked_add(from));
        let at = at.ok_or(GuestError::PtrOverflow)?;
        match memory.read(GuestPtr::<u8>::new(at + 8))? {
            CLOCK => {
                let clock = memory.read(GuestPtr::<u32>::new(at + 16))?;
                let time = Duration::from_nanos(memory.read(GuestPtr::<u64>::new(at + 24))?);
                let flags = memory.read(GuestPtr::<u16>::new(at + 40))?;
                let left = match (clock, flags & ABSTIME) {
                    (REALTIME | MONOTONIC, 0) => time,
                    (REALTIME, _) => {
                        let now = SystemTime::now().duration_since(UNIX_EPOCH);
                        time.saturating_sub(now.unwrap_or_default())
                    }
                    // Only wasmtime knows the moments of the other clocks.
                    _ => {
                        wanted.others = true;
                        continue;
                    }
                };
                let userdata = memory.read(GuestPtr::<u64>::new(at))?;
                wanted.clocks.push(ClockWait { userdata, left });
            }
            FD_READ if memory.read(GuestPtr::<u32>::new(at + 16))? == 0 => wanted.input = true,
            _ => wanted.others = true,
        }
    }
    Ok(wanted)
}

/// Writes the events of the clocks whose time is over, and their number.
fn write_events(
    memory: &mut GuestMemory<'_>,
    clocks: &[ClockWait],
    elapsed: Duration,
    (events, count): (u32, u32),
) -> Result<(), GuestError> {
    let mut written = 0;
    for clock in clocks.iter().filter(|c| c.left <= elapsed) {
        let at = u32::checked_add(events, 32 * written).ok_or(GuestError::PtrOverflow)?;
        memory.write(GuestPtr::<u64>::new(at), clock.userdata)?;
        memory.write(GuestPtr::<u64>::new(at + 8), 0)?;
        memory.write(GuestPtr::<u64>::new(at + 16), 0)?;
        memory.write(GuestPtr::<u64>::new(at + 24), 0)?;
        written += 1;
    }
    memory.write(GuestPtr::<u32>::new(count), written)
}

async fn poll(
    mut caller: Caller<'_, Guest>,
    (from, to, count, events): (i32, i32, i32, i32),
) -> wasmtime::Result<i32> {
    let shared = shared(&mut caller)?;
    let mut memory = GuestMemory::Shared(shared.data());
    let arguments = [
        Argument::Poll(from, to, count),
        Argument::Result(events, U32),
    ];
    if let Some(errno) = refused(&memory, &arguments) {
        return Ok(errno);
    }
    if caller.data().numbers.is_some() {
        return super::poll::poll(&mut caller, (from, to, count, events)).await;
    }
    caller.data_mut().wasi.unlock();
    // The library reports what is wrong with a subscription, below.
    let wanted = subscriptions(&memory, from as u32, count as u32).unwrap_or_default();
    let soonest = wanted.clocks.iter().map(|clock| clock.left).min();
    let input = wanted.input && group(&caller).inherits_stdin();
    let begin = Instant::now();
    let timed = match soonest {
        Some(left) if !wanted.others && !wanted.input => {
            sleep(left).await;
            true
        }
        _ if input
            && !wanted.others
            && is_stream(&mut *lock_descriptors(&mut caller).await, &mut memory, 0).await =>
        {
            let mut input = group(&caller).stdin().p2_stream();
            match soonest {
                Some(left) => timeout(left, input.ready()).await.is_err(),
                None => {
                    input.ready().await;
                    false
                }
            }
        }
        _ => false,
    };
    if timed {
        let elapsed = begin.elapsed().max(soonest.unwrap_or_default());
        let to = (to as u32, events as u32);
        let written = write_events(&mut memory, &wanted.clocks, elapsed, to);
        return as_errno(written.map(|()| 0).map_err(Into::into));
    }
    let mut wasi = lock_descriptors(&mut caller).await;
    as_errno(p1::poll_oneoff(&mut *wasi, &mut memory, from, to, count, events).await)
}

async fn read(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, read): (i32, i32, i32, i32),
) -> wasmtime::Result<i32> {
    let shared = shared(&mut caller)?;
    let mut memory = GuestMemory::Shared(shared.data());
    let arguments = [Argument::Vectors(list, count), Argument::Result(read, U32)];
    if let Some(errno) = refused(&memory, &arguments) {
        return Ok(errno);
    }
    let fd = match find(caller.data(), fd) {
        // A process with threads reads no file on its own thread.
        None | Some(Numbered::File(_)) => return Ok(BAD_DESCRIPTOR),
        Some(Numbered::Inner(number)) => number as i32,
        Some(Numbered::Socket(open)) => {
            let received = super::sockets::receive(&mut caller, &open, (list, count), 0).await?;
            return super::sockets::put_count(&mut caller, read, received);
        }
    };
    caller.data_mut().wasi.unlock();
    let waits = fd == 0 && group(&caller).inherits_stdin();
    if waits && is_stream(&mut *lock_descriptors(&mut caller).await, &mut memory, 0).await {
        let mut input = group(&caller).stdin().p2_stream();
        input.ready().await;
    }
    let mut wasi = lock_descriptors(&mut caller).await;
    as_errno(p1::fd_read(&mut *wasi, &mut memory, fd, list, count, read).await)
}

/// Adds the calls in the place of wasmtime's.
pub(super) fn add(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        WASI_MODULE,
        "poll_oneoff",
        |caller, arguments| -> HostCall<'_, i32> {
            host_call_is("poll_oneoff");
            Box::new(poll(caller, arguments))
        },
    )?;
    linker.func_wrap_async(
        WASI_MODULE,
        "fd_read",
        |caller, arguments| -> HostCall<'_, i32> {
            host_call_is("fd_read");
            Box::new(read(caller, arguments))
        },
    )?;
    Ok(())
}

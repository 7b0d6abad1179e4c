//! Calls that may take long: they must not keep other threads from calling.
//!
//! `poll_oneoff` for nothing but time is done here; and before one for standard input, and before a read of it, a
//! thread waits for input without holding the descriptors.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};
use wasmtime::{AsContextMut, Caller, Extern, Linker, SharedMemory};
use wasmtime_wasi::cli::{StdinStream, stdin};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::types::Filetype;
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::{GuestError, GuestMemory, GuestPtr};

use crate::program::WASI;
use crate::run::Guest;

type C<'a> = Caller<'a, Guest>;
type Call<'a> = Box<dyn Future<Output = wasmtime::Result<i32>> + Send + 'a>;

/// Kinds of subscriptions and events.
const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
/// Clocks.
const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
/// In a subscription's flags: the time is a moment and no duration.
const ABSTIME: u16 = 1;

/// A clock that somebody waits for, and what its event is called.
struct Clock {
    userdata: u64,
    left: Duration,
}

/// What a poll waits for, as far as it concerns time and input.
#[derive(Default)]
struct Wanted {
    clocks: Vec<Clock>,
    input: bool,
    others: bool,
}

fn shared(caller: &mut C<'_>) -> wasmtime::Result<SharedMemory> {
    match caller.get_export("memory") {
        Some(Extern::SharedMemory(memory)) => Ok(memory),
        _ => Err(wasmtime::Error::msg("missing required memory export")),
    }
}

/// The descriptors, again.
async fn hold(caller: &mut C<'_>) -> OwnedMutexGuard<WasiP1Ctx> {
    let team = caller.data().team.as_ref();
    let wasi = Arc::clone(team.expect("only modules with threads import this").wasi());
    let fuel = caller.as_context_mut().hostcall_fuel();
    let mut wasi = wasi.lock_owned().await;
    wasi.set_hostcall_fuel(fuel);
    wasi
}

fn talks(caller: &C<'_>) -> bool {
    caller.data().team.as_ref().is_some_and(|team| team.talks)
}

/// Whether a descriptor is a stream rather than a file or a directory.
async fn is_stream(wasi: &mut WasiP1Ctx, memory: &mut GuestMemory<'_>, fd: u32) -> bool {
    let stat = wasi.fd_fdstat_get(memory, fd.into()).await;
    stat.is_ok_and(|s| !matches!(s.fs_filetype, Filetype::RegularFile | Filetype::Directory))
}

fn subscriptions(memory: &GuestMemory<'_>, from: u32, count: u32) -> Result<Wanted, GuestError> {
    let mut wanted = Wanted::default();
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
                    // The moments of the other clocks are wasmtime's.
                    _ => {
                        wanted.others = true;
                        continue;
                    }
                };
                let userdata = memory.read(GuestPtr::<u64>::new(at))?;
                wanted.clocks.push(Clock { userdata, left });
            }
            FD_READ if memory.read(GuestPtr::<u32>::new(at + 16))? == 0 => wanted.input = true,
            _ => wanted.others = true,
        }
    }
    Ok(wanted)
}

/// Writes the events of the clocks whose time is over: how many.
fn over(
    memory: &mut GuestMemory<'_>,
    clocks: &[Clock],
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
    mut caller: C<'_>,
    (from, to, count, events): (u32, u32, u32, u32),
) -> wasmtime::Result<i32> {
    let shared = shared(&mut caller)?;
    let mut memory = GuestMemory::Shared(shared.data());
    caller.data_mut().wasi.let_go();
    // What is wrong with them is said below.
    let wanted = subscriptions(&memory, from, count).unwrap_or_default();
    let soonest = wanted.clocks.iter().map(|clock| clock.left).min();
    let input = wanted.input && talks(&caller);
    let begin = Instant::now();
    let timed = match soonest {
        Some(left) if !wanted.others && !wanted.input => {
            sleep(left).await;
            true
        }
        _ if input
            && !wanted.others
            && is_stream(&mut *hold(&mut caller).await, &mut memory, 0).await =>
        {
            let mut input = stdin().p2_stream();
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
        over(&mut memory, &wanted.clocks, elapsed, (to, events))?;
        return Ok(0);
    }
    let mut wasi = hold(&mut caller).await;
    let arguments = [from, to, count, events].map(|a| a as i32);
    let [from, to, count, events] = arguments;
    p1::poll_oneoff(&mut *wasi, &mut memory, from, to, count, events).await
}

async fn read(
    mut caller: C<'_>,
    (fd, list, count, read): (u32, u32, u32, u32),
) -> wasmtime::Result<i32> {
    let shared = shared(&mut caller)?;
    let mut memory = GuestMemory::Shared(shared.data());
    caller.data_mut().wasi.let_go();
    if fd == 0 && talks(&caller) && is_stream(&mut *hold(&mut caller).await, &mut memory, fd).await
    {
        stdin().p2_stream().ready().await;
    }
    let mut wasi = hold(&mut caller).await;
    let [fd, list, count, read] = [fd, list, count, read].map(|a| a as i32);
    p1::fd_read(&mut *wasi, &mut memory, fd, list, count, read).await
}

/// Adds them in the place of wasmtime's.
pub(super) fn add(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        WASI,
        "poll_oneoff",
        |c: C<'_>, all: (u32, u32, u32, u32)| -> Call<'_> { Box::new(poll(c, all)) },
    )?;
    linker.func_wrap_async(
        WASI,
        "fd_read",
        |c: C<'_>, all: (u32, u32, u32, u32)| -> Call<'_> { Box::new(read(c, all)) },
    )?;
    Ok(())
}

//! What a module with threads imports for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wasmtime::{Caller, Linker, SharedMemory, Trap};

use everwarp_process::threads;

use crate::run::Guest;

use super::body::{Member, run};
use super::rewrite;
use super::team::Team;

type C<'a> = Caller<'a, Guest>;
type Call<'a> = Box<dyn Future<Output = wasmtime::Result<i32>> + Send + 'a>;

fn team(caller: &C<'_>) -> Arc<Team> {
    let team = caller.data().team.as_ref();
    Arc::clone(team.expect("only modules with threads import this"))
}

/// Where an atomic access of so many bytes goes.
fn place(
    memory: &SharedMemory,
    address: u32,
    offset: u64,
    bytes: u64,
) -> Result<(u64, *mut u8), Trap> {
    let at = u64::from(address).saturating_add(offset);
    if !at.is_multiple_of(bytes) {
        return Err(Trap::HeapMisaligned);
    }
    let data = memory.data();
    match at
        .checked_add(bytes)
        .is_some_and(|end| end <= data.len() as u64)
    {
        true => Ok((at, data[at as usize].get())),
        false => Err(Trap::MemoryOutOfBounds),
    }
}

async fn wait32(
    mut caller: C<'_>,
    address: u32,
    expected: u32,
    timeout: i64,
    offset: u64,
) -> wasmtime::Result<i32> {
    caller.data_mut().wasi.let_go();
    let team = team(&caller);
    let (at, value) = place(&team.memory, address, offset, 4)?;
    // SAFETY: four bytes from here on are in the memory, which does not shrink or move, and aligned. Everybody who
    // accesses a shared memory at the same time does so by instructions of the machine's.
    let value = unsafe { AtomicU32::from_ptr(value.cast()) };
    let as_expected = || value.load(Ordering::SeqCst) == expected;
    Ok(team.waits.wait(at, as_expected, timeout).await)
}

async fn wait64(
    mut caller: C<'_>,
    address: u32,
    expected: u64,
    timeout: i64,
    offset: u64,
) -> wasmtime::Result<i32> {
    caller.data_mut().wasi.let_go();
    let team = team(&caller);
    let (at, value) = place(&team.memory, address, offset, 8)?;
    // SAFETY: as above, for eight bytes.
    let value = unsafe { AtomicU64::from_ptr(value.cast()) };
    let as_expected = || value.load(Ordering::SeqCst) == expected;
    Ok(team.waits.wait(at, as_expected, timeout).await)
}

fn notify(caller: C<'_>, address: u32, count: u32, offset: u64) -> wasmtime::Result<u32> {
    let team = team(&caller);
    let (at, _) = place(&team.memory, address, offset, 4)?;
    Ok(team.waits.notify(at, count))
}

fn spawn(mut caller: C<'_>, argument: i32) -> wasmtime::Result<i32> {
    let team = team(&caller);
    let Some(number) = team.enter() else {
        return Ok(threads::AGAIN);
    };
    let (given, kept) = team.divide(caller.get_fuel()?);
    let member = Member {
        team,
        number,
        given,
        left: given,
    };
    if given == 0 {
        return Ok(threads::AGAIN);
    }
    caller.set_fuel(kept)?;
    let name = format!("thread-{number}");
    // What the system refuses ends the member, whose fuel is there for the next one.
    let begun = std::thread::Builder::new()
        .name(name)
        .spawn(move || run(member, argument));
    Ok(begun.map_or(threads::AGAIN, |_| number as i32))
}

/// Adds them.
pub(crate) fn add(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let [first, second, third] = rewrite::NAMES;
    linker.func_wrap_async(
        rewrite::MODULE,
        first,
        |c: C<'_>, (a, e, t, o): (u32, u32, i64, u64)| -> Call<'_> {
            Box::new(wait32(c, a, e, t, o))
        },
    )?;
    linker.func_wrap_async(
        rewrite::MODULE,
        second,
        |c: C<'_>, (a, e, t, o): (u32, u64, i64, u64)| -> Call<'_> {
            Box::new(wait64(c, a, e, t, o))
        },
    )?;
    linker.func_wrap(rewrite::MODULE, third, notify)?;
    linker.func_wrap(threads::MODULE, threads::SPAWN, spawn)?;
    super::poll::add(linker)
}

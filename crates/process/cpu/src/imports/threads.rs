//! What a module with threads imports for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_process::threads;
use wasmtime::{Caller, Linker, SharedMemory, Trap};

use super::HostCall;
use crate::guest::{Guest, Threads};
use crate::guest_thread::GuestThread;
use crate::rewrite::{ADDED_MODULE, ADDED_NAMES};

/// The threads of the caller's process.
pub(super) fn group(caller: &Caller<'_, Guest>) -> Threads {
    let group = caller.data().threads.as_ref();
    Arc::clone(group.expect("only modules with threads import this"))
}

/// The address and the place of an atomic access of `bytes` bytes.
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
    mut caller: Caller<'_, Guest>,
    (address, expected, timeout, offset): (u32, u32, i64, u64),
) -> wasmtime::Result<i32> {
    caller.data_mut().wasi.unlock();
    let group = group(&caller);
    let (at, value) = place(group.memory(), address, offset, 4)?;
    // SAFETY: the four bytes from `value` on are in the memory, which does not shrink or move, and `place` has checked
    // their alignment. All other accesses to a shared memory are machine instructions of compiled code or atomic.
    let value = unsafe { AtomicU32::from_ptr(value.cast()) };
    let as_expected = || value.load(Ordering::SeqCst) == expected;
    Ok(group.parking.wait(at, as_expected, timeout).await)
}

async fn wait64(
    mut caller: Caller<'_, Guest>,
    (address, expected, timeout, offset): (u32, u64, i64, u64),
) -> wasmtime::Result<i32> {
    caller.data_mut().wasi.unlock();
    let group = group(&caller);
    let (at, value) = place(group.memory(), address, offset, 8)?;
    // SAFETY: as in `wait32`, for eight bytes.
    let value = unsafe { AtomicU64::from_ptr(value.cast()) };
    let as_expected = || value.load(Ordering::SeqCst) == expected;
    Ok(group.parking.wait(at, as_expected, timeout).await)
}

fn notify(
    caller: Caller<'_, Guest>,
    address: u32,
    count: u32,
    offset: u64,
) -> wasmtime::Result<u32> {
    let group = group(&caller);
    let (at, _) = place(group.memory(), address, offset, 4)?;
    Ok(group.parking.notify(at, count))
}

fn spawn(mut caller: Caller<'_, Guest>, argument: i32) -> wasmtime::Result<i32> {
    let group = group(&caller);
    let Some(mut thread) = GuestThread::reserve(&group) else {
        return Ok(threads::AGAIN);
    };
    if group.is_limited() {
        let (given, kept) = group.divide_fuel(caller.get_fuel()?);
        // If the thread does not start, its drop leaves its fuel for the next one.
        thread = thread.with_fuel(given);
        if given == 0 {
            return Ok(threads::AGAIN);
        }
        caller.set_fuel(kept)?;
    }
    let number = thread.number() as i32;
    Ok(thread.start(argument).map_or(threads::AGAIN, |()| number))
}

/// Adds the imports.
pub(super) fn add(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let [first, second, third] = ADDED_NAMES;
    linker.func_wrap_async(
        ADDED_MODULE,
        first,
        |caller, arguments| -> HostCall<'_, i32> { Box::new(wait32(caller, arguments)) },
    )?;
    linker.func_wrap_async(
        ADDED_MODULE,
        second,
        |caller, arguments| -> HostCall<'_, i32> { Box::new(wait64(caller, arguments)) },
    )?;
    linker.func_wrap(ADDED_MODULE, third, notify)?;
    linker.func_wrap(threads::MODULE, threads::SPAWN, spawn)?;
    Ok(())
}

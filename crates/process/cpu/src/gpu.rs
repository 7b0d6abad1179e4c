//! The imports of `everwarp:gpu`; `guests/GPU.md` says what they promise.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everwarp_process::gpu::{self, MODULE};
use everwarp_process::{ChannelError, Input, Output, Pid};
use wasmtime::{Caller, Linker, Memory, Result};

use crate::channel::{Channel, End, Side};
use crate::config::Config;
use crate::exit::Reason;
use crate::kin::{Birth, Child, number};
use crate::process::Work;
use crate::run::Guest;

/// Fuel from here on is a process's without a limit: it has not used half of what it began with.
const ENDLESS: u64 = 1 << 62;

/// An import on its way.
type Call<'a, T> = Box<dyn Future<Output = Result<T>> + Send + 'a>;

fn memory(caller: &mut Caller<'_, Guest>) -> Result<Memory> {
    let exported = caller.get_export("memory").and_then(|e| e.into_memory());
    exported.ok_or_else(|| wasmtime::format_err!("the module exports no memory"))
}

/// These bytes of linear memory, if they are there.
fn slice(bytes: &mut [u8], at: u32, length: u64, align: u32) -> Option<&mut [u8]> {
    let end = u64::from(at).checked_add(length)?;
    if !at.is_multiple_of(align) || end > bytes.len() as u64 {
        return None;
    }
    Some(&mut bytes[at as usize..end as usize])
}

fn put_two(to: &mut [u8], a: u32, b: u32) {
    to[..4].copy_from_slice(&a.to_le_bytes());
    to[4..8].copy_from_slice(&b.to_le_bytes());
}

fn code(error: &ChannelError) -> i32 {
    match error {
        ChannelError::Closed => gpu::CLOSED,
        ChannelError::Again => gpu::AGAIN,
        ChannelError::Size => gpu::SIZE,
        _ => gpu::LIMIT,
    }
}

/// The channel of a handle that is the end of this side.
fn channel_of(guest: &mut Guest, handle: u32, side: Side) -> Option<Arc<Channel>> {
    let end = guest.kin.ends.end(handle).filter(|end| end.side == side);
    end.map(|end| Arc::clone(&end.channel))
}

async fn send(mut caller: Caller<'_, Guest>, args: (u32, u32, u32), waits: bool) -> Result<i32> {
    let (handle, at, length) = args;
    let (bytes, guest) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(message) = slice(bytes, at, length.into(), 1) else {
        return Ok(gpu::MEMORY);
    };
    let Some(channel) = channel_of(guest, handle, Side::Send) else {
        return Ok(gpu::HANDLE);
    };
    let mut sent = channel.try_send(message);
    if sent == Err(ChannelError::Again) && waits {
        let message = message.to_vec();
        let seat = Arc::clone(&guest.kin.seat);
        let _away = seat.leave();
        let attempt = || channel.try_send(&message);
        sent = channel.until(Side::Send, attempt).await;
    }
    Ok(sent.map_or_else(|e| code(&e), |()| 0))
}

async fn receive(mut caller: Caller<'_, Guest>, args: (u32, u32, u32), waits: bool) -> Result<i32> {
    let (handle, at, length) = args;
    let memory = memory(&mut caller)?;
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    if slice(bytes, at, length.into(), 1).is_none() {
        return Ok(gpu::MEMORY);
    }
    let Some(channel) = channel_of(guest, handle, Side::Receive) else {
        return Ok(gpu::HANDLE);
    };
    let attempt = || channel.try_receive(length as usize);
    let mut received = attempt();
    if received == Err(ChannelError::Again) && waits {
        let seat = Arc::clone(&guest.kin.seat);
        let _away = seat.leave();
        received = channel.until(Side::Receive, attempt).await;
    }
    Ok(match received {
        Err(error) => code(&error),
        Ok(message) => {
            let to = &mut memory.data_mut(&mut caller)[at as usize..];
            to[..message.len()].copy_from_slice(&message);
            message.len() as i32
        }
    })
}

fn open(mut caller: Caller<'_, Guest>, args: (u32, u32, u32)) -> Result<i32> {
    let (capacity, size, to) = args;
    let (bytes, guest) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(to) = slice(bytes, to, 8, 4) else {
        return Ok(gpu::MEMORY);
    };
    if !guest.kin.ends.has_room(2) {
        return Ok(gpu::LIMIT);
    }
    match Channel::open(capacity, size) {
        Err(error) => Ok(code(&error)),
        Ok((sender, receiver)) => {
            let sender = guest.kin.ends.enter(sender);
            put_two(to, sender, guest.kin.ends.enter(receiver));
            Ok(0)
        }
    }
}

/// What a process asks for with `spawn`, checked.
struct Wanted {
    name: Vec<u8>,
    args: Vec<String>,
    ends: Vec<End>,
}

type Spawn = (u32, u32, u32, u32, u32, u32);

fn wanted(caller: &mut Caller<'_, Guest>, args: Spawn) -> Result<std::result::Result<Wanted, i32>> {
    let (name, name_len, args, args_len, ends, count) = args;
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let mut copy = |at, length: u64, align| slice(bytes, at, length, align).map(|b| b.len());
    let there = copy(name, name_len.into(), 1).is_some()
        && copy(args, args_len.into(), 1).is_some()
        && copy(ends, u64::from(count) * 4, 4).is_some();
    if !there {
        return Ok(Err(gpu::MEMORY));
    }
    if count > gpu::HANDLES || args_len > gpu::ARGUMENT_BYTES {
        return Ok(Err(gpu::SIZE));
    }
    let range = |at: u32, length: u32| &bytes[at as usize..][..length as usize];
    let args = match range(args, args_len).strip_suffix(b"\0") {
        None if args_len != 0 => return Ok(Err(gpu::SIZE)),
        None => Vec::new(),
        Some(text) => text.split(|b| *b == 0).map(<[u8]>::to_vec).collect(),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut given = Vec::new();
    for handle in range(ends, 4 * count).as_chunks::<4>().0 {
        match guest.kin.ends.end(u32::from_le_bytes(*handle)) {
            Some(end) => given.push(end.clone()),
            None => return Ok(Err(gpu::HANDLE)),
        }
    }
    Ok(Ok(Wanted {
        name: range(name, name_len).to_vec(),
        args: args.into_iter().map(text).collect(),
        ends: given,
    }))
}

fn spawn(mut caller: Caller<'_, Guest>, args: Spawn) -> Result<i64> {
    let wanted = match wanted(&mut caller, args)? {
        Ok(wanted) => wanted,
        Err(error) => return Ok(error.into()),
    };
    let fuel = caller.get_fuel()?;
    let kin = &mut caller.data_mut().kin;
    let Some(host) = kin.host.upgrade() else {
        return Ok(gpu::LIMIT.into());
    };
    let program = match wanted.name.is_empty() {
        true => kin.program.clone(),
        false => host.program(&wanted.name),
    };
    let Some(program) = program else {
        return Ok(gpu::NAME.into());
    };
    let given = (fuel < ENDLESS).then_some(fuel / 2);
    // A GPU has places for the threads of those alone that the host has spawned.
    let full = kin.children.len() >= gpu::CHILDREN as usize || program.has_threads();
    let refused = full || given == Some(0);
    let more = |n: u32| (n < gpu::DESCENDANTS).then_some(n + 1);
    // A count and nothing else: no order is needed.
    let order = Ordering::Relaxed;
    if refused || kin.family.fetch_update(order, order, more).is_err() {
        return Ok(gpu::LIMIT.into());
    }
    let work = Work {
        program,
        config: Config {
            args: wanted.args,
            directories: kin.directories.clone(),
            stdin: Input::Empty,
            stdout: Output::Inherit,
            stderr: Output::Inherit,
            fuel: given,
            memory_limit: kin.memory_limit,
            ends: wanted.ends,
            instance: kin.spawned,
            ..Config::default()
        },
        birth: Birth {
            stdout: kin.stdout.clone(),
            stderr: kin.stderr.clone(),
            shares: true,
            parent: Some(Pid::of_number(kin.pid)),
            family: Arc::clone(&kin.family),
        },
    };
    let Ok(process) = host.spawn(work) else {
        kin.family.fetch_sub(1, order);
        return Ok(gpu::LIMIT.into());
    };
    let pid = number(&process);
    kin.spawned += 1;
    kin.children.push(Child {
        process,
        fuel: given,
    });
    if let Some(given) = given {
        caller.set_fuel(fuel - given)?;
    }
    Ok(pid as i64)
}

async fn wait(mut caller: Caller<'_, Guest>, pid: u64, to: u32) -> Result<i32> {
    let memory = memory(&mut caller)?;
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    if slice(bytes, to, 8, 4).is_none() {
        return Ok(gpu::MEMORY);
    }
    let Some(child) = guest.kin.child(pid) else {
        return Ok(gpu::PROCESS);
    };
    let process = Arc::clone(&guest.kin.children[child].process);
    if !process.is_over() {
        let seat = Arc::clone(&guest.kin.seat);
        let _away = seat.leave();
        process.over().await;
    }
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    // The host may have taken the exit; then it was killed, as far as its parent hears.
    let exit = process.wait();
    let child = guest.kin.forget(child);
    if let Some(host) = guest.kin.host.upgrade() {
        host.forget(&process);
    }
    let (status, code) = match exit.as_ref().map(|e| &e.reason) {
        Some(Reason::Normal(code)) => (gpu::STATUS_EXITED, *code),
        Some(Reason::Trap { .. } | Reason::OutOfMemory) => (gpu::STATUS_TRAPPED, 0),
        Some(Reason::OutOfFuel) => (gpu::STATUS_OUT_OF_FUEL, 0),
        Some(Reason::Killed) | None => (gpu::STATUS_KILLED, 0),
    };
    put_two(&mut bytes[to as usize..], status, code);
    let back = child
        .fuel
        .zip(exit)
        .map(|(f, e)| f.saturating_sub(e.fuel_used));
    if let Some(back) = back {
        let fuel = caller.get_fuel()?;
        caller.set_fuel(fuel.saturating_add(back))?;
    }
    Ok(0)
}

fn kill(guest: &Guest, pid: u64) -> i32 {
    let (Some(child), Some(host)) = (guest.kin.child(pid), guest.kin.host.upgrade()) else {
        return gpu::PROCESS;
    };
    host.kill(&guest.kin.children[child].process);
    0
}

/// Gives a linker all of them. Here a process is a warp of its own, in whose first lane it is.
pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    type C<'a> = Caller<'a, Guest>;
    type Three = (u32, u32, u32);
    linker.func_wrap(MODULE, "lane", |_: C<'_>| 0_u32)?;
    linker.func_wrap(MODULE, "warp", |c: C<'_>| c.data().kin.pid as u32)?;
    linker.func_wrap(MODULE, "process", |c: C<'_>| c.data().kin.pid)?;
    linker.func_wrap(MODULE, "instance", |c: C<'_>| c.data().kin.instance)?;
    linker.func_wrap(MODULE, "active", |_: C<'_>| 1_u32)?;
    linker.func_wrap(MODULE, "ballot", |_: C<'_>, vote: u32| u32::from(vote != 0))?;
    linker.func_wrap(MODULE, "shuffle", |_: C<'_>, value: u64, _: u32| value)?;
    linker.func_wrap(MODULE, "channel", |c: C<'_>, a: u32, b: u32, to: u32| {
        open(c, (a, b, to))
    })?;
    linker.func_wrap_async(MODULE, "send", |c: C<'_>, args: Three| -> Call<'_, i32> {
        Box::new(send(c, args, true))
    })?;
    linker.func_wrap_async(
        MODULE,
        "try_send",
        |c: C<'_>, args: Three| -> Call<'_, i32> { Box::new(send(c, args, false)) },
    )?;
    linker.func_wrap_async(
        MODULE,
        "receive",
        |c: C<'_>, args: Three| -> Call<'_, i32> { Box::new(receive(c, args, true)) },
    )?;
    linker.func_wrap_async(
        MODULE,
        "try_receive",
        |c: C<'_>, args: Three| -> Call<'_, i32> { Box::new(receive(c, args, false)) },
    )?;
    linker.func_wrap(MODULE, "close", |mut c: C<'_>, handle: u32| {
        match c.data_mut().kin.ends.close(handle) {
            true => 0,
            false => gpu::HANDLE,
        }
    })?;
    linker.func_wrap(
        MODULE,
        "spawn",
        |c: C<'_>, a: u32, b: u32, d: u32, e: u32, f: u32, g: u32| spawn(c, (a, b, d, e, f, g)),
    )?;
    linker.func_wrap_async(
        MODULE,
        "wait",
        |c: C<'_>, (pid, to): (u64, u32)| -> Call<'_, i32> { Box::new(wait(c, pid, to)) },
    )?;
    linker.func_wrap(MODULE, "kill", |c: C<'_>, pid: u64| kill(c.data(), pid))?;
    Ok(())
}

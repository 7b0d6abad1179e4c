//! The imports of `everwarp:gpu`; `guests/GPU.md` says what they promise.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everwarp_process::gpu::{self, MODULE};
use everwarp_process::{ChannelError, ExitStatus, Pid};
use everwarp_telemetry::processes::host_call_is;
use wasmtime::{Caller, Linker, Memory, Result};

use super::HostCall;
use super::sockets::block;
use crate::channel::{Channel, ChannelSide, HostId, Side};
use crate::family::{Child, ChildRefused, ChildRequest, Family};
use crate::guest::Guest;
use crate::process::Taken;

fn memory(caller: &mut Caller<'_, Guest>) -> Result<Memory> {
    let exported = caller.get_export("memory").and_then(|e| e.into_memory());
    exported.ok_or_else(|| wasmtime::format_err!("the module exports no memory"))
}

/// `length` bytes of linear memory, if they are there.
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

/// The channel of a handle, if the handle is an end of this side.
fn channel_of(family: &mut Family, handle: u32, side: Side) -> Option<Arc<Channel>> {
    let end = family.handles.end(handle).filter(|end| end.side == side);
    end.map(|end| Arc::clone(&end.channel))
}

async fn send(mut caller: Caller<'_, Guest>, args: (u32, u32, u32), waits: bool) -> Result<i32> {
    let (handle, at, length) = args;
    let (bytes, guest) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(message) = slice(bytes, at, length.into(), 1) else {
        return Ok(gpu::MEMORY);
    };
    let Some(channel) = channel_of(guest.family(), handle, Side::Send) else {
        return Ok(gpu::HANDLE);
    };
    let mut sent = channel.try_send(message);
    if sent == Err(ChannelError::Again) && waits {
        let message = message.to_vec();
        let load = Arc::clone(&guest.family().load);
        let _blocked = block(guest, &load);
        let attempt = || channel.try_send(&message);
        sent = channel.retry(Side::Send, attempt).await;
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
    let Some(channel) = channel_of(guest.family(), handle, Side::Receive) else {
        return Ok(gpu::HANDLE);
    };
    let attempt = || channel.try_receive(length as usize);
    let mut received = attempt();
    if received == Err(ChannelError::Again) && waits {
        let load = Arc::clone(&guest.family().load);
        let _blocked = block(guest, &load);
        received = channel.retry(Side::Receive, attempt).await;
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

fn open(mut caller: Caller<'_, Guest>, host: HostId, args: (u32, u32, u32)) -> Result<i32> {
    let (capacity, size, to) = args;
    let (bytes, guest) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(to) = slice(bytes, to, 8, 4) else {
        return Ok(gpu::MEMORY);
    };
    let handles = &mut guest.family().handles;
    if !handles.has_room(2) {
        return Ok(gpu::LIMIT);
    }
    match Channel::open(host, capacity, size) {
        Err(error) => Ok(code(&error)),
        Ok((sender, receiver)) => {
            let sender = handles.insert(sender);
            put_two(to, sender, handles.insert(receiver));
            Ok(0)
        }
    }
}

/// The operands of `spawn`, read from memory.
struct SpawnOperands {
    name: Vec<u8>,
    args: Vec<String>,
    ends: Vec<ChannelSide>,
}

type SpawnPointers = (u32, u32, u32, u32, u32, u32);

fn read_operands(
    caller: &mut Caller<'_, Guest>,
    pointers: SpawnPointers,
) -> Result<std::result::Result<SpawnOperands, i32>> {
    let (name, name_len, args, args_len, ends, count) = pointers;
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let mut fits = |at, length: u64, align| slice(bytes, at, length, align).is_some();
    let all_fit = fits(name, name_len.into(), 1)
        && fits(args, args_len.into(), 1)
        && fits(ends, u64::from(count) * 4, 4);
    if !all_fit {
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
        let handle = u32::from_le_bytes(*handle);
        match guest.family().handles.end(handle) {
            Some(end) => given.push(end.clone()),
            None => return Ok(Err(gpu::HANDLE)),
        }
    }
    Ok(Ok(SpawnOperands {
        name: range(name, name_len).to_vec(),
        args: args.into_iter().map(text).collect(),
        ends: given,
    }))
}

fn refusal(refused: ChildRefused) -> i64 {
    match refused {
        ChildRefused::UnknownModule => gpu::NAME.into(),
        ChildRefused::Limit => gpu::LIMIT.into(),
    }
}

fn spawn(mut caller: Caller<'_, Guest>, pointers: SpawnPointers) -> Result<i64> {
    let operands = match read_operands(&mut caller, pointers)? {
        Ok(operands) => operands,
        Err(error) => return Ok(error.into()),
    };
    let fuel = match caller.data().fuel {
        Some(_) => Some(caller.get_fuel()?),
        None => None,
    };
    let family = caller.data_mut().family();
    let Some(launcher) = family.host.launcher.upgrade() else {
        return Ok(gpu::LIMIT.into());
    };
    if let Err(refused) = launcher.check(family.module, &operands.name) {
        return Ok(refusal(refused));
    }
    let given = fuel.map(|fuel| fuel / 2);
    let full = family.children.len() >= gpu::CHILDREN as usize;
    let more = |n: u32| (n < gpu::DESCENDANTS).then_some(n + 1);
    // The count orders nothing else.
    let order = Ordering::Relaxed;
    let refused = full || given == Some(0);
    if refused || family.descendants.fetch_update(order, order, more).is_err() {
        return Ok(gpu::LIMIT.into());
    }
    let request = ChildRequest {
        module: operands.name,
        args: operands.args,
        ends: operands.ends,
        directories: Arc::clone(&family.directories),
        fuel: given,
        instance: family.spawned,
        inheritance: family.inheritance(),
    };
    let process = match launcher.launch(family.module, request) {
        Ok(process) => process,
        Err(refused) => {
            family.descendants.fetch_sub(1, order);
            return Ok(refusal(refused));
        }
    };
    let pid = process.pid.number();
    family.spawned += 1;
    family.children.push(Child {
        process,
        fuel: given,
    });
    if let Some((fuel, given)) = fuel.zip(given) {
        caller.set_fuel(fuel - given)?;
    }
    Ok(pid as i64)
}

fn status_words(status: Option<&ExitStatus>) -> (u32, u32) {
    match status {
        Some(ExitStatus::Exited(code)) => (gpu::STATUS_EXITED, *code),
        Some(ExitStatus::Trapped(_) | ExitStatus::OutOfMemory { .. }) => (gpu::STATUS_TRAPPED, 0),
        Some(ExitStatus::OutOfFuel) => (gpu::STATUS_OUT_OF_FUEL, 0),
        // If the host has taken the exit, the parent sees a killed child.
        _ => (gpu::STATUS_KILLED, 0),
    }
}

async fn wait(mut caller: Caller<'_, Guest>, pid: u64, to: u32) -> Result<i32> {
    let memory = memory(&mut caller)?;
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    if slice(bytes, to, 8, 4).is_none() {
        return Ok(gpu::MEMORY);
    }
    let family = guest.family();
    let Some(position) = family.child(Pid::of_number(pid)) else {
        return Ok(gpu::PROCESS);
    };
    let process = Arc::clone(&family.children[position].process);
    if !process.has_ended() {
        let load = Arc::clone(&family.load);
        let _blocked = block(guest, &load);
        process.ended().await;
    }
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    let exit = match process.wait(None) {
        Taken::Exit(exit) => Some(exit),
        Taken::NotYet | Taken::ByAnother => None,
    };
    let family = guest.family();
    let child = family.remove_child(position);
    if let Some(scheduler) = family.host.scheduler.upgrade() {
        scheduler.forget(process.pid);
    }
    let (status, code) = status_words(exit.as_ref().map(|exit| &exit.status));
    put_two(&mut bytes[to as usize..], status, code);
    let used = exit.map(|exit| exit.fuel_used.unwrap_or(0));
    if let Some((given, used)) = child.fuel.zip(used) {
        let fuel = caller.get_fuel()?;
        caller.set_fuel(fuel.saturating_add(given.saturating_sub(used)))?;
    }
    Ok(0)
}

fn kill(family: &Family, pid: u64) -> i32 {
    let child = family.child(Pid::of_number(pid));
    let (Some(position), Some(scheduler)) = (child, family.host.scheduler.upgrade()) else {
        return gpu::PROCESS;
    };
    scheduler.kill(&family.children[position].process);
    0
}

/// Adds all functions. Here a process is a warp of its own, whose first lane it is.
pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    type C<'a> = Caller<'a, Guest>;
    type Three = (u32, u32, u32);
    linker.func_wrap(MODULE, "lane", |_: C<'_>| 0_u32)?;
    linker.func_wrap(MODULE, "warp", |mut c: C<'_>| {
        c.data_mut().family().pid.number() as u32
    })?;
    linker.func_wrap(MODULE, "process", |mut c: C<'_>| {
        c.data_mut().family().pid.number()
    })?;
    linker.func_wrap(MODULE, "instance", |mut c: C<'_>| {
        c.data_mut().family().instance
    })?;
    linker.func_wrap(MODULE, "active", |_: C<'_>| 1_u32)?;
    linker.func_wrap(MODULE, "ballot", |_: C<'_>, vote: u32| u32::from(vote != 0))?;
    linker.func_wrap(MODULE, "shuffle", |_: C<'_>, value: u64, _: u32| value)?;
    linker.func_wrap(
        MODULE,
        "channel",
        |mut c: C<'_>, a: u32, b: u32, to: u32| {
            let host = c.data_mut().family().host.id;
            open(c, host, (a, b, to))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "send",
        |c: C<'_>, args: Three| -> HostCall<'_, i32> {
            host_call_is("send");
            Box::new(send(c, args, true))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "try_send",
        |c: C<'_>, args: Three| -> HostCall<'_, i32> {
            host_call_is("try_send");
            Box::new(send(c, args, false))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "receive",
        |c: C<'_>, args: Three| -> HostCall<'_, i32> {
            host_call_is("receive");
            Box::new(receive(c, args, true))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "try_receive",
        |c: C<'_>, args: Three| -> HostCall<'_, i32> {
            host_call_is("try_receive");
            Box::new(receive(c, args, false))
        },
    )?;
    linker.func_wrap(MODULE, "close", |mut c: C<'_>, handle: u32| {
        match c.data_mut().family().handles.close(handle) {
            true => 0,
            false => gpu::HANDLE,
        }
    })?;
    linker.func_wrap(
        MODULE,
        "spawn",
        |c: C<'_>, a: u32, b: u32, d: u32, e: u32, f: u32, g: u32| {
            host_call_is("spawn");
            spawn(c, (a, b, d, e, f, g))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "wait",
        |c: C<'_>, (pid, to): (u64, u32)| -> HostCall<'_, i32> {
            host_call_is("wait");
            Box::new(wait(c, pid, to))
        },
    )?;
    linker.func_wrap(MODULE, "kill", |mut c: C<'_>, pid: u64| {
        kill(c.data_mut().family(), pid)
    })?;
    Ok(())
}

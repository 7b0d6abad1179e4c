//! The functions by which the host reaches actors. `actor/host.cuh` has the same on a GPU.

use everwarp_contract::actor::{
    MESSAGE_ASK, MESSAGE_FAILED, MESSAGE_HOST, MESSAGE_REPLY, TELL_DELIVERED, TELL_FULL, TELL_GONE,
};
use everwarp_contract::{DevActors, GroupId};
use everwarp_runtime::TaskCx;
use everwarp_telemetry::recorder::message_sent;

use crate::chain::Chain;
use crate::context::{TaskHost, copy, record, shard, system, table};
use crate::id::ActorId;
use crate::mailbox::{Sent, Signal, Signalled, generation_of};
use crate::neighbours::Neighbours;
use crate::pool::Pool;
use crate::program::Builtin;
use crate::sync::Ordering;
use crate::turn::TurnHost;

/// Messages or signals that one task sends; another one goes on.
pub(crate) const STEP: u32 = 8;

fn host(task: &mut dyn TaskCx) -> TaskHost<'_> {
    let system = system(task);
    TaskHost {
        task,
        system,
        room: STEP + 1,
        chain: Chain::none(),
        needs: 1,
        sides: None,
        far: None,
    }
}

/// Spawns a task for what is left of a range.
fn go_on(host: &mut TaskHost<'_>, builtin: Builtin, first: u32, left: u32) {
    if left != 0 {
        let (function, tag) = (host.builtin(builtin), host.task.tag());
        let arg = u64::from(left) << 32 | u64::from(first);
        host.task.spawn(function, tag, arg);
    }
}

/// A free cell; none ends the engine.
fn cell(host: &mut TaskHost<'_>) -> Option<u32> {
    let cell = table(&host.system).take(Pool::Cells, shard());
    if cell.is_none() {
        host.out_of_cells();
    }
    cell
}

/// Messages to actors, in order, where those to one actor are next to each other. The first that does not fit keeps the
/// later ones to its actor back.
pub(crate) fn tell(task: &mut dyn TaskCx) {
    let (first, count) = (task.lo(), task.hi());
    let mut host = host(task);
    let (system, table) = (host.system, table(&host.system));
    let told_to = |i: u32| record(system.tells.address(), i).to.load(Ordering::Relaxed);
    let (mut status, mut last) = (TELL_DELIVERED, 0);
    let (mut done, mut missed, mut waits) = (0, 0, None::<Neighbours>);
    // A message queues one task at most; the turns that wait and what is left of the range take one each at the end.
    while done < count && host.room > 2 {
        let i = done;
        let told = record(system.tells.address(), first + i);
        let to = told.to.load(Ordering::Relaxed);
        if status != TELL_FULL || to != last {
            last = to;
            let Some(cell) = cell(&mut host) else { return };
            copy(told, &table.cells[cell as usize]);
            let to = ActorId::from_bits(to);
            message_sent(std::ptr::from_ref(table.control).addr(), cell);
            status = match table.send(to, cell) {
                Sent::Full => TELL_FULL,
                Sent::Gone => TELL_GONE,
                Sent::Activate => {
                    let kind = table.slots[to.slot() as usize].meta.load(Ordering::Relaxed) as u16;
                    if !waits.as_mut().is_some_and(|some| some.add(kind, to.slot()))
                        && let Some(some) = waits.replace(Neighbours::of(kind, to.slot()))
                    {
                        host.queue_neighbours(some);
                    }
                    TELL_DELIVERED
                }
                Sent::Delivered => TELL_DELIVERED,
            };
            if status != TELL_DELIVERED {
                table.give(Pool::Cells, shard(), cell, cell);
            }
        }
        told.next.store(status, Ordering::Relaxed);
        missed += u64::from(status != TELL_DELIVERED);
        done += 1;
    }
    if let Some(some) = waits {
        host.queue_neighbours(some);
    }
    while status == TELL_FULL && done < count && told_to(first + done) == last {
        let told = record(system.tells.address(), first + done);
        told.next.store(TELL_FULL, Ordering::Relaxed);
        missed += 1;
        done += 1;
    }
    if missed != 0 {
        host.task.report_add(missed);
    }
    go_on(&mut host, Builtin::Tell, first + done, count - done);
}

/// The ask in record `lo`. Its group stays open until it ends.
pub(crate) fn ask(task: &mut dyn TaskCx) {
    send_ask(task);
    // The host may end the group of turns once this has queued its turn.
    let system = system(task);
    table(&system).control.asked.fetch_add(1, Ordering::Release);
}

fn send_ask(task: &mut dyn TaskCx) {
    let index = task.lo();
    let mut host = host(task);
    let (system, table) = (host.system, table(&host.system));
    let group = host.task.hold();
    let asked = record(system.replies.address(), index);
    let to = ActorId::from_bits(asked.to.load(Ordering::Relaxed));
    let Some(cell) = cell(&mut host) else { return };
    let message = &table.cells[cell as usize];
    copy(asked, message);
    let head = asked.head.load(Ordering::Relaxed) | MESSAGE_ASK | MESSAGE_HOST;
    message.head.store(head, Ordering::Relaxed);
    let from = u64::from(index) << 32 | u64::from(group.0);
    message.from.store(from, Ordering::Relaxed);
    message_sent(std::ptr::from_ref(table.control).addr(), cell);
    let status = match table.send(to, cell) {
        Sent::Delivered => return,
        Sent::Activate => return host.activate(to.slot()),
        Sent::Full => TELL_FULL,
        Sent::Gone => TELL_GONE,
    };
    table.give(Pool::Cells, shard(), cell, cell);
    let failed = MESSAGE_REPLY | MESSAGE_FAILED;
    asked.head.store(failed, Ordering::Relaxed);
    // Of several asks that were submitted together, this is how the host knows which were not sent.
    asked.next.store(status, Ordering::Relaxed);
    let value = host.builtin(Builtin::Value);
    host.task.spawn_held(group, value, 0, status.into());
}

pub(crate) fn value(task: &mut dyn TaskCx) {
    task.report_add(task.arg());
}

pub(crate) fn launch(task: &mut dyn TaskCx) {
    let (first, count, kind) = (task.lo(), task.hi(), task.tag());
    let host = host(task);
    for i in first..first + count {
        let id = crate::context::launch(&host, shard(), kind.into(), ActorId::NONE);
        id_at(&host.system, i).store(id.bits(), Ordering::Relaxed);
    }
}

fn id_at<'t>(system: &DevActors, index: u32) -> &'t crate::sync::AtomicU64 {
    let at = system.ids.address() as *mut u64;
    // SAFETY: the host names places of its own table only, which lives as long as the running task.
    unsafe { crate::sync::AtomicU64::from_ptr(at.add(index as usize)) }
}

/// Reports how many of the actors did not live.
pub(crate) fn signal(task: &mut dyn TaskCx) {
    let (first, count) = (task.lo(), task.hi());
    let signal = match task.tag() {
        0 => Signal::Stop,
        1 => Signal::Kill,
        2 => Signal::Pause,
        _ => Signal::Resume,
    };
    let mut host = host(task);
    let step = count.min(STEP);
    for i in first..first + step {
        let id = ActorId::from_bits(id_at(&host.system, i).load(Ordering::Relaxed));
        send_signal(&mut host, id, signal);
    }
    go_on(&mut host, Builtin::Signal, first + step, count - step);
}

fn send_signal(host: &mut TaskHost<'_>, to: ActorId, signal: Signal) {
    match table(&host.system).signal(to, signal) {
        Signalled::Activate => host.activate(to.slot()),
        Signalled::Done => {}
        Signalled::Gone => host.task.report_add(1),
    }
}

pub(crate) fn anchor(task: &mut dyn TaskCx) {
    let host = host(task);
    let group = host.task.hold();
    table(&host.system)
        .control
        .world
        .store(group.0.into(), Ordering::Relaxed);
}

pub(crate) fn leave(task: &mut dyn TaskCx) {
    let host = host(task);
    let world = table(&host.system).control.world.load(Ordering::Relaxed) as u32;
    let value = host.builtin(Builtin::Value);
    host.task.spawn_held(GroupId(world), value, 0, 0);
}

/// The host has set `closing`, so that no more actors are launched.
pub(crate) fn close(task: &mut dyn TaskCx) {
    let (first, count) = (task.lo(), task.hi());
    let mut host = host(task);
    let slots = table(&host.system).slots;
    let step = count.min(STEP);
    for slot in first..first + step {
        let meta = slots[slot as usize].meta.load(Ordering::Relaxed);
        let id = ActorId::new(slot, generation_of(meta));
        send_signal(&mut host, id, Signal::Kill);
    }
    go_on(&mut host, Builtin::Close, first + step, count - step);
}

/// The host submits this to GPUs only.
pub(crate) fn gpus_only(task: &mut dyn TaskCx) {
    task.fault(0);
}

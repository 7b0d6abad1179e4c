//! The CPU twin of `file_probe.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::files::{self, DevNetAddress, FileEnd, FileTask, Then};
use everwarp::{DevPtr, TaskCx};

use super::{ASK, DONE, DOOR, DevFileProbe, DevFileStep, LOOKS};
use crate::element;

fn params(t: &dyn TaskCx) -> DevFileProbe {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevFileProbe>() }
}

fn result<'a>(p: &DevFileProbe, step: u32) -> &'a AtomicU64 {
    assert!(step < p.count, "there is such a step");
    // SAFETY: the table has as many results as there are steps.
    unsafe { element(DevPtr::new(p.results.address()), step.into()) }
}

fn net_address(at: u64) -> DevNetAddress {
    // SAFETY: the script's maker has put an address there.
    *unsafe { element(DevPtr::new(at), 0) }
}

/// Asks for a step. False if there was no room.
fn ask_one(t: &mut dyn TaskCx, index: u32) -> bool {
    let p = params(t);
    assert!(index < p.count, "there is such a step");
    // SAFETY: the script has that many steps.
    let step: DevFileStep = *unsafe { element(p.steps, index.into()) };
    let handle = match step.handle_of {
        0 => step.handle,
        other => result(&p, other - 1).load(Ordering::Relaxed) as u32,
    };
    let then = Then::new(DONE, 0, index);
    let bytes = DevPtr::new(step.address);
    // SAFETY: the tables are those of the instance's files.
    let files = unsafe { FileTask::new(t, &p.files, DOOR) };
    let files = files.in_class_number(step.klass);
    let mut files = files.within(1000 * u64::from(step.within));
    match step.op {
        1 => files.open(handle, bytes, step.len, step.offset as u32, then),
        2 => files.read(handle, step.offset, bytes, step.len, then),
        3 => files.write(handle, step.offset, bytes, step.len, then),
        4 => files.append(handle, bytes, step.len, then),
        5 => files.truncate(handle, step.offset, then),
        6 => files.stat(handle, DevPtr::new(step.address), then),
        7 => files.sync(handle, then),
        8 => files.close(handle, then),
        10 => files.sleep(step.offset, then),
        11 => files.timer(step.offset, step.address, then),
        12 => files.tick(handle, then),
        13 => files.listen(net_address(step.address), then),
        14 => files.connect(net_address(step.address), then),
        15 => files.datagrams(net_address(step.address), then),
        16 => files.accept(handle, DevPtr::new(step.address), then),
        17 => files.receive(handle, bytes, step.len, then),
        18 => files.send(handle, bytes, step.len, then),
        19 => {
            let sender = DevPtr::new(step.offset);
            files.receive_from(handle, bytes, step.len, sender, then)
        }
        20 => files.send_to(handle, bytes, step.len, net_address(step.offset), then),
        21 => files.shut(handle, step.offset as u32, then),
        22 => files.address(handle, DevPtr::new(step.address), then),
        23 => files.peer(handle, DevPtr::new(step.address), then),
        24 => files.set_option(handle, step.offset as u32, step.address, then),
        25 => files.option(handle, step.offset as u32, then),
        26 => files.cancel(handle, step.offset as u32, then),
        27 => files.connect_within(net_address(step.address), step.offset, then),
        28 => files.accept_within(handle, DevPtr::new(step.address), step.offset, then),
        29 => files.receive_within(handle, bytes, step.len, step.offset, then),
        30 => files.send_within(handle, bytes, step.len, step.offset, then),
        31 => files.watch(handle, step.offset as u32, step.address, then),
        32 => files.events(handle, DevPtr::new(step.address), step.len, then),
        33 => {
            let ended = result(&p, step.offset as u32);
            for _ in 0..LOOKS {
                if ended.load(Ordering::Relaxed) != 0 {
                    break;
                }
                std::hint::spin_loop();
            }
            result(&p, index).fetch_add(1 << 32, Ordering::Relaxed);
            t.report_add(1);
            true
        }
        _ => {
            let (to, room) = (DevPtr::new(step.offset), step.room.into());
            files.list(handle, bytes, step.len, to, room, then)
        }
    }
}

pub(super) fn ask(t: &mut dyn TaskCx) {
    let (first, count) = (t.lo(), t.hi());
    for index in first..first + count {
        if !ask_one(t, index) {
            let left = first + count - index;
            return t.spawn(ASK, 0, u64::from(left) << 32 | u64::from(index));
        }
    }
}

pub(super) fn done(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    let value = match end.result {
        Ok(value) => value,
        Err(error) => (error.0 as i32).wrapping_neg() as u32,
    };
    result(&p, end.note).fetch_add(1 << 32 | u64::from(value), Ordering::Relaxed);
    t.report_add(1);
    // SAFETY: the script has that many steps.
    let step: &DevFileStep = unsafe { element(p.steps, end.note.into()) };
    if step.next != 0 && !ask_one(t, step.next - 1) {
        t.spawn(ASK, 0, 1 << 32 | u64::from(step.next - 1));
    }
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}

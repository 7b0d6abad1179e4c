//! The CPU twin of `heap_probe.cu`.

use everwarp::{DevPtr, HeapOwner, TaskCx};

use super::{DevHeapProbe, UNTIL};

/// The report for a request that was refused.
const REFUSED: u64 = 1 << 32;

fn params(t: &dyn TaskCx) -> DevHeapProbe {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevHeapProbe>() }
}

fn mix(v: u32) -> u32 {
    let v = (v ^ v >> 16).wrapping_mul(0x7feb_352d);
    let v = (v ^ v >> 15).wrapping_mul(0x846c_a68b);
    v ^ v >> 16
}
fn size(p: &DevHeapProbe, v: u32) -> u32 {
    p.low + mix(v) % (p.high - p.low + 1)
}
fn byte(place: u32, i: u32) -> u8 {
    (mix(place.wrapping_add(1)) >> (i % 4 * 8)) as u8
}

fn cell<T>(at: DevPtr<T>, place: u32, p: &DevHeapProbe) -> *mut T {
    assert!(
        u64::from(place) < p.places,
        "a task names a place that is not there"
    );
    // SAFETY: inside the array.
    unsafe { (at.address() as *mut T).add(place as usize) }
}

/// The block of a place and its requested size; no two tasks work on one place at a time.
fn get(p: &DevHeapProbe, place: u32) -> (*mut u8, u32) {
    // SAFETY: inside the arrays; no other task uses this place meanwhile.
    unsafe {
        let block = cell(p.blocks, place, p).read();
        (block as *mut u8, cell(p.sizes, place, p).read())
    }
}
fn set(p: &DevHeapProbe, place: u32, block: *mut u8, bytes: u32) {
    // SAFETY: as in `get`.
    unsafe {
        cell(p.blocks, place, p).write(block as u64);
        cell(p.sizes, place, p).write(bytes);
    }
}

fn write(block: *mut u8, place: u32, from: u32, to: u32) {
    for i in from..to {
        // SAFETY: the block is at least `to` bytes long and belongs to this place.
        unsafe { block.add(i as usize).write(byte(place, i)) };
    }
}
fn wrong(block: *mut u8, place: u32, to: u32) -> u64 {
    // SAFETY: as in `write`, which has written them.
    let differs = |&i: &u32| unsafe { block.add(i as usize).read() } != byte(place, i);
    (0..to).filter(differs).count() as u64
}

pub(super) fn fill(t: &mut dyn TaskCx) {
    let (p, place) = (params(t), t.lo());
    let bytes = if t.hi() != 0 { t.hi() } else { size(&p, place) };
    let owner = match t.tag() {
        0 => t.owner(),
        tag => HeapOwner(tag.into()),
    };
    let block = t.alloc_for(owner, bytes.into());
    set(&p, place, block, bytes);
    if !block.is_null() {
        write(block, place, 0, bytes);
        t.report_add(1);
    }
}

pub(super) fn check(t: &mut dyn TaskCx) {
    let (p, place) = (params(t), t.lo());
    let (block, bytes) = get(&p, place);
    if !block.is_null() {
        t.report_add(wrong(block, place, bytes));
    }
}

pub(super) fn empty(t: &mut dyn TaskCx) {
    let (p, place) = (params(t), t.lo());
    let (block, bytes) = get(&p, place);
    t.free(block);
    set(&p, place, std::ptr::null_mut(), bytes);
}

fn change(t: &mut dyn TaskCx, p: &DevHeapProbe, place: u32, bytes: u32) -> u64 {
    let (old, had) = get(p, place);
    let block = t.realloc(old, bytes.into());
    if block.is_null() {
        return REFUSED;
    }
    let kept = had.min(bytes);
    let found = wrong(block, place, kept);
    write(block, place, kept, bytes);
    set(p, place, block, bytes);
    found
}

pub(super) fn resize(t: &mut dyn TaskCx) {
    let (p, place, bytes) = (params(t), t.lo(), t.hi());
    let found = change(t, &p, place, bytes);
    t.report_add(found);
}

pub(super) fn churn(t: &mut dyn TaskCx) {
    let (p, mut found) = (params(t), 0);
    for i in 0..t.hi() {
        let start = t.lo().wrapping_mul(2_654_435_761);
        let state = mix(start.wrapping_add(i.wrapping_mul(97)).wrapping_add(1));
        let (place, bytes) = (t.lo() * 4 + state % 4, size(&p, state));
        let (block, had) = get(&p, place);
        if block.is_null() {
            let block = t.alloc(bytes.into());
            set(&p, place, block, bytes);
            if block.is_null() {
                found += REFUSED;
            } else {
                write(block, place, 0, bytes);
            }
        } else if (state >> 8).is_multiple_of(2) {
            found += change(t, &p, place, bytes);
        } else {
            found += wrong(block, place, had);
            t.free(block);
            set(&p, place, std::ptr::null_mut(), had);
        }
    }
    t.report_add(found);
}

fn together(t: &mut dyn TaskCx, width: u32) {
    let (p, place, bytes) = (params(t), t.lo(), t.hi());
    let block = t.alloc(bytes.into());
    if block.is_null() {
        return t.report_add(REFUSED);
    }
    write(block, place, 0, bytes);
    let block = t.realloc(block, 2 * u64::from(bytes));
    if block.is_null() {
        return t.report_add(REFUSED);
    }
    let mut found = wrong(block, place, bytes);
    write(block, place, 0, 2 * bytes);
    let keeps = place.is_multiple_of(2);
    let kept = if keeps { block } else { std::ptr::null_mut() };
    set(&p, place, kept, 2 * bytes);
    if !keeps {
        t.free(block);
    }
    for me in 0..width {
        let own = t.alloc(u64::from(me) + 1);
        if own.is_null() {
            found += REFUSED;
            continue;
        }
        write(own, place + me, 0, me + 1);
        found += wrong(own, place + me, me + 1);
        t.free(own);
    }
    t.report_add(found);
}
pub(super) fn warp(t: &mut dyn TaskCx) {
    together(t, 32);
}
pub(super) fn block(t: &mut dyn TaskCx) {
    together(t, 256);
}

pub(super) fn release(t: &mut dyn TaskCx) {
    let bytes = t.release_owner(HeapOwner(t.tag().into()), t.lo(), t.hi());
    t.report_add(bytes);
}
pub(super) fn sweep(t: &mut dyn TaskCx) {
    let broken = t.check_heap(t.lo(), t.hi());
    t.report_add(broken);
}

pub(super) fn mistake(t: &mut dyn TaskCx) {
    let (p, kind, bytes) = (params(t), t.lo(), t.hi());
    if kind == 2 {
        return t.free(p.blocks.address() as *mut u8);
    }
    let block = t.alloc(bytes.into());
    if block.is_null() {
        return t.fault(kind.into());
    }
    set(&p, kind, block, bytes);
    if kind == 1 {
        t.free(block);
        t.free(block);
    }
    if kind == 3 {
        t.free(block.wrapping_add(16));
    }
    if kind == 4 || kind == 5 {
        // SAFETY: a checked heap has a guard there, so the byte is in the block's memory.
        unsafe { block.add(bytes as usize).write(0) };
    }
    if kind == 4 {
        t.free(block);
    }
}

pub(super) fn until(t: &mut dyn TaskCx) {
    let (p, place, bytes) = (params(t), t.lo(), t.hi());
    let block = t.alloc(bytes.into());
    if block.is_null() {
        let arg = t.arg();
        return t.spawn(UNTIL, 0, arg);
    }
    set(&p, place, block, bytes);
    write(block, place, 0, bytes);
}

//! The CPU twin of `reads.cu`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everwarp::files::{self, FileEnd, FileErrno, FileTask, Got, Page, Then};
use everwarp::{DevPtr, TaskCx};

use super::{
    ASK, DOOR, DevReads, GET, GOT, HELD, HIT, PAGE, READS_VISITS, TAKEN, VISIT, VISITED, WORDS,
    choice, word,
};
use crate::element;

fn params(t: &dyn TaskCx) -> DevReads {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevReads>() }
}
fn files<'t>(t: &'t mut dyn TaskCx, p: &'t DevReads) -> FileTask<'t> {
    // SAFETY: the tables are those of the instance's files.
    unsafe { FileTask::new(t, &p.files, DOOR) }
}
fn number<'a>(words: DevPtr<u64>, index: u64) -> &'a AtomicU64 {
    // SAFETY: there is one for each slot or each step, and tasks access them atomically.
    unsafe { element(DevPtr::new(words.address()), index) }
}
/// A word of memory that no task writes while others read.
fn at(words: DevPtr<u64>, index: u64) -> u64 {
    // SAFETY: the buffer, the piece or the page has that many words.
    unsafe { (words.address() as *const u64).add(index as usize).read() }
}
fn clock_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
fn error(t: &mut dyn TaskCx, error: FileErrno) {
    t.report_add(u64::from(error.0) << 48);
}
fn pack(slot: u32, left: u32) -> u64 {
    u64::from(left) << 32 | u64::from(slot)
}
fn note(p: &DevReads, slot: u32, left: u32) -> u32 {
    slot * (p.steps + 1) + left
}
fn of_note(p: &DevReads, note: u32) -> (u32, u32) {
    (note / (p.steps + 1), note % (p.steps + 1))
}
/// The page of a step: a random one, or the next one of the slot's part of the file.
fn page(p: &DevReads, slot: u32, left: u32, tag: u8) -> u64 {
    match tag & 1 {
        0 => choice(p.seed, slot, left, p.words / WORDS),
        _ => u64::from(slot) * u64::from(p.steps) + u64::from(p.steps - left),
    }
}
/// Whether a page begins and ends with what the file has there.
fn right(words: DevPtr<u64>, page: u64) -> bool {
    let (first, last) = (page * WORDS, page * WORDS + WORDS - 1);
    at(words, 0) == word(first) && at(words, WORDS - 1) == word(last)
}
fn piece(p: &DevReads, slot: u32) -> DevPtr<u8> {
    DevPtr::new(p.bytes.address() + u64::from(slot) * PAGE)
}
fn words(bytes: DevPtr<u8>) -> DevPtr<u64> {
    DevPtr::new(bytes.address())
}

pub(super) fn ask(t: &mut dyn TaskCx) {
    let (p, slot, left, tag, arg) = (params(t), t.lo(), t.hi(), t.tag(), t.arg());
    if left == 0 {
        return;
    }
    number(p.began, slot.into()).store(clock_ns(), Ordering::Relaxed);
    let then = Then::new(GOT, tag, note(&p, slot, left));
    let from = page(&p, slot, left, tag) * PAGE;
    let mut files = files(t, &p).in_class_number(u32::from(tag >> 1));
    if !files.read(p.handle, from, piece(&p, slot), PAGE as u32, then) {
        t.spawn(ASK, tag, arg);
    }
}

pub(super) fn got(t: &mut dyn TaskCx) {
    let (p, end, tag, now) = (params(t), FileEnd::of(t.arg()), t.tag(), clock_ns());
    let (slot, left) = of_note(&p, end.note);
    let bytes = match end.result {
        Ok(bytes) => bytes,
        Err(why) => return error(t, why),
    };
    let step = u64::from(slot) * u64::from(p.steps) + u64::from(p.steps - left);
    let began = number(p.began, slot.into()).load(Ordering::Relaxed);
    number(p.took, step).store(now - began, Ordering::Relaxed);
    let page = page(&p, slot, left, tag);
    if u64::from(bytes) == PAGE && right(words(piece(&p, slot)), page) {
        t.report_add(1);
    }
    t.spawn(ASK, tag, pack(slot, left - 1));
}

pub(super) fn visit(t: &mut dyn TaskCx) {
    let (p, slot, mut left, tag) = (params(t), t.lo(), t.hi(), t.tag());
    let mut found = 0;
    for _ in 0..READS_VISITS {
        if left == 0 {
            break;
        }
        let page = page(&p, slot, left, tag);
        let then = Then::new(VISITED, tag, note(&p, slot, left));
        let mut files = files(t, &p);
        match files.acquire(p.cached, page * PAGE, then) {
            Page::Here(bytes) => {
                found += u64::from(right(words(bytes), page));
                files.release(p.cached, page * PAGE);
                left -= 1;
            }
            Page::Later => left = 0,
            Page::Full => break,
            Page::Failed(why) => {
                error(t, why);
                left = 0;
            }
        }
    }
    if found > 0 {
        t.report_add(found);
    }
    if left > 0 {
        t.spawn(VISIT, tag, pack(slot, left));
    }
}

pub(super) fn visited(t: &mut dyn TaskCx) {
    let (p, end, tag) = (params(t), FileEnd::of(t.arg()), t.tag());
    let (slot, left) = of_note(&p, end.note);
    if let Err(why) = end.result {
        return error(t, why);
    }
    let page = page(&p, slot, left, tag);
    let files = files(t, &p);
    let is_right = right(words(files.held(p.cached, page * PAGE)), page);
    files.release(p.cached, page * PAGE);
    if is_right {
        t.report_add(1);
    }
    if left > 1 {
        t.spawn(VISIT, tag, pack(slot, left - 1));
    }
}

pub(super) fn get(t: &mut dyn TaskCx) {
    let (p, slot, last) = (params(t), t.lo(), t.hi());
    let mut found = 0;
    for left in (1..=last).rev() {
        let number = choice(p.seed, slot, left, p.words);
        let then = Then::new(TAKEN, 0, note(&p, slot, left));
        match files(t, &p).get::<u64>(p.cached, 8 * number, then) {
            Got::Value(value) => found += u64::from(value == word(number)),
            Got::Later => break,
            Got::Full => {
                t.spawn(GET, 0, pack(slot, left));
                break;
            }
            Got::Failed(why) => {
                error(t, why);
                break;
            }
        }
    }
    if found > 0 {
        t.report_add(found);
    }
}

pub(super) fn taken(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    let (slot, left) = of_note(&p, end.note);
    if let Err(why) = end.result {
        return error(t, why);
    }
    let number = choice(p.seed, slot, left, p.words);
    if files(t, &p).take::<u64>(p.cached, 8 * number) == word(number) {
        t.report_add(1);
    }
    if left > 1 {
        t.spawn(GET, 0, pack(slot, left - 1));
    }
}

pub(super) fn plain(t: &mut dyn TaskCx) {
    let (p, slot) = (params(t), t.lo());
    let number = |left| choice(p.seed, slot, left, p.words);
    let is_right = |left: &u32| at(p.plain, number(*left)) == word(number(*left));
    let found = (1..=t.hi()).filter(is_right).count();
    t.report_add(found as u64);
}

/// Whether a page has the words of the file.
fn sums(words: DevPtr<u64>, page: u64) -> bool {
    (0..WORDS).all(|i| at(words, i) == word(page * WORDS + i))
}

pub(super) fn hit(t: &mut dyn TaskCx) {
    let (p, slot, last) = (params(t), t.lo(), t.hi());
    let mut found = 0;
    for left in (1..=last).rev() {
        let page = choice(p.seed, slot, left, p.words / WORDS);
        let then = Then::new(HELD, 0, note(&p, slot, left));
        let mut files = files(t, &p);
        match files.acquire(p.cached, page * PAGE, then) {
            Page::Here(bytes) => {
                found += u64::from(sums(words(bytes), page));
                files.release(p.cached, page * PAGE);
            }
            Page::Later => break,
            Page::Full => {
                t.spawn(HIT, 0, pack(slot, left));
                break;
            }
            Page::Failed(why) => {
                error(t, why);
                break;
            }
        }
    }
    if found > 0 {
        t.report_add(found);
    }
}

pub(super) fn held(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    let (slot, left) = of_note(&p, end.note);
    if let Err(why) = end.result {
        return error(t, why);
    }
    let page = choice(p.seed, slot, left, p.words / WORDS);
    let files = files(t, &p);
    let is_right = sums(words(files.held(p.cached, page * PAGE)), page);
    files.release(p.cached, page * PAGE);
    if is_right {
        t.report_add(1);
    }
    if left > 1 {
        t.spawn(HIT, 0, pack(slot, left - 1));
    }
}

pub(super) fn flat(t: &mut dyn TaskCx) {
    let (p, slot) = (params(t), t.lo());
    let is_right = |left: &u32| {
        let page = choice(p.seed, slot, *left, p.words / WORDS);
        sums(DevPtr::new(p.plain.address() + page * PAGE), page)
    };
    let found = (1..=t.hi()).filter(is_right).count();
    t.report_add(found as u64);
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}

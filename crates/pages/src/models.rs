//! Loom models of a page's word: the real transitions, in every interleaving. Each model also runs with a rule broken, and
//! must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::mutant::{BROKEN, Mutant};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::word::{Acquired, Evicted, Eviction, Word, filled};

/// Two pages and a frame.
struct World {
    words: [AtomicU64; 2],
    written: AtomicU64,
    /// The frame's bytes, whose accesses loom orders.
    bytes: UnsafeCell<u64>,
    /// The same for bytes that tasks and the host reach at the same time.
    shared: AtomicU64,
    file: AtomicU64,
}

// SAFETY: loom checks every access to the cell.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            written: AtomicU64::new(0),
            bytes: UnsafeCell::new(0),
            shared: AtomicU64::new(0),
            file: AtomicU64::new(0),
        })
    }
    fn page(&self, page: usize) -> Word<'_> {
        Word(&self.words[page])
    }
    fn read(&self) -> u64 {
        // SAFETY: loom checks the access.
        self.bytes.with(|bytes| unsafe { *bytes })
    }
    fn write(&self, value: u64) {
        // SAFETY: loom checks the access.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }
    /// Writes back, as the host does with the door.
    fn write_back(&self, fails: bool) {
        let parts = self.page(0).take(&self.written);
        if parts == 0 {
            return;
        }
        if !fails {
            let bytes = self.shared.load(Ordering::Relaxed);
            self.file.store(bytes, Ordering::Relaxed);
        }
        let failed = if fails { parts } else { 0 };
        self.page(0).written(&self.written, failed);
    }
}

fn holds_and_notices(mutant: Mutant, model: fn()) {
    loom::model(model);
    BROKEN.set(Some(mutant));
    let noticed = catch_unwind(AssertUnwindSafe(|| loom::model(model))).is_err();
    BROKEN.set(None);
    assert!(noticed, "the model does not notice {mutant:?}");
}

/// A task reads a page, while the host gives its frame to another page.
fn read_against_evict() {
    let world = World::new();
    world.write(10);
    world.page(0).fill(filled(0, false));
    let other = world.clone();
    let task = thread::spawn(move || {
        if let Acquired::Here { frame, .. } = other.page(0).acquire() {
            assert_eq!((frame, other.read()), (0, 10));
            other.page(0).release();
        }
    });
    if world.page(0).evict(0, &world.written, Eviction::Drop) == Evicted::Gone {
        world.write(20);
        world.page(1).fill(filled(0, false));
    }
    task.join().unwrap();
}

#[test]
fn a_held_page_stays_in_its_frame() {
    holds_and_notices(Mutant::EvictsHeld, read_against_evict);
}

#[test]
fn a_frame_is_used_again_after_the_last_read() {
    holds_and_notices(Mutant::ReleaseUnordered, read_against_evict);
}

#[test]
fn a_page_in_a_frame_has_its_bytes() {
    holds_and_notices(Mutant::FillUnordered, || {
        let world = World::new();
        let other = world.clone();
        let task = thread::spawn(move || {
            if let Acquired::Here { .. } = other.page(0).acquire() {
                assert_eq!(other.read(), 10);
            }
        });
        world.write(10);
        world.page(0).fill(filled(0, false));
        task.join().unwrap();
    });
}

#[test]
fn a_page_stays_for_the_task_that_waited_for_it() {
    holds_and_notices(Mutant::MissUncounted, || {
        let world = World::new();
        let other = world.clone();
        // The clock comes by as often as it likes.
        let clock = thread::spawn(move || {
            let evicted = other.page(0).evict(0, &other.written, Eviction::Drop);
            if evicted == Evicted::Gone {
                other.write(20);
            }
        });
        let missing = world.page(0).acquire() == Acquired::Missing;
        assert!(missing);
        world.write(10);
        // The task of the door fills the page, and lets the waiting task go on.
        world.page(0).fill(filled(0, false));
        assert_eq!(world.page(0).held(), Some(0));
        assert_eq!(world.read(), 10);
        world.page(0).release();
        clock.join().unwrap();
    });
}

/// A part of a page is written, and a task writes another one while the host writes the page back.
fn write_against_write_back() {
    let world = World::new();
    world.page(0).fill(filled(0, false));
    let write = |world: &World, part: u64| {
        let held = matches!(world.page(0).acquire(), Acquired::Here { .. });
        assert!(held, "nothing evicts it");
        world.shared.fetch_or(1 << part, Ordering::Relaxed);
        world.page(0).wrote(&world.written, 1 << part);
        world.page(0).release();
    };
    write(&world, 0);
    let other = world.clone();
    let task = thread::spawn(move || write(&other, 1));
    world.write_back(false);
    task.join().unwrap();
    // What is not in the file yet is dirty.
    world.write_back(false);
    assert_eq!(world.file.load(Ordering::Relaxed), 0b11);
    let evicted = world.page(0).evict(0, &world.written, Eviction::Drop);
    assert_eq!(evicted, Evicted::Gone);
    assert_eq!(world.written.load(Ordering::Relaxed), 0);
}

#[test]
fn no_write_is_lost_to_a_write_back() {
    holds_and_notices(Mutant::TakesBeforeClean, write_against_write_back);
}

#[test]
fn a_write_after_a_write_back_makes_the_page_dirty_again() {
    holds_and_notices(Mutant::MarksAfterLook, write_against_write_back);
}

#[test]
fn a_page_whose_write_back_fails_is_kept() {
    holds_and_notices(Mutant::TakesUnheld, || {
        let world = World::new();
        world.page(0).fill(filled(0, false));
        let held = matches!(world.page(0).acquire(), Acquired::Here { .. });
        assert!(held);
        world.page(0).wrote(&world.written, 1);
        world.page(0).release();
        let other = world.clone();
        let clock = thread::spawn(move || {
            let evicted = other.page(0).evict(0, &other.written, Eviction::Drop);
            assert_ne!(evicted, Evicted::Gone, "the bytes are nowhere else");
        });
        world.write_back(true);
        clock.join().unwrap();
        assert_eq!(world.page(0).take(&world.written), 1);
    });
}

/// A task reads a page that it does not hold, while its frame is another page's for some time.
fn peek_against_evict() {
    let world = World::new();
    world.shared.store(10, Ordering::Relaxed);
    world.page(0).fill(filled(0, false));
    let other = world.clone();
    let host = thread::spawn(move || {
        for (page, bytes) in [(0, 20), (1, 10)] {
            let gone = other.page(page).evict(0, &other.written, Eviction::Drop);
            if gone != Evicted::Gone {
                break;
            }
            // The task that copies has a fence before its first byte.
            fence(Ordering::Release);
            other.shared.store(bytes, Ordering::Relaxed);
            other.page(1 - page).fill(filled(0, false));
        }
    });
    if let Some(value) = world.page(0).peek(|_| world.shared.load(Ordering::Relaxed)) {
        assert_eq!(value, 10);
    }
    host.join().unwrap();
}

#[test]
fn a_page_that_was_away_has_another_version() {
    holds_and_notices(Mutant::VersionStays, peek_against_evict);
}

#[test]
fn a_task_that_does_not_hold_a_page_looks_again_after_it_has_read() {
    holds_and_notices(Mutant::LooksEarly, peek_against_evict);
}

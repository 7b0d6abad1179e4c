//! The word of a page, and how it changes.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 19 | holders: tasks that use the page or wait for it, and the host while it writes the page back |
//! | 20 | the page is in a frame |
//! | 21 | bytes were written that are not in the file |
//! | 22 | the page was used since the clock came by |
//! | 23 | the host wants to know when the page is used, to read ahead |
//! | 24 to 31 | the version: how often the page has left a frame, modulo 256 |
//! | 32 to 63 | the frame, if bit 20 is set |
//!
//! Next to it there is a word for each frame: which of the page's 64 parts were written.
//!
//! 1. A task adds itself to the holders with acquire, and takes itself off with release. In between it may read and write the
//!    bytes, if the page is in a frame.
//! 2. A page leaves its frame only by an exchange of its whole word while it has no holders, with acquire: then no task uses
//!    the bytes, and none will before the page has another frame.
//! 3. A task that finds the page in no frame stays among the holders. The task that fills the page lets it go on, so nothing comes
//!    between: the page cannot leave before that task has used it.
//! 4. A page that is filled gets its frame with release, after its bytes.
//! 5. A task that has written notes the parts first, and then that the page is dirty. A write-back clears the dirty bit
//!    first, and then takes the parts. So a part that is noted is taken, or the page is dirty.
//! 6. A write-back is among the holders until the bytes are in the file, or the page is dirty again.
//! 7. A task may also read a page that it does not hold, and then look again: if the frame and the version are the same, the page
//!    has been there all the time. (Or it has left 256 times between two loads of one task, and the host takes longer than these loads
//!    for each time.) Tasks on a GPU read single values so, because two changes of the word cost more than the value.

use everwarp_contract::pages::{
    PAGE_DIRTY_BIT, PAGE_FRAME_SHIFT, PAGE_HERE_BIT, PAGE_HOLDERS_BITS, PAGE_HOLDERS_MOST,
    PAGE_MARK_BIT, PAGE_USED_BIT, PAGE_VERSION_BITS, PAGE_VERSION_SHIFT,
};

use crate::mutant::{Mutant, broken};
use crate::sync::{AtomicU64, Ordering, fence};

const HOLDERS: u64 = (1 << PAGE_HOLDERS_BITS) - 1;
const HERE: u64 = 1 << PAGE_HERE_BIT;
const DIRTY: u64 = 1 << PAGE_DIRTY_BIT;
const USED: u64 = 1 << PAGE_USED_BIT;
const MARK: u64 = 1 << PAGE_MARK_BIT;
const VERSIONS: u64 = (1 << PAGE_VERSION_BITS) - 1;
/// What stays the same as long as the page stays in its frame.
const PLACE: u64 = VERSIONS << PAGE_VERSION_SHIFT | HERE | !0 << PAGE_FRAME_SHIFT;

/// What became of a task that wants a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// It holds the page, which is in this frame. `mark`: it is the one that tells the host.
    Here {
        /// The frame.
        frame: u32,
        /// Whether to ask for further pages.
        mark: bool,
    },
    /// It is among the holders, and asks the host for the page.
    Missing,
    /// There are too many holders; it is not among them.
    Crowded,
}

/// What became of an order to take a page out of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[repr(u32)]
pub enum Evicted {
    /// The frame is free.
    Gone = everwarp_contract::pages::PAGE_GONE,
    /// The page is held, or is not in this frame yet.
    Held = everwarp_contract::pages::PAGE_IS_HELD,
    /// Its bytes are not in the file.
    Dirty = everwarp_contract::pages::PAGE_IS_DIRTY,
    /// It was used since the last time.
    Used = everwarp_contract::pages::PAGE_IS_USED,
}

/// How a page is taken out of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Only if it was not used since the last time.
    Clock,
    /// Also if it was used.
    Drop,
    /// Also if its bytes are not in the file.
    Discard,
}

/// The word of a page.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t>(pub &'t AtomicU64);

/// The bits that a filled page gets.
#[must_use]
pub const fn filled(frame: u32, mark: bool) -> u64 {
    (frame as u64) << PAGE_FRAME_SHIFT | HERE | if mark { MARK } else { 0 }
}

const fn frame(word: u64) -> u32 {
    (word >> PAGE_FRAME_SHIFT) as u32
}

/// The word of a page that has left its frame.
fn left(word: u64) -> u64 {
    let more = u64::from(!broken(Mutant::VersionStays));
    (((word >> PAGE_VERSION_SHIFT) + more) & VERSIONS) << PAGE_VERSION_SHIFT
}

impl Word<'_> {
    /// Adds a task to the holders.
    pub fn acquire(self) -> Acquired {
        // Acquire pairs with the release of `fill`: the bytes are there.
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & HOLDERS >= PAGE_HOLDERS_MOST.into() {
            self.release();
            return Acquired::Crowded;
        }
        if before & HERE == 0 {
            if broken(Mutant::MissUncounted) {
                self.release();
            }
            return Acquired::Missing;
        }
        if before & USED == 0 {
            self.0.fetch_or(USED, Ordering::Relaxed);
        }
        let mark = before & MARK != 0 && self.0.fetch_and(!MARK, Ordering::Relaxed) & MARK != 0;
        Acquired::Here {
            frame: frame(before),
            mark,
        }
    }
    /// The frame of a page that the task holds; `None` if it does not, and the page is in no frame.
    #[must_use]
    pub fn held(self) -> Option<u32> {
        // Acquire: the task may have been told of the page by another one.
        let word = self.0.load(Ordering::Acquire);
        (word & HERE != 0).then_some(frame(word))
    }
    /// Reads a page, whose frame `read` gets, without holding it. `None`: it is in no frame, has left it meanwhile, or the host wants
    /// to know of its use; so the task has to acquire it.
    #[must_use]
    pub fn peek<T>(self, read: impl FnOnce(u32) -> T) -> Option<T> {
        // Acquire, as in `acquire`.
        let seen = self.0.load(Ordering::Acquire);
        if seen & (HERE | MARK) != HERE {
            return None;
        }
        if seen & USED == 0 {
            self.0.fetch_or(USED, Ordering::Relaxed);
        }
        // Acquire: what was read comes before this look. It pairs with the release that precedes the frame's next bytes.
        let stayed = || {
            fence(Ordering::Acquire);
            (self.0.load(Ordering::Relaxed) ^ seen) & PLACE == 0
        };
        let early = broken(Mutant::LooksEarly).then(stayed);
        let value = read(frame(seen));
        early.unwrap_or_else(stayed).then_some(value)
    }
    /// Takes a task off the holders.
    pub fn release(self) {
        // Release pairs with the acquire of `evict`: the task has done with the bytes.
        let order = match broken(Mutant::ReleaseUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.0.fetch_sub(1, order);
    }
    /// Notes that a holder has written these parts of the page.
    pub fn wrote(self, written: &AtomicU64, parts: u64) {
        if broken(Mutant::MarksAfterLook) {
            let dirty = self.0.load(Ordering::Relaxed) & DIRTY != 0;
            written.fetch_or(parts, Ordering::AcqRel);
            if !dirty {
                self.0.fetch_or(DIRTY, Ordering::Release);
            }
            return;
        }
        // Release: the bytes come before the parts. Acquire: if the parts were taken before, the dirty bit was cleared before,
        // and the load sees that.
        written.fetch_or(parts, Ordering::AcqRel);
        if self.0.load(Ordering::Relaxed) & DIRTY == 0 {
            self.0.fetch_or(DIRTY, Ordering::Release);
        }
    }
    /// Says that the page is in a frame. `bits` are those of [`filled`]; they may be set more than once while the page has a
    /// holder.
    pub fn fill(self, bits: u64) {
        let order = match broken(Mutant::FillUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.0.fetch_or(bits, order);
    }
    /// Takes the page out of its frame.
    pub fn evict(self, from: u32, written: &AtomicU64, how: Eviction) -> Evicted {
        let word = self.0.load(Ordering::Relaxed);
        let held = word & HOLDERS != 0 && !broken(Mutant::EvictsHeld);
        if held || word & HERE == 0 || frame(word) != from {
            return Evicted::Held;
        }
        if word & DIRTY != 0 && how != Eviction::Discard {
            return Evicted::Dirty;
        }
        if word & USED != 0 && how == Eviction::Clock {
            self.0.fetch_and(!USED, Ordering::Relaxed);
            return Evicted::Used;
        }
        let gone = self
            .0
            .compare_exchange(word, left(word), Ordering::AcqRel, Ordering::Relaxed);
        match gone {
            Ok(_) => {
                if how == Eviction::Discard {
                    written.store(0, Ordering::Relaxed);
                }
                Evicted::Gone
            }
            Err(_) => Evicted::Held,
        }
    }
    /// Takes the written parts, which are to be written to the file; 0 if there are none. Else the page is held until
    /// [`written`](Self::written).
    #[must_use]
    pub fn take(self, written: &AtomicU64) -> u64 {
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & DIRTY == 0 {
            self.release();
            return 0;
        }
        let clean = || self.0.fetch_and(!DIRTY, Ordering::AcqRel);
        // Release pairs with the acquire of `wrote`, and acquire with its release.
        let take = || written.swap(0, Ordering::AcqRel);
        let parts = if broken(Mutant::TakesBeforeClean) {
            let parts = take();
            clean();
            parts
        } else {
            clean();
            take()
        };
        if parts == 0 || broken(Mutant::TakesUnheld) {
            self.release();
        }
        parts
    }
    /// Ends what [`take`](Self::take) has started. `failed` are the parts that are not in the file.
    pub fn written(self, written: &AtomicU64, failed: u64) {
        if failed != 0 {
            self.wrote(written, failed);
        }
        if !broken(Mutant::TakesUnheld) {
            self.release();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn too_many_holders_are_refused() {
        let word = AtomicU64::new(u64::from(PAGE_HOLDERS_MOST) - 1);
        let page = Word(&word);
        page.fill(filled(7, false));
        let here = Acquired::Here {
            frame: 7,
            mark: false,
        };
        assert_eq!(page.acquire(), here);
        assert_eq!(page.acquire(), Acquired::Crowded);
        page.release();
        assert_eq!(page.acquire(), here);
    }

    #[test]
    fn one_task_tells_the_host_of_a_mark() {
        let (word, written) = (AtomicU64::new(0), AtomicU64::new(0));
        let page = Word(&word);
        assert_eq!(page.acquire(), Acquired::Missing);
        page.fill(filled(3, true));
        assert_eq!(page.held(), Some(3));
        let here = |mark| Acquired::Here { frame: 3, mark };
        assert_eq!((page.acquire(), page.acquire()), (here(true), here(false)));
        for _ in 0..3 {
            let evicted = page.evict(3, &written, Eviction::Discard);
            assert_eq!(evicted, Evicted::Held);
            page.release();
        }
        assert_eq!(page.evict(4, &written, Eviction::Drop), Evicted::Held);
        assert_eq!(page.evict(3, &written, Eviction::Clock), Evicted::Used);
        assert_eq!(page.evict(3, &written, Eviction::Clock), Evicted::Gone);
        assert_eq!(word.load(Ordering::Relaxed), 1 << PAGE_VERSION_SHIFT);
    }

    #[test]
    fn a_page_that_comes_back_is_another_one_for_a_task_that_does_not_hold_it() {
        let (word, written) = (AtomicU64::new(0), AtomicU64::new(0));
        let page = Word(&word);
        assert_eq!(page.peek(|frame| frame), None);
        let gone = |how| page.evict(3, &written, how) == Evicted::Gone;
        for version in 0..300 {
            page.fill(filled(3, version % 2 == 0));
            // A task that holds the page tells the host of a mark.
            let marked = (version % 2 != 0).then_some(3);
            assert_eq!(page.peek(|frame| frame), marked);
            assert!(matches!(page.acquire(), Acquired::Here { frame: 3, .. }));
            page.release();
            // Others may use it, and write it.
            let used = page.peek(|_| {
                let _ = page.acquire();
                page.wrote(&written, 1);
            });
            assert!(used.is_some());
            page.release();
            assert_eq!(page.peek(|_| assert!(gone(Eviction::Discard))), None);
            page.fill(filled(3, false));
            let away = page.peek(|_| {
                assert!(gone(Eviction::Drop));
                page.fill(filled(3, false));
            });
            assert!(away.is_none() && gone(Eviction::Drop));
        }
    }

    #[test]
    fn what_could_not_be_written_is_dirty_again() {
        let (word, written) = (AtomicU64::new(0), AtomicU64::new(0));
        let page = Word(&word);
        page.fill(filled(0, false));
        assert_eq!(page.take(&written), 0);
        let _ = page.acquire();
        page.wrote(&written, 0b101);
        page.release();
        assert_eq!(page.take(&written), 0b101);
        assert_eq!(page.evict(0, &written, Eviction::Discard), Evicted::Held);
        page.written(&written, 0b100);
        assert_eq!(page.evict(0, &written, Eviction::Drop), Evicted::Dirty);
        assert_eq!(page.take(&written), 0b100);
        page.written(&written, 0);
        assert_eq!(page.evict(0, &written, Eviction::Drop), Evicted::Gone);
    }
}

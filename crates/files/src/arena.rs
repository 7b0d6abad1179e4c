//! The arena: memory of the host into which files are read where the host does not reach the engine's memory.
//!
//! It is one allocation, page-locked for a GPU. Each thread that reads files has a region of it, and takes places there. So threads
//! share nothing, and need no lock. A thread reads into a place, lets tasks of the door copy the bytes to where they
//! belong, waits for those tasks, and gives the place back. A read that finds no place waits until the thread has given one back;
//! with none taken there always is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::{DevFileCopy, DevFiles, DevPtr, DevType};
use everwarp_runtime::{Buffer, Engine, EngineKind};

use crate::config::{ARENA_UNIT, ArenaConfig};
use crate::error::FilesError;

const UNIT: usize = ARENA_UNIT as usize;
/// Bytes of a thread's region, unless the configuration says otherwise.
const REGION: u64 = 2 << 20;
/// Batches of copies that a thread has on their way at a time, and the records of each.
pub(crate) const BATCHES: usize = 2;
pub(crate) const RECORDS: usize = 256;
/// 64-bit words of a record.
pub(crate) const RECORD: usize = size_of::<DevFileCopy>() / 8;

/// The arena of an instance's files.
#[derive(Debug)]
pub(crate) struct Arena {
    bytes: Buffer<u8>,
    /// What is to be copied: [`RECORDS`] for each of the [`BATCHES`] of each thread.
    pub(crate) copies: Buffer<u64>,
    /// Where the host finds the bytes.
    host: usize,
    /// Units of each region, and how many of them are taken.
    units: usize,
    used: Vec<Arc<Used>>,
}

/// How many units of a region are taken. Its thread alone changes it, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Used(AtomicU64);

impl Used {
    fn set(&self, units: usize) {
        self.0.store(units as u64, Ordering::Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Arena {
    /// The arena of a configuration; `None` where files are read straight into the engine's memory.
    pub(crate) fn new(
        engine: &Engine,
        config: ArenaConfig,
        threads: usize,
    ) -> Result<Option<Self>, FilesError> {
        if engine.kind() == EngineKind::Cpu && !config.always {
            return Ok(None);
        }
        let config = ArenaConfig {
            bytes: match config.bytes {
                0 => REGION * threads as u64,
                bytes => bytes,
            },
            ..config
        };
        if !config.has_room(threads) {
            return Err(FilesError::Size {
                what: "ArenaConfig::bytes",
                rule: "4096 for each thread at least, and 2^30 at most",
                value: config.bytes,
            });
        }
        let units = config.bytes as usize / (UNIT * threads);
        let bytes: Buffer<u8> = engine.near_buffer(units * UNIT * threads)?;
        let host = match bytes.near() {
            Some(first) => first.as_ptr().expose_provenance(),
            // All memory of this engine is the host's.
            None => bytes.ptr().address() as usize,
        };
        Ok(Some(Self {
            bytes,
            copies: engine.near_buffer(BATCHES * RECORDS * RECORD * threads)?,
            host,
            units,
            used: (0..threads).map(|_| Arc::default()).collect(),
        }))
    }
    /// Its part of the files' tables.
    pub(crate) fn tables(&self) -> DevFiles {
        DevFiles {
            arena: self.bytes.ptr(),
            copies: DevPtr::new(self.copies.ptr().address()),
            arena_bytes: self.bytes.len() as u32,
            copy_slots: (self.copies.len() / RECORD) as u32,
            ..DevFiles::ZERO
        }
    }
    /// The region of a thread, which calls this once.
    pub(crate) fn region(&self, thread: usize) -> Region {
        Region::new(thread * self.units, self.units, self.used[thread].clone())
    }
    /// The first byte of a place.
    pub(crate) fn at(&self, place: &Place) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut::<u8>(self.host).wrapping_add(place.offset())
    }
    /// Bytes that are taken.
    pub(crate) fn used(&self) -> u64 {
        let units: u64 = self.used.iter().map(|used| used.get()).sum();
        units * UNIT as u64
    }
}

/// Neighbouring units that are taken. Its thread gives them back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place that is not given back is lost"]
pub(crate) struct Place {
    first: usize,
    units: usize,
}

impl Place {
    /// Where it begins in the arena.
    pub(crate) fn offset(&self) -> usize {
        self.first * UNIT
    }
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.units * UNIT
    }
}

/// The part of the arena that one thread has.
#[derive(Debug)]
pub(crate) struct Region {
    /// The number of its first unit.
    first: usize,
    taken: Vec<bool>,
    left: usize,
    /// Where the next place is looked for.
    hand: usize,
    /// Tells others how many units are taken.
    used: Arc<Used>,
}

impl Region {
    fn new(first: usize, units: usize, used: Arc<Used>) -> Self {
        Self {
            first,
            taken: vec![false; units],
            left: units,
            hand: 0,
            used,
        }
    }
    /// Takes a place for this many bytes, or for fewer where there are not as many together. No place has more than a quarter of the
    /// region, so that a long read leaves room for others. `None` if nothing is left.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Place> {
        if self.left == 0 {
            return None;
        }
        let all = self.taken.len();
        let most = all.div_ceil(4);
        let wanted = bytes.div_ceil(UNIT).clamp(1, most);
        let (mut best, mut at) = ((0, 0), self.hand);
        // A run does not go round the end. One that the hand is in the middle of may be seen in two parts.
        for _ in 0..2 {
            while at < all && best.1 < wanted {
                let free = self.taken[at..].iter().take(wanted);
                let run = free.take_while(|taken| !**taken).count();
                if run > best.1 {
                    best = (at, run);
                }
                at += run + 1;
            }
            at = 0;
        }
        let (begin, units) = best;
        self.taken[begin..begin + units].fill(true);
        self.left -= units;
        self.hand = (begin + units) % all;
        self.used.set(all - self.left);
        Some(Place {
            first: self.first + begin,
            units,
        })
    }
    /// Gives a place back.
    ///
    /// # Panics
    /// It is not taken.
    pub(crate) fn give(&mut self, place: Place) {
        let Place { first, units } = place;
        let begin = first - self.first;
        for taken in &mut self.taken[begin..begin + units] {
            assert!(*taken, "a place is given back once");
            *taken = false;
        }
        self.left += units;
        self.used.set(self.taken.len() - self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(units: usize) -> Region {
        Region::new(7, units, Arc::default())
    }

    #[test]
    fn places_are_apart_and_all_come_back() {
        let mut seed = 5_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as usize % below
        };
        for units in [1, 2, 3, 16, 61] {
            let mut region = region(units);
            let mut places: Vec<Place> = Vec::new();
            let mut refused = 0;
            for _ in 0..20_000 {
                if random(2) == 0 && !places.is_empty() {
                    region.give(places.swap_remove(random(places.len())));
                    continue;
                }
                let held: usize = places.iter().map(|place| place.units).sum();
                let bytes = random(3 * units * UNIT / 2);
                match region.take(bytes) {
                    None => {
                        assert_eq!(held, units, "only a full region refuses");
                        refused += 1;
                    }
                    Some(place) => {
                        let range = place.first..place.first + place.units;
                        assert!(range.start >= 7 && range.end <= 7 + units && !range.is_empty());
                        assert!(place.units <= units.div_ceil(4));
                        let apart = |other: &Place| {
                            other.first >= range.end || other.first + other.units <= range.start
                        };
                        assert!(places.iter().all(apart), "{place:?}");
                        places.push(place);
                    }
                }
                let held: usize = places.iter().map(|place| place.units).sum();
                assert_eq!(region.used.get(), held as u64);
            }
            assert!(refused > 0, "{units} units were never full");
            places.into_iter().for_each(|place| region.give(place));
            assert_eq!((region.left, region.used.get()), (units, 0));
            assert!(region.taken.iter().all(|taken| !taken));
        }
    }

    #[test]
    fn a_place_is_as_long_as_was_asked_where_there_is_room() {
        let mut region = region(16);
        let all: Vec<Place> = (0..4).map_while(|_| region.take(4 * UNIT)).collect();
        assert!(all.iter().all(|place| place.units == 4) && region.take(1).is_none());
        for (number, place) in all.into_iter().enumerate() {
            if number != 1 {
                region.give(place);
            }
        }
        // The hand is at the begin: units 0 to 3, then 8 to 11.
        let offsets = [4, 3, 1, 5].map(|units| {
            let place = region.take(units * UNIT - 1).expect("there is room");
            (place.first - 7, place.units)
        });
        assert_eq!(offsets, [(0, 4), (8, 3), (11, 1), (12, 4)]);
        assert_eq!(region.take(1), None);
    }

    #[test]
    fn less_than_was_asked_is_better_than_nothing() {
        let mut region = region(8);
        let places: Vec<Place> = (0..8).map_while(|_| region.take(1)).collect();
        for (number, place) in places.into_iter().enumerate() {
            if number % 2 == 1 {
                region.give(place);
            }
        }
        let place = region.take(2 * UNIT).expect("there is room");
        assert_eq!((place.first, place.len()), (7 + 1, UNIT));
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_place_is_not_given_back_twice() {
        let mut region = region(4);
        let place = region.take(1).expect("there is room");
        let again = Place { ..place };
        region.give(place);
        region.give(again);
    }
}

//! Places of hosts that have ended, kept for the next host with the same settings: their memory is mapped and cleared.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::code::LoadedCode;
use crate::config::PlaceKey;
use crate::places::Places;

/// How many modules' places are kept.
const KEPT: usize = 16;

/// The places of one module, in which no process is.
struct IdleSet {
    code: Arc<LoadedCode>,
    key: PlaceKey,
    places: Places,
    generations: Vec<u32>,
}

/// The places that are kept, the longest unused ones first.
#[derive(Default)]
pub(crate) struct IdlePlaces(VecDeque<IdleSet>);

impl IdlePlaces {
    /// Takes places of a module with these settings, and with that much memory: what a process may have depends on how
    /// much was left when the places were made.
    pub(crate) fn take(
        &mut self,
        code: &Arc<LoadedCode>,
        key: PlaceKey,
        bytes: RangeInclusive<u64>,
    ) -> Option<(Places, Vec<u32>)> {
        let mut all = self.0.iter();
        let at = all.position(|set| {
            let fits = || bytes.contains(&set.places.bytes());
            set.key == key && Arc::ptr_eq(&set.code, code) && fits()
        })?;
        let set = self.0.remove(at)?;
        Some((set.places, set.generations))
    }

    /// Keeps places in which no process is. The generations are those of their last processes.
    pub(crate) fn put(
        &mut self,
        code: &Arc<LoadedCode>,
        key: PlaceKey,
        places: Places,
        generations: Vec<u32>,
    ) {
        self.0.push_back(IdleSet {
            code: Arc::clone(code),
            key,
            places,
            generations,
        });
        if self.0.len() > KEPT {
            self.forget_oldest();
        }
    }

    /// Frees the places that have not been used for longest; returns whether there were any.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        self.0.pop_front().is_some()
    }

    /// Frees all of them.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }

    /// Bytes of device memory of the places that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|set| set.places.bytes()).sum()
    }
}

//! What each host has of an engine that hosts share: device memory for its places, and slots of the host-call ring.
//!
//! A host gets up to half of what is left, so that something is left for the next one. If too little is left, it waits
//! until another host ends: no module that fits the device is refused because other programs are busy.

use std::ops::Range;
use std::sync::{Condvar, Mutex};

use everwarp_engine::sync::{ignore_poison, lock};

use crate::slots::FreeSlots;

/// What a host asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Bytes of device memory; half of what is left if the host does not say.
    pub(crate) memory: Option<u64>,
    /// The fewest bytes that it can start with.
    pub(crate) least_memory: u64,
    /// Slots of the ring.
    pub(crate) slots: u32,
    /// The fewest slots that it can start with.
    pub(crate) least_slots: u32,
}

struct Left {
    /// Less than zero if places take more than was promised: they come in groups, and those of other hosts are used again.
    memory: i64,
    slots: FreeSlots,
    hosts: u32,
}

/// What an engine has for hosts.
pub(crate) struct Room {
    left: Mutex<Left>,
    /// A host has ended or given something back.
    freed: Condvar,
}

/// Bytes as a number that may be subtracted from. No device has as many as do not fit.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Room {
    /// What an engine with this much memory for places has.
    pub(crate) fn new(memory: u64, slots: u32) -> Self {
        Self {
            left: Mutex::new(Left {
                memory: signed(memory),
                slots: FreeSlots::new(slots),
                hosts: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Takes a share for a host. One that is `alone` on its engine gets everything.
    pub(crate) fn take(&self, wanted: Wanted, alone: bool) -> Share {
        let mut left = lock(&self.left);
        // The only host need not wait: nothing would come back.
        while left.hosts > 0
            && (left.memory < signed(wanted.least_memory)
                || left.slots.longest() < wanted.least_slots)
        {
            left = ignore_poison(self.freed.wait(left));
        }
        let half = |all: u64| if alone { all } else { all / 2 };
        let all = u64::try_from(left.memory).unwrap_or(0);
        let memory = wanted.memory.unwrap_or_else(|| half(all));
        let memory = memory.max(wanted.least_memory).min(all);
        let slots = half(left.slots.longest().into()) as u32;
        let slots = wanted.slots.min(slots.max(wanted.least_slots)).max(1);
        left.memory -= signed(memory);
        left.hosts += 1;
        Share {
            memory,
            slots: left.slots.take_up_to(slots),
        }
    }

    /// Changes the memory of a share to what its places take.
    pub(crate) fn settle(&self, share: &mut Share, memory: u64) {
        let mut left = lock(&self.left);
        left.memory += signed(share.memory) - signed(memory);
        share.memory = memory;
        drop(left);
        self.freed.notify_all();
    }

    /// Takes the share of a host that has ended back.
    pub(crate) fn give_back(&self, share: &Share) {
        let mut left = lock(&self.left);
        left.memory += signed(share.memory);
        left.slots.give_back(share.slots.clone());
        left.hosts -= 1;
        drop(left);
        self.freed.notify_all();
    }

    /// Bytes that no host has.
    pub(crate) fn memory_left(&self) -> u64 {
        u64::try_from(lock(&self.left).memory).unwrap_or(0)
    }
}

/// The share of a host, which must be [given back](Room::give_back).
#[derive(Debug)]
pub(crate) struct Share {
    /// Bytes of device memory.
    pub(crate) memory: u64,
    pub(crate) slots: Range<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted {
        memory: None,
        least_memory: 100,
        slots: 40,
        least_slots: 10,
    };

    fn share(room: &Room) -> (u64, Range<u32>) {
        let share = room.take(WANTED, false);
        (share.memory, share.slots)
    }

    #[test]
    fn each_host_gets_up_to_half_of_what_is_left() {
        let room = Room::new(1000, 64);
        assert_eq!(share(&room), (500, 0..32));
        assert_eq!(share(&room), (250, 32..48));
        assert_eq!(share(&room), (125, 48..58));
        assert_eq!(room.memory_left(), 125);
        let room = Room::new(1000, 64);
        let all = room.take(WANTED, true);
        assert_eq!((all.memory, all.slots), (1000, 0..40));
    }

    #[test]
    fn what_a_host_does_not_need_is_left_for_others() {
        let room = Room::new(1000, 64);
        let mut share = room.take(WANTED, false);
        room.settle(&mut share, 60);
        assert_eq!(room.memory_left(), 940);
        room.settle(&mut share, 80);
        assert_eq!(room.memory_left(), 920);
        room.settle(&mut share, 1100);
        assert_eq!(room.memory_left(), 0);
        room.give_back(&share);
        assert_eq!(room.memory_left(), 1000);
        let asked = Wanted {
            memory: Some(5000),
            ..WANTED
        };
        assert_eq!(room.take(asked, false).memory, 1000);
    }

    #[test]
    fn a_host_waits_until_enough_is_left() {
        for large in [
            Wanted {
                memory: Some(950),
                ..WANTED
            },
            Wanted {
                slots: 60,
                least_slots: 60,
                ..WANTED
            },
        ] {
            let room = Room::new(1000, 64);
            let first = room.take(large, false);
            std::thread::scope(|scope| {
                let second = scope.spawn(|| room.take(WANTED, false));
                room.give_back(&first);
                let second = second.join().expect("it does not panic");
                assert_eq!((second.memory, second.slots.len()), (500, 32));
            });
        }
    }

    #[test]
    fn the_only_host_gets_what_there_is() {
        let room = Room::new(50, 4);
        assert_eq!(share(&room), (50, 0..4));
    }
}

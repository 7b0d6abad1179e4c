//! Twin of `device/grid/deque.cuh`: `deque_emptied`, `publish`, `take_oldest`, `take_newest`, and of
//! the part of `find_public` that looks at the overflow stack. One queue of one priority; `DEQUE_CHUNKS` is two, and a
//! chunk has one task. `total` is left out: it changes with `count` and is not looked at here.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

use super::stack::{self, Stack};
use super::{NONE, Tally, explore};

const DEQUE_CHUNKS: u32 = 2;
const DEQUE_INDEX: u64 = 0xff_ffff;

fn head(word: u64) -> u32 {
    (word & DEQUE_INDEX) as u32
}
fn tail(word: u64) -> u32 {
    (word >> 24 & DEQUE_INDEX) as u32
}
fn length(word: u64) -> u32 {
    tail(word).wrapping_sub(head(word)) & DEQUE_INDEX as u32
}

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// The number that a pop of the owner adds to the tag.
    tag: u64,
    /// Whether the warp that empties the deque looks again after it has cleared the bit.
    looks_again: bool,
}

pub(super) const AS_WRITTEN: Rules = Rules {
    tag: 1,
    looks_again: true,
};

/// A deque with its bit, its class's count and overflow stack, and the chunks' only tasks.
pub(super) struct Deque {
    word: AtomicU64,
    slots: [AtomicU32; DEQUE_CHUNKS as usize],
    bits: AtomicU32,
    pub(super) count: AtomicU32,
    overflow: Stack,
    pub(super) chunks: Vec<AtomicU32>,
    rules: Rules,
}

impl Deque {
    pub(super) fn new(chunks: usize, rules: Rules) -> Self {
        Self {
            word: AtomicU64::new(0),
            slots: [AtomicU32::new(NONE), AtomicU32::new(NONE)],
            bits: AtomicU32::new(0),
            count: AtomicU32::new(0),
            overflow: Stack::new(chunks, stack::AS_WRITTEN),
            chunks: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
            rules,
        }
    }

    fn emptied(&self) {
        self.bits.fetch_and(!1, AcqRel);
        if self.rules.looks_again && length(self.word.load(Acquire)) != 0 {
            self.bits.fetch_or(1, AcqRel);
        }
    }

    pub(super) fn publish(&self, chunk: u32) {
        let word = self.word.load(Relaxed);
        if length(word) >= DEQUE_CHUNKS {
            self.overflow.push(chunk);
        } else {
            self.slots[(tail(word) % DEQUE_CHUNKS) as usize].store(chunk, Relaxed);
            self.word.fetch_add(1 << 24, Release);
            self.bits.fetch_or(1, AcqRel);
        }
        self.count.fetch_add(1, Relaxed);
    }

    pub(super) fn take_oldest(&self) -> u32 {
        let mut word = self.word.load(Acquire);
        for _ in 0..4 {
            if length(word) == 0 {
                return NONE;
            }
            let head = head(word);
            let chunk = self.slots[(head % DEQUE_CHUNKS) as usize].load(Relaxed);
            let taken = (word & !DEQUE_INDEX) | (u64::from(head + 1) & DEQUE_INDEX);
            match self.word.compare_exchange(word, taken, AcqRel, Acquire) {
                Ok(_) => {
                    self.count.fetch_sub(1, Relaxed);
                    if length(taken) == 0 {
                        self.emptied();
                    }
                    return chunk;
                }
                Err(seen) => word = seen,
            }
        }
        NONE
    }

    fn take_newest(&self) -> u32 {
        let mut word = self.word.load(Relaxed);
        while length(word) != 0 {
            let tail = tail(word).wrapping_sub(1) & DEQUE_INDEX as u32;
            let chunk = self.slots[(tail % DEQUE_CHUNKS) as usize].load(Relaxed);
            let tag = (word >> 48) + self.rules.tag;
            let taken = tag << 48 | u64::from(tail) << 24 | u64::from(head(word));
            match self.word.compare_exchange(word, taken, AcqRel, Acquire) {
                Ok(_) => {
                    self.count.fetch_sub(1, Relaxed);
                    if length(taken) == 0 {
                        self.emptied();
                    }
                    return chunk;
                }
                Err(seen) => word = seen,
            }
        }
        NONE
    }

    /// Takes from the overflow stack, at which `find_public` looks before it looks at queues.
    pub(super) fn take_overflow(&self) -> u32 {
        let chunk = self.overflow.pop();
        if chunk != NONE {
            self.count.fetch_sub(1, Relaxed);
        }
        chunk
    }

    /// Fills a chunk as its owner does before it publishes it.
    pub(super) fn fill(&self, chunk: u32) {
        self.chunks[chunk as usize].store(chunk + 10, Relaxed);
    }

    /// Counts a chunk that was taken, whose task must be there.
    pub(super) fn unload(&self, tally: &Tally, chunk: u32) {
        if chunk != NONE {
            let task = self.chunks[chunk as usize].load(Relaxed);
            assert_eq!(task, chunk + 10, "stale chunk");
            tally.arrived(chunk);
        }
    }

    /// Takes the rest when no warp uses the deque any more. A deque that is not empty has its bit set, and the count is
    /// that of the chunks.
    pub(super) fn drain(&self, tally: &Tally) {
        let counted = self.count.load(Relaxed);
        let mut left = 0;
        loop {
            let chunk = self.take_overflow();
            if chunk == NONE {
                break;
            }
            self.unload(tally, chunk);
            left += 1;
        }
        while length(self.word.load(Relaxed)) != 0 {
            let bit = self.bits.load(Relaxed);
            assert_eq!(bit, 1, "a deque that is not empty lost its bit");
            let chunk = self.take_oldest();
            assert_ne!(chunk, NONE, "no other warp takes any more");
            self.unload(tally, chunk);
            left += 1;
        }
        assert_eq!(counted, left, "the count is wrong");
    }
}

/// The owner publishes three chunks and takes one back, while `thieves` take one each.
fn owner_and_thieves(thieves: usize, rules: Rules) {
    explore(move || {
        let shared = Arc::new((Deque::new(3, rules), Tally::new(3)));
        let others: Vec<_> = (0..thieves)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || shared.0.unload(&shared.1, shared.0.take_oldest()))
            })
            .collect();
        let (deque, tally) = &*shared;
        for chunk in 0..2 {
            deque.fill(chunk);
            deque.publish(chunk);
        }
        deque.unload(tally, deque.take_newest());
        deque.fill(2);
        deque.publish(2);
        for other in others {
            other.join().unwrap();
        }
        deque.drain(tally);
        tally.assert_all();
    });
}

/// One chunk is public; the owner takes it back and publishes another one in its place.
fn replaced(rules: Rules) {
    explore(move || {
        let shared = Arc::new((Deque::new(2, rules), Tally::new(2)));
        let (deque, tally) = &*shared;
        deque.fill(0);
        deque.publish(0);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.unload(&shared.1, shared.0.take_oldest()))
        };
        deque.unload(tally, deque.take_newest());
        deque.fill(1);
        deque.publish(1);
        other.join().unwrap();
        deque.drain(tally);
        tally.assert_all();
    });
}

#[test]
fn no_chunk_is_lost_or_taken_twice() {
    owner_and_thieves(1, AS_WRITTEN);
}

#[test]
fn two_thieves_take_different_chunks() {
    owner_and_thieves(2, AS_WRITTEN);
}

#[test]
fn a_thief_of_a_replaced_chunk_fails() {
    replaced(AS_WRITTEN);
}

#[test]
fn chunk_without_room_overflows() {
    explore(|| {
        let shared = Arc::new((Deque::new(3, AS_WRITTEN), Tally::new(3)));
        let (deque, tally) = &*shared;
        for chunk in 0..2 {
            deque.fill(chunk);
            deque.publish(chunk);
        }
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (deque, tally) = &*shared;
                deque.unload(tally, deque.take_overflow());
                deque.unload(tally, deque.take_oldest());
            })
        };
        deque.fill(2);
        deque.publish(2);
        other.join().unwrap();
        deque.drain(tally);
        tally.assert_all();
    });
}

#[test]
#[should_panic(expected = "taken twice")]
fn mutant_without_a_tag_a_replaced_chunk_is_taken_twice() {
    replaced(Rules {
        tag: 0,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "lost its bit")]
fn mutant_without_a_second_look_the_bit_is_lost() {
    owner_and_thieves(
        1,
        Rules {
            looks_again: false,
            ..AS_WRITTEN
        },
    );
}

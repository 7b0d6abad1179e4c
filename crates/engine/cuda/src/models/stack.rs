//! Twin of `device/grid/stack.cuh`: `stack_push`, `stack_pop_from` and `stack_pop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32 as StdU32, Ordering as StdOrdering};

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{self, AcqRel, Acquire, Relaxed},
};
use loom::thread;

use super::{NONE, explore};

/// Head = tag << 32 | id + 1, links in a separate array.
pub(super) struct Stack {
    head: AtomicU64,
    next: Vec<AtomicU32>,
    rules: Rules,
}

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Order of a push that succeeds.
    pub(super) push: Ordering,
    /// The number that each change adds to the tag.
    pub(super) tag: u64,
}

pub(super) const AS_WRITTEN: Rules = Rules {
    push: AcqRel,
    tag: 1,
};

impl Stack {
    pub(super) fn new(ids: usize, rules: Rules) -> Self {
        Self {
            head: AtomicU64::new(0),
            next: (0..ids).map(|_| AtomicU32::new(0)).collect(),
            rules,
        }
    }

    fn tagged(&self, h: u64, link: u32) -> u64 {
        ((h >> 32) + self.rules.tag) << 32 | u64::from(link)
    }

    pub(super) fn push(&self, id: u32) {
        let mut h = self.head.load(Relaxed);
        loop {
            self.next[id as usize].store(h as u32, Relaxed);
            let new = self.tagged(h, id + 1);
            match self.head.compare_exchange(h, new, self.rules.push, Relaxed) {
                Ok(_) => return,
                Err(seen) => h = seen,
            }
        }
    }

    fn pop_from(&self, mut h: u64) -> u32 {
        while h as u32 != 0 {
            let link = self.next[h as u32 as usize - 1].load(Relaxed);
            let new = self.tagged(h, link);
            match self.head.compare_exchange(h, new, AcqRel, Acquire) {
                Ok(_) => return h as u32 - 1,
                Err(seen) => h = seen,
            }
        }
        NONE
    }

    pub(super) fn pop(&self) -> u32 {
        self.pop_from(self.head.load(Acquire))
    }
}

/// A stack of ids with an object each; `held` and `truth` are outside of loom and order nothing.
struct Pool {
    stack: Stack,
    objects: [AtomicU32; 2],
    held: [AtomicBool; 2],
    truth: [StdU32; 2],
}

impl Pool {
    fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            stack: Stack::new(2, rules),
            objects: [AtomicU32::new(0), AtomicU32::new(0)],
            held: [AtomicBool::new(true), AtomicBool::new(true)],
            truth: [StdU32::new(0), StdU32::new(0)],
        })
    }

    fn push(&self, id: u32, write: u32) {
        let i = id as usize;
        self.objects[i].store(write, Relaxed);
        self.truth[i].store(write, StdOrdering::Relaxed);
        self.held[i].store(false, StdOrdering::Relaxed);
        self.stack.push(id);
    }

    fn pop(&self) -> u32 {
        let id = self.stack.pop();
        if id != NONE {
            let i = id as usize;
            let twice = self.held[i].swap(true, StdOrdering::Relaxed);
            assert!(!twice, "handed out twice: {id}");
            let truth = self.truth[i].load(StdOrdering::Relaxed);
            assert_eq!(self.objects[i].load(Relaxed), truth, "stale object");
        }
        id
    }

    /// After everybody is done: all ids but those that are held are on the stack.
    fn assert_whole(&self, held: usize) {
        let mut found = 0;
        while self.pop() != NONE {
            found += 1;
        }
        assert_eq!(found + held, 2, "an id is lost");
    }
}

fn writers_and_readers(rules: Rules) {
    explore(move || {
        let pool = Pool::new(rules);
        let others: Vec<_> = (0..2)
            .map(|id| {
                let pool = pool.clone();
                thread::spawn(move || {
                    pool.push(id, id + 5);
                    match pool.pop() {
                        NONE => 0,
                        got => {
                            pool.push(got, got + 7);
                            usize::from(pool.pop() != NONE)
                        }
                    }
                })
            })
            .collect();
        let mut held = usize::from(pool.pop() != NONE);
        for other in others {
            held += other.join().unwrap();
        }
        pool.assert_whole(held);
    });
}

fn reuse(rules: Rules) {
    explore(move || {
        let pool = Pool::new(rules);
        pool.push(1, 1);
        pool.push(0, 2);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || usize::from(pool.pop() != NONE))
        };
        let (first, second) = (pool.pop(), pool.pop());
        let mut held = usize::from(second != NONE);
        if first != NONE {
            pool.push(first, 3);
        }
        held += other.join().unwrap();
        pool.assert_whole(held);
    });
}

#[test]
fn no_id_is_lost_and_its_object_is_seen() {
    writers_and_readers(AS_WRITTEN);
}

#[test]
fn a_reused_id_is_handed_out_once() {
    reuse(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "stale object")]
fn mutant_a_relaxed_push_hides_the_object() {
    writers_and_readers(Rules {
        push: Relaxed,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "handed out twice")]
fn mutant_without_a_tag_an_id_is_handed_out_twice() {
    reuse(Rules {
        tag: 0,
        ..AS_WRITTEN
    });
}

//! What the actors of all systems do. A system only carries the messages.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// An address of an actor.
pub trait Address: Clone + Send + Sync + Sized + 'static {
    /// Sends a message. No mailbox is bounded.
    fn tell(&self, message: Msg<Self>);
    /// Spawns an actor from within another one, `depth` steps below the first.
    fn spawn_child(node: Node<Self>, depth: u32) -> Self;
}

/// A message.
#[derive(Clone)]
pub enum Msg<A: Address> {
    /// The actors that the receiver knows, and its number.
    Know(Arc<Vec<A>>, u32),
    /// Pass on `left` times around the ring.
    Token { left: u64 },
    /// Send the numbers to actor 0, eight at a time.
    Produce { first: u64, end: u64 },
    /// Add.
    Number(u64),
    /// Send on `left` times at random.
    Hop { left: u64, seed: u64 },
    /// Launch a tree over these numbers.
    Tree { first: u64, count: u64, depth: u32 },
    /// The sum of a part of the tree.
    Sum(u64),
    /// Write what was counted to `REPORTS`.
    Report,
    /// End.
    Stop,
}

/// An actor.
pub struct Node<A: Address> {
    pub known: Option<Arc<Vec<A>>>,
    pub number: u32,
    pub count: u64,
    pub sum: u64,
    pub pending: u64,
    pub parent: Option<A>,
}

impl<A: Address> Default for Node<A> {
    fn default() -> Self {
        Self {
            known: None,
            number: 0,
            count: 0,
            sum: 0,
            pending: 0,
            parent: None,
        }
    }
}

/// Things that are not done yet, and those that wait for them.
static LEFT: AtomicI64 = AtomicI64::new(0);
static LOCK: Mutex<()> = Mutex::new(());
static DONE: Condvar = Condvar::new();
/// Number, count and sum of actors.
pub static REPORTS: Mutex<Vec<(u32, u64, u64)>> = Mutex::new(Vec::new());

/// Something is done.
pub fn done(n: i64) {
    if LEFT.fetch_sub(n, Ordering::AcqRel) == n {
        let _lock = LOCK.lock().expect("no panic");
        DONE.notify_all();
    }
}
/// Says how many things are to be done.
pub fn expect(n: i64) {
    LEFT.store(n, Ordering::Release);
}
/// Waits until all are done.
pub fn wait() {
    let mut lock = LOCK.lock().expect("no panic");
    while LEFT.load(Ordering::Acquire) > 0 {
        lock = DONE.wait(lock).expect("no panic");
    }
}

pub const fn next_random(seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}
pub const fn place(seed: u64, count: u64) -> u64 {
    ((seed >> 32) * count) >> 32
}

impl<A: Address> Node<A> {
    fn known(&self) -> &[A] {
        self.known.as_deref().map_or(&[], |known| known)
    }
    /// Handles a message. Returns whether the actor ends.
    pub fn handle(&mut self, own: impl FnOnce() -> A, message: Msg<A>) -> bool {
        match message {
            Msg::Know(known, number) => {
                (self.known, self.number) = (Some(known), number);
                done(1);
            }
            Msg::Token { left: 0 } => {
                self.count += 1;
                done(1);
            }
            Msg::Token { left } => {
                let next = (self.number as usize + 1) % self.known().len();
                self.known()[next].tell(Msg::Token { left: left - 1 });
            }
            Msg::Produce { first, end } => {
                let next = end.min(first + 8);
                for number in first..next {
                    self.known()[0].tell(Msg::Number(number));
                }
                if next < end {
                    own().tell(Msg::Produce { first: next, end });
                }
            }
            Msg::Number(number) => {
                self.sum += number;
                self.count += 1;
                if self.count == self.pending {
                    done(1);
                }
            }
            Msg::Hop { left, seed } => {
                self.count += 1;
                if left == 0 {
                    self.sum += 1;
                    done(1);
                } else {
                    let to = place(seed, self.known().len() as u64) as usize;
                    let seed = next_random(seed);
                    let left = left - 1;
                    self.known()[to].tell(Msg::Hop { left, seed });
                }
            }
            Msg::Tree {
                first,
                count,
                depth,
            } => {
                if count > 1 {
                    let parts = count.min(10);
                    self.pending = parts;
                    let own = own();
                    for i in 0..parts {
                        let (from, to) = (count * i / parts, count * (i + 1) / parts);
                        let node = Node {
                            parent: Some(own.clone()),
                            ..Node::default()
                        };
                        let child = A::spawn_child(node, depth + 1);
                        child.tell(Msg::Tree {
                            first: first + from,
                            count: to - from,
                            depth: depth + 1,
                        });
                    }
                    return false;
                }
                return self.finish(first);
            }
            Msg::Sum(sum) => {
                self.sum += sum;
                self.pending -= 1;
                return self.pending == 0 && self.finish(self.sum);
            }
            Msg::Report => {
                let mut reports = REPORTS.lock().expect("no panic");
                reports.push((self.number, self.count, self.sum));
                drop(reports);
                done(1);
            }
            Msg::Stop => return true,
        }
        false
    }
    fn finish(&mut self, sum: u64) -> bool {
        match &self.parent {
            Some(parent) => parent.tell(Msg::Sum(sum)),
            None => {
                REPORTS.lock().expect("no panic").push((0, 0, sum));
                done(1);
            }
        }
        true
    }
}

//! Twin of `FileRing::reserve`, `Files::post` and `file_door` of `crates/engine/cuda/device/files/files.cuh`, with the host between two waits.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU64,
    Ordering::{self, AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

use super::{Tally, explore};

/// Bit of `reserved`: the ring is closed.
const CLOSED: u64 = 1 << 63;

/// What a mutant changes.
#[derive(Clone, Copy)]
struct Variant {
    /// The order of the exchanges of the bell.
    bell: Ordering,
    /// Whether the host's task looks once more after it has hung the bell up.
    looks_again: bool,
    /// Whether the host's task takes back its own bell only.
    own_only: bool,
}

const AS_WRITTEN: Variant = Variant {
    bell: AcqRel,
    looks_again: true,
    own_only: true,
};

struct Slot {
    turn: AtomicU64,
    value: AtomicU64,
}

struct Ring {
    slots: Vec<Slot>,
    reserved: AtomicU64,
    taken: AtomicU64,
    bell: AtomicU64,
    /// The host's waits so far: each has a group of its own.
    waits: AtomicU64,
    /// Requests that the host has copied, once each.
    copied: Tally,
    /// The host has seen the end, once.
    ended: Tally,
    variant: Variant,
}

impl Ring {
    fn new(slots: usize, requests: usize, ends: usize, variant: Variant) -> Arc<Self> {
        let slot = |_| Slot {
            turn: AtomicU64::new(0),
            value: AtomicU64::new(0),
        };
        Arc::new(Self {
            slots: (0..slots).map(slot).collect(),
            reserved: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            bell: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            copied: Tally::new(requests),
            ended: Tally::new(ends),
            variant,
        })
    }
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % self.slots.len() as u64) as usize]
    }
    fn count(&self) -> u64 {
        let first = self.taken.load(Relaxed);
        let is_there = |&n: &u64| self.slot(n).turn.load(Acquire) == n + 1;
        let all = first..first + self.slots.len() as u64;
        all.take_while(is_there).count() as u64
    }
    fn ended(&self) -> bool {
        let reserved = self.reserved.load(Acquire);
        reserved & CLOSED != 0 && reserved & !CLOSED == self.taken.load(Relaxed)
    }
    fn is_there(&self) -> bool {
        self.count() != 0 || self.ended()
    }

    /// Makes requests as lanes that ask together. Returns how many there was room for; 0 if the ring is full or closed.
    fn post_all(&self, values: &[u64]) -> usize {
        let mut number = self.reserved.load(Relaxed);
        let got = loop {
            if number & CLOSED != 0 {
                return 0;
            }
            // What was reserved may be the older of the two values, and then the exchange fails.
            let end = self.taken.load(Acquire) + self.slots.len() as u64;
            let got = end.saturating_sub(number).min(values.len() as u64);
            if got == 0 {
                return 0;
            }
            match self
                .reserved
                .compare_exchange(number, number + got, AcqRel, Acquire)
            {
                Ok(_) => break got as usize,
                Err(other) => number = other,
            }
        };
        for (number, &value) in (number..).zip(&values[..got]) {
            self.slot(number).value.store(value, Relaxed);
            self.slot(number).turn.store(number + 1, Release);
            self.ring();
        }
        got
    }
    /// Makes a request. False if the ring is full or closed.
    fn post(&self, value: u64) -> bool {
        self.post_all(&[value]) == 1
    }
    /// Takes the bell, and with it what the host does when it is woken.
    fn ring(&self) {
        if self.bell.swap(0, self.variant.bell) != 0 {
            self.woken();
        }
    }
    fn close(&self) {
        self.reserved.fetch_or(CLOSED, AcqRel);
        self.ring();
    }
    /// The host copies what a task has counted, and waits again.
    fn woken(&self) {
        let mut taken = self.taken.load(Relaxed);
        let count = self.count();
        if count == 0 && self.ended() {
            return self.ended.arrived(0);
        }
        for number in taken..taken + count {
            let value = self.slot(number).value.load(Relaxed);
            self.copied.arrived(value as u32);
        }
        taken += count;
        self.wait(taken);
    }
    /// The door's task that waits.
    fn wait(&self, taken: u64) {
        self.taken.store(taken, Release);
        if self.is_there() {
            return self.woken();
        }
        let own = self.waits.fetch_add(1, Relaxed) + 1;
        self.bell.swap(own, self.variant.bell);
        if !self.variant.looks_again || !self.is_there() {
            return;
        }
        let mine = match self.variant.own_only {
            true => self.bell.compare_exchange(own, 0, AcqRel, Acquire).is_ok(),
            false => true,
        };
        if mine {
            self.woken();
        }
    }
}

fn requests_wake_the_host(variant: Variant) {
    explore(move || {
        let ring = Ring::new(2, 2, 0, variant);
        let other = ring.clone();
        let host = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait(0))
        };
        let poster = thread::spawn(move || assert!(other.post(1), "there is room"));
        assert!(ring.post(0), "there is room");
        poster.join().expect("it ends");
        host.join().expect("it ends");
        ring.copied.assert_all();
    });
}

#[test]
fn every_request_wakes_the_host_once() {
    requests_wake_the_host(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_that_does_not_look_again_loses_a_request() {
    requests_wake_the_host(Variant {
        looks_again: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_with_a_relaxed_bell_loses_a_request() {
    requests_wake_the_host(Variant {
        bell: Relaxed,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic]
fn mutant_that_takes_any_bell_wakes_the_host_twice() {
    requests_wake_the_host(Variant {
        own_only: false,
        ..AS_WRITTEN
    });
}

/// A request that got a slot before the ring was closed is taken, and then the host sees the end.
#[test]
fn closed_ring_is_emptied() {
    explore(|| {
        let ring = Ring::new(2, 2, 1, AS_WRITTEN);
        let other = ring.clone();
        let poster = thread::spawn(move || {
            if !other.post(0) {
                // The task goes on with an error.
                other.copied.arrived(0);
            }
        });
        let third = ring.clone();
        let closer = thread::spawn(move || third.close());
        ring.wait(0);
        poster.join().expect("it ends");
        closer.join().expect("it ends");
        ring.copied.arrived(1);
        ring.copied.assert_all();
        ring.ended.assert_all();
    });
}

/// A ring of one slot: a request that finds it full is not asked, and none is overwritten.
#[test]
fn full_ring_overwrites_nothing() {
    explore(|| {
        let ring = Ring::new(1, 2, 0, AS_WRITTEN);
        let other = ring.clone();
        let post = |ring: &Ring, value: u64| {
            if !ring.post(value) {
                ring.copied.arrived(value as u32);
            }
        };
        let poster = thread::spawn(move || post(&other, 1));
        let host = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait(0))
        };
        post(&ring, 0);
        poster.join().expect("it ends");
        host.join().expect("it ends");
        ring.copied.assert_all();
    });
}

/// Lanes that ask together: those that find no room are refused, the others are asked once each, and none is overwritten.
#[test]
fn lanes_that_ask_together_are_each_taken_or_refused() {
    explore(|| {
        let ring = Ring::new(2, 3, 0, AS_WRITTEN);
        let post = |ring: &Ring, values: &[u64]| {
            let got = ring.post_all(values);
            for &value in &values[got..] {
                ring.copied.arrived(value as u32);
            }
        };
        let other = ring.clone();
        let poster = thread::spawn(move || post(&other, &[2]));
        let host = {
            let ring = ring.clone();
            thread::spawn(move || ring.wait(0))
        };
        post(&ring, &[0, 1]);
        poster.join().expect("it ends");
        host.join().expect("it ends");
        ring.copied.assert_all();
    });
}

//! A twin of how tasks take pages of the heap (`device/heap/block.wgsl`, `device/heap/run.wgsl`), statement for statement,
//! in every order that a few of its invocations can take their steps in, and in random orders of more of them.
//!
//! An atomic access is one step. Each has its effect at once: the rules rely on single words, so orders of several words
//! that hardware may show in addition are about the bits of free pages, which are only hints. Exchanges do not fail for no
//! reason here.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

const CLASSES: usize = 2;
/// Blocks of a page, by class.
const BLOCKS: [u32; CLASSES] = [2, 3];
const KIND: u32 = 1 << 24;
const NO_BLOCKS: u32 = 1 << 20;
const MASK: u32 = KIND - 1;
const RUN: u32 = 0x40;
const REST: u32 = 0x41;

/// The words of a heap with as many pages as there are states; its parties have a slot for each class.
struct Heap {
    states: Vec<Cell<u32>>,
    free: Cell<u32>,
    roomy: [Cell<u32>; CLASSES],
    slots: Vec<Cell<u32>>,
    /// Whether invocations take a page without asking the slot, as the first version of the heap did.
    mutant: bool,
}

/// The end of a step: the next one comes when the schedule says so.
struct Step(bool);

impl Future for Step {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

async fn load(word: &Cell<u32>) -> u32 {
    Step(false).await;
    word.get()
}
async fn change(word: &Cell<u32>, by: impl Fn(u32) -> u32) -> u32 {
    Step(false).await;
    word.replace(by(word.get()))
}
/// Returns what was there; it was exchanged if that is what was expected.
async fn exchange(word: &Cell<u32>, expected: u32, new: u32) -> u32 {
    change(word, |now| if now == expected { new } else { now }).await
}

impl Heap {
    fn new(pages: usize, parties: usize, mutant: bool) -> Self {
        Self {
            states: vec![Cell::new(0); pages],
            free: Cell::new((1 << pages) - 1),
            roomy: Default::default(),
            slots: vec![Cell::new(0); parties * CLASSES],
            mutant,
        }
    }

    /// `heap_take_page`.
    async fn take_page(&self, page: usize, owned: u32) -> bool {
        if exchange(&self.states[page], 0, owned).await != 0 {
            return false;
        }
        change(&self.free, |bits| bits & !(1 << page)).await;
        true
    }

    /// `heap_reserve`.
    async fn reserve(&self, page: usize, class: usize) -> bool {
        let state = &self.states[page];
        let kind = (class as u32 + 1) * KIND;
        if load(state).await == 0
            && self
                .take_page(page, kind + NO_BLOCKS + BLOCKS[class] - 1)
                .await
        {
            return true;
        }
        let now = load(state).await;
        if now & !MASK != kind || now & MASK <= NO_BLOCKS {
            return false;
        }
        if change(state, |now| now - 1).await & MASK > NO_BLOCKS {
            return true;
        }
        change(state, |now| now + 1).await;
        false
    }

    /// `heap_free_page`.
    async fn free_page(&self) -> Option<usize> {
        let mut bits = load(&self.free).await;
        while bits != 0 {
            let page = bits.trailing_zeros() as usize;
            if load(&self.states[page]).await == 0 {
                return Some(page);
            }
            bits &= bits - 1;
        }
        None
    }

    /// `heap_take`: the page of a block of this class.
    async fn take(&self, party: usize, class: usize) -> Option<usize> {
        let slot = &self.slots[party * CLASSES + class];
        let mut named = load(slot).await;
        if named != 0 && self.reserve(named as usize - 1, class).await {
            return Some(named as usize - 1);
        }
        let mut bits = load(&self.roomy[class]).await;
        while bits != 0 {
            let page = bits.trailing_zeros() as usize;
            if self.reserve(page, class).await {
                exchange(slot, named, page as u32 + 1).await;
                return Some(page);
            }
            change(&self.roomy[class], |now| now & !(1 << page)).await;
            bits &= bits - 1;
        }
        while let Some(free) = self.free_page().await {
            let new = free as u32 + 1;
            if self.mutant {
                named = new;
                change(slot, |_| new).await;
            } else {
                let seen = exchange(slot, named, new).await;
                named = if seen == named { new } else { seen };
            }
            if self.reserve(named as usize - 1, class).await {
                return Some(named as usize - 1);
            }
        }
        for other in self.slots.chunks(CLASSES) {
            let named = load(&other[class]).await as usize;
            if named != 0 && self.reserve(named - 1, class).await {
                return Some(named - 1);
            }
        }
        None
    }

    /// `heap_claim`: all of these pages, or none.
    async fn claim(&self, first: usize, end: usize) -> bool {
        let mut got = first;
        while got < end {
            let owned = match got - first {
                0 => RUN * KIND + (end - first) as u32,
                rest => REST * KIND + rest as u32,
            };
            if !self.take_page(got, owned).await {
                break;
            }
            got += 1;
        }
        if got == end {
            return true;
        }
        let taken = (1 << got) - (1 << first);
        change(&self.free, |bits| bits | taken).await;
        for page in first..got {
            change(&self.states[page], |_| 0).await;
        }
        false
    }
}

/// What an invocation does.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Takes a block of this class for this party.
    Takes(usize, usize),
    /// Takes the run of pages from one up to before the other.
    Claims(usize, usize),
}

/// What became of it: the first page, or nothing.
type Got = Option<usize>;

async fn invocation(heap: &Heap, does: Does, got: &Cell<Got>) {
    got.set(match does {
        Does::Takes(party, class) => heap.take(party, class).await,
        Does::Claims(first, end) => heap.claim(first, end).await.then_some(first),
    });
}

/// Runs invocations to their ends. `choose` gets the number of those that are there, and the place of the one that took the
/// last step if it has not ended.
fn run(
    heap: &Heap,
    all: &[Does],
    mut choose: impl FnMut(usize, Option<usize>) -> usize,
) -> Vec<Got> {
    let got: Vec<_> = all.iter().map(|_| Cell::new(None)).collect();
    type Running<'h> = Vec<(usize, Pin<Box<dyn Future<Output = ()> + 'h>>)>;
    let mut running: Running<'_> = Vec::new();
    for (i, does) in all.iter().enumerate() {
        running.push((i, Box::pin(invocation(heap, *does, &got[i]))));
    }
    let mut last = None;
    let mut context = Context::from_waker(Waker::noop());
    while !running.is_empty() {
        let at = running.iter().position(|(i, _)| Some(*i) == last);
        let chosen = choose(running.len(), at);
        last = Some(running[chosen].0);
        if running[chosen].1.as_mut().poll(&mut context).is_ready() {
            drop(running.remove(chosen));
        }
    }
    drop(running);
    got.into_iter().map(Cell::into_inner).collect()
}

/// Runs invocations in every order with up to `most` changes from an invocation that has not ended to another one, and
/// returns the number of orders.
fn every_order(
    most: usize,
    all: &[Does],
    heap: impl Fn() -> Heap,
    mut check: impl FnMut(&Heap, &[Got]),
) -> u64 {
    // The choices that differ from "the one that is running goes on".
    let prefix = RefCell::new(Vec::<(usize, usize)>::new());
    for runs in 1.. {
        let (depth, changes) = (Cell::new(0), Cell::new(0));
        let here = heap();
        let got = run(&here, all, |there, last| {
            let mut prefix = prefix.borrow_mut();
            // Without a running one, every choice is free; with one, the others are changes.
            let options = if last.is_some() && changes.get() == most {
                1
            } else {
                there
            };
            if depth.get() == prefix.len() {
                prefix.push((0, options));
            }
            let choice = prefix[depth.get()].0;
            depth.set(depth.get() + 1);
            match last {
                None => choice,
                Some(last) => {
                    if choice > 0 {
                        changes.set(changes.get() + 1);
                    }
                    // Choice 0 is the one that is running.
                    (last + choice) % there
                }
            }
        });
        check(&here, &got);
        let mut prefix = prefix.borrow_mut();
        while prefix
            .last()
            .is_some_and(|(choice, options)| choice + 1 == *options)
        {
            prefix.pop();
        }
        let Some(last) = prefix.last_mut() else {
            return runs;
        };
        last.0 += 1;
    }
    unreachable!("the loop has no end")
}

/// What must hold at the end of a dispatch: no block and no page has two owners, the counts say what is left, and the bits
/// are those of the free pages. Returns how many pages each class has.
fn is_sound(heap: &Heap, all: &[Does], got: &[Got]) -> [usize; CLASSES] {
    let mut taken = vec![[0; CLASSES]; heap.states.len()];
    let mut runs = vec![None; heap.states.len()];
    for (does, got) in all.iter().zip(got) {
        match (*does, *got) {
            (Does::Takes(_, class), Some(page)) => taken[page][class] += 1,
            (Does::Claims(first, end), Some(_)) => {
                for page in &mut runs[first..end] {
                    assert_eq!(page.replace(first), None, "a page is in two runs");
                }
            }
            (_, None) => {}
        }
    }
    let mut pages = [0; CLASSES];
    for (page, state) in heap.states.iter().map(Cell::get).enumerate() {
        let blocks: u32 = taken[page].iter().sum();
        match (state / KIND, runs[page]) {
            (0, None) => assert_eq!((state, blocks), (0, 0)),
            (RUN | REST, Some(_)) => assert_eq!(blocks, 0),
            (kind, None) if (1..=CLASSES as u32).contains(&kind) => {
                let class = kind as usize - 1;
                pages[class] += 1;
                assert_eq!(blocks, taken[page][class], "of one class only");
                assert_eq!(state & MASK, NO_BLOCKS + BLOCKS[class] - blocks);
            }
            other => panic!("page {page}: {state:#x}, {other:?}"),
        }
        assert_eq!(
            heap.free.get() >> page & 1 == 1,
            state == 0,
            "the bit of page {page}"
        );
    }
    pages
}

/// The most pages of a class: each party has one that is not full, with at least one block in use. A party may also fill a
/// page that another one has taken.
fn most_pages(all: &[Does], class: usize) -> usize {
    let (mut blocks, mut parties) = (0, [0; 3]);
    for does in all {
        if let Does::Takes(party, c) = *does
            && c == class
        {
            blocks += 1;
            parties[party] = 1;
        }
    }
    let parties: usize = parties.iter().sum();
    (blocks - parties) / BLOCKS[class] as usize + parties
}

#[test]
fn a_party_takes_no_page_before_one_is_full() {
    use Does::Takes;
    for all in [
        vec![Takes(0, 0); 3],
        vec![Takes(0, 0), Takes(0, 1), Takes(0, 0)],
        vec![Takes(0, 1), Takes(1, 1), Takes(0, 1)],
    ] {
        let orders = every_order(
            3,
            &all,
            || Heap::new(4, 2, false),
            |heap, got| {
                let pages = is_sound(heap, &all, got);
                assert!(got.iter().all(Option::is_some), "none is refused: {got:?}");
                for (class, &pages) in pages.iter().enumerate() {
                    assert!(
                        pages <= most_pages(&all, class),
                        "{all:?} have {pages} pages"
                    );
                }
            },
        );
        assert!(orders > 1000, "{orders}");
    }
}

#[test]
fn the_last_page_goes_to_one_class_or_a_run() {
    use Does::{Claims, Takes};
    for all in [
        vec![Takes(0, 0), Takes(1, 1), Claims(0, 2)],
        vec![Takes(0, 0), Claims(0, 2), Claims(1, 3)],
    ] {
        // The pages that are refused to all are free afterwards.
        let refused = Cell::new(0);
        every_order(
            3,
            &all,
            || Heap::new(2 + all.len() % 2, 2, false),
            |heap, got| {
                is_sound(heap, &all, got);
                refused.set(refused.get() + got.iter().filter(|got| got.is_none()).count());
            },
        );
        assert!(refused.get() > 0, "there is not room for all");
    }
}

#[test]
fn pages_of_the_dispatch_before_are_filled_first() {
    let all = [Does::Takes(0, 0), Does::Takes(1, 0), Does::Takes(0, 0)];
    // A page of three has room for one block; party 0 names a page that was emptied and is free.
    let heap = || {
        let heap = Heap::new(3, 2, false);
        heap.states[1].set(KIND + NO_BLOCKS + 1);
        heap.free.set(0b101);
        heap.roomy[0].set(0b10);
        heap.slots[0].set(1);
        heap
    };
    every_order(3, &all, heap, |heap, got| {
        assert!(got.iter().all(Option::is_some), "{got:?}");
        assert_eq!(
            heap.states[1].get() & MASK,
            NO_BLOCKS + u32::from(!got.contains(&Some(1)))
        );
        assert!(heap.states[2].get() == 0 || heap.states[1].get() & MASK == NO_BLOCKS);
    });
}

/// Without the exchange of the slot, a herd takes a page for each invocation.
#[test]
fn a_herd_without_the_slot_is_found() {
    let all = [Does::Takes(0, 0); 3];
    let mut most = 0;
    every_order(
        3,
        &all,
        || Heap::new(4, 1, true),
        |heap, got| {
            most = most.max(is_sound(heap, &all, got)[0]);
        },
    );
    assert_eq!(most, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn many_invocations_in_random_orders(
        takes in proptest::collection::vec((0..3usize, 0..CLASSES), 1..24),
        schedule in proptest::collection::vec(any::<u8>(), 1..200),
    ) {
        let all: Vec<_> = takes.iter().map(|&(party, class)| Does::Takes(party, class)).collect();
        let most = (0..CLASSES).map(|class| most_pages(&all, class)).sum();
        let heap = Heap::new(most, 3, false);
        let mut steps = schedule.iter().cycle();
        let got = run(&heap, &all, |there, _| {
            usize::from(*steps.next().expect("it has no end")) % there
        });
        is_sound(&heap, &all, &got);
        prop_assert!(got.iter().all(Option::is_some), "{all:?}: {got:?}");
    }
}

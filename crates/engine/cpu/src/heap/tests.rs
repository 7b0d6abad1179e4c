//! The heap against a model that only adds and subtracts, and the errors that its checks find.

use std::collections::BTreeMap;

use proptest::prelude::*;

use everwarp_contract::heap::HEAP_ERRORS;
use everwarp_engine::{HeapControl, HeapErrorKind};

use super::*;

const SIZE: u64 = 16 << 20;

fn heap(mode: HeapMode) -> HostHeap {
    let config = HeapConfig::of(SIZE).up_to(4 * SIZE).mode(mode);
    let heap = HostHeap::new(config).expect("it can be made");
    heap.expect("it has a size")
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { owner: u32, bytes: u64 },
    Free { place: usize },
    Realloc { place: usize, bytes: u64 },
    Release { owner: u32 },
    Quota { owner: u32, quota: u64 },
    Grow,
    WrongFree { place: usize, within: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![4 => 0..300u64, 2 => 300..40_000u64, 1 => 40_000..9_000_000u64];
    let owner = || 1..4u32;
    prop_oneof![
        8 => (owner(), bytes()).prop_map(|(owner, bytes)| Step::Alloc { owner, bytes }),
        6 => any::<usize>().prop_map(|place| Step::Free { place }),
        4 => (any::<usize>(), bytes()).prop_map(|(place, bytes)| Step::Realloc { place, bytes }),
        1 => owner().prop_map(|owner| Step::Release { owner }),
        1 => (owner(), 0..20_000_000u64).prop_map(|(owner, quota)| Step::Quota { owner, quota }),
        1 => Just(Step::Grow),
        1 => (any::<usize>(), 1..16u64).prop_map(|(place, within)| Step::WrongFree { place, within }),
    ]
}

/// A block as the model knows it: the owner, the requested size, the size that it takes, and the byte that fills it.
type Known = (u32, u64, u64, u8);

#[derive(Default)]
struct Model {
    blocks: BTreeMap<u64, Known>,
    quotas: BTreeMap<u32, u64>,
    size: u64,
    wrong: u64,
    filled: u8,
}

impl Model {
    fn held(&self, owner: Option<u32>) -> u64 {
        let of = self
            .blocks
            .values()
            .filter(|b| owner.is_none_or(|o| o == b.0));
        of.map(|b| b.2).sum()
    }
    fn fits(&self, owner: u32, takes: u64) -> bool {
        let quota = self.quotas.get(&owner).copied().filter(|&q| q != 0);
        self.held(Some(owner)) + takes <= quota.unwrap_or(u64::MAX)
            && self.held(None) + takes <= self.size
    }
    /// The block with this number, counted round and round, if there are any.
    fn pick(&self, place: usize) -> Option<(u64, Known)> {
        let n = place.checked_rem(self.blocks.len())?;
        self.blocks.iter().nth(n).map(|(&at, &known)| (at, known))
    }
    /// Fills a block with a new byte, and remembers it.
    fn put(&mut self, at: *mut u8, owner: u32, asked: u64, takes: u64) {
        assert!((at as u64).is_multiple_of(16));
        let next = self.blocks.range(at as u64..).next();
        assert!(
            next.is_none_or(|(&next, _)| at as u64 + takes <= next),
            "blocks overlap"
        );
        let before = self.blocks.range(..at as u64).next_back();
        assert!(
            before.is_none_or(|(&b, known)| b + known.2 <= at as u64),
            "blocks overlap"
        );
        self.filled = self.filled.wrapping_add(1);
        // SAFETY: the heap has given out that many bytes there.
        unsafe { std::ptr::write_bytes(at, self.filled, asked as usize) };
        self.blocks
            .insert(at as u64, (owner, asked, takes, self.filled));
    }
    fn holds(at: u64, bytes: u64, byte: u8) {
        // SAFETY: a block that is at least that long, and was filled.
        let content = unsafe { std::slice::from_raw_parts(at as *const u8, bytes as usize) };
        assert!(
            content.iter().all(|&b| b == byte),
            "a block's content has changed"
        );
    }
}

fn apply(heap: &HostHeap, model: &mut Model, guard: u64, step: &Step) {
    let rounded = |bytes: u64| block_bytes(bytes + guard);
    match *step {
        Step::Alloc { owner, bytes } => {
            let fits = model.fits(owner, rounded(bytes));
            let at = heap.alloc(HeapOwner(owner), bytes);
            assert_eq!(at.is_null(), !fits, "{step:?}");
            if fits {
                model.put(at, owner, bytes, rounded(bytes));
            }
        }
        Step::Free { place } => {
            if let Some((at, (_, asked, _, byte))) = model.pick(place) {
                Model::holds(at, asked, byte);
                heap.free(HeapOwner(9), at as *mut u8);
                model.blocks.remove(&at);
            }
        }
        Step::Realloc { place, bytes } => {
            let Some((at, (owner, asked, takes, byte))) = model.pick(place) else {
                return;
            };
            let new = heap.realloc(HeapOwner(9), at as *mut u8, bytes);
            let wanted = rounded(bytes);
            let stays =
                wanted == takes || (wanted < takes && takes <= 32_768 && 2 * wanted > takes);
            let moves = !stays && model.fits(owner, wanted);
            if new.is_null() {
                assert!(!stays && !moves && wanted > takes, "{step:?}");
                return Model::holds(at, asked, byte);
            }
            assert!(stays || moves || wanted < takes, "{step:?}");
            Model::holds(new as u64, asked.min(bytes), byte);
            model.blocks.remove(&at);
            model.put(new, owner, bytes, if moves { wanted } else { takes });
        }
        Step::Release { owner } => {
            let held = model.held(Some(owner));
            let parts: u64 = (0..3)
                .map(|part| heap.release(HeapOwner(owner), part, 3))
                .sum();
            assert_eq!(parts, held);
            model.blocks.retain(|_, b| b.0 != owner);
        }
        Step::Quota { owner, quota } => {
            let limit = (quota > 1_000_000).then_some(quota);
            heap.set_quota(HeapOwner(owner), limit)
                .expect("the owner is there");
            model.quotas.insert(owner, limit.unwrap_or(0));
        }
        Step::Grow => match heap.grow(1) {
            Ok(size) => {
                assert_eq!(size, model.size + SIZE);
                model.size = size;
            }
            Err(error) => {
                assert!(matches!(error, EngineError::HeapLimit { .. }), "{error}");
                assert_eq!(model.size, 4 * SIZE);
            }
        },
        Step::WrongFree { place, within } => {
            if let Some((at, (owner, _, takes, _))) = model.pick(place) {
                heap.free(HeapOwner(9), (at + within) as *mut u8);
                model.wrong += 1;
                let errors = heap.errors().expect("they are there");
                if guard != 0 && errors.len() < HEAP_ERRORS as usize {
                    let error = HeapError {
                        kind: HeapErrorKind::MiddleOfBlock,
                        address: at + within,
                        bytes: takes,
                        owner: HeapOwner(owner),
                        by: HeapOwner(9),
                    };
                    assert_eq!(errors.last(), Some(&error));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn heap_agrees_with_a_model_after_any_steps(
        steps in proptest::collection::vec(step(), 1..150),
        checked in any::<bool>(),
    ) {
        let (mode, guard) = if checked { (HeapMode::Checked, 8) } else { (HeapMode::Owned, 0) };
        let heap = heap(mode);
        let mut model = Model { size: SIZE, ..Model::default() };
        for step in &steps {
            apply(&heap, &mut model, guard, step);
            let stats = heap.stats().expect("it is read");
            prop_assert_eq!(stats.in_use, model.held(None));
            prop_assert_eq!(stats.wrong_frees, model.wrong);
            for owner in 1..4 {
                let held = heap.owner(HeapOwner(owner)).expect("it is there").in_use;
                prop_assert_eq!(held, model.held(Some(owner)));
            }
        }
        for (&at, &(_, asked, _, byte)) in &model.blocks {
            Model::holds(at, asked, byte);
        }
        prop_assert_eq!(heap.sweep(0, 1), 0);
        prop_assert_eq!(heap.stats().expect("it is read").errors, if checked { model.wrong } else { 0 });
    }
}

#[test]
fn bytes_are_counted_exactly_when_several_threads_allocate() {
    let heap = heap(HeapMode::Checked);
    let quota = 1000 * 64;
    heap.set_quota(HeapOwner(1), Some(quota))
        .expect("the owner is there");
    let served: usize = std::thread::scope(|scope| {
        let work = || {
            let mut blocks: Vec<*mut u8> =
                (0..2000).map(|_| heap.alloc(HeapOwner(1), 50)).collect();
            blocks.retain(|b| !b.is_null());
            // Freed and allocated again: other threads may get the bytes in between.
            for block in &mut blocks {
                heap.free(HeapOwner(1), *block);
                *block = heap.alloc(HeapOwner(1), 50);
            }
            blocks.iter().filter(|b| !b.is_null()).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("it ends"))
            .sum()
    });
    let owner = heap.owner(HeapOwner(1)).expect("it is there");
    assert_eq!(owner.in_use, served as u64 * 64);
    assert!(owner.in_use <= quota && owner.refused >= 7000);
    assert_eq!(heap.release(HeapOwner(1), 0, 1), owner.in_use);
    assert_eq!(heap.stats().expect("it is read").in_use, 0);
}

//! The device heap, on GPUs: blocks do not overlap, nothing is lost, and errors are counted.

use everwarp::cuda::baseline::{Baseline, HeapTrial, HeapWay, Sizes};
use everwarp::{Device, Select};
use everwarp_testkit::cases;

use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    heap_blocks_keep_apart,
    heap_is_filled_to_the_last_page,
    heap_counts_wrong_frees,
    heap_runs_of_pages,
];

fn with_heap(select: Select, bytes: u64, slots: u32, test: impl FnOnce(&HeapTrial<'_>)) {
    let device = Device::open(select).expect("the device opens");
    let gpu = device.cuda().expect("the case is one of the CUDA engine's");
    let kernels = Baseline::heaps(gpu, 8 << 20).expect("the kernels load");
    let heap = HeapTrial::new(&kernels, HeapWay::Ours, bytes, slots).expect("there is memory");
    test(&heap);
}

fn is_as_it_was(heap: &HeapTrial<'_>) {
    heap.trim().expect("it is trimmed");
    let state = heap.state().expect("it is read");
    assert_eq!(
        (state.blocks, state.free_pages),
        (0, state.pages),
        "{state:?}"
    );
}

/// Several generations of blocks of all sizes exist at the same time, and are freed in another order.
fn heap_blocks_keep_apart(select: Select) {
    const THREADS: u32 = 100_000;
    with_heap(select, 4 << 30, 4 * THREADS, |heap| {
        for round in 0..3u32 {
            for (part, (low, high)) in [(1, 64), (8, 8192), (100, 40_000), (16, 16)]
                .into_iter()
                .enumerate()
            {
                let (first, sizes) = (part as u32 * THREADS, Sizes { low, high });
                // The first part is larger than the others and stays until the end.
                if round > 0 && part == 0 {
                    continue;
                }
                let threads = if high > 10_000 { THREADS / 10 } else { THREADS };
                heap.fill(first, threads, 1, sizes, round).expect("it runs");
            }
            let sizes = |part: usize| {
                [(1, 64), (8, 8192), (100, 40_000), (16, 16)].map(|(low, high)| Sizes { low, high })
                    [part]
            };
            for part in 0..4 {
                let count = if part == 2 { THREADS / 10 } else { THREADS };
                let seed = if part == 0 { 0 } else { round };
                let found = heap.check(part as u32 * THREADS, count, sizes(part), seed);
                assert_eq!(
                    found.expect("it runs"),
                    (0, u64::from(count)),
                    "round {round}, part {part}"
                );
            }
            for part in [3, 1, 2] {
                let threads = if part == 2 { THREADS / 10 } else { THREADS };
                heap.empty(part * THREADS, threads, 1).expect("it runs");
            }
        }
        heap.churn(THREADS, 20, Sizes { low: 4, high: 8192 }, 9)
            .expect("it runs");
        heap.empty(0, THREADS, 1).expect("it runs");
        let state = heap.state().expect("it is read");
        assert_eq!((state.refused, state.wrong_frees), (0, 0), "{state:?}");
        is_as_it_was(heap);
    });
}

fn heap_is_filled_to_the_last_page(select: Select) {
    const SLOTS: u32 = 300_000;
    with_heap(select, 256 << 20, SLOTS, |heap| {
        for (low, high) in [(4096, 4096), (16, 8192), (1000, 1000)] {
            let sizes = Sizes { low, high };
            heap.write_slots(&vec![0; SLOTS as usize])
                .expect("it is written");
            heap.fill(0, SLOTS, 1, sizes, 1).expect("it runs");
            let before = heap.state().expect("it is read");
            let slots = heap.read_slots().expect("it is read");
            let there = slots.iter().filter(|&&s| s != 0).count() as u64;
            assert!(
                before.refused > 0 && there + before.refused >= u64::from(SLOTS),
                "{before:?}"
            );
            let bytes: u64 = (0..SLOTS)
                .filter(|&i| slots[i as usize] != 0)
                .map(|i| u64::from(sizes.at(i, 1)))
                .sum();
            assert!(
                bytes > 190 << 20,
                "{bytes} bytes in blocks of {low} to {high}"
            );
            let found = heap.check(0, SLOTS, sizes, 1).expect("it runs");
            assert_eq!(found, (0, there), "blocks of {low} to {high}");
            heap.empty(0, SLOTS, 1).expect("it runs");
            is_as_it_was(heap);
        }
    });
}

fn heap_counts_wrong_frees(select: Select) {
    with_heap(select, 64 << 20, 64, |heap| {
        heap.fill(0, 32, 1, Sizes::of(100), 0).expect("it runs");
        let blocks = heap.read_slots().expect("it is read")[..32].to_vec();
        heap.empty(0, 32, 1).expect("it runs");
        assert_eq!(heap.state().expect("it is read").wrong_frees, 0);
        // Frees each block once more; then an address in the middle of a block, one before the heap and one after it.
        heap.empty(0, 32, 1).expect("it runs");
        assert_eq!(heap.state().expect("it is read").wrong_frees, 32);
        heap.fill(0, 32, 1, Sizes::of(100), 0).expect("it runs");
        heap.write_slots(&[blocks[0] + 16, blocks[0] - (1 << 40), blocks[0] + (1 << 40)])
            .expect("it is written");
        heap.empty(0, 3, 1).expect("it runs");
        let state = heap.state().expect("it is read");
        assert_eq!((state.wrong_frees, state.blocks), (35, 32), "{state:?}");
    });
}

fn heap_runs_of_pages(select: Select) {
    with_heap(select, 64 << 20, 200, |heap| {
        // 512 pages; runs of 3 pages or so.
        let sizes = Sizes {
            low: 260_000,
            high: 390_000,
        };
        heap.fill(0, 100, 1, sizes, 4).expect("it runs");
        assert_eq!(heap.check(0, 100, sizes, 4).expect("it runs"), (0, 100));
        let blocks = heap.read_slots().expect("it is read");
        let every_other: Vec<u64> = blocks
            .iter()
            .step_by(2)
            .copied()
            .chain([0; 100])
            .take(200)
            .collect();
        heap.write_slots(&every_other).expect("it is written");
        heap.empty(0, 50, 1).expect("it runs");
        heap.fill(100, 50, 1, Sizes::of(200_000), 0)
            .expect("it runs");
        assert_eq!(
            heap.check(100, 50, Sizes::of(200_000), 0).expect("it runs"),
            (0, 50)
        );
        heap.fill(150, 1, 1, Sizes::of(64 << 20), 0)
            .expect("it runs");
        assert_eq!(
            heap.read_slots().expect("it is read")[150],
            0,
            "there is no such run"
        );
        heap.empty(100, 50, 1).expect("it runs");
        let rest: Vec<u64> = blocks.iter().skip(1).step_by(2).copied().collect();
        heap.write_slots(&rest).expect("it is written");
        heap.empty(0, 50, 1).expect("it runs");
        let state = heap.state().expect("it is read");
        assert_eq!((state.refused, state.wrong_frees), (1, 0), "{state:?}");
        is_as_it_was(heap);
    });
}

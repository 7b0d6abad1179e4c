//! D: blocks of device memory, allocated and freed by the device.

use std::time::Instant;

use everwarp::cuda::baseline::{Baseline, HeapTrial, HeapWay, Sizes};

use super::experiment::{Context, Experiment, On, Part};
use super::stats::{Role, Row};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "D",
    title: "the device heap",
    about: "Threads allocate blocks, write every word of them, have them checked for overlaps, and free them; \
            allocating and freeing are timed on their own, a launch included. `device_malloc` is CUDA's own device \
            allocator, with fewer threads where it would take minutes. `until_refused` fills a heap of 1 GiB in steps \
            and reports how much of it was in use when a request was first refused. `owned` blocks are counted for one \
            of 1,024 owners each, `checked` ones have guards as well, and `release` frees at once what one owner holds.",
    parts: &[
        Part::many("device_malloc", On::Cuda, device_malloc),
        Part::many("heap", On::Cuda, heap),
        Part::many("owned", On::Cuda, owned),
        Part::many("checked", On::Cuda, checked),
        Part::many("release", On::Cuda, release),
        Part::many("churn", On::Cuda, churn),
        Part::many("until_refused", On::Cuda, until_refused),
        Part::many("heap", On::Cpu, host),
    ],
};

/// One case: its name, the number of threads, the blocks of each, and their sizes.
struct Case {
    name: String,
    threads: u32,
    each: u32,
    sizes: Sizes,
}

const MILLION: u32 = 1 << 20;

fn cases() -> Vec<Case> {
    let case = |name: String, each, sizes| Case {
        name,
        threads: MILLION,
        each,
        sizes,
    };
    let mut all = Vec::new();
    for bytes in [8, 16, 32, 64, 128, 256, 1024, 4096, 16_384] {
        all.push(case(format!("{bytes} B"), 1, Sizes::of(bytes)));
    }
    for bytes in [16, 32, 64, 256] {
        all.push(case(format!("16 x {bytes} B"), 16, Sizes::of(bytes)));
    }
    for (low, high) in [(16, 256), (4, 8192)] {
        all.push(case(format!("{low} to {high} B"), 1, Sizes { low, high }));
    }
    // One page each, and runs of three or four pages, which are searched one after the other.
    for (bytes, threads) in [(65_536, MILLION / 64), (400_000, 1024)] {
        all.push(Case {
            threads,
            ..case(format!("{bytes} B"), 1, Sizes::of(bytes))
        });
    }
    all
}

/// Times one case: rows for allocating and for freeing.
fn measure(
    cx: &Context<'_>,
    heap: &HeapTrial<'_>,
    case: &Case,
    names: [&str; 2],
    role: Role,
    repeats: u32,
) -> Result<(), CliError> {
    let (threads, each, sizes) = (case.threads, case.each, case.sizes);
    let count = threads * each;
    let mut times = [Vec::new(), Vec::new()];
    let mut right = true;
    // The first round is not counted.
    for seed in 0..=repeats {
        let begin = Instant::now();
        heap.fill(0, threads, each, sizes, seed)?;
        let filled = begin.elapsed();
        right &= heap.check(0, count, sizes, seed)? == (0, u64::from(count));
        let begin = Instant::now();
        heap.empty(0, threads, each)?;
        if seed > 0 {
            times[0].push(filled.as_secs_f64());
            times[1].push(begin.elapsed().as_secs_f64());
        }
    }
    let state = heap.state()?;
    right &= state.wrong_frees == 0 && state.blocks == 0;
    let what = format!("{threads} threads, {each} blocks each of {}", case.name);
    for ((name, verb), times) in names.iter().zip(["allocate", "free"]).zip(times) {
        let row = Row::new(&what, "block", f64::from(count), times)
            .case(&format!("{verb} {}", case.name))
            .role(role)
            .verified(right)
            .raw("refused", state.refused as f64);
        cx.emit_as(name, row)?;
    }
    Ok(())
}

fn heap(cx: &Context<'_>) -> Result<(), CliError> {
    let kernels = Baseline::heaps(cx.gpu(), 8 << 20)?;
    for case in cases() {
        let largest = u64::from(case.threads) * u64::from(case.each) * u64::from(case.sizes.high);
        // Sizes are rounded up by less than a page.
        let bytes = (largest * 5 / 2).max(2 << 30);
        let heap = HeapTrial::new(&kernels, HeapWay::Ours, bytes, case.threads * case.each)?;
        let names = ["allocate", "free"];
        measure(cx, &heap, &case, names, Role::Ours, 10)?;
    }
    Ok(())
}

/// Sizes at which owners and guards are measured.
fn some_cases() -> impl Iterator<Item = Case> {
    let names = ["16 B", "64 B", "256 B", "16 x 64 B", "4 to 8192 B"];
    cases()
        .into_iter()
        .filter(move |c| names.contains(&c.name.as_str()))
}

fn with_owners(cx: &Context<'_>, way: HeapWay, names: [&str; 2]) -> Result<(), CliError> {
    let kernels = Baseline::heaps(cx.gpu(), 8 << 20)?;
    for case in some_cases() {
        let largest = u64::from(case.threads) * u64::from(case.each) * u64::from(case.sizes.high);
        let bytes = (largest * 5 / 2).max(2 << 30);
        let heap = HeapTrial::new(&kernels, way, bytes, case.threads * case.each)?;
        measure(cx, &heap, &case, names, Role::Ours, 10)?;
    }
    Ok(())
}
fn owned(cx: &Context<'_>) -> Result<(), CliError> {
    with_owners(cx, HeapWay::Owned, ["allocate_owned", "free_owned"])
}
fn checked(cx: &Context<'_>) -> Result<(), CliError> {
    with_owners(cx, HeapWay::Checked, ["allocate_checked", "free_checked"])
}

/// One owner of many loses all of its blocks; the other owners keep theirs.
fn release(cx: &Context<'_>) -> Result<(), CliError> {
    let kernels = Baseline::heaps(cx.gpu(), 8 << 20)?;
    for (name, sizes) in [
        ("64 B", Sizes::of(64)),
        ("4 to 8192 B", Sizes { low: 4, high: 8192 }),
    ] {
        let heap = HeapTrial::new(&kernels, HeapWay::Owned, 12 << 30, MILLION)?;
        heap.fill(0, MILLION, 1, sizes, 1)?;
        let before = heap.held()?;
        let (mut times, mut right) = (Vec::new(), true);
        for owner in 1..=10 {
            let begin = Instant::now();
            heap.release(owner)?;
            times.push(begin.elapsed().as_secs_f64());
            let held = heap.held()?;
            let (gone, kept) = held.split_at(owner as usize);
            right &= gone.iter().all(|&h| h == 0) && *kept == before[owner as usize..];
        }
        let what = "an owner's 1,024 blocks of a million, in a heap of 12 GiB";
        let row = Row::new(what, "owner", 1.0, times)
            .case(name)
            .verified(right && heap.state()?.wrong_frees == 0)
            .raw("bytes", before[0] as f64);
        cx.emit(row)?;
    }
    Ok(())
}

fn host(cx: &Context<'_>) -> Result<(), CliError> {
    let why = "the device heap is for GPUs; tasks of the CPU engine use the host's allocator";
    cx.skip(cx.part, "", why)
}

fn device_malloc(cx: &Context<'_>) -> Result<(), CliError> {
    let kernels = Baseline::heaps(cx.gpu(), 8 << 30)?;
    for case in cases() {
        // Its rate hardly depends on the number of threads.
        let case = Case {
            threads: (16_384 / case.each).min(case.threads),
            ..case
        };
        let heap = HeapTrial::new(&kernels, HeapWay::Cuda, 0, case.threads * case.each)?;
        let names = ["device_malloc", "device_free"];
        measure(cx, &heap, &case, names, Role::Rival, 3)?;
    }
    Ok(())
}

fn churn(cx: &Context<'_>) -> Result<(), CliError> {
    let kernels = Baseline::heaps(cx.gpu(), 8 << 20)?;
    for (name, sizes) in [
        ("64 B", Sizes::of(64)),
        ("256 B", Sizes::of(256)),
        ("4 to 8192 B", Sizes { low: 4, high: 8192 }),
    ] {
        let heap = HeapTrial::new(&kernels, HeapWay::Ours, 12 << 30, 1)?;
        let mut times = Vec::new();
        for seed in 0..=10 {
            let begin = Instant::now();
            heap.churn(MILLION, 10, sizes, seed)?;
            if seed > 0 {
                times.push(begin.elapsed().as_secs_f64());
            }
        }
        heap.trim()?;
        let state = heap.state()?;
        let right = (state.refused, state.wrong_frees, state.blocks) == (0, 0, 0)
            && state.free_pages == state.pages;
        let what = "each thread allocates, writes and frees 10 times";
        let row = Row::new(what, "pair", f64::from(MILLION) * 10.0, times)
            .case(name)
            .verified(right);
        cx.emit(row)?;
    }
    Ok(())
}

/// The bytes that a request takes, rounded as the heap does it.
fn rounded(bytes: u32) -> u64 {
    let power = bytes.max(17).next_power_of_two();
    let half = power / 4 * 3;
    u64::from(match bytes {
        0..=16 => 16,
        _ if power > 32 && bytes <= half => half,
        _ => power,
    })
}

fn until_refused(cx: &Context<'_>) -> Result<(), CliError> {
    const STEP: u32 = 2048;
    let kernels = Baseline::heaps(cx.gpu(), 8 << 20)?;
    for (name, sizes) in [
        ("64 B", Sizes::of(64)),
        ("16 to 256 B", Sizes { low: 16, high: 256 }),
        ("4 to 8192 B", Sizes { low: 4, high: 8192 }),
    ] {
        let average = (sizes.low + sizes.high) / 2;
        let step = STEP * (8192 / average).clamp(1, 64);
        let most = (1 << 30) / average.max(16) * 2 / step * step;
        let heap = HeapTrial::new(&kernels, HeapWay::Ours, 1 << 30, most)?;
        let (mut times, mut blocks, mut asked) = (Vec::new(), 0u64, 0u64);
        let mut right = true;
        for round in 0..most / step {
            let begin = Instant::now();
            heap.fill(round * step, step, 1, sizes, round)?;
            times.push(begin.elapsed().as_secs_f64());
            if heap.state()?.refused > 0 {
                break;
            }
            right &= heap.check(round * step, step, sizes, round)? == (0, u64::from(step));
            for slot in 0..step {
                blocks += rounded(sizes.at(slot, round));
                asked += u64::from(sizes.at(slot, round));
            }
        }
        let what = "a heap of 1 GiB filled in steps until a request is refused";
        let share = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let row = Row::new(what, "block", f64::from(step), times)
            .case(name)
            .verified(right && heap.state()?.refused > 0)
            .raw("share_in_use", share(blocks))
            .raw("share_asked_for", share(asked));
        cx.emit(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn requests_are_rounded_as_the_heap_does() {
        let pairs = [
            (1, 16),
            (16, 16),
            (17, 32),
            (33, 48),
            (48, 48),
            (49, 64),
            (65, 96),
            (97, 128),
        ];
        for (bytes, takes) in pairs {
            assert_eq!(rounded(bytes), takes, "{bytes}");
        }
        assert_eq!(
            (rounded(4097), rounded(6145), rounded(8192)),
            (6144, 8192, 8192)
        );
    }
}

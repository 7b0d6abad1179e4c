//! The measurements: each runs on all threads at the same time and counts what they do together.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The working sets of each thread, in bytes: caches of the first, second and third level, and memory.
const SETS: [(&str, usize); 4] = [
    ("16 KiB", 16 << 10),
    ("256 KiB", 256 << 10),
    ("2 MiB", 2 << 20),
    ("64 MiB", 64 << 20),
];
/// Independent chains of operations, enough to fill the pipelines of a core.
const CHAINS: usize = 64;

/// What the host's cores can do at most.
#[derive(Debug, Serialize)]
pub(super) struct Roofs {
    pub(super) device: String,
    pub(super) threads: usize,
    /// Bytes a second, by working set.
    pub(super) memory: Vec<Memory>,
    /// Multiplications and additions a second, of 64-bit floats; each of both counts as one.
    pub(super) flops: f64,
    /// Operations a second on an atomic word of each thread's own.
    pub(super) atomics_own: f64,
    /// The same on one word that all threads share.
    pub(super) atomics_shared: f64,
}

/// Transfers of one working set.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// The bytes of each thread.
    pub(super) bytes: usize,
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) read: f64,
    pub(super) write: f64,
    /// Bytes read and written.
    pub(super) copy: f64,
}

/// A word on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Runs `turn` on all threads for some time, and returns how much they did in a second together. A turn returns how much
/// it did. `prepare` makes what a thread works on.
fn rate<S>(
    threads: usize,
    seconds: f64,
    prepare: impl Fn(usize) -> S + Sync,
    turn: impl Fn(&mut S) -> u64 + Sync,
) -> f64 {
    let (ready, done) = (Barrier::new(threads), AtomicU64::new(0));
    let time = Duration::from_secs_f64(seconds);
    let longest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (ready, done, longest, prepare, turn) = (&ready, &done, &longest, &prepare, &turn);
            scope.spawn(move || {
                let mut state = prepare(number);
                turn(&mut state);
                ready.wait();
                let begin = Instant::now();
                let mut count = 0;
                while begin.elapsed() < time {
                    count += turn(&mut state);
                }
                let nanoseconds = begin.elapsed().as_nanos() as u64;
                longest.fetch_max(nanoseconds, Ordering::Relaxed);
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    let nanoseconds = longest.into_inner().max(1) as f64;
    done.into_inner() as f64 / nanoseconds * 1e9
}

fn read(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 8];
    for block in words.chunks_exact(8) {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*word);
        }
    }
    black_box(sums);
    size_of_val(words) as u64
}

fn memory(threads: usize, seconds: f64, name: &'static str, bytes: usize) -> Memory {
    let words = |_| vec![1_u64; bytes / 8];
    // A copy has two halves, so that the working set is the same.
    let halves = |_| (vec![1_u64; bytes / 16], vec![0_u64; bytes / 16]);
    Memory {
        bytes,
        name,
        read: rate(threads, seconds, words, |words| read(black_box(words))),
        write: rate(threads, seconds, words, |words| {
            black_box(&mut *words).fill(7);
            black_box(&*words);
            bytes as u64
        }),
        copy: rate(threads, seconds, halves, |(from, to)| {
            black_box(&mut *to).copy_from_slice(black_box(from));
            black_box(&*to);
            bytes as u64
        }),
    }
}

/// Independent chains of a product and a sum. Where the program is built for a processor with fused operations, the
/// compiler may use them; otherwise these are two instructions.
fn chains(values: &mut [f64; CHAINS]) -> u64 {
    const TURNS: u64 = 1000;
    let (factor, term) = (black_box(0.999_999), black_box(1e-9));
    for _ in 0..TURNS {
        for value in values.iter_mut() {
            *value = *value * factor + term;
        }
    }
    black_box(&*values);
    2 * TURNS * CHAINS as u64
}

fn atomics(words: &[Line], own: bool, threads: usize, seconds: f64) -> f64 {
    const TURNS: u64 = 1000;
    let word = |thread: usize| &words[if own { thread } else { 0 }].0;
    rate(threads, seconds, word, |word| {
        for _ in 0..TURNS {
            word.fetch_add(1, Ordering::Relaxed);
        }
        TURNS
    })
}

/// Measures everything, one after the other.
pub(super) fn measure(threads: usize, seconds: f64) -> Roofs {
    let sets = SETS.into_iter();
    let words: Vec<Line> = (0..threads).map(|_| Line::default()).collect();
    Roofs {
        device: everwarp::Device::open(everwarp::Select::Cpu)
            .map_or_else(|_| "host".to_owned(), |device| device.name()),
        threads,
        memory: sets
            .map(|(name, bytes)| memory(threads, seconds, name, bytes))
            .collect(),
        flops: rate(threads, seconds, |_| [1.0; CHAINS], chains),
        atomics_own: atomics(&words, true, threads, seconds),
        atomics_shared: atomics(&words, false, threads, seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_roof_is_measured() {
        let roofs = measure(2, 0.002);
        assert_eq!(roofs.memory.len(), SETS.len());
        for memory in &roofs.memory {
            assert!(
                memory.read > 1e6 && memory.write > 1e6 && memory.copy > 1e6,
                "{memory:?}"
            );
        }
        assert!(roofs.flops > 1e6 && roofs.atomics_own > 1e5 && roofs.atomics_shared > 1e4);
    }

    #[test]
    fn a_rate_counts_what_all_threads_do() {
        let counted = AtomicU64::new(0);
        let found = rate(
            3,
            0.01,
            |_| (),
            |()| {
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
                1
            },
        );
        // Each thread also has a turn before the time begins.
        let turns = counted.into_inner() - 3;
        assert!(
            found > 0.0 && found <= turns as f64 / 0.01,
            "{found} of {turns}"
        );
    }
}

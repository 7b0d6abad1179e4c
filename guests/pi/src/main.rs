//! Estimates pi: how many random points of a square lie in its circle.
//!
//! `pi [SAMPLES] [SEED] [STREAM]`; by default 100,000 samples and a seed from the host, so that every
//! instance draws numbers of its own. With a seed and a stream the line is the same on every engine:
//! everything is computed with integers.

#![no_std]
#![no_main]

use everwarp_guest_wasi::{args, eprintln, exit, println, random, start};

start!(main);

/// The generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// One of 2^64 streams of a seed. The stream's number is mixed before it meets the seed, so that
    /// neighbouring streams do not run through the same states one step apart.
    fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ Self(stream).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// How many of the points lie in the circle.
fn hits(random: &mut Random, samples: u64) -> u64 {
    let mut hits = 0;
    for _ in 0..samples {
        let bits = random.next();
        // 31 bits each, so that the sum of the squares fits.
        let (x, y) = (bits >> 33, bits & 0x7fff_ffff);
        hits += u64::from(x * x + y * y < 1 << 62);
    }
    hits
}

fn main() {
    let args = args();
    let number = |at: usize| {
        args.get(at).map(|text| {
            text.parse::<u64>().unwrap_or_else(|_| {
                eprintln!("pi: `{text}` is no number: use pi [SAMPLES] [SEED] [STREAM]");
                exit(2)
            })
        })
    };
    let samples = number(1).unwrap_or(100_000);
    if samples == 0 || samples > 1 << 40 {
        eprintln!("pi: from 1 to 2^40 samples, not {samples}");
        exit(2);
    }
    let seed = number(2).unwrap_or_else(random);
    let stream = number(3).unwrap_or(0);
    let hits = hits(&mut Random::new(seed, stream), samples);
    let millionths = hits * 4_000_000 / samples;
    let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
    println!("{whole}.{rest:06} from {samples} samples, {hits} hits");
}

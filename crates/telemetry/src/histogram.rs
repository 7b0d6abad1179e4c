//! Log-linear histograms: each power of two is divided into 16 equal steps, so a value is known to within a sixteenth.
//!
//! One thread writes a histogram and any thread may read it meanwhile. A reader may miss the last values.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Steps of a power of two, as a power of two.
pub const STEP_BITS: u32 = 4;
const STEPS: u64 = 1 << STEP_BITS;
/// Values with more bits than this are counted in the last bucket. 2^44 ns are almost five hours.
const VALUE_BITS: u32 = 44;
/// How many buckets there are.
pub const BUCKETS: usize = ((VALUE_BITS - STEP_BITS + 1) << STEP_BITS) as usize;

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let exponent = value.ilog2();
    let step = (value >> (exponent - STEP_BITS)) & (STEPS - 1);
    let bucket = (u64::from(exponent - STEP_BITS + 1) << STEP_BITS) + step;
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS {
        return u64::MAX;
    }
    let next = bucket as u64 + 1;
    if next <= STEPS {
        return next - 1;
    }
    let (exponent, step) = (next / STEPS + u64::from(STEP_BITS) - 1, next % STEPS);
    ((STEPS + step) << (exponent - u64::from(STEP_BITS))) - 1
}

/// A histogram with one writer.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64; BUCKETS]>,
    count: AtomicU64,
    sum: AtomicU64,
    most: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]),
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }
    }
}

/// Adds to a counter that only the caller writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    let value = counter.load(Ordering::Relaxed).wrapping_add(by);
    counter.store(value, Ordering::Relaxed);
}

impl Histogram {
    /// Counts a value `weight` times. Only one thread at a time may call this.
    pub fn record(&self, value: u64, weight: u64) {
        add(&self.buckets[bucket(value)], weight);
        add(&self.count, weight);
        add(&self.sum, value.saturating_mul(weight));
        if value > self.most.load(Ordering::Relaxed) {
            self.most.store(value, Ordering::Relaxed);
        }
    }

    /// Counts a value `weight` times. Any thread may call this, if all writers do.
    pub fn record_shared(&self, value: u64, weight: u64) {
        self.buckets[bucket(value)].fetch_add(weight, Ordering::Relaxed);
        self.count.fetch_add(weight, Ordering::Relaxed);
        self.sum
            .fetch_add(value.saturating_mul(weight), Ordering::Relaxed);
        self.most.fetch_max(value, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn read(&self) -> Distribution {
        let counts = self.buckets.iter().map(|b| b.load(Ordering::Relaxed));
        let (sum, most) = (&self.sum, &self.most);
        Distribution::of_counts(
            counts,
            sum.load(Ordering::Relaxed),
            most.load(Ordering::Relaxed),
        )
    }
}

/// The values of a histogram, in nanoseconds unless its field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many values were counted. Where values are sampled, each counts for those that were not.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest value.
    pub most: u64,
    /// The median: half of the values are not larger. Exact to a sixteenth.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest value of each bucket that has values, and how many it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(u64, u64)>,
}

impl Distribution {
    /// The values of a histogram: how many are in each bucket, up to [`BUCKETS`], their sum, and the largest.
    pub fn of_counts(counts: impl IntoIterator<Item = u64>, sum: u64, most: u64) -> Self {
        let counts = counts.into_iter().enumerate();
        let buckets: Vec<(u64, u64)> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(bucket, count)| (largest(bucket), count))
            .collect();
        let mut read = Self {
            // The buckets are what the quantiles are taken from, so they decide.
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum,
            most,
            buckets,
            ..Self::default()
        };
        read.set_quantiles();
        read
    }
    /// The value that a share of all values does not exceed.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (largest, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return (*largest).min(self.most);
            }
        }
        self.most
    }

    /// The mean; 0 without values.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    fn set_quantiles(&mut self) {
        (self.p50, self.p90, self.p99) =
            (self.quantile(0.5), self.quantile(0.9), self.quantile(0.99));
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let mut buckets = std::collections::BTreeMap::<u64, u64>::new();
        for (largest, count) in self.buckets.iter().chain(&other.buckets) {
            *buckets.entry(*largest).or_default() += count;
        }
        self.buckets = buckets.into_iter().collect();
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.most = self.most.max(other.most);
        self.set_quantiles();
    }

    /// How many values are not larger than `bound`, for bounds between those of buckets the next smaller one counts.
    pub fn at_most(&self, bound: u64) -> u64 {
        let within = self.buckets.iter().take_while(|(most, _)| *most <= bound);
        within.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_in_the_bucket_that_it_is_counted_in(value in any::<u64>(), shift in 0..64u32) {
            let value = value >> shift;
            let of = bucket(value);
            assert!(value <= largest(of));
            if of > 0 {
                assert!(value > largest(of - 1), "{value} is not below bucket {of}");
            }
            if of + 1 < BUCKETS {
                // To a sixteenth.
                assert!(largest(of) - value <= value / 16);
            }
        }
    }

    #[test]
    fn buckets_follow_each_other() {
        assert!((1..BUCKETS).all(|b| largest(b) > largest(b - 1)));
        assert_eq!((largest(0), largest(15), largest(16)), (0, 15, 16));
        assert_eq!(largest(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_of_a_thousand_values_are_right_to_a_sixteenth() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value, 1));
        let read = histogram.read();
        assert_eq!((read.count, read.sum, read.most), (1000, 500_500, 1000));
        assert_eq!(read.mean(), 500);
        for (share, exact) in [(0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)] {
            let found = read.quantile(share);
            assert!(
                found >= exact && found <= exact + exact / 16,
                "{share}: {found}"
            );
        }
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }

    #[test]
    fn weights_count_and_merges_add() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.record(10, 3);
        two.record_shared(1 << 50, 2);
        two.record_shared(10, 1);
        let mut both = one.read();
        both.merge(&two.read());
        assert_eq!((both.count, both.most, both.p50), (6, 1 << 50, 10));
        assert_eq!(
            (both.at_most(9), both.at_most(10), both.at_most(u64::MAX)),
            (0, 4, 6)
        );
    }
}

//! How long dispatches take: counts of times, from which quantiles follow.

use std::time::Duration;

use everwarp_engine::DispatchTimes;

/// Steps of a doubling: a quantile is at most an eighth too large.
const STEPS: usize = 8;
/// Doublings of a microsecond: more than an hour.
const DOUBLINGS: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Times {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; STEPS * DOUBLINGS],
            total: 0,
            longest: Duration::ZERO,
        }
    }
    /// Counts `dispatches` that took `each` on average.
    pub(crate) fn count(&mut self, each: Duration, dispatches: u32) {
        let micros = each.as_secs_f64() * 1e6;
        let place = (micros.max(1.0).log2() * STEPS as f64) as usize;
        self.counts[place.min(STEPS * DOUBLINGS - 1)] += u64::from(dispatches);
        self.total += u64::from(dispatches);
        self.longest = self.longest.max(each);
    }
    /// The upper end of the step with the given part of all dispatches below it.
    fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let micros = 2_f64.powf((place + 1) as f64 / STEPS as f64);
                return Duration::from_secs_f64(micros / 1e6).min(self.longest);
            }
        }
        self.longest
    }
    pub(crate) fn summary(&self) -> DispatchTimes {
        DispatchTimes {
            count: self.total,
            median: self.quantile(0.5),
            p999: self.quantile(0.999),
            longest: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_an_eighth_of_a_doubling_too_large() {
        let mut times = Times::new();
        assert_eq!(times.summary().longest, Duration::ZERO);
        times.count(Duration::from_micros(100), 997);
        times.count(Duration::from_micros(1500), 2);
        times.count(Duration::from_millis(20), 1);
        let found = times.summary();
        assert_eq!(found.count, 1000);
        assert_eq!(found.longest, Duration::from_millis(20));
        let near = |found: Duration, real: u64| {
            let real = Duration::from_micros(real);
            assert!(real <= found && found <= real * 110 / 100, "{found:?}");
        };
        near(found.median, 100);
        near(found.p999, 1500);
        // Times at both ends have a place.
        times.count(Duration::ZERO, 1);
        times.count(Duration::from_secs(100_000), 1);
        assert_eq!(times.summary().count, 1002);
    }
}

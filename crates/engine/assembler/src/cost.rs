//! How long assembling takes: known well enough to begin with what takes longest, and to say what to expect.

use std::time::Duration;

/// Seconds for a byte of PTX, as ptxas 13.0 takes them for functions of ordinary size on one core of a Xeon of 2023.
const EACH_BYTE: f64 = 1.3e-6;
/// Seconds for a byte of a function, for each byte of the same function: what makes large functions slow.
const EACH_PAIR: f64 = 8e-12;
/// Seconds to start a process.
const EACH_PIECE: f64 = 0.02;

/// About how much time a function of this length takes.
pub(crate) fn of_function(bytes: usize) -> f64 {
    let bytes = bytes as f64;
    bytes * (EACH_BYTE + EACH_PAIR * bytes)
}

/// About how long assembling takes. Functions of one length differ by a factor of four, and machines by two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Time of all cores together.
    pub sum: Duration,
    /// The time of the piece that takes longest.
    pub longest: Duration,
}

impl Estimate {
    /// The estimate for pieces with these functions' lengths.
    pub(crate) fn of(pieces: impl Iterator<Item = f64>) -> Self {
        let (mut sum, mut longest) = (0.0, 0.0_f64);
        for seconds in pieces {
            let seconds = seconds + EACH_PIECE;
            sum += seconds;
            longest = longest.max(seconds);
        }
        Self {
            sum: Duration::from_secs_f64(sum),
            longest: Duration::from_secs_f64(longest),
        }
    }

    /// How long it takes on this many cores.
    pub fn on(&self, cores: usize) -> Duration {
        self.longest.max(self.sum / cores.max(1) as u32)
    }

    /// The estimate for this and then other work.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            longest: self.longest.max(other.longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_help_until_the_longest_piece_is_all_that_is_left() {
        let estimate = Estimate::of([4.0, 1.0, 1.0, 1.0, 1.0].into_iter());
        let seconds = |cores| estimate.on(cores).as_secs_f64();
        assert!((seconds(1) - 8.1).abs() < 0.01, "{}", seconds(1));
        assert!((seconds(2) - 4.05).abs() < 0.01, "{}", seconds(2));
        assert!((seconds(16) - 4.02).abs() < 0.01, "{}", seconds(16));
        assert!(seconds(0) > 8.0, "no cores count as one");
        let both = estimate.and(&Estimate::of([5.0].into_iter()));
        assert!((both.on(16).as_secs_f64() - 5.02).abs() < 0.01);
    }

    #[test]
    fn one_large_function_takes_longer_than_many_small_ones() {
        assert!(of_function(1 << 20) > 4.0 * 16.0 * of_function(1 << 14));
    }
}

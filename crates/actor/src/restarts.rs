//! Restarts of actors that fail.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often an actor is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarts {
    /// The most restarts within the time.
    pub most: u32,
    /// The time, counted from the first of them; at most 49 days.
    pub within: Duration,
}

impl Restarts {
    /// A failed actor ends.
    pub const NEVER: Self = Self {
        most: 0,
        within: Duration::ZERO,
    };
}

impl Restarts {
    /// The time.
    pub(crate) fn milliseconds(self) -> u32 {
        self.within.as_millis().try_into().unwrap_or(u32::MAX)
    }
    /// Whether an actor that fails now is restarted. `again` packs the milliseconds at which the time began (upper half) and
    /// the restarts since then (lower half). Returns its next value.
    pub(crate) fn next(self, again: u64) -> Option<u64> {
        self.next_at(again, milliseconds())
    }
    /// The same at this time.
    pub(crate) fn next_at(self, again: u64, now: u32) -> Option<u64> {
        let (mut begin, mut count) = ((again >> 32) as u32, again as u32);
        if count == 0 || now.wrapping_sub(begin) > self.milliseconds() {
            (begin, count) = (now, 0);
        }
        (count < self.most).then(|| u64::from(begin) << 32 | u64::from(count + 1))
    }
}

/// A clock of this process.
fn milliseconds() -> u32 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_millis() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_from_the_first_of_a_time() {
        let restarts = Restarts {
            most: 2,
            within: Duration::from_millis(100),
        };
        let one = restarts.next_at(0, 1000).expect("the first");
        let two = restarts.next_at(one, 1100).expect("the second");
        assert_eq!(restarts.next_at(two, 1100), None);
        let later = restarts.next_at(two, 1101).expect("another time begins");
        assert_eq!(later, 1101 << 32 | 1);
        assert_eq!(Restarts::NEVER.next_at(0, 5), None);
    }
}

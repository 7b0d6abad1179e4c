//! When the next exchange may be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time in which pauses are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// The most that all pauses of such a time take: a twentieth.
const MOST: Duration = Duration::from_millis(50);

/// The pauses of the last second.
#[derive(Debug, Default)]
pub(crate) struct Pauses(VecDeque<(Instant, Duration)>);

impl Pauses {
    /// An exchange has ended that paused the engine.
    pub(crate) fn add(&mut self, end: Instant, pause: Duration) {
        self.0.push_back((end, pause));
        while self.0.len() > 1 && end.saturating_duration_since(self.0[0].0) >= WINDOW {
            self.0.pop_front();
        }
    }

    /// When another one may be that takes as long as the last: no second has more than [`MOST`] of pauses, unless one alone is longer.
    /// Then the next one waits until it was a twentieth of the time.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (last_end, last) = *self.0.back()?;
        if last > MOST {
            return Some(last_end + last * (WINDOW.as_millis() / MOST.as_millis()) as u32);
        }
        let mut sum: Duration = self.0.iter().map(|(_, pause)| *pause).sum();
        let mut next = last_end;
        for (end, pause) in &self.0 {
            if sum + last <= MOST {
                break;
            }
            sum -= *pause;
            next = next.max(*end + WINDOW);
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_pauses_follow_each_other_until_a_second_has_enough() {
        let begin = Instant::now();
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next(), None);
        for n in 0..9 {
            let end = begin + 10 * n * MS;
            pauses.add(end, 5 * MS);
            assert_eq!(pauses.next(), Some(end), "{n} before it");
        }
        // Ten are 50 ms: the next one waits until the first is a second old.
        pauses.add(begin + 90 * MS, 5 * MS);
        assert_eq!(pauses.next(), Some(begin + WINDOW));
        // A longer one waits for more of them, and old ones do not count.
        pauses.add(begin + WINDOW, 12 * MS);
        assert_eq!(pauses.next(), Some(begin + WINDOW + 40 * MS));
        pauses.add(begin + 3 * WINDOW, 12 * MS);
        assert_eq!(pauses.next(), Some(begin + 3 * WINDOW));
    }

    #[test]
    fn a_long_pause_is_a_twentieth_of_the_time() {
        let begin = Instant::now();
        let mut pauses = Pauses::default();
        pauses.add(begin, 60 * MS);
        assert_eq!(pauses.next(), Some(begin + 1200 * MS));
    }
}

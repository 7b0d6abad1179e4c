//! One clock for everything that is measured: nanoseconds since this program first asked, the same on all threads.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

struct Base {
    instant: Instant,
    /// Nanoseconds since 1970 at that moment.
    wall: u64,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Base {
            instant: Instant::now(),
            wall: wall.map_or(0, |wall| wall.as_nanos() as u64),
        }
    })
}

/// Nanoseconds since the first call; never 0.
#[inline]
pub fn now() -> u64 {
    base().instant.elapsed().as_nanos() as u64 + 1
}

/// The moment of an [`Instant`] on this clock.
pub fn at(instant: Instant) -> u64 {
    instant.saturating_duration_since(base().instant).as_nanos() as u64 + 1
}

/// Nanoseconds since 1970 at the clock's first moment.
pub fn wall_base() -> u64 {
    base().wall
}

/// Nanoseconds that a look at the clock takes here, measured once.
pub fn cost() -> u64 {
    const LOOKS: u64 = 64;
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        // The best of a few rounds: the others were interrupted.
        let round = || {
            let begin = now();
            (1..LOOKS).for_each(|_| {
                std::hint::black_box(now());
            });
            (now() - begin) / LOOKS
        };
        (0..4).map(|_| round()).min().unwrap_or(1).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_on_and_is_that_of_instants() {
        let first = now();
        let instant = Instant::now();
        let last = now();
        assert!(first > 0 && at(instant) >= first && at(instant) <= last);
        assert!(wall_base() > 1_700_000_000_000_000_000);
        assert!(cost() > 0);
    }
}

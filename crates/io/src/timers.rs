//! Timers of a process or of an engine's tasks: what expires when, without a thread.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The shortest period: a thread of the host wakes for each.
pub const PERIOD_LEAST: Duration = Duration::from_micros(100);

#[derive(Debug)]
struct Timer {
    next: Instant,
    period: Option<Duration>,
}

/// Why a timer is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerError {
    /// The period is too short, or the time is later than the clock can show.
    Time,
    /// Too many are set.
    Full,
}

/// Timers by their numbers.
#[derive(Debug)]
pub struct Timers {
    most: usize,
    set: HashMap<u32, Timer>,
    order: BTreeSet<(Instant, u32)>,
}

impl Timers {
    /// Room for up to `most` timers that are set at the same time.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            set: HashMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Sets a timer, in the place of one with the same number.
    ///
    /// # Errors
    /// [`TimerError`]; then nothing has changed.
    pub fn set(
        &mut self,
        id: u32,
        now: Instant,
        after: Duration,
        period: Option<Duration>,
    ) -> Result<(), TimerError> {
        let next = now.checked_add(after).ok_or(TimerError::Time)?;
        // The next time but one must be there, too.
        let second = next.checked_add(period.unwrap_or_default());
        if second.is_none() || period.is_some_and(|period| period < PERIOD_LEAST) {
            return Err(TimerError::Time);
        }
        if self.set.len() >= self.most && !self.set.contains_key(&id) {
            return Err(TimerError::Full);
        }
        self.cancel(id);
        self.set.insert(id, Timer { next, period });
        self.order.insert((next, id));
        Ok(())
    }

    /// Takes a timer away, and returns whether it was set.
    pub fn cancel(&mut self, id: u32) -> bool {
        let timer = self.set.remove(&id);
        if let Some(timer) = &timer {
            self.order.remove(&(timer.next, id));
        }
        timer.is_some()
    }

    /// Whether a timer is set: it will expire.
    pub fn is_set(&self, id: u32) -> bool {
        self.set.contains_key(&id)
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// When the next one expires.
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|(next, _)| *next)
    }

    /// Takes the earliest that has expired, and how often: a periodic one counts what was missed, and does not drift.
    pub fn expired(&mut self, now: Instant) -> Option<(u32, u64)> {
        let (next, id) = *self.order.first().filter(|(next, _)| *next <= now)?;
        self.order.pop_first();
        let timer = self.set.get_mut(&id)?;
        let Some(period) = timer.period else {
            self.set.remove(&id);
            return Some((id, 1));
        };
        let late = now.duration_since(next).as_nanos();
        let missed = u64::try_from(late / period.as_nanos()).unwrap_or(u64::MAX);
        // Up to the last time that is not later than now, and then one period.
        let into = (late % period.as_nanos()) as u64;
        let last = now - Duration::from_nanos(into);
        match last.checked_add(period) {
            Some(next) => {
                timer.next = next;
                self.order.insert((next, id));
            }
            None => drop(self.set.remove(&id)),
        }
        Some((id, missed.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn timers_expire_in_order_once_or_each_period() {
        let (mut timers, now) = (Timers::new(100), Instant::now());
        timers.set(7, now, 3 * MS, None).expect("it is right");
        timers.set(8, now, MS, Some(2 * MS)).expect("it is right");
        assert_eq!(timers.next(), Some(now + MS));
        assert_eq!(timers.expired(now), None);
        assert_eq!(timers.expired(now + MS), Some((8, 1)));
        assert_eq!(timers.expired(now + MS), None);
        let later = now + 3 * MS;
        assert_eq!(timers.expired(later), Some((7, 1)));
        assert_eq!(timers.expired(later), Some((8, 1)));
        assert_eq!(timers.expired(later), None);
        assert_eq!(timers.next(), Some(now + 5 * MS));
    }

    #[test]
    fn a_late_reader_learns_how_often_and_the_period_does_not_drift() {
        let (mut timers, now) = (Timers::new(100), Instant::now());
        timers.set(1, now, MS, Some(MS)).expect("it is right");
        let late = now + 10 * MS + MS / 2;
        assert_eq!(timers.expired(late), Some((1, 10)));
        assert_eq!(timers.next(), Some(now + 11 * MS));
    }

    #[test]
    fn a_timer_is_cancelled_and_set_anew() {
        let (mut timers, now) = (Timers::new(100), Instant::now());
        timers.set(1, now, MS, None).expect("it is right");
        timers.set(1, now, 9 * MS, None).expect("it replaces it");
        assert_eq!(timers.next(), Some(now + 9 * MS));
        assert!(timers.cancel(1));
        assert!(!timers.cancel(1));
        assert_eq!((timers.next(), timers.expired(now + 99 * MS)), (None, None));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let (mut timers, now) = (Timers::new(6), Instant::now());
        let short = PERIOD_LEAST - Duration::from_nanos(1);
        assert_eq!(timers.set(1, now, MS, Some(short)), Err(TimerError::Time));
        assert_eq!(
            timers.set(1, now, Duration::MAX, None),
            Err(TimerError::Time)
        );
        for id in 0..6 {
            timers.set(id, now, MS, None).expect("there is room");
        }
        assert_eq!(timers.set(u32::MAX, now, MS, None), Err(TimerError::Full));
        timers.set(5, now, MS, None).expect("it is there already");
    }
}

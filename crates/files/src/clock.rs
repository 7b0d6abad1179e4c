//! The timers of tasks, without a thread: what was asked, and what it ends with.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use everwarp_io::{TimerError, Timers};

use crate::errno::FileErrno;
use crate::handles::{Handles, Open};
use crate::request::{After, Ended, OfTime};

/// A timer that has a handle.
#[derive(Debug, Default)]
struct Timer {
    /// How often it has expired since the last tick.
    expired: u64,
    /// It does not expire any more.
    over: bool,
    waiter: Option<After>,
}

/// The timers of an instance's tasks.
#[derive(Debug)]
pub(crate) struct Clock {
    /// How many there may be; 0: tasks have none.
    room: usize,
    timers: Timers,
    open: HashMap<u32, Timer>,
    /// Sleeps by their ends, and by their numbers. No task can name one, so they need no other order.
    sleeping: BTreeMap<(Instant, u64), After>,
    sleeps: u64,
}

fn count(expired: u64) -> u32 {
    expired.min(i32::MAX as u64) as u32
}

impl From<TimerError> for FileErrno {
    fn from(error: TimerError) -> Self {
        match error {
            TimerError::Time => Self::INVAL,
            TimerError::Full => Self::NOBUFS,
        }
    }
}

impl Clock {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room,
            timers: Timers::new(room),
            open: HashMap::new(),
            sleeping: BTreeMap::new(),
            sleeps: 0,
        }
    }
    /// When the next timer expires.
    pub(crate) fn next(&self) -> Option<Instant> {
        let sleep = self.sleeping.first_key_value().map(|(key, _)| key.0);
        match (self.timers.next(), sleep) {
            (Some(timer), Some(sleep)) => Some(timer.min(sleep)),
            (timer, sleep) => timer.or(sleep),
        }
    }

    /// Takes a request in. It may have ended, and so may others.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        asked: OfTime,
        after: After,
        handles: &Handles,
        ended: &mut Ended,
    ) {
        let result = match asked {
            _ if self.room == 0 => Err(FileErrno::NOTSUP),
            OfTime::Sleep { nanos } => match self.sleep(now, nanos, after) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            OfTime::Set {
                after: first,
                period,
            } => self.set(now, first, period, handles),
            OfTime::Tick(handle) => match self.tick(handle, after) {
                Ok(None) => return,
                Ok(Some(expired)) => Ok(count(expired)),
                Err(error) => Err(error),
            },
            OfTime::Stop(handle) => self.stop(handle, handles, ended).map(|()| 0),
            OfTime::Cancel { handle, note } => self.cancel(handle, note, ended).map(|()| 0),
        };
        ended.push((after, result));
    }
    fn sleep(&mut self, now: Instant, nanos: u64, after: After) -> Result<(), FileErrno> {
        let end = now.checked_add(Duration::from_nanos(nanos));
        let end = end.ok_or(FileErrno::INVAL)?;
        if self.timers.len() + self.sleeping.len() >= self.room {
            return Err(FileErrno::NOBUFS);
        }
        self.sleeps += 1;
        let key = (end, self.sleeps);
        self.sleeping.insert(key, after);
        Ok(())
    }
    fn set(
        &mut self,
        now: Instant,
        after: u64,
        period: u64,
        handles: &Handles,
    ) -> Result<u32, FileErrno> {
        let handle = handles.insert(Open::Timer).ok_or(FileErrno::MFILE)?;
        let period = (period > 0).then(|| Duration::from_nanos(period));
        let after = Duration::from_nanos(after);
        // A wrong time is named before a lack of room, as of a sleep.
        let set = match self.timers.set(handle, now, after, period) {
            Ok(()) if self.timers.len() + self.sleeping.len() > self.room => {
                self.timers.cancel(handle);
                Err(FileErrno::NOBUFS)
            }
            set => set.map_err(FileErrno::from),
        };
        if let Err(error) = set {
            handles.remove(handle);
            return Err(error);
        }
        self.open.insert(handle, Timer::default());
        Ok(handle)
    }
    /// How often a timer has expired; `None` if the task waits for it now.
    fn tick(&mut self, handle: u32, after: After) -> Result<Option<u64>, FileErrno> {
        let timer = self.open.get_mut(&handle).ok_or(FileErrno::BADF)?;
        if timer.waiter.is_some() {
            return Err(FileErrno::BUSY);
        }
        match std::mem::take(&mut timer.expired) {
            0 if timer.over => Err(FileErrno::INVAL),
            0 => {
                timer.waiter = Some(after);
                Ok(None)
            }
            expired => Ok(Some(expired)),
        }
    }
    fn cancel(&mut self, handle: u32, note: u32, ended: &mut Ended) -> Result<(), FileErrno> {
        let timer = self.open.get_mut(&handle).ok_or(FileErrno::BADF)?;
        let waiter = timer.waiter.take_if(|waiter| waiter.note == note);
        ended.extend(waiter.map(|waiter| (waiter, Err(FileErrno::CANCELED))));
        Ok(())
    }
    fn stop(&mut self, handle: u32, handles: &Handles, ended: &mut Ended) -> Result<(), FileErrno> {
        let timer = self.open.remove(&handle).ok_or(FileErrno::BADF)?;
        self.timers.cancel(handle);
        handles.remove(handle);
        let waiter = timer.waiter.into_iter();
        ended.extend(waiter.map(|waiter| (waiter, Err(FileErrno::CANCELED))));
        Ok(())
    }

    /// Ends requests whose time has come, the earliest first, up to `most` of them. Returns whether these are all.
    pub(crate) fn expire(&mut self, now: Instant, most: usize, ended: &mut Ended) -> bool {
        for _ in 0..most {
            let sleep = self.sleeping.first_entry();
            let sleep = sleep.filter(|sleep| sleep.key().0 <= now);
            let timer = self.timers.next().filter(|&next| next <= now);
            match (sleep, timer) {
                (None, None) => return true,
                (Some(sleep), timer) if timer.is_none_or(|timer| sleep.key().0 <= timer) => {
                    ended.push((sleep.remove(), Ok(0)));
                }
                _ => self.expire_timer(now, ended),
            }
        }
        false
    }
    fn expire_timer(&mut self, now: Instant, ended: &mut Ended) {
        let Some((id, times)) = self.timers.expired(now) else {
            return;
        };
        let is_set = self.timers.is_set(id);
        if let Some(timer) = self.open.get_mut(&id) {
            timer.over = !is_set;
            timer.expired = timer.expired.saturating_add(times);
            if let Some(waiter) = timer.waiter.take() {
                ended.push((waiter, Ok(count(std::mem::take(&mut timer.expired)))));
            }
        }
    }
    /// Ends all requests, and forgets all timers.
    pub(crate) fn end(&mut self, handles: &Handles, ended: &mut Ended) {
        self.timers = Timers::new(0);
        let waiters = self
            .open
            .values_mut()
            .filter_map(|timer| timer.waiter.take());
        let waiters = waiters.chain(std::mem::take(&mut self.sleeping).into_values());
        ended.extend(waiters.map(|waiter| (waiter, Err(FileErrno::CANCELED))));
        for (handle, _) in self.open.drain() {
            handles.remove(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    struct Rig {
        clock: Clock,
        handles: Handles,
        start: Instant,
    }

    impl Rig {
        fn new(room: usize) -> Self {
            Self {
                clock: Clock::new(room),
                handles: Handles::new(4, 4),
                start: Instant::now(),
            }
        }
        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_nanos(ms * MS)
        }
        /// Asks at a time. Returns what has ended, by its notes.
        fn ask(&mut self, ms: u64, asked: OfTime, note: u32) -> Vec<(u32, Result<u32, FileErrno>)> {
            let after = After {
                note,
                ..After::default()
            };
            let mut ended = Vec::new();
            let now = self.at(ms);
            self.clock.ask(now, asked, after, &self.handles, &mut ended);
            notes(ended)
        }
        fn expire(&mut self, ms: u64) -> Vec<(u32, Result<u32, FileErrno>)> {
            let mut ended = Vec::new();
            let now = self.at(ms);
            while !self.clock.expire(now, 2, &mut ended) {}
            notes(ended)
        }
        fn set(&mut self, ms: u64, after: u64, period: u64) -> u32 {
            let asked = OfTime::Set {
                after: after * MS,
                period: period * MS,
            };
            let ended = self.ask(ms, asked, 0);
            let [(0, Ok(handle))] = ended[..] else {
                panic!("it is set at once: {ended:?}");
            };
            handle
        }
    }

    fn notes(ended: Ended) -> Vec<(u32, Result<u32, FileErrno>)> {
        let ended = ended.into_iter();
        ended.map(|(after, result)| (after.note, result)).collect()
    }

    #[test]
    fn sleeps_end_in_the_order_of_their_times() {
        let mut rig = Rig::new(10);
        for (note, ms) in [(1, 5), (2, 3), (3, 9)] {
            assert!(
                rig.ask(0, OfTime::Sleep { nanos: ms * MS }, note)
                    .is_empty()
            );
        }
        assert_eq!(rig.expire(2), []);
        assert_eq!(rig.expire(6), [(2, Ok(0)), (1, Ok(0))]);
        assert_eq!(rig.clock.next(), Some(rig.at(9)));
        assert_eq!(rig.expire(9), [(3, Ok(0))]);
    }

    #[test]
    fn sleeps_and_timers_end_in_one_order() {
        let mut rig = Rig::new(10);
        for (note, ms) in [(1, 2), (2, 4), (3, 6)] {
            let timer = rig.set(0, ms, 0);
            assert_eq!(rig.ask(0, OfTime::Tick(timer), note), []);
            let sleep = OfTime::Sleep {
                nanos: (ms + 1) * MS,
            };
            assert_eq!(rig.ask(0, sleep, note + 10), []);
        }
        let ended: Vec<_> = rig.expire(9).into_iter().map(|(note, _)| note).collect();
        assert_eq!(ended, [1, 11, 2, 12, 3, 13]);
        assert_eq!(rig.clock.next(), None);
    }

    #[test]
    fn a_periodic_timer_counts_what_no_task_has_waited_for() {
        let mut rig = Rig::new(10);
        let timer = rig.set(0, 2, 3);
        assert_eq!(rig.expire(8), [], "no task waits");
        assert_eq!(rig.ask(8, OfTime::Tick(timer), 1), [(1, Ok(3))]);
        assert_eq!(rig.ask(8, OfTime::Tick(timer), 2), []);
        assert_eq!(rig.expire(10), []);
        assert_eq!(rig.expire(11), [(2, Ok(1))]);
        assert_eq!(rig.expire(14), []);
        assert_eq!(rig.ask(14, OfTime::Tick(timer), 3), [(3, Ok(1))]);
    }

    #[test]
    fn one_task_waits_at_a_time_and_a_close_ends_its_wait() {
        let mut rig = Rig::new(10);
        let timer = rig.set(0, 5, 5);
        assert_eq!(rig.ask(0, OfTime::Tick(timer), 1), []);
        let busy = [(2, Err(FileErrno::BUSY))];
        assert_eq!(rig.ask(0, OfTime::Tick(timer), 2), busy);
        let stopped = [(1, Err(FileErrno::CANCELED)), (3, Ok(0))];
        assert_eq!(rig.ask(1, OfTime::Stop(timer), 3), stopped);
        assert_eq!((rig.clock.next(), rig.handles.open()), (None, 0));
        for asked in [OfTime::Tick(timer), OfTime::Stop(timer), OfTime::Tick(0)] {
            assert_eq!(rig.ask(1, asked, 4), [(4, Err(FileErrno::BADF))]);
        }
    }

    #[test]
    fn a_cancelled_wait_leaves_the_timer() {
        let mut rig = Rig::new(10);
        let timer = rig.set(0, 5, 5);
        assert_eq!(rig.ask(0, OfTime::Tick(timer), 7), []);
        let cancel = |handle, note| OfTime::Cancel { handle, note };
        assert_eq!(rig.ask(1, cancel(timer, 8), 1), [(1, Ok(0))]);
        let cancelled = [(7, Err(FileErrno::CANCELED)), (2, Ok(0))];
        assert_eq!(rig.ask(1, cancel(timer, 7), 2), cancelled);
        assert_eq!(rig.expire(5), []);
        assert_eq!(rig.ask(6, OfTime::Tick(timer), 7), [(7, Ok(1))]);
        let unknown = [(3, Err(FileErrno::BADF))];
        assert_eq!(rig.ask(6, cancel(0, 7), 3), unknown);
    }

    #[test]
    fn a_timer_without_a_period_ticks_once() {
        let mut rig = Rig::new(1);
        let timer = rig.set(0, 1, 0);
        assert_eq!(rig.expire(1), []);
        assert_eq!(rig.ask(1, OfTime::Tick(timer), 1), [(1, Ok(1))]);
        let invalid = [(2, Err(FileErrno::INVAL))];
        assert_eq!(rig.ask(1, OfTime::Tick(timer), 2), invalid);
        // Its room is free, its handle is not.
        let other = rig.set(1, 1, 0);
        assert!(other != timer && rig.handles.open() == 2);
    }

    #[test]
    fn what_finds_no_room_is_refused_and_leaves_nothing() {
        let mut none = Rig::new(0);
        let refused = [(1, Err(FileErrno::NOTSUP))];
        assert_eq!(none.ask(0, OfTime::Sleep { nanos: 1 }, 1), refused);
        let mut rig = Rig::new(3);
        let long = OfTime::Sleep { nanos: u64::MAX };
        assert_eq!(rig.ask(0, long, 1), [], "584 years are a time, too");
        let timer = rig.set(0, 1, 1);
        let short = OfTime::Set {
            after: 0,
            period: 99_999,
        };
        assert_eq!(rig.ask(0, short, 2), [(2, Err(FileErrno::INVAL))]);
        rig.set(0, 1, 0);
        let full = [(3, Err(FileErrno::NOBUFS))];
        assert_eq!(rig.ask(0, OfTime::Sleep { nanos: 1 }, 3), full);
        let set = OfTime::Set {
            after: 1,
            period: 0,
        };
        assert_eq!(rig.ask(0, set, 3), full);
        assert_eq!(rig.handles.open(), 2);
        assert_eq!(rig.ask(0, OfTime::Tick(timer), 4), []);
        let mut ended = Vec::new();
        rig.clock.end(&rig.handles, &mut ended);
        let mut ended = notes(ended);
        ended.sort_by_key(|(note, _)| *note);
        let canceled = Err(FileErrno::CANCELED);
        assert_eq!(ended, [(1, canceled), (4, canceled)]);
        assert_eq!((rig.clock.next(), rig.handles.open()), (None, 0));
    }
}

//! What the processes of one host on a GPU did, as this program sees it: it starts them, serves their host calls and learns
//! of their ends. The device measures nothing for this.
//!
//! Any thread may record, each to counters of its own: a hundred thousand processes that end within ten milliseconds would wait for each
//! other at counters that all threads share. All calls are measured and none is sampled.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::clock;
use crate::histogram::{Distribution, Histogram, add};
use crate::level::{Level, level};
use crate::lock::lock;
use crate::trace::{Event, Losses, Tracer, tracer};
use crate::view::{CallTimes, ProcessTotals};

/// A process that has a place on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedProcess {
    /// The number of its place. A place has one process at a time.
    pub place: u32,
    /// When it was given the place, on [`crate::clock`].
    pub began: u64,
}

/// What one thread has counted. It alone writes, and any thread may read meanwhile.
#[derive(Debug)]
struct Share {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    wait: Histogram,
    run: Histogram,
    /// By kind of calls, each made when the first call of its kind ends.
    calls: Box<[OnceLock<Histogram>]>,
}

/// The shares of all threads, and those of threads that have ended, which other threads take over.
#[derive(Debug, Default)]
struct Shares {
    all: Vec<Arc<Share>>,
    left: Vec<Arc<Share>>,
}

/// The calling thread's share of a host's counts.
struct OwnShare {
    host: Weak<Mutex<Shares>>,
    share: Arc<Share>,
}

impl Drop for OwnShare {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            lock(&host).left.push(Arc::clone(&self.share));
        }
    }
}

/// The slices of processes that a trace gets when the host ends.
#[derive(Debug, Default)]
struct PlaceSlices {
    /// The place of each process, and its slice. The last ones are kept.
    kept: VecDeque<(u32, Event)>,
    /// Older ones that were not kept.
    lost: u64,
}

/// Counts and times of one host's processes, recorded by all of its threads.
#[derive(Debug)]
pub struct HostedProcesses {
    shares: Arc<Mutex<Shares>>,
    /// The names of the kinds of calls.
    kinds: Box<[String]>,
    /// The trace, and how many slices of processes it has room for.
    traced: Option<(&'static Tracer, usize)>,
    slices: Mutex<PlaceSlices>,
}

thread_local! {
    /// The thread's shares. It serves few hosts.
    static OWN: RefCell<Vec<OwnShare>> = const { RefCell::new(Vec::new()) };
    /// When the last slice of this thread ended.
    static LAST_END: Cell<u64> = const { Cell::new(0) };
}

impl HostedProcesses {
    /// Room for the times of a new host; `None` if nothing is measured. `names` are the names of the kinds of host calls in the
    /// order of their numbers. The first one is that of calls that have no other.
    ///
    /// # Panics
    /// If there are no names.
    pub fn of_level(names: impl IntoIterator<Item = String>) -> Option<Self> {
        match level() {
            Level::Off => None,
            _ => Some(Self::new(names, tracer())),
        }
    }

    fn new(names: impl IntoIterator<Item = String>, traced: Option<&'static Tracer>) -> Self {
        let kinds: Box<[_]> = names.into_iter().collect();
        assert!(!kinds.is_empty(), "calls without a name have the first one");
        Self {
            shares: Arc::default(),
            kinds,
            traced: traced.map(|tracer| {
                // In the file a track takes as much as one more event, and each slice may be alone on its track.
                (tracer, tracer.reserve() / 2)
            }),
            slices: Mutex::default(),
        }
    }

    /// Records to the calling thread's share.
    fn record(&self, record: impl FnOnce(&Share)) {
        OWN.with(|own| {
            let mut own = own.borrow_mut();
            let of_this = |own: &OwnShare| own.host.as_ptr() == Arc::as_ptr(&self.shares);
            let at = own.iter().position(of_this).unwrap_or_else(|| {
                own.retain(|own| own.host.strong_count() > 0);
                own.push(self.share());
                own.len() - 1
            });
            record(&own[at].share);
        });
    }

    /// A share that no other thread has.
    fn share(&self) -> OwnShare {
        let mut shares = lock(&self.shares);
        let share = shares.left.pop().unwrap_or_else(|| {
            let share = Arc::new(Share {
                started: AtomicU64::new(0),
                succeeded: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                wait: Histogram::default(),
                run: Histogram::default(),
                calls: self.kinds.iter().map(|_| OnceLock::new()).collect(),
            });
            shares.all.push(Arc::clone(&share));
            share
        });
        let host = Arc::downgrade(&self.shares);
        OwnShare { host, share }
    }

    /// Processes that were queued at these times got places at `began`.
    pub fn started(&self, queued: &[u64], began: u64) {
        self.record(|share| {
            add(&share.started, queued.len() as u64);
            // Those that were queued together have the same time.
            for same in queued.chunk_by(|one, next| one == next) {
                let waited = began.saturating_sub(same[0]);
                share.wait.record(waited, same.len() as u64);
            }
        });
    }

    /// Processes have ended at `ended`, each with success or without.
    pub fn ended(&self, processes: &[(HostedProcess, bool)], ended: u64) {
        self.record(|share| {
            let succeeded = processes.iter().filter(|(_, success)| *success).count();
            add(&share.succeeded, succeeded as u64);
            add(&share.failed, (processes.len() - succeeded) as u64);
            for same in processes.chunk_by(|(one, _), (next, _)| one.began == next.began) {
                let took = ended.saturating_sub(same[0].0.began);
                share.run.record(took, same.len() as u64);
            }
        });
        let Some((tracer, room)) = self.traced else {
            return;
        };
        let name = tracer.name("process", "process");
        let mut slices = lock(&self.slices);
        for (HostedProcess { place, began }, _) in processes {
            let slice = Event::slice(name, *began, ended.max(*began), *place, 0);
            slices.kept.push_back((*place, slice));
            if slices.kept.len() > room {
                slices.kept.pop_front();
                slices.lost += 1;
            }
        }
    }

    /// A host call with this number, of the process in this place, has been answered just now. Its request was taken at `taken`.
    pub fn answered(&self, number: u32, place: u32, taken: u64) {
        let now = clock::now();
        let number = number as usize;
        let kind = if number < self.kinds.len() { number } else { 0 };
        self.record(|share| {
            let times = share.calls[kind].get_or_init(Histogram::default);
            times.record(now.saturating_sub(taken), 1);
        });
        if let Some((tracer, _)) = self.traced {
            // A thread may have taken many requests before it answers the first, and slices of a track must not overlap.
            let before = LAST_END.with(|last| last.replace(now));
            let name = tracer.name("host call", &self.kinds[kind]);
            tracer.record(Event::slice(name, taken.max(before), now, place, 0));
        }
    }

    /// What was counted so far. It may lack what other threads are recording.
    pub fn totals(&self) -> ProcessTotals {
        let shares = lock(&self.shares).all.clone();
        let sum = |counter: fn(&Share) -> &AtomicU64| {
            let read = shares.iter().map(|s| counter(s).load(Ordering::Relaxed));
            read.sum()
        };
        let merged = |times: &mut dyn Iterator<Item = &Histogram>| {
            let mut all = Distribution::default();
            times.for_each(|times| all.merge(&times.read()));
            all
        };
        let mut by_kind = Vec::new();
        for (kind, name) in self.kinds.iter().enumerate() {
            let times = merged(&mut shares.iter().filter_map(|share| share.calls[kind].get()));
            if times.count > 0 {
                let call = name.clone();
                by_kind.push(CallTimes { call, times });
            }
        }
        let mut call = Distribution::default();
        by_kind.iter().for_each(|kind| call.merge(&kind.times));
        ProcessTotals {
            started: sum(|share| &share.started),
            succeeded: sum(|share| &share.succeeded),
            failed: sum(|share| &share.failed),
            wait: merged(&mut shares.iter().map(|share| &share.wait)),
            run: merged(&mut shares.iter().map(|share| &share.run)),
            calls: call.count,
            call,
            by_kind,
        }
    }
}

impl Drop for HostedProcesses {
    /// Adds the slices of the processes to the trace: a track for each place.
    fn drop(&mut self) {
        let Some((tracer, _)) = self.traced else {
            return;
        };
        let PlaceSlices { kept, lost } = std::mem::take(&mut *lock(&self.slices));
        let mut kept = Vec::from(kept);
        kept.sort_by_key(|(place, slice)| (*place, slice.begin, Reverse(slice.end)));
        // Which track an older slice would be on is not known, so the first one counts them.
        let mut lost = Some(lost);
        for same in kept.chunk_by(|one, next| one.0 == next.0) {
            let slices: Vec<Event> = same.iter().map(|(_, slice)| *slice).collect();
            let track = format!("place {}", same[0].0);
            let losses = Losses {
                count: lost.take().unwrap_or(0),
                // No messages of actors are among them.
                until: 0,
            };
            tracer.add(&track, &slices, losses);
        }
        (0..lost.unwrap_or(0)).for_each(|_| tracer.lose());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{HostView, ProgramView};

    fn of_names() -> HostedProcesses {
        let names = ["unknown", "fd_read", "fd_write"];
        HostedProcesses::new(names.map(str::to_owned), None)
    }

    #[test]
    fn starts_ends_and_calls_are_counted_with_their_times() {
        let of = of_names();
        of.started(&[100], 350);
        of.started(&[100, 100], 1100);
        of.started(&[], 1100);
        let process = HostedProcess {
            place: 3,
            began: 350,
        };
        let later = HostedProcess {
            place: 4,
            began: 400,
        };
        of.ended(&[(process, true), (later, true)], 1350);
        of.ended(&[(process, false)], 2350);
        let taken = clock::now();
        // A number beyond the last one has no name.
        for number in [2, 1, 2, 77] {
            of.answered(number, 3, taken);
        }
        let took = clock::now() - taken;
        let totals = of.totals();
        assert_eq!((totals.started, totals.succeeded, totals.failed), (3, 2, 1));
        assert_eq!((totals.wait.count, totals.wait.sum), (3, 2250));
        assert_eq!((totals.run.count, totals.run.sum), (3, 3950));
        let kinds = totals.by_kind.iter();
        let kinds: Vec<_> = kinds.map(|k| (&*k.call, k.times.count)).collect();
        assert_eq!(kinds, [("unknown", 1), ("fd_read", 1), ("fd_write", 2)]);
        assert_eq!((totals.calls, totals.call.count), (4, 4));
        assert!(totals.call.most <= took, "{} of {took}", totals.call.most);
    }

    #[test]
    fn threads_have_shares_that_others_take_over() {
        let of = of_names();
        let other = of_names();
        for round in 1..=3 {
            std::thread::scope(|scope| {
                let record = || {
                    of.started(&[0], 10);
                    other.started(&[0], 20);
                    of.answered(1, 0, clock::now());
                };
                let threads = [scope.spawn(record), scope.spawn(record)];
                for thread in threads {
                    thread.join().expect("it records");
                }
            });
            let totals = of.totals();
            assert_eq!((totals.started, totals.wait.sum), (2 * round, 20 * round));
            assert_eq!((totals.calls, totals.by_kind.len()), (2 * round, 1));
            assert_eq!(other.totals().wait.sum, 40 * round);
            assert!(lock(&of.shares).all.len() <= 2, "two threads at a time");
        }
    }

    #[test]
    fn totals_of_two_hosts_add_up_by_kind_and_are_metrics() {
        let (one, two) = (of_names(), of_names());
        one.started(&[1], 2);
        two.started(&[1], 4);
        one.answered(1, 0, clock::now());
        two.answered(1, 0, clock::now());
        two.answered(2, 0, clock::now());
        let mut all = one.totals();
        all.merge(&two.totals());
        assert_eq!((all.started, all.wait.sum, all.calls), (2, 4, 3));
        let kinds = all.by_kind.iter().map(|k| (&*k.call, k.times.count));
        assert_eq!(kinds.collect::<Vec<_>>(), [("fd_read", 2), ("fd_write", 1)]);
        let host = HostView {
            engine: "cuda".to_owned(),
            totals: Some(all),
            ..HostView::default()
        };
        let program = ProgramView {
            hosts: vec![host],
            ..ProgramView::default()
        };
        let text = crate::metrics::text(&[program]);
        let count = |call: &str| {
            let label = format!("call=\"{call}\"");
            let mut lines = text.lines();
            let found = lines.find(|line| {
                line.starts_with("everwarp_host_call_kind_seconds_count{") && line.contains(&label)
            });
            found.and_then(|line| line.rsplit(' ').next())
        };
        assert_eq!(
            (count("fd_read"), count("fd_write")),
            (Some("2"), Some("1"))
        );
        assert_eq!(count("unknown"), None, "there were none");
    }
}

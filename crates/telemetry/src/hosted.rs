//! What the processes of one host on a GPU did, as this program sees it: it starts them, serves their host calls and learns
//! of their ends. The device measures nothing for this.
//!
//! Any thread may record. Each call takes microseconds anyway, so all are measured and none is sampled.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::clock;
use crate::histogram::{Distribution, Histogram};
use crate::level::{Level, level};
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

/// A kind of host calls.
#[derive(Debug)]
struct CallKind {
    name: String,
    /// Made when the first call of this kind ends.
    times: OnceLock<Histogram>,
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
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    wait: Histogram,
    run: Histogram,
    kinds: Box<[CallKind]>,
    /// The trace, and how many slices of processes it has room for.
    traced: Option<(&'static Tracer, usize)>,
    slices: Mutex<PlaceSlices>,
}

thread_local! {
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
        let kind = |name| CallKind {
            name,
            times: OnceLock::new(),
        };
        let kinds: Box<[_]> = names.into_iter().map(kind).collect();
        assert!(!kinds.is_empty(), "calls without a name have the first one");
        Self {
            started: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            wait: Histogram::default(),
            run: Histogram::default(),
            kinds,
            traced: traced.map(|tracer| {
                // In the file a track takes as much as one more event, and each slice may be alone on its track.
                (tracer, tracer.reserve() / 2)
            }),
            slices: Mutex::default(),
        }
    }

    /// A process that was queued at `queued` got a place at `began`.
    pub fn started(&self, queued: u64, began: u64) {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.wait.record_shared(began.saturating_sub(queued), 1);
    }

    /// A process has ended at `ended`.
    pub fn ended(&self, process: HostedProcess, ended: u64, success: bool) {
        let count = match success {
            true => &self.succeeded,
            false => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let HostedProcess { place, began } = process;
        self.run.record_shared(ended.saturating_sub(began), 1);
        if let Some((tracer, room)) = self.traced {
            let name = tracer.name("process", "process");
            let slice = Event::slice(name, began, ended.max(began), place, 0);
            let mut slices = self.slices();
            slices.kept.push_back((place, slice));
            if slices.kept.len() > room {
                slices.kept.pop_front();
                slices.lost += 1;
            }
        }
    }

    /// A host call with this number, of the process in this place, has been answered just now. Its request was taken at `taken`.
    pub fn answered(&self, number: u32, place: u32, taken: u64) {
        let now = clock::now();
        let kind = self.kinds.get(number as usize).unwrap_or(&self.kinds[0]);
        let times = kind.times.get_or_init(Histogram::default);
        times.record_shared(now.saturating_sub(taken), 1);
        if let Some((tracer, _)) = self.traced {
            // A thread may have taken many requests before it answers the first, and slices of a track must not overlap.
            let before = LAST_END.with(|last| last.replace(now));
            let name = tracer.name("host call", &kind.name);
            tracer.record(Event::slice(name, taken.max(before), now, place, 0));
        }
    }

    /// What was counted so far. It may lack what other threads are recording.
    pub fn totals(&self) -> ProcessTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kinds = self.kinds.iter();
        let by_kind: Vec<_> = kinds
            .filter_map(|kind| {
                Some(CallTimes {
                    call: kind.name.clone(),
                    times: kind.times.get()?.read(),
                })
            })
            .collect();
        let mut call = Distribution::default();
        by_kind.iter().for_each(|kind| call.merge(&kind.times));
        ProcessTotals {
            started: read(&self.started),
            succeeded: read(&self.succeeded),
            failed: read(&self.failed),
            wait: self.wait.read(),
            run: self.run.read(),
            calls: call.count,
            call,
            by_kind,
        }
    }

    fn slices(&self) -> MutexGuard<'_, PlaceSlices> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostedProcesses {
    /// Adds the slices of the processes to the trace: a track for each place.
    fn drop(&mut self) {
        let Some((tracer, _)) = self.traced else {
            return;
        };
        let PlaceSlices { kept, lost } = std::mem::take(&mut *self.slices());
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
        of.started(100, 350);
        of.started(100, 1100);
        let process = HostedProcess {
            place: 3,
            began: 350,
        };
        of.ended(process, 1350, true);
        of.ended(process, 2350, false);
        let taken = clock::now();
        // A number beyond the last one has no name.
        for number in [2, 1, 2, 77] {
            of.answered(number, 3, taken);
        }
        let took = clock::now() - taken;
        let totals = of.totals();
        assert_eq!((totals.started, totals.succeeded, totals.failed), (2, 1, 1));
        assert_eq!((totals.wait.count, totals.wait.sum), (2, 1250));
        assert_eq!((totals.run.count, totals.run.sum), (2, 3000));
        let kinds = totals.by_kind.iter();
        let kinds: Vec<_> = kinds.map(|k| (&*k.call, k.times.count)).collect();
        assert_eq!(kinds, [("unknown", 1), ("fd_read", 1), ("fd_write", 2)]);
        assert_eq!((totals.calls, totals.call.count), (4, 4));
        assert!(totals.call.most <= took, "{} of {took}", totals.call.most);
    }

    #[test]
    fn totals_of_two_hosts_add_up_by_kind_and_are_metrics() {
        let (one, two) = (of_names(), of_names());
        one.started(1, 2);
        two.started(1, 4);
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

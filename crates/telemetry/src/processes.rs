//! What the processes of this program's CPU engine did, in all. A process has no worker of its own to record to, so all of
//! them share these numbers; each adds to them a few times in its life.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::histogram::Histogram;
use crate::level::{Level, level};
use crate::trace::{Event, NameId, tracer};
use crate::view::ProcessTotals;

/// The first host calls of a thread are measured one by one, and so are all in a trace.
const FIRST_CALLS: u32 = 64;
/// Of later host calls, one in this many is measured and stands for them.
const CALLS_PER_SAMPLE: u32 = 32;
/// The same of processes.
const FIRST_PROCESSES: u64 = 1024;
const PROCESSES_PER_SAMPLE: u64 = 8;

/// A host call in a trace whose name is not known.
const UNNAMED: &str = "host call";

#[derive(Debug, Default)]
struct Totals {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    calls: AtomicU64,
    wait: Histogram,
    run: Histogram,
    call: Histogram,
}

static TOTALS: OnceLock<Totals> = OnceLock::new();

/// What processes did so far, if that is measured.
pub fn totals() -> Option<ProcessTotals> {
    let totals = TOTALS.get()?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some(ProcessTotals {
        started: read(&totals.started),
        succeeded: read(&totals.succeeded),
        failed: read(&totals.failed),
        wait: totals.wait.read(),
        run: totals.run.read(),
        calls: read(&totals.calls),
        call: totals.call.read(),
        by_kind: Vec::new(),
    })
}

thread_local! {
    /// When the host call began in which the running process of this thread is; 0 outside of one.
    static CALL: Cell<u64> = const { Cell::new(0) };
    /// When the process that runs on this thread got it.
    static TURN: Cell<u64> = const { Cell::new(0) };
    /// Host calls of this thread.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Those of them that the totals do not have yet.
    static PENDING: Cell<u32> = const { Cell::new(0) };
    /// What the host call is called.
    static NAME: Cell<&'static str> = const { Cell::new(UNNAMED) };
    /// The calls that the running one stands for.
    static WEIGHT: Cell<u32> = const { Cell::new(1) };
}

/// The moment at which a process is queued, for [`ProcessHand::start`]; 0 if nothing is measured.
pub fn queued() -> u64 {
    match level() {
        Level::Off => 0,
        _ => clock::now(),
    }
}

/// What a running process records.
#[derive(Debug)]
pub struct ProcessHand {
    totals: &'static Totals,
    began: u64,
    /// Processes that this one stands for; 0 if it is not measured.
    weight: u64,
    number: u32,
    /// What it is called in a trace.
    name: Option<NameId>,
    /// When the host call began in which it waits, and what that is called; 0 outside of one.
    call: (u64, &'static str),
}

impl ProcessHand {
    /// A process has started that was queued at `queued`; none if nothing is measured.
    pub fn start(queued: u64, number: u32) -> Option<Self> {
        if queued == 0 {
            return None;
        }
        let totals = TOTALS.get_or_init(Totals::default);
        let before = totals.started.fetch_add(1, Ordering::Relaxed);
        let weight = match before {
            _ if before < FIRST_PROCESSES || tracer().is_some() => 1,
            _ if before.is_multiple_of(PROCESSES_PER_SAMPLE) => PROCESSES_PER_SAMPLE,
            _ => 0,
        };
        let mut began = 0;
        if weight > 0 {
            began = clock::now();
            totals
                .wait
                .record_shared(began.saturating_sub(queued), weight);
        }
        let name = tracer().map(|tracer| tracer.name("process", "process"));
        Some(Self {
            totals,
            began,
            weight,
            number,
            name,
            call: (0, UNNAMED),
        })
    }

    /// Lets the process go on until it waits or ends.
    pub fn run<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        // Only a trace shows turns.
        let resumed = self.name.map_or(0, |_| clock::now());
        TURN.with(|turn| turn.set(resumed));
        // A call in which it waited goes on.
        CALL.with(|call| call.set(self.call.0));
        NAME.with(|name| name.set(self.call.1));
        let result = poll();
        let left = CALL.with(|call| call.replace(0));
        add_calls(self.totals);
        self.call = (left, NAME.with(Cell::get));
        if let (Some(tracer), Some(own)) = (tracer(), self.name) {
            let now = clock::now();
            if left != 0 {
                // Each part of a call lies within its own turn on the thread.
                let name = tracer.name("host call", self.call.1);
                tracer.record(Event::slice(name, left.max(resumed), now, self.number, 0));
            }
            tracer.record(Event::slice(own, resumed, now, self.number, 0));
        }
        result
    }

    /// The process has ended.
    pub fn end(self, success: bool) {
        let totals = self.totals;
        let ended = if success {
            &totals.succeeded
        } else {
            &totals.failed
        };
        ended.fetch_add(1, Ordering::Relaxed);
        if self.weight > 0 {
            let took = clock::now().saturating_sub(self.began);
            totals.run.record_shared(took, self.weight);
        }
    }
}

/// The running process of this thread calls the host, or returns from it.
#[inline]
pub fn host_call(calls: bool, number: u32) {
    if let Some(totals) = TOTALS.get() {
        measured_call(totals, calls, number);
    }
}

/// Says what the host call is called in which the running process of this thread is; only a trace shows it.
#[inline]
pub fn host_call_is(name: &'static str) {
    if tracer().is_some() {
        NAME.with(|own| own.set(name));
    }
}

/// Adds the calls of this thread to the totals.
fn add_calls(totals: &Totals) {
    let pending = PENDING.with(|pending| pending.replace(0));
    if pending > 0 {
        totals.calls.fetch_add(pending.into(), Ordering::Relaxed);
    }
}

fn measured_call(totals: &Totals, calls: bool, number: u32) {
    if calls {
        let before = CALLS.with(|calls| calls.replace(calls.get().wrapping_add(1)));
        PENDING.with(|pending| pending.set(pending.get() + 1));
        let each = before < FIRST_CALLS;
        if each {
            add_calls(totals);
        }
        let traced = tracer().is_some();
        if traced {
            NAME.with(|name| name.set(UNNAMED));
        }
        let each = each || traced;
        if each || before.is_multiple_of(CALLS_PER_SAMPLE) {
            WEIGHT.with(|weight| weight.set(if each { 1 } else { CALLS_PER_SAMPLE }));
            CALL.with(|call| call.set(clock::now()));
        }
        return;
    }
    let began = CALL.with(|call| call.replace(0));
    if began == 0 {
        return;
    }
    let now = clock::now();
    let weight = WEIGHT.with(Cell::get);
    totals
        .call
        .record_shared(now.saturating_sub(began), weight.into());
    if let Some(tracer) = tracer() {
        let name = tracer.name("host call", NAME.with(Cell::get));
        let turn = TURN.with(Cell::get);
        tracer.record(Event::slice(name, began.max(turn), now, number, 0));
    }
}

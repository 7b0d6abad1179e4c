//! The run of one command, as signals and other commands reach it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

use everwarp::process::sync::{ignore_poison, lock};
use everwarp::process::{
    Events, Host, HostError, ParsePidError, Pid, ProcessSnapshot, compiling_view,
};
use everwarp_telemetry::processes::totals;
use everwarp_telemetry::registry::{Order, Source, View};
use everwarp_telemetry::view::{Health, HostView, ProcessRow};

use super::connections::Gate;

/// The processes of a command, from before they start until they have exited.
pub(super) struct Job {
    module: String,
    begin: Instant,
    /// The first signal that ended the processes, or 0.
    signal: AtomicI32,
    host: RwLock<Option<Host>>,
    /// How connections are let in, with `--per-connection`.
    gate: Option<Arc<Gate>>,
    /// What processes get with `--events`.
    events: Option<Arc<Events>>,
    /// The processes that the command started, with their numbers.
    instances: Mutex<Vec<(Pid, u32)>>,
}

impl Job {
    pub(super) fn new(module: &str, gate: Option<Arc<Gate>>, events: Option<Arc<Events>>) -> Self {
        Self {
            gate,
            events,
            module: module.to_owned(),
            begin: Instant::now(),
            signal: AtomicI32::new(0),
            host: RwLock::default(),
            instances: Mutex::default(),
        }
    }

    /// How connections are let in.
    pub(super) fn gate(&self) -> Option<&Arc<Gate>> {
        self.gate.as_ref()
    }

    /// The events of its processes.
    pub(super) fn events(&self) -> Option<&Arc<Events>> {
        self.events.as_ref()
    }

    /// Sets the host. From here on signals and requests reach its processes.
    pub(super) fn start(&self, host: Host) {
        self.set_host(Some(host));
    }

    /// Releases the host, after all processes have exited.
    pub(super) fn finish(&self) {
        self.set_host(None);
    }

    fn set_host(&self, host: Option<Host>) {
        *ignore_poison(self.host.write()) = host;
    }

    /// Calls `act` with the host, which cannot end meanwhile; `None` if there is none.
    pub(super) fn with_host<T>(&self, act: impl FnOnce(&Host) -> T) -> Option<T> {
        let host = ignore_poison(self.host.read());
        host.as_ref().map(act)
    }

    fn instances(&self) -> MutexGuard<'_, Vec<(Pid, u32)>> {
        lock(&self.instances)
    }

    /// Notes that these processes have the numbers from `first` on.
    pub(super) fn name(&self, pids: &[Pid], first: u32) {
        self.instances().extend(pids.iter().copied().zip(first..));
    }

    /// Notes a signal, and returns whether it is the first one.
    pub(super) fn note(&self, signal: i32) -> bool {
        let before = self
            .signal
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok()
    }

    /// The first signal, if one came.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// This engine without any processes.
    fn snapshot(&self, engine: &str) -> HostView {
        HostView {
            os_pid: std::process::id(),
            engine: engine.to_owned(),
            module: self.module.clone(),
            age_s: self.begin.elapsed().as_secs_f64(),
            totals: totals(),
            ..HostView::default()
        }
    }

    fn list(&self, host: &Host, most: usize) -> Result<HostView, HostError> {
        let listing = host.list(most)?;
        let instances: HashMap<Pid, u32> = self.instances().iter().copied().collect();
        let row = |process: &ProcessSnapshot| ProcessRow {
            pid: process.pid.to_string(),
            instance: instances.get(&process.pid).copied(),
            parent: process.parent.map(|parent| parent.to_string()),
            state: process.stage.to_string(),
            fuel_used: process.fuel_used,
            memory_bytes: process.memory_bytes,
        };
        Ok(HostView {
            waiting: listing.waiting,
            running: listing.running,
            ended: listing.ended,
            left_out: listing.total() - listing.rows.len(),
            processes: listing.rows.iter().map(row).collect(),
            compiling: host.compiling().map(|compiling| compiling_view(&compiling)),
            totals: host.totals(),
            ..self.snapshot(&host.kind().to_string())
        })
    }
}

impl Source for Job {
    fn view(&self, most: usize) -> Option<View> {
        let listed = self.with_host(|host| self.list(host, most));
        Some(View::Host(match listed {
            Some(Ok(listed)) => listed,
            Some(Err(error)) => HostView {
                health: Health::failed(error.to_string()),
                ..self.snapshot("failed")
            },
            None => self.snapshot("starting or ending"),
        }))
    }

    fn order(&self, target: &str, order: Order) -> Result<bool, String> {
        let pid: Pid = target
            .parse()
            .map_err(|error: ParsePidError| error.to_string())?;
        match order {
            Order::Kill => {
                let killed = self.with_host(|host| host.kill(pid));
                let killed = killed.transpose().map_err(|error| error.to_string())?;
                Ok(killed.unwrap_or(false))
            }
            _ => Ok(false),
        }
    }
}

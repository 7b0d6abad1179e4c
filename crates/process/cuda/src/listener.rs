//! The events that the service of host calls reports: answered calls and exits.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use everwarp_hostcalls::{Ended, Events, ExitReason, FunctionState, Woken};
use everwarp_process::Pid;
use everwarp_telemetry::clock;
use everwarp_telemetry::hosted::HostedProcess;

use crate::host_core::HostCore;
use crate::process::{Phase, ProcessEnd};

/// Passes the service's events on to the host. The service exists before the host does, so the host connects later.
#[derive(Default)]
pub(crate) struct ServiceListener(OnceLock<Weak<HostCore>>);

impl ServiceListener {
    /// Passes events on to this host from now on.
    pub(crate) fn connect(&self, host: &Arc<HostCore>) {
        self.0.get_or_init(|| Arc::downgrade(host));
    }

    fn host(&self) -> Option<Arc<HostCore>> {
        self.0.get()?.upgrade()
    }
}

impl Events for ServiceListener {
    fn wake(&self, woken: &[Woken]) {
        if let Some(host) = self.host() {
            host.wake(woken);
        }
    }

    fn exited(&self, ended: &mut Vec<Ended>) {
        if let Some(host) = self.host() {
            host.exited(ended);
        }
    }

    fn function(&self, process: Pid, function: u32) -> FunctionState {
        let host = self.host();
        host.map_or(FunctionState::Unavailable, |host| {
            host.function(process, function)
        })
    }
}

impl HostCore {
    /// Continues processes whose calls have been answered.
    fn wake(&self, woken: &[Woken]) {
        for hosted in self.modules.iter() {
            let places = &hosted.places;
            let of_these = |w: &Woken| {
                // A thread calls by its process's pid, with a slot of its own.
                let place = w.slot.wrapping_sub(places.first);
                (place < places.total()).then_some(place)
            };
            let mut here: Vec<_> = woken.iter().filter_map(of_these).collect();
            here.sort_unstable();
            if let Err(e) = places.wake(&self.engine, &here) {
                self.waiters.fail(&e);
            }
        }
    }

    /// Asks for a function that a process has called and its image lacks.
    fn function(&self, process: Pid, function: u32) -> FunctionState {
        let mut modules = self.modules.iter();
        let its = modules.find(|hosted| {
            let place = process.slot().wrapping_sub(hosted.places.first);
            place < hosted.places.total()
        });
        its.map_or(FunctionState::Unavailable, |hosted| {
            self.wishes.ask(&hosted.code, function)
        })
    }

    /// Records the exits of processes, and frees their places.
    fn exited(&self, ended: &mut Vec<Ended>) {
        let (now, times) = (Instant::now(), self.service.times());
        let mut measured = Vec::new();
        let (mut ends, mut memories) = (
            Vec::with_capacity(ended.len()),
            Vec::with_capacity(ended.len()),
        );
        let mut cursor = self.table.cursor();
        for Ended { tag, exit, .. } in ended.drain(..) {
            // A process that another process has spawned has the tag 0, and its parent knows of its exit.
            let pid = Pid::of_number(tag);
            let Some(phase) = cursor.phase(pid).filter(|_| tag != 0) else {
                continue;
            };
            match std::mem::replace(phase, Phase::Free) {
                Phase::Running(running) => {
                    if times.is_some() {
                        let process = HostedProcess {
                            place: self.places(running.module).number(running.lease.place),
                            began: clock::at(running.begin),
                        };
                        let success = exit.reason == ExitReason::Normal(0);
                        measured.push((process, success));
                    }
                    let captured = [exit.stdout, exit.stderr];
                    let any = captured.iter().any(Option::is_some);
                    *phase = Phase::Exited(ProcessEnd {
                        module: running.module,
                        reason: exit.reason,
                        fuel_used: (running.memory.fuel as u64).saturating_sub(exit.fuel_left),
                        elapsed: now.saturating_duration_since(running.begin),
                        captured: any.then(|| Box::new(captured)),
                    });
                    ends.push((pid, running.module, running.lease.place));
                    memories.push(running.memory);
                }
                other => *phase = other,
            }
        }
        drop(cursor);
        if let Some(times) = times {
            times.ended(&measured, clock::at(now));
        }
        let places = ends.iter().map(|(_, module, place)| (*module, *place));
        self.queues.free(places);
        self.waiters.ended(ends.iter().map(|(pid, ..)| *pid));
        // After all locks: the strings of a group are freed with its last process.
        drop(memories);
    }
}

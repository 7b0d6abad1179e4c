//! Starting the processes that wait for places, as soon as places are free.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_process::{ModuleId, Pid};
use everwarp_runtime::{DevPtr, Error, Pending};
use everwarp_telemetry::clock;

use crate::host_core::HostCore;
use crate::places::{Places, ProcessStart};
use crate::process::{Phase, ProcessGroup, RunningProcess};
use crate::queue::{Placement, StartWave, Work};
use crate::waiters::LOOK;

/// How long the dispatcher gathers places that become free one by one.
const GATHER: Duration = Duration::from_micros(50);

/// A process that has a place and has not started.
struct PlacedProcess {
    pid: everwarp_process::Pid,
    start: ProcessStart,
    /// Its number in its group.
    number: u32,
    group: Arc<ProcessGroup>,
}

impl HostCore {
    /// The dispatcher's thread, until the host ends.
    pub(crate) fn dispatch(&self) {
        loop {
            match self.queues.wait_for_work(LOOK) {
                Work::Stop => return,
                Work::Nothing => {
                    if let Err(e) = self.last.check(&self.engine) {
                        self.waiters.fail(&e);
                    }
                    continue;
                }
                Work::Ready => {}
            }
            if self.queues.are_worth_waiting() {
                std::thread::sleep(GATHER);
            }
            for (module, (batch, wave)) in (0..).map(ModuleId).zip(self.queues.take_all()) {
                self.begin(module, &batch, wave);
            }
        }
    }

    /// Starts processes that have been given places, on the caller's thread.
    pub(crate) fn begin(&self, module: ModuleId, batch: &[Placement], wave: StartWave) {
        if batch.is_empty() {
            return;
        }
        let placed = self.settle(module, batch);
        if placed.is_empty() {
            return;
        }
        match self.start(self.places(module), placed, wave) {
            Ok(None) => {}
            Ok(Some(last)) => self.last.set(last),
            Err(e) => self.waiters.fail(&e),
        }
    }

    /// Records in the table which process has which place. The places of processes that were killed while they waited
    /// are free again.
    fn settle(&self, module: ModuleId, batch: &[Placement]) -> Vec<PlacedProcess> {
        let (begin, times) = (Instant::now(), self.service.times());
        let (mut placed, mut free) = (Vec::with_capacity(batch.len()), Vec::new());
        let mut waited = Vec::new();
        let mut cursor = self.table.cursor();
        for &Placement { pid, lease } in batch {
            let phase = cursor.phase(pid);
            let Some(phase) = phase.filter(|phase| matches!(phase, Phase::Queued(_))) else {
                free.push((module, lease.place));
                continue;
            };
            let Phase::Queued(queued) = std::mem::replace(phase, Phase::Free) else {
                continue;
            };
            if times.is_some() {
                waited.push(queued.queued);
            }
            let memory = &queued.group.memory;
            *phase = Phase::Running(RunningProcess {
                module,
                lease,
                begin,
                memory: Arc::clone(memory),
            });
            let start = ProcessStart {
                lease,
                strings: DevPtr::new(memory.strings.ptr().address() + queued.strings_at),
                fuel: memory.fuel,
                flags: queued.flags,
                given: queued.group.ends.len() as u32,
                instance: queued.instance,
            };
            placed.push(PlacedProcess {
                pid,
                start,
                number: queued.number,
                group: queued.group,
            });
        }
        drop(cursor);
        if let Some(times) = times {
            times.started(&waited, clock::at(begin));
        }
        if !free.is_empty() {
            self.queues.free(free.into_iter());
        }
        placed
    }

    /// Opens processes that have places for their host calls, and starts them.
    fn start(
        &self,
        places: &Places,
        mut batch: Vec<PlacedProcess>,
        wave: StartWave,
    ) -> Result<Option<Pending>, Error> {
        // Without a lock of the table, because other threads have much to do with it. A thread that kills one of these
        // processes meanwhile asks for its end before it starts, so the process makes no call that would have to be
        // called off.
        for placed in &batch {
            let lease = placed.start.lease;
            let opened = self.service.open_as(
                Pid::new(places.number(lease.place), lease.generation),
                Arc::clone(&placed.group.served),
                placed.number,
                placed.pid.number(),
            );
            opened.expect("the place is free, and the descriptors were counted");
        }
        batch.sort_unstable_by_key(|placed| placed.start.lease.place);
        // The host closes its own ends after the start at the earliest, so a side does not close in between.
        for same in batch.chunk_by(|a, b| Arc::ptr_eq(&a.group, &b.group)) {
            for end in &same[0].group.ends[..] {
                if let Err(e) = end.keep(same.len() as u32) {
                    self.waiters.fail(&e);
                }
            }
        }
        let starts: Vec<_> = batch.iter().map(|placed| placed.start).collect();
        let together = wave.more + starts.len();
        places.start(&self.engine, &starts, together.max(wave.announced))
    }
}

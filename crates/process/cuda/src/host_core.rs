//! The state that the threads of a host share, in parts with a lock and rules of their own.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everwarp_engine::sync::lock;
use everwarp_hostcalls::{ExitReason, Service};
use everwarp_process::{Exit, ExitStatus, ModuleId, Pid, TrapKind};
use everwarp_runtime::{Engine, Error, Pending};

use crate::append_list::AppendList;
use crate::code::LoadedCode;
use crate::config::MODULES_MOST;
use crate::family::SharedFamily;
use crate::module::CompiledModule;
use crate::places::Places;
use crate::process::{Phase, ProcessEnd};
use crate::queue::Queues;
use crate::table::{ProcessTable, TableCursor};
use crate::waiters::Waiters;
use crate::wishes::Wishes;

/// Long enough for a wait to look at the engine itself, and not only at what was submitted.
const GLANCE: Duration = Duration::from_micros(200);

/// A module of a host and the places of its processes.
pub(crate) struct HostedModule {
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) module: Arc<CompiledModule>,
    pub(crate) places: Places,
}

/// The shared parts of a host. A thread takes at most one of their locks at a time, except that it may hold the lock of a
/// part of the process table while it kills a process.
pub(crate) struct HostCore {
    pub(crate) engine: Engine,
    /// The modules by id.
    pub(crate) modules: AppendList<HostedModule>,
    /// Serves the host calls.
    pub(crate) service: Arc<Service>,
    /// Takes what processes ask for whose modules have functions left out.
    pub(crate) wishes: Arc<Wishes>,
    /// Dropped after the modules, whose processes use it, and before the table: channel ends of processes that never
    /// started need not be closed in a host that ends.
    pub(crate) family: Arc<SharedFamily>,
    pub(crate) table: ProcessTable,
    pub(crate) queues: Queues,
    pub(crate) waiters: Waiters,
    pub(crate) last: LastSubmission,
}

/// The outcome of a request for a process's exit.
pub(crate) enum ExitRequest {
    /// There is no such process.
    Unknown,
    /// The process has not exited.
    Alive,
    /// The process has exited, and is not known any more.
    Exited(Exit),
}

impl HostCore {
    /// The parts of a host with these modules. `children` are the places whose numbers are the slots in the pids of
    /// children.
    pub(crate) fn new(
        engine: Engine,
        modules: Vec<HostedModule>,
        (service, wishes): (Arc<Service>, Arc<Wishes>),
        family: SharedFamily,
        children: Vec<Range<u32>>,
        queues: Queues,
    ) -> Self {
        Self {
            engine,
            modules: AppendList::new(modules, MODULES_MOST),
            service,
            wishes,
            family: Arc::new(family),
            table: ProcessTable::new(children),
            queues,
            waiters: Waiters::default(),
            last: LastSubmission::default(),
        }
    }

    /// The modules with their places, and the generations of the places' last processes, of a host that has ended.
    pub(crate) fn into_places(
        self,
    ) -> (
        impl Iterator<Item = HostedModule>,
        impl Iterator<Item = Vec<u32>>,
    ) {
        let generations = self.queues.generations();
        (self.modules.into_elements(), generations.into_iter())
    }

    /// A module that the host has.
    pub(crate) fn module(&self, id: ModuleId) -> &HostedModule {
        &self.modules[id.0 as usize]
    }

    /// The places of a module that the host has.
    pub(crate) fn places(&self, id: ModuleId) -> &Places {
        &self.module(id).places
    }

    /// Takes the exit of a process.
    pub(crate) fn take_exit(&self, pid: Pid) -> ExitRequest {
        let taken = self.take_exit_at(&mut self.table.cursor(), pid);
        if let ExitRequest::Exited(_) = &taken {
            self.table.release([pid.slot()].into_iter());
        }
        taken
    }

    /// Takes the exit of a process, whose slot the caller releases afterwards.
    pub(crate) fn take_exit_at(&self, cursor: &mut TableCursor<'_>, pid: Pid) -> ExitRequest {
        let Some(phase) = cursor.phase(pid) else {
            return ExitRequest::Unknown;
        };
        match std::mem::replace(phase, Phase::Free) {
            Phase::Exited(end) => ExitRequest::Exited(self.exit(end)),
            other => {
                *phase = other;
                ExitRequest::Alive
            }
        }
    }

    fn exit(&self, end: ProcessEnd) -> Exit {
        let [stdout, stderr] = end.captured.map_or([None, None], |captured| *captured);
        Exit {
            status: self.status(end.module, end.reason),
            fuel_used: Some(end.fuel_used),
            elapsed: end.elapsed,
            stdout,
            stderr,
        }
    }

    /// The exit status for the reason that the device gave.
    pub(crate) fn status(&self, module: ModuleId, reason: ExitReason) -> ExitStatus {
        let HostedModule { code, module, .. } = self.module(module);
        let mut status = module.status(reason);
        if let (ExitStatus::Trapped(trap), ExitReason::Trap { function, .. }) =
            (&mut status, reason)
            && trap.kind == TrapKind::NotCompiled
            && let Some(reason) = self.wishes.reason(code, function)
        {
            trap.message = reason.to_string();
        }
        status
    }

    /// Asks a process to end, if it is known and alive.
    pub(crate) fn kill(&self, pid: Pid) -> Result<(), Error> {
        if self.names_child(pid) {
            return self.kill_child(pid);
        }
        let mut cursor = self.table.cursor();
        let Some(phase) = cursor.phase(pid) else {
            return Ok(());
        };
        match phase {
            Phase::Free | Phase::Exited(_) => Ok(()),
            Phase::Queued(queued) => {
                let module = queued.module;
                let queued = std::mem::replace(phase, Phase::Exited(ProcessEnd::killed(module)));
                drop(cursor);
                // Its ends of channels are closed with it, which takes a task of the engine.
                drop(queued);
                self.waiters.ended(std::iter::once(pid));
                Ok(())
            }
            Phase::Running(running) => {
                let (places, lease) = (self.places(running.module), running.lease);
                // Under the lock of the table's part: the place must not become another process's meanwhile.
                places.kill(lease)?;
                let number = places.number(lease.place);
                self.service.interrupt(Pid::new(number, lease.generation));
                if places.meets_others() {
                    // It may wait for another process.
                    places.wake(&self.engine, &[lease.place])?;
                }
                Ok(())
            }
        }
    }

    /// The processes in these phases, except for those that other processes have spawned.
    fn pids_in(&self, wanted: fn(&Phase) -> bool) -> Vec<Pid> {
        let mut found = Vec::new();
        self.table.each(|pid, phase| {
            if wanted(phase) {
                found.push(pid);
            }
        });
        found
    }

    /// The processes that have not exited, except for those that other processes have spawned.
    pub(crate) fn alive(&self) -> Vec<Pid> {
        self.pids_in(Phase::is_alive)
    }

    /// Asks all processes to end. Children end with their ancestors.
    pub(crate) fn kill_all(&self) -> Result<(), Error> {
        // First those that wait, or they would start in the places of the others.
        for pid in self.pids_in(|phase| matches!(phase, Phase::Queued(_))) {
            self.kill(pid)?;
        }
        for pid in self.alive() {
            self.kill(pid)?;
        }
        Ok(())
    }

    /// Whether a pid names a process that has not been waited for.
    pub(crate) fn knows(&self, pid: Pid) -> Result<bool, Error> {
        match self.names_child(pid) {
            true => self.knows_child(pid),
            false => Ok(self.table.cursor().phase(pid).is_some()),
        }
    }
}

/// The last task that was submitted. A failure of the engine is noticed by it while nothing ends.
#[derive(Default)]
pub(crate) struct LastSubmission(Mutex<Option<Pending>>);

impl LastSubmission {
    /// Remembers a submission in place of the one before.
    pub(crate) fn set(&self, pending: Pending) {
        let before = lock(&self.0).replace(pending);
        drop(before);
    }

    /// Forgets a submission that is done.
    ///
    /// # Errors
    /// The engine has failed.
    pub(crate) fn check(&self, engine: &Engine) -> Result<(), Error> {
        let Some(mut pending) = lock(&self.0).take() else {
            return Ok(());
        };
        match pending.wait_timeout(GLANCE) {
            Err(Error::Timeout { .. }) => {
                lock(&self.0).get_or_insert(pending);
                // A driver that has lost the device says so when it is asked for something.
                engine.stats().map(drop)
            }
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

//! Processes that other processes have spawned, as the host finds and ends them.
//!
//! Their parents give the places away, so the host learns of them by looking. The slot in such a pid is the place's
//! number among all places, as its parent knows it; the host's own table excludes these numbers.

use everwarp_process::{ModuleId, Pid, ProcessSnapshot, Stage};
use everwarp_runtime::Error;

use crate::host_core::HostCore;
use crate::layout::family::KILL_TOLD;
use crate::layout::snapshot::ChildRecord;
use crate::program;

/// A process that another process has spawned and has not waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildProcess {
    pub(crate) pid: Pid,
    module: ModuleId,
    /// The place's number among those of its module.
    place: u32,
    record: ChildRecord,
}

impl ChildProcess {
    /// The pid that the device has for the parent.
    pub(crate) fn parent(&self) -> u64 {
        self.record.parent()
    }

    /// Whether it has exited.
    pub(crate) fn has_ended(&self) -> bool {
        self.record.has_ended()
    }
}

impl HostCore {
    /// The module with this place for children.
    fn module_of(&self, place: u32) -> Option<ModuleId> {
        let mut all = self.modules.iter();
        let found = all.position(|hosted| hosted.places.of_children().contains(&place))?;
        Some(ModuleId(found as u32))
    }

    /// All children that have not been waited for.
    pub(crate) fn children(&self) -> Result<Vec<ChildProcess>, Error> {
        let mut found = Vec::new();
        for (module, hosted) in (0..).map(ModuleId).zip(self.modules.iter()) {
            let places = hosted.places.of_children();
            let records = self.family.child_records(places.clone())?;
            let taken = places.zip(records).filter(|(_, record)| record.is_taken());
            found.extend(taken.map(|(number, record)| ChildProcess {
                pid: Pid::new(number, record.generation()),
                module,
                place: number - hosted.places.first,
                record,
            }));
        }
        Ok(found)
    }

    /// Whether a pid can only name a process that another process has spawned.
    pub(crate) fn names_child(&self, pid: Pid) -> bool {
        self.module_of(pid.slot()).is_some()
    }

    /// Whether a pid names a child that has not been waited for.
    pub(crate) fn knows_child(&self, pid: Pid) -> Result<bool, Error> {
        if !self.names_child(pid) {
            return Ok(false);
        }
        let records = self.family.child_records(pid.slot()..pid.slot() + 1)?;
        let mut records = records.iter();
        Ok(records.any(|record| record.is_taken() && record.generation() == pid.generation()))
    }

    /// Asks a child to end, if there is one with this pid.
    pub(crate) fn kill_child(&self, pid: Pid) -> Result<(), Error> {
        let Some(module) = self.module_of(pid.slot()) else {
            return Ok(());
        };
        // By a task, because the parent may give the place away: no copy could prevent that meanwhile.
        let task = self.places(module).instance.task(program::KILL);
        let task = task.args(pid.slot(), pid.generation());
        let told = self.engine.submit(task)?.wait()?.value;
        if told == u64::from(KILL_TOLD) {
            self.service.doom(pid);
        }
        Ok(())
    }

    /// Describes a child; `None` if its parent has waited for it meanwhile.
    pub(crate) fn describe_child(
        &self,
        child: &ChildProcess,
        parent: Option<Pid>,
    ) -> Result<Option<ProcessSnapshot>, Error> {
        let hosted = self.module(child.module);
        let seen = hosted.places.snapshot(child.place)?;
        let seen = Some(seen).filter(|seen| seen.pid() == child.pid.number());
        let row = |stage, fuel_used, memory_bytes| ProcessSnapshot {
            pid: child.pid,
            parent,
            stage,
            fuel_used,
            memory_bytes,
        };
        if !child.has_ended() {
            let tables = hosted.module.table_bytes();
            // The record says nothing of a child that has not been made ready.
            let stage = seen.map_or(Stage::Running, |seen| seen.stage());
            let fuel = seen.map(|seen| seen.fuel_used());
            let memory = seen.map(|seen| seen.memory_bytes() + tables);
            return Ok(Some(row(stage, fuel, memory)));
        }
        Ok(seen.map(|seen| {
            let (reason, fuel) = child.record.end(&seen);
            let status = hosted.module.status(reason);
            row(Stage::Ended(status.to_string()), Some(fuel), None)
        }))
    }
}

//! Describing all processes of a host.

use std::collections::HashMap;

use everwarp_process::{Listing, ModuleId, Pid, ProcessSnapshot, Stage};
use everwarp_runtime::Error;

use crate::children::ChildProcess;
use crate::host_core::HostCore;
use crate::lease::PlaceLease;
use crate::process::{Phase, RunningProcess};

/// A process with a place, which the host has spawned, as the table described it.
struct PlacedRow {
    pid: Pid,
    module: ModuleId,
    lease: PlaceLease,
    fuel: i64,
}

impl PlacedRow {
    fn new(pid: Pid, running: &RunningProcess) -> Self {
        Self {
            pid,
            module: running.module,
            lease: running.lease,
            fuel: running.memory.fuel,
        }
    }
}

/// A process whose details the device has.
enum DeviceRow {
    Spawned(PlacedRow),
    Child(ChildProcess),
}

impl DeviceRow {
    fn pid(&self) -> Pid {
        match self {
            Self::Spawned(process) => process.pid,
            Self::Child(child) => child.pid,
        }
    }
}

/// The host's pids of the parents of children, by the pids that the device has for them.
struct ParentPids(HashMap<u64, Option<Pid>>);

impl ParentPids {
    fn of(children: &[ChildProcess]) -> Self {
        Self(children.iter().map(|c| (c.parent(), None)).collect())
    }

    /// Notes a process that may be a parent.
    fn note(&mut self, core: &HostCore, pid: Pid, running: &RunningProcess) {
        if self.0.is_empty() {
            return;
        }
        let number = core.places(running.module).device_pid(running.lease);
        if let Some(parent) = self.0.get_mut(&number) {
            *parent = Some(pid);
        }
    }

    /// The parent of a child. A parent that the host has spawned may have exited since, and is not named then.
    fn parent(&self, core: &HostCore, child: &ChildProcess) -> Option<Pid> {
        let parent = child.parent();
        let named = Pid::of_number(parent);
        match core.names_child(named) {
            true => Some(named),
            false => self.0.get(&parent).copied().flatten(),
        }
    }
}

/// The result of one look at the process table.
struct TableRows {
    listing: Listing,
    /// Up to `limit` of each kind.
    limit: usize,
    placed: Vec<DeviceRow>,
    waiting: Vec<ProcessSnapshot>,
    ended: Vec<ProcessSnapshot>,
}

impl TableRows {
    fn add(&mut self, core: &HostCore, parents: &mut ParentPids, pid: Pid, phase: &Phase) {
        let row = |stage, fuel_used| ProcessSnapshot {
            pid,
            parent: None,
            stage,
            fuel_used,
            memory_bytes: None,
        };
        match phase {
            Phase::Free => {}
            Phase::Queued(_) => {
                self.listing.waiting += 1;
                if self.waiting.len() < self.limit {
                    self.waiting.push(row(Stage::Waiting, None));
                }
            }
            Phase::Running(running) => {
                self.listing.running += 1;
                parents.note(core, pid, running);
                if self.placed.len() < self.limit {
                    let placed = PlacedRow::new(pid, running);
                    self.placed.push(DeviceRow::Spawned(placed));
                }
            }
            Phase::Exited(end) => {
                self.listing.ended += 1;
                if self.ended.len() < self.limit {
                    let status = core.status(end.module, end.reason);
                    let stage = Stage::Ended(status.to_string());
                    self.ended.push(row(stage, Some(end.fuel_used)));
                }
            }
        }
    }
}

impl HostCore {
    /// The processes that have not been waited for, with details of up to `limit` of them. Each of them that has a place
    /// takes a copy from the device, and so does each module with places for children.
    pub(crate) fn list(&self, limit: usize) -> Result<Listing, Error> {
        let children = self.children()?;
        let mut parents = ParentPids::of(&children);
        let mut rows = TableRows {
            listing: Listing::default(),
            limit,
            placed: Vec::new(),
            waiting: Vec::new(),
            ended: Vec::new(),
        };
        self.table
            .each(|pid, phase| rows.add(self, &mut parents, pid, phase));
        let (over, running): (Vec<_>, Vec<_>) =
            children.into_iter().partition(ChildProcess::has_ended);
        rows.listing.running += running.len();
        rows.placed
            .extend(running.into_iter().map(DeviceRow::Child));
        rows.placed.sort_by_key(DeviceRow::pid);
        rows.placed.truncate(limit);
        let mut listing = rows.listing;
        for row in rows.placed {
            listing.rows.extend(self.details(&row, &parents)?);
        }
        let mut ended = rows.ended;
        for child in over {
            listing.ended += 1;
            if ended.len() < limit {
                match self.details(&DeviceRow::Child(child), &parents)? {
                    Some(row) => ended.push(row),
                    // Its parent has waited for it meanwhile.
                    None => listing.ended -= 1,
                }
            }
        }
        ended.sort_by_key(|row| row.pid);
        listing.rows.extend(rows.waiting.into_iter().chain(ended));
        listing.rows.truncate(limit);
        Ok(listing)
    }

    fn details(
        &self,
        row: &DeviceRow,
        parents: &ParentPids,
    ) -> Result<Option<ProcessSnapshot>, Error> {
        match row {
            DeviceRow::Spawned(process) => self.describe_spawned(process).map(Some),
            DeviceRow::Child(child) => self.describe_child(child, parents.parent(self, child)),
        }
    }

    fn describe_spawned(&self, process: &PlacedRow) -> Result<ProcessSnapshot, Error> {
        let hosted = self.module(process.module);
        let seen = hosted.places.snapshot(process.lease.place)?;
        let own = hosted.places.device_pid(process.lease);
        // Before the place was made ready, its record is an earlier process's; after the process's exit, a later one's.
        let seen = Some(seen).filter(|seen| seen.pid() == own);
        let tables = hosted.module.table_bytes();
        let used = |left: i64| process.fuel.saturating_sub(left).max(0) as u64;
        Ok(ProcessSnapshot {
            pid: process.pid,
            parent: None,
            stage: seen.map_or(Stage::Running, |seen| seen.stage()),
            fuel_used: seen.map(|seen| used(seen.fuel_left())),
            memory_bytes: seen.map(|seen| seen.memory_bytes() + tables),
        })
    }
}

//! Telling of all processes, and ending them.

use std::collections::HashMap;
use std::mem::offset_of;

use everwarp_compiler::DevInstance;
use everwarp_hostcalls::Reason;
use everwarp_process::{Listing, Pid, ProcessSnapshot, Stage};

use crate::children::Child;
use crate::dispatch::Shared;
use crate::layout::{DevProcess, TURN_PARKED};
use crate::state::{Phase, Running};

/// What the device's record says of a process that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The number of its place, and its generation in the upper half.
    pub(crate) pid: u64,
    calls: bool,
    granted: i64,
    pub(crate) fuel: i64,
    pub(crate) memory_bytes: u64,
    trap: [u32; 3],
}

impl Seen {
    /// Bytes of a place that are looked at.
    pub(crate) const BYTES: usize = size_of::<DevProcess>() + size_of::<DevInstance>();

    /// A record and the header behind it.
    pub(crate) fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let header = size_of::<DevProcess>();
        let word = |at: usize| number(header + at) as u32;
        Self {
            pid: number(offset_of!(DevProcess, pid)),
            calls: number(offset_of!(DevProcess, turn)) as u32 == TURN_PARKED,
            granted: number(offset_of!(DevProcess, granted)) as i64,
            fuel: number(header + offset_of!(DevInstance, fuel)) as i64,
            memory_bytes: number(header + offset_of!(DevInstance, memory_bytes)),
            trap: [
                word(offset_of!(DevInstance, trap)),
                word(offset_of!(DevInstance, trap_function)),
                word(offset_of!(DevInstance, trap_offset)),
            ],
        }
    }

    /// What it does.
    pub(crate) fn stage(&self) -> Stage {
        match self.calls {
            true => Stage::Calling,
            false => Stage::Running,
        }
    }

    /// What it has used of what it began with, with so much left.
    pub(crate) fn fuel_used(&self, left: i64) -> u64 {
        self.granted.saturating_sub(left.max(0)).max(0) as u64
    }

    /// The trap by which it has ended.
    pub(crate) fn trap(&self) -> Reason {
        let [kind, function, offset] = self.trap;
        Reason::Trap {
            kind,
            function,
            offset,
        }
    }
}

/// One that the host has given a place, as it was when the state was looked at.
struct Placed {
    pid: Pid,
    module: usize,
    place: u32,
    generation: u32,
    fuel: i64,
}

/// One that has a place, or had one that is still its own.
enum Row {
    Own(Placed),
    Child(Child),
}

impl Row {
    fn pid(&self) -> Pid {
        match self {
            Self::Own(process) => process.pid,
            Self::Child(child) => child.pid,
        }
    }
}

/// The pids of parents that the host has spawned, by what the device calls them.
struct Parents(HashMap<u64, Option<Pid>>);

impl Parents {
    fn of(children: &[Child]) -> Self {
        Self(children.iter().map(|c| (c.parent(), None)).collect())
    }

    /// One that may be a parent.
    fn meet(&mut self, shared: &Shared, pid: Pid, running: &Running) {
        if self.0.is_empty() {
            return;
        }
        let place = shared.places[running.module as usize].first + running.place;
        let found = self
            .0
            .get_mut(&Pid::new(place, running.place_generation).number());
        found.into_iter().for_each(|parent| *parent = Some(pid));
    }

    /// The parent of a child. One that the host has spawned may have ended since, and is nobody then.
    fn parent(&self, shared: &Shared, child: &Child) -> Option<Pid> {
        let parent = child.parent();
        let named = Pid::of_number(parent);
        match shared.names_child(named) {
            true => Some(named),
            false => self.0.get(&parent).copied().flatten(),
        }
    }
}

impl Placed {
    fn new(pid: Pid, running: &Running) -> Self {
        Self {
            pid,
            module: running.module as usize,
            place: running.place,
            generation: running.place_generation,
            fuel: running.held.fuel,
        }
    }
}

impl Shared {
    /// The processes that have not been waited for, with details of at most `most`. Each one that has a place takes a
    /// copy from the device, and so does each module whose processes others can spawn.
    pub(crate) fn list(&self, most: usize) -> Result<Listing, everwarp_runtime::Error> {
        let children = self.children()?;
        let mut parents = Parents::of(&children);
        let mut listing = Listing::default();
        let (mut placed, mut waiting, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        self.table.each(|pid, phase| {
            let rest = |stage, fuel_used| ProcessSnapshot {
                pid,
                parent: None,
                stage,
                fuel_used,
                memory_bytes: None,
            };
            match phase {
                Phase::Free => {}
                Phase::Queued(_) => {
                    listing.waiting += 1;
                    if waiting.len() < most {
                        waiting.push(rest(Stage::Waiting, None));
                    }
                }
                Phase::Running(running) => {
                    listing.running += 1;
                    parents.meet(self, pid, running);
                    if placed.len() < most {
                        placed.push(Row::Own(Placed::new(pid, running)));
                    }
                }
                Phase::Exited(end) => {
                    listing.ended += 1;
                    if ended.len() < most {
                        let status = self.status(end.module, end.reason);
                        let stage = Stage::Ended(status.to_string());
                        ended.push(rest(stage, Some(end.fuel_used)));
                    }
                }
            }
        });
        let (over, running): (Vec<_>, Vec<_>) = children.into_iter().partition(Child::has_ended);
        listing.running += running.len();
        placed.extend(running.into_iter().map(Row::Child));
        // As long as it can be told, what has ended comes behind the rest.
        placed.sort_by_key(Row::pid);
        placed.truncate(most);
        for row in placed {
            listing.rows.extend(self.details(&row, &parents)?);
        }
        for child in over {
            listing.ended += 1;
            if ended.len() < most {
                match self.details(&Row::Child(child), &parents)? {
                    Some(row) => ended.push(row),
                    // Its parent has waited for it meanwhile.
                    None => listing.ended -= 1,
                }
            }
        }
        ended.sort_by_key(|row| row.pid);
        listing.rows.extend(waiting.into_iter().chain(ended));
        listing.rows.truncate(most);
        Ok(listing)
    }

    fn details(
        &self,
        row: &Row,
        parents: &Parents,
    ) -> Result<Option<ProcessSnapshot>, everwarp_runtime::Error> {
        match row {
            Row::Own(process) => self.look_at(process).map(Some),
            Row::Child(child) => self.describe(child, parents.parent(self, child)),
        }
    }

    fn look_at(&self, process: &Placed) -> Result<ProcessSnapshot, everwarp_runtime::Error> {
        let places = &self.places[process.module];
        let seen = places.look_at(process.place)?;
        let own = Pid::new(places.first + process.place, process.generation).number();
        // Before it was made ready, the record is an earlier process's; and after its end, a later one's.
        let seen = Some(seen).filter(|seen| seen.pid == own);
        let tables = self.modules[process.module].table_bytes();
        Ok(ProcessSnapshot {
            pid: process.pid,
            parent: None,
            stage: seen.map_or(Stage::Running, |seen| seen.stage()),
            fuel_used: seen.map(|seen| process.fuel.saturating_sub(seen.fuel).max(0) as u64),
            memory_bytes: seen.map(|seen| seen.memory_bytes + tables),
        })
    }

    /// Whether there is a process of that name that has not been waited for.
    pub(crate) fn knows(&self, pid: Pid) -> Result<bool, everwarp_runtime::Error> {
        match self.names_child(pid) {
            true => self.knows_child(pid),
            false => Ok(self.table.cursor().phase(pid).is_some()),
        }
    }

    /// The processes that have not ended, but for those that others have spawned.
    pub(crate) fn alive(&self) -> Vec<Pid> {
        self.those_in(|phase| matches!(phase, Phase::Queued(_) | Phase::Running(_)))
    }

    fn those_in(&self, wanted: fn(&Phase) -> bool) -> Vec<Pid> {
        let mut found = Vec::new();
        self.table.each(|pid, phase| {
            if wanted(phase) {
                found.push(pid);
            }
        });
        found
    }

    /// Asks all processes to end; those that have not started do not start. What others have spawned ends with them.
    pub(crate) fn kill_all(&self) -> Result<(), everwarp_runtime::Error> {
        // First those that wait, or they would start in the places of the others.
        for pid in self.those_in(|phase| matches!(phase, Phase::Queued(_))) {
            self.kill(pid)?;
        }
        for pid in self.alive() {
            self.kill(pid)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_where_its_process_is() {
        let mut bytes = [0; Seen::BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(DevProcess, pid), &(7u64 << 32 | 3).to_le_bytes());
        put(offset_of!(DevProcess, turn), &TURN_PARKED.to_le_bytes());
        let header = size_of::<DevProcess>();
        put(
            header + offset_of!(DevInstance, fuel),
            &(-2i64).to_le_bytes(),
        );
        put(
            header + offset_of!(DevInstance, memory_bytes),
            &65_536u64.to_le_bytes(),
        );
        put(offset_of!(DevProcess, granted), &100i64.to_le_bytes());
        put(
            header + offset_of!(DevInstance, trap_function),
            &6u32.to_le_bytes(),
        );
        let expected = Seen {
            pid: 7 << 32 | 3,
            calls: true,
            granted: 100,
            fuel: -2,
            memory_bytes: 65_536,
            trap: [0, 6, 0],
        };
        let seen = Seen::of(&bytes);
        assert_eq!(seen, expected);
        assert_eq!((seen.fuel_used(-2), seen.fuel_used(40)), (100, 60));
    }
}

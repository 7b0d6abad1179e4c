//! Processes that others have spawned, as the host finds and ends them.
//!
//! Their parents have their places, so the host learns of them by looking. Such a process is named by its place's number
//! among all places, as its parent names it; the host's own table leaves these numbers out.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::PoisonError;

use everwarp_hostcalls::Reason;
use everwarp_process::{Pid, ProcessSnapshot, Stage};

use crate::dispatch::Shared;
use crate::kin::{
    BOND_ENDED, BOND_RUNS, DevBond, KILL_TOLD, STATUS_EXITED, STATUS_KILLED, STATUS_OUT_OF_FUEL,
};
use crate::places::Places;
use crate::program;

/// What a place's record of bonds says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bond {
    parent: u64,
    fuel: i64,
    state: u32,
    generation: u32,
    status: u32,
    code: u32,
}

impl Bond {
    /// The record of these bytes.
    pub(crate) fn of(bytes: &[u8; size_of::<DevBond>()]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
        Self {
            parent: long(offset_of!(DevBond, parent)),
            fuel: long(offset_of!(DevBond, fuel)) as i64,
            state: word(offset_of!(DevBond, state)),
            generation: word(offset_of!(DevBond, generation)),
            status: word(offset_of!(DevBond, status)),
            code: word(offset_of!(DevBond, code)),
        }
    }

    /// Whether the place is somebody's.
    fn is_taken(&self) -> bool {
        self.state & BOND_RUNS != 0
    }
}

/// A process that another one has spawned and has not waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) pid: Pid,
    module: usize,
    /// The place among those of its module.
    place: u32,
    bond: Bond,
}

impl Child {
    /// The pid that the device knows the parent by.
    pub(crate) fn parent(&self) -> u64 {
        self.bond.parent
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.bond.state & BOND_ENDED != 0
    }
}

impl Places {
    /// The numbers of the places for processes that others spawn.
    pub(crate) fn of_children(&self) -> Range<u32> {
        let begin = self.first + self.count;
        begin..begin + self.children
    }
}

impl Shared {
    /// The module whose place for children has this number.
    fn module_of(&self, place: u32) -> Option<usize> {
        let mut all = self.places.iter();
        all.position(|places| places.of_children().contains(&place))
    }

    /// What is in a module's places for children.
    fn bonds(&self, places: Range<u32>) -> Result<Vec<Bond>, everwarp_runtime::Error> {
        let Some(world) = self.world.get().filter(|_| !places.is_empty()) else {
            return Ok(Vec::new());
        };
        let world = world.lock().unwrap_or_else(PoisonError::into_inner);
        world.bonds(places)
    }

    /// All that have not been waited for.
    pub(crate) fn children(&self) -> Result<Vec<Child>, everwarp_runtime::Error> {
        let mut found = Vec::new();
        for (module, places) in self.places.iter().enumerate() {
            let of_children = places.of_children();
            let bonds = self.bonds(of_children.clone())?;
            let taken = of_children.zip(bonds).filter(|(_, bond)| bond.is_taken());
            found.extend(taken.map(|(number, bond)| Child {
                pid: Pid::new(number, bond.generation),
                module,
                place: number - places.first,
                bond,
            }));
        }
        Ok(found)
    }

    /// Whether a pid can only be that of a process that another one has spawned.
    pub(crate) fn names_child(&self, pid: Pid) -> bool {
        self.module_of(pid.slot()).is_some()
    }

    /// Whether there is a child of this name that has not been waited for.
    pub(crate) fn knows_child(&self, pid: Pid) -> Result<bool, everwarp_runtime::Error> {
        if !self.names_child(pid) {
            return Ok(false);
        }
        let bonds = self.bonds(pid.slot()..pid.slot() + 1)?;
        let mut bonds = bonds.iter();
        Ok(bonds.any(|bond| bond.is_taken() && bond.generation == pid.generation()))
    }

    /// Ends a child, which need not be there any more.
    pub(crate) fn kill_child(&self, pid: Pid) -> Result<(), everwarp_runtime::Error> {
        let Some(module) = self.module_of(pid.slot()) else {
            return Ok(());
        };
        // A task, because the place is the parent's to give away: no copy could hold it meanwhile.
        let task = self.places[module].instance.task(program::KILL);
        let task = task.args(pid.slot(), pid.generation());
        let told = self.engine.submit(task)?.wait()?.value;
        if told == u64::from(KILL_TOLD) {
            self.service.doom(pid.slot(), pid.generation());
        }
        Ok(())
    }

    /// Describes a child; nothing if its parent has waited for it meanwhile.
    pub(crate) fn describe(
        &self,
        child: &Child,
        parent: Option<Pid>,
    ) -> Result<Option<ProcessSnapshot>, everwarp_runtime::Error> {
        let seen = self.places[child.module].look_at(child.place)?;
        let seen = Some(seen).filter(|seen| seen.pid == child.pid.number());
        let row = |stage, fuel_used, memory_bytes| ProcessSnapshot {
            pid: child.pid,
            parent,
            stage,
            fuel_used,
            memory_bytes,
        };
        if !child.has_ended() {
            let tables = self.modules[child.module].table_bytes();
            // Nothing is known of one that has not been made ready.
            let stage = seen.map_or(Stage::Running, |seen| seen.stage());
            let fuel = seen.map(|seen| seen.fuel_used(seen.fuel));
            let memory = seen.map(|seen| seen.memory_bytes + tables);
            return Ok(Some(row(stage, fuel, memory)));
        }
        Ok(seen.map(|seen| {
            let reason = match child.bond.status {
                STATUS_EXITED => Reason::Normal(child.bond.code),
                STATUS_KILLED => Reason::Killed,
                STATUS_OUT_OF_FUEL => Reason::OutOfFuel,
                _ => seen.trap(),
            };
            let status = self.status(child.module as u32, reason);
            let fuel = seen.fuel_used(child.bond.fuel);
            row(Stage::Ended(status.to_string()), Some(fuel), None)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_says_what_became_of_a_child() {
        let mut bytes = [0; size_of::<DevBond>()];
        assert!(!Bond::of(&bytes).is_taken());
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(
            offset_of!(DevBond, parent),
            &Pid::new(3, 9).number().to_le_bytes(),
        );
        put(offset_of!(DevBond, fuel), &(-2i64).to_le_bytes());
        put(
            offset_of!(DevBond, state),
            &(BOND_RUNS | BOND_ENDED).to_le_bytes(),
        );
        put(offset_of!(DevBond, generation), &5u32.to_le_bytes());
        put(offset_of!(DevBond, status), &STATUS_EXITED.to_le_bytes());
        put(offset_of!(DevBond, code), &7u32.to_le_bytes());
        let bond = Bond::of(&bytes);
        let expected = Bond {
            parent: 9 << 32 | 3,
            fuel: -2,
            state: BOND_RUNS | BOND_ENDED,
            generation: 5,
            status: STATUS_EXITED,
            code: 7,
        };
        assert_eq!(bond, expected);
        assert!(bond.is_taken());
    }
}

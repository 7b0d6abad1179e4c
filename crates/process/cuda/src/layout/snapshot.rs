//! The device's records of a process, as the host reads them.

use everwarp_compiler::DevInstance;
use everwarp_hostcalls::ExitReason;
use everwarp_process::Stage;
use everwarp_runtime::DevType;

use super::family::{
    CHILD_EXITED, CHILD_RUNNING, DevChildRecord, STATUS_EXITED, STATUS_KILLED, STATUS_OUT_OF_FUEL,
};
use super::process::{DevProcess, TURN_PARKED};

/// The record of a place and the header of the instance in it, as they were at one moment. The device may write them
/// while they are copied, so each word is right for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceSnapshot {
    process: DevProcess,
    instance: DevInstance,
}

impl PlaceSnapshot {
    /// Bytes of a place that are copied.
    pub(crate) const BYTES: usize = size_of::<DevProcess>() + size_of::<DevInstance>();

    /// A record and the header after it.
    pub(crate) fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let (process, instance) = bytes.split_at(size_of::<DevProcess>());
        Self {
            process: DevProcess::from_bytes(process),
            instance: DevInstance::from_bytes(instance),
        }
    }

    /// The pid that the device has for the process.
    pub(crate) fn pid(&self) -> u64 {
        self.process.pid
    }

    /// Whether the process runs or waits for the result of a host call.
    pub(crate) fn stage(&self) -> Stage {
        match self.process.turn {
            TURN_PARKED => Stage::Calling,
            _ => Stage::Running,
        }
    }

    /// Bytes of the process's linear memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.instance.memory_bytes
    }

    /// The fuel that the process has left.
    pub(crate) fn fuel_left(&self) -> i64 {
        self.instance.fuel
    }

    /// The fuel that the process has used so far.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.fuel_used_with(self.instance.fuel)
    }

    /// The fuel that the process has used if this much is left.
    pub(crate) fn fuel_used_with(&self, left: i64) -> u64 {
        self.process.granted.saturating_sub(left.max(0)).max(0) as u64
    }

    /// The trap that ended the process.
    fn trap(&self) -> ExitReason {
        ExitReason::Trap {
            kind: self.instance.trap,
            function: self.instance.trap_function,
            offset: self.instance.trap_offset,
        }
    }
}

/// A place for processes that other processes spawn: what its record said at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildRecord(DevChildRecord);

impl ChildRecord {
    /// The record of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(DevChildRecord::from_bytes(bytes))
    }

    /// The pid that the device has for the parent.
    pub(crate) fn parent(&self) -> u64 {
        self.0.parent
    }

    /// The generation of the place's last process.
    pub(crate) fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Whether the place has a process that its parent has not waited for.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.state & CHILD_RUNNING != 0
    }

    /// Whether the process has exited.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.state & CHILD_EXITED != 0
    }

    /// Why the process ended, and the fuel that it used; `place` is its place's record.
    pub(crate) fn end(&self, place: &PlaceSnapshot) -> (ExitReason, u64) {
        let reason = match self.0.status {
            STATUS_EXITED => ExitReason::Normal(self.0.code),
            STATUS_KILLED => ExitReason::Killed,
            STATUS_OUT_OF_FUEL => ExitReason::OutOfFuel,
            _ => place.trap(),
        };
        (reason, place.fuel_used_with(self.0.fuel))
    }
}

#[cfg(test)]
mod tests {
    use everwarp_runtime::Layout;

    use super::*;

    fn place(process: DevProcess, instance: DevInstance) -> PlaceSnapshot {
        let mut bytes = [0; PlaceSnapshot::BYTES];
        let (front, back) = bytes.split_at_mut(size_of::<DevProcess>());
        front.copy_from_slice(process.bytes());
        back.copy_from_slice(instance.bytes());
        PlaceSnapshot::of(&bytes)
    }

    #[test]
    fn a_place_record_says_what_its_process_does() {
        let process = DevProcess {
            pid: 7 << 32 | 3,
            turn: TURN_PARKED,
            granted: 100,
            ..DevProcess::ZERO
        };
        let instance = DevInstance {
            fuel: -2,
            memory_bytes: 65_536,
            trap_function: 6,
            ..DevInstance::ZERO
        };
        let seen = place(process, instance);
        assert_eq!((seen.pid(), seen.stage()), (7 << 32 | 3, Stage::Calling));
        assert_eq!((seen.memory_bytes(), seen.fuel_used()), (65_536, 100));
        assert_eq!(seen.fuel_used_with(40), 60);
        let running = place(DevProcess::ZERO, instance);
        assert_eq!(running.stage(), Stage::Running);
    }

    #[test]
    fn a_child_record_says_how_the_child_ended() {
        let free = ChildRecord::of(DevChildRecord::ZERO.bytes());
        assert!(!free.is_taken() && !free.has_ended());
        let child = DevChildRecord {
            parent: 9 << 32 | 3,
            fuel: 40,
            state: CHILD_RUNNING | CHILD_EXITED,
            generation: 5,
            status: STATUS_EXITED,
            code: 7,
        };
        let record = ChildRecord::of(child.bytes());
        assert!(record.is_taken() && record.has_ended());
        assert_eq!((record.parent(), record.generation()), (9 << 32 | 3, 5));
        let process = DevProcess {
            granted: 100,
            ..DevProcess::ZERO
        };
        let instance = DevInstance {
            trap: 4,
            trap_offset: 9,
            ..DevInstance::ZERO
        };
        let place = place(process, instance);
        assert_eq!(record.end(&place), (ExitReason::Normal(7), 60));
        let trapped = DevChildRecord {
            status: u32::MAX,
            ..child
        };
        let trap = ExitReason::Trap {
            kind: 4,
            function: 0,
            offset: 9,
        };
        assert_eq!(ChildRecord::of(trapped.bytes()).end(&place), (trap, 60));
    }
}

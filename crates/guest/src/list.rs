//! Telling of all processes, and ending them.

use std::mem::offset_of;

use everwarp_interface::{Listing, Pid, Stage, Status};
use everwarp_wasm::DevInstance;

use crate::host::Host;
use crate::layout::{DevProcess, TURN_PARKED};
use crate::state::{Phase, Running};

/// What the device's record says of a process that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The number of its place, and its generation in the upper half.
    pid: u64,
    calls: bool,
    fuel: i64,
    memory_bytes: u64,
}

impl Seen {
    /// Bytes of a place that are looked at.
    pub(crate) const BYTES: usize = size_of::<DevProcess>() + size_of::<DevInstance>();

    /// A record and the header behind it.
    pub(crate) fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let header = size_of::<DevProcess>();
        Self {
            pid: number(offset_of!(DevProcess, pid)),
            calls: number(offset_of!(DevProcess, turn)) as u32 == TURN_PARKED,
            fuel: number(header + offset_of!(DevInstance, fuel)) as i64,
            memory_bytes: number(header + offset_of!(DevInstance, memory_bytes)),
        }
    }
}

/// One that has a place, as it was when the state was looked at.
struct Placed {
    pid: Pid,
    module: usize,
    place: u32,
    generation: u32,
    fuel: i64,
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

impl Host {
    /// The processes that have not been waited for, of which `most` at most are described. Each one that has a place
    /// takes a copy from the device.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn processes(&self, most: usize) -> Result<Listing, everwarp::Error> {
        let mut listing = Listing::default();
        let (mut placed, mut waiting, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        self.shared().table.each(|pid, phase| {
            let rest = |stage, fuel_used| Status {
                pid,
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
                    if placed.len() < most {
                        placed.push(Placed::new(pid, running));
                    }
                }
                Phase::Exited(end) => {
                    listing.ended += 1;
                    if ended.len() < most {
                        let reason = self.shared().reason(end.module, end.reason);
                        let stage = Stage::Ended(reason.to_string());
                        ended.push(rest(stage, Some(end.fuel_used)));
                    }
                }
            }
        });
        for process in placed {
            listing.rows.push(self.look_at(&process)?);
        }
        listing.rows.extend(waiting.into_iter().chain(ended));
        listing.rows.truncate(most);
        Ok(listing)
    }

    fn look_at(&self, process: &Placed) -> Result<Status, everwarp::Error> {
        let shared = self.shared();
        let places = &shared.places[process.module];
        let seen = places.look_at(process.place)?;
        let own = u64::from(process.generation) << 32 | u64::from(places.first + process.place);
        // Before it was made ready, the record is an earlier process's; and after its end, a later one's.
        let seen = Some(seen).filter(|seen| seen.pid == own);
        let tables = shared.modules[process.module].table_bytes();
        Ok(Status {
            pid: process.pid,
            stage: match seen {
                Some(seen) if seen.calls => Stage::Calling,
                _ => Stage::Running,
            },
            fuel_used: seen.map(|seen| process.fuel.saturating_sub(seen.fuel).max(0) as u64),
            memory_bytes: seen.map(|seen| seen.memory_bytes + tables),
        })
    }

    /// Whether there is a process of that name that has not been waited for.
    pub fn knows(&self, pid: Pid) -> bool {
        self.shared().table.cursor().phase(pid).is_some()
    }

    /// Asks all processes to end; those that have not begun do not.
    ///
    /// # Errors
    /// The engine has ended.
    pub fn kill_all(&self) -> Result<(), everwarp::Error> {
        let shared = self.shared();
        let of = |wanted: fn(&Phase) -> bool| -> Vec<Pid> {
            let mut all = Vec::new();
            shared.table.each(|pid, phase| {
                if wanted(phase) {
                    all.push(pid);
                }
            });
            all
        };
        // First those that wait, lest they begin in the places of the others.
        for wanted in [
            (|phase| matches!(phase, Phase::Queued(_))) as fn(&Phase) -> bool,
            |phase| matches!(phase, Phase::Queued(_) | Phase::Running(_)),
        ] {
            for pid in of(wanted) {
                shared.kill(pid)?;
            }
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
        let expected = Seen {
            pid: 7 << 32 | 3,
            calls: true,
            fuel: -2,
            memory_bytes: 65_536,
        };
        assert_eq!(Seen::of(&bytes), expected);
    }
}

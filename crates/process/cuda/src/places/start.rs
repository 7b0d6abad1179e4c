//! Starting processes in places that are free.

use everwarp_engine::sync::lock;
use everwarp_runtime::{DevPtr, DevType, Engine, Error, Layout, Pending};

use super::Places;
use super::spread::{Spread, masks, runs, spreads, width};
use crate::layout::START_PROCESSES;
use crate::layout::process::{DevSpawn, PROCESS_FIRST, PROCESS_FRESH};
use crate::lease::PlaceLease;
use crate::program;

/// A process that is to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessStart {
    pub(crate) lease: PlaceLease,
    pub(crate) strings: DevPtr<u8>,
    pub(crate) fuel: i64,
    pub(crate) flags: u32,
    /// How many ends of channels it is given.
    pub(crate) given: u32,
    /// Its number among the processes that were spawned together.
    pub(crate) instance: u32,
}

/// The values that the host wrote last for each place.
pub(super) struct Written {
    spawns: Vec<DevSpawn>,
    /// Whether each place has had a process under its present number.
    numbered: Vec<bool>,
    /// The generation of each place's process that was last asked to end.
    killed: Vec<u32>,
    /// How often a process was asked to end.
    kills: u64,
}

impl Written {
    pub(super) fn new(places: u32) -> Self {
        Self {
            spawns: vec![DevSpawn::ZERO; places as usize],
            numbered: vec![false; places as usize],
            killed: vec![0; places as usize],
            kills: 0,
        }
    }

    /// Notes that the places have got other numbers.
    pub(super) fn renumber(&mut self) {
        self.numbered.fill(false);
    }

    /// Notes that a process was asked to end.
    pub(super) fn kill(&mut self, lease: PlaceLease) {
        let at = lease.place as usize;
        self.killed[at] = lease.generation;
        self.spawns[at].kill = 1;
        self.kills += 1;
    }

    fn is_killed(&self, lease: PlaceLease) -> bool {
        self.killed[lease.place as usize] == lease.generation
    }
}

impl Places {
    /// Starts processes in places that are free, ordered by place. About `together` processes start at about the same
    /// time. Returns the last task that was submitted.
    pub(crate) fn start(
        &self,
        engine: &Engine,
        starts: &[ProcessStart],
        together: usize,
    ) -> Result<Option<Pending>, Error> {
        self.write(starts)?;
        let places = starts.iter().map(|start| start.lease.place);
        let tasks: Vec<_> = match self.interleaved {
            // A group whose memories are interleaved stays together.
            true => {
                let groups = masks(places, START_PROCESSES).into_iter();
                groups
                    .map(|(group, mask)| (group * START_PROCESSES, mask))
                    .collect()
            }
            false => runs(
                places,
                width(together.max(starts.len()), engine.worker_count()),
            ),
        };
        // One by one rather than as a batch: the descriptors of a batch are kept until all of it has ended, and the
        // memory for them is given back in order, so one process that runs for hours would hold up all starts.
        let mut last = None;
        for Spread {
            first,
            count,
            width,
            mask,
        } in spreads(&tasks)
        {
            let task = match count > width {
                true => (self.instance.task(program::SPREAD).tag(width as u8)).args(first, count),
                false => self.instance.task(program::START).args(first, mask),
            };
            last = Some(engine.submit(task)?);
        }
        Ok(last)
    }

    /// Writes what processes are started with.
    fn write(&self, starts: &[ProcessStart]) -> Result<(), Error> {
        let ([first, ..], [.., last]) = (starts, starts) else {
            return Ok(());
        };
        let (first, last) = (first.lease.place as usize, last.lease.place as usize);
        let mut written = lock(&self.written);
        for start in starts {
            let place = start.lease.place as usize;
            let fresh = written.spawns[place].pid == 0;
            let first = !std::mem::replace(&mut written.numbered[place], true);
            written.spawns[place] = DevSpawn {
                pid: self.device_pid(start.lease),
                strings: start.strings,
                fuel: start.fuel,
                memory_limit: self.memory_limit(),
                flags: start.flags
                    | if fresh { PROCESS_FRESH } else { 0 }
                    | if first { PROCESS_FIRST } else { 0 }
                    | self.flags(),
                kill: written.is_killed(start.lease).into(),
                given: start.given,
                instance: start.instance,
            };
        }
        if last - first + 1 != starts.len() {
            // Places of other processes are between them.
            for run in starts.chunk_by(|a, b| b.lease.place - a.lease.place < 64) {
                let from = run[0].lease.place as usize;
                let to = run[run.len() - 1].lease.place as usize;
                let records = &written.spawns[from..=to];
                let records = records.iter().map(Layout::bytes);
                let at = from * size_of::<DevSpawn>();
                self.memory.spawns.write_pieces(at, records)?;
            }
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(starts.len() * size_of::<DevSpawn>());
        for record in &written.spawns[first..=last] {
            bytes.extend_from_slice(record.bytes());
        }
        let kills = written.kills;
        // The copy is made without the lock, which other threads need meanwhile to start processes of their own.
        drop(written);
        let at = first * size_of::<DevSpawn>();
        self.memory.spawns.write_at(at, &bytes)?;
        let written = lock(&self.written);
        if written.kills != kills {
            // The copy may have overwritten the word of a kill.
            for start in starts.iter().filter(|s| written.is_killed(s.lease)) {
                self.write_kill(start.lease.place)?;
            }
        }
        Ok(())
    }
}

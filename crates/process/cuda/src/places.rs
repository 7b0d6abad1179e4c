//! The places of one module's processes: their memory on the device, and how they are filled.

use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

use everwarp_compiler::{Addresses, DevInstance, PAGE};
use everwarp_process::{Pid, StartError};
use everwarp_runtime::{Buffer, DevPtr, Engine, Instance, Layout, Pending};

use crate::config::PlaceConfig;
use crate::error::{not_instantiated, not_started};
use crate::kin::DevWorld;
use crate::layout::{
    CLEAR_PIECE, DevProcess, DevProcessTable, DevSpawn, ENTRY_NONE, OUTPUT_BYTES, PROCESS_FRESH,
    PROCESS_INTERLEAVED, START_PROCESSES,
};
use crate::list::Seen;
use crate::module::Loaded;
use crate::program;
use crate::spread::{Spread, masks, runs, spreads, width};
use crate::threads::{DevTeam, PLACES_MOST};

/// Linear memory that a process may grow by where nobody has said how much.
const GROWTH: u64 = 64 << 20;
/// The same where there are places for processes that others spawn: each has its memory from the start.
const GROWTH_OF_FAMILIES: u64 = 4 << 20;
/// Bytes in which the frames of a suspended process are saved, at most. One that is suspended deeper ends with
/// an exhausted stack.
const SAVE_MOST: u64 = 64 << 10;
/// Memories are cleared by the host while they are no larger than this together; above, by the GPU, because the bus is
/// slower. Either way at the start: later each process leaves as much to clear as it could have written.
const CLEARED_MOST: u64 = 256 << 20;

/// What all modules of a host share. It must live as long as their places.
#[derive(Clone)]
pub(crate) struct Common {
    /// How deep calls may nest.
    pub(crate) depth: u32,
    /// Nanoseconds from the device's clock to the time of day.
    pub(crate) clock_offset: u64,
    /// The key of random bytes.
    pub(crate) random_key: [u32; 8],
    /// Where channels and relations are; null for processes without.
    pub(crate) world: DevPtr<DevWorld>,
}

/// One process that is to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) place: u32,
    pub(crate) generation: u32,
    pub(crate) strings: DevPtr<u8>,
    pub(crate) fuel: i64,
    pub(crate) flags: u32,
    pub(crate) given: u32,
    pub(crate) instance: u32,
}

/// What was last written for a place.
struct Written {
    spawns: Vec<DevSpawn>,
    /// The generation of each place whose end was asked for last.
    killed: Vec<u32>,
    /// How often an end was asked for.
    kills: u64,
}

/// The places of one module.
pub(crate) struct Places {
    /// The number of the first among the places of all modules.
    pub(crate) first: u32,
    /// How many there are that the host gives away.
    pub(crate) count: u32,
    interleaved: bool,
    /// How many there are behind those for processes that others spawn.
    pub(crate) children: u32,
    /// How many there are behind those for threads.
    threads: u32,
    /// What tasks get.
    pub(crate) table: DevProcessTable,
    pub(crate) instance: Instance,
    records: Buffer<u8>,
    record_stride: u64,
    pub(crate) memory_limit: u64,
    spawns: Buffer<u8>,
    written: Mutex<Written>,
    /// Memory that the device reads as long as the instance lives.
    _kept: Vec<Buffer<u8>>,
}

/// Has the GPU clear memories that nothing uses yet, whose bytes are a multiple of 16.
fn clear(engine: &Engine, instance: &Instance, bytes: u64) -> Result<(), everwarp_runtime::Error> {
    let piece = u64::from(CLEAR_PIECE);
    let task = |number: u64| {
        let bytes = piece.min(bytes - number * piece);
        let task = instance.task(program::CLEAR);
        task.args(number as u32, bytes as u32).build()
    };
    let tasks: Vec<_> = (0..bytes.div_ceil(piece)).map(task).collect();
    engine.submit_all(&tasks)
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len().next_multiple_of(16).max(16);
    bytes.resize(len, 0);
    bytes
}

impl Places {
    /// Reserves the places of module number `module`, from number `first` on, with a share of the budget.
    pub(crate) fn new(
        engine: &Engine,
        loaded: &Loaded,
        module: usize,
        first: u32,
        config: &PlaceConfig,
        common: &Common,
    ) -> Result<Self, StartError> {
        let (needs, most) = (loaded.memory_bytes(), loaded.memory_most());
        // Nobody but the host spawns processes with threads.
        let children = match loaded.threads {
            Some(_) => 0,
            None => config.children,
        };
        let threads = config.threads_of(loaded);
        let wanted = u64::from(config.places) + u64::from(children);
        let share = config.memory_budget / wanted.max(1);
        // As on the CPU engine, a limit covers the tables too.
        let tables = loaded.table_bytes();
        let growth = match children {
            0 => GROWTH,
            _ => GROWTH_OF_FAMILIES,
        };
        let automatic = || needs + growth.min(share.saturating_sub(needs + SAVE_MOST));
        let limit = config.memory.map(|limit| limit.saturating_sub(tables));
        let memory = limit.unwrap_or_else(automatic).min(most) / PAGE * PAGE;
        if memory < needs || config.memory.is_some_and(|limit| limit < needs + tables) {
            return Err(StartError::Memory {
                module: loaded.name.clone(),
                needs: needs + tables,
                limit: config.memory.unwrap_or(memory),
            });
        }
        let initial = loaded.instantiate(memory, common.depth);
        let mut initial = initial.map_err(|e| StartError::Load {
            module: loaded.name.clone(),
            source: not_instantiated(&e),
        })?;
        initial.save_bytes = initial.save_bytes.min(SAVE_MOST).next_multiple_of(16);
        let block = padded(initial.block(Addresses {
            block: 0,
            memory: 0,
            module_data: 0,
        }));
        let output_at = size_of::<DevProcess>() + initial.block_bytes().next_multiple_of(16);
        let record_stride = (output_at + OUTPUT_BYTES as usize).next_multiple_of(128) as u64;
        // What is shared is no instance's own.
        let memory_limit = match loaded.threads {
            Some(_) => memory,
            None => initial.memory_limit,
        };
        let memory_stride = memory_limit.max(16);
        let record = record_stride + size_of::<DevSpawn>() as u64;
        let needs = memory_stride + record * u64::from(1 + threads);
        // Where not all fit, both kinds have their part.
        let most = (PLACES_MOST / threads.max(1)).max(1);
        let wanted = match threads {
            0 => wanted,
            _ => wanted.min(most.into()),
        };
        let total = wanted.min(config.memory_budget / needs);
        let children = (u64::from(children) * total / wanted.max(1)) as u32;
        let count = total as u32 - children;
        if count == 0 {
            return Err(StartError::Budget {
                module: loaded.name.clone(),
                needs,
                budget: config.memory_budget,
            });
        }
        let of_threads = count * threads;
        let records_of = total + u64::from(of_threads);
        let groups = records_of.next_multiple_of(START_PROCESSES.into());
        let bytes = |stride: u64| (total * stride) as usize;
        let interleaved = loaded.compiled.interleaved();
        let memory_bytes = match interleaved {
            true => (groups * memory_stride) as usize,
            false => bytes(memory_stride),
        };
        let cleared = memory_bytes as u64 <= CLEARED_MOST;
        let memories = match cleared {
            true => engine.buffer(memory_bytes).map_err(not_started)?,
            false => engine.buffer_uncleared(memory_bytes).map_err(not_started)?,
        };
        // Where others may wake or kill a process before it is ready, its record says that it does not wait.
        let records = match common.world.address() {
            0 => engine
                .buffer_uncleared((records_of * record_stride) as usize)
                .map_err(not_started)?,
            _ => engine
                .buffer((records_of * record_stride) as usize)
                .map_err(not_started)?,
        };
        let teams = match loaded.threads {
            Some(_) => Some(
                engine
                    .buffer(count as usize * size_of::<DevTeam>())
                    .map_err(not_started)?,
            ),
            None => None,
        };
        let spawns = engine
            .buffer(groups as usize * size_of::<DevSpawn>())
            .map_err(not_started)?;
        let gathered = records_of.div_ceil(START_PROCESSES.into()) as usize;
        let gathering = engine
            .buffer(gathered * size_of::<u64>())
            .map_err(not_started)?;
        let initial_memory = padded(initial.memory.clone());
        let initial_bytes = initial_memory.len().min(memory_stride as usize);
        let blocks = engine.buffer_from(&block).map_err(not_started)?;
        let template = engine.buffer_from(&initial_memory).map_err(not_started)?;
        let data = engine
            .buffer_from(&padded(loaded.compiled.module_data()))
            .map_err(not_started)?;
        let layout = &loaded.compiled.layout;
        let tables = initial.table_count();
        let table = DevProcessTable {
            records: records.ptr(),
            memories: memories.ptr(),
            record_stride,
            memory_stride,
            block: blocks.ptr(),
            memory: template.ptr(),
            module_data: data.ptr(),
            spawns: DevPtr::new(spawns.ptr().address()),
            clock_offset: common.clock_offset,
            random_key: common.random_key,
            block_bytes: block.len() as u32,
            initial_bytes: initial_bytes as u32,
            tables_at: layout.tables as u32,
            tables: tables as u32,
            module: module as u32,
            start: loaded.start().unwrap_or(ENTRY_NONE),
            entry: loaded.entry(),
            depth: common.depth,
            output_at: output_at as u32,
            suspension_at: layout.suspension.unwrap_or(0) as u32,
            world: common.world,
            teams: match &teams {
                Some(teams) => DevPtr::new(teams.ptr().address()),
                None => DevPtr::NULL,
            },
            threads,
            first_thread: count + children,
            thread_entry: loaded.thread_entry().unwrap_or(ENTRY_NONE),
            sharing_at: layout.sharing.unwrap_or(0) as u32,
            gathering: DevPtr::new(gathering.ptr().address()),
        };
        // SAFETY: the buffers have the sizes that the strides and counts say, and are kept beside the
        // instance; the program checks its places.
        let instance =
            unsafe { engine.instance(&program::PROGRAM, &table) }.map_err(not_started)?;
        if !cleared {
            clear(engine, &instance, memory_bytes as u64).map_err(not_started)?;
        }
        let nothing = DevSpawn {
            pid: 0,
            strings: DevPtr::NULL,
            fuel: 0,
            memory_limit: 0,
            flags: 0,
            kill: 0,
            given: 0,
            instance: 0,
        };
        Ok(Self {
            first,
            count,
            interleaved,
            children,
            threads: of_threads,
            table,
            instance,
            records,
            record_stride,
            memory_limit,
            spawns,
            written: Mutex::new(Written {
                spawns: vec![nothing; count as usize],
                killed: vec![0; count as usize],
                kills: 0,
            }),
            _kept: [memories, blocks, template, data, gathering]
                .into_iter()
                .chain(teams)
                .collect(),
        })
    }

    /// What holds for each process here: `PROCESS_…`.
    pub(crate) fn flags(&self) -> u32 {
        match self.interleaved {
            true => PROCESS_INTERLEAVED,
            false => 0,
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts processes in places that are free, ordered by place; so many are started at about the same time. Answers
    /// the last task that was submitted.
    pub(crate) fn start(
        &self,
        engine: &Engine,
        starts: &[Start],
        together: usize,
    ) -> Result<Option<Pending>, everwarp_runtime::Error> {
        self.write(starts)?;
        let places = starts.iter().map(|s| s.place);
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
        // One by one rather than as a batch: a batch's descriptors are kept until all of it has ended, and the
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
    fn write(&self, starts: &[Start]) -> Result<(), everwarp_runtime::Error> {
        let ([first, ..], [.., last]) = (starts, starts) else {
            return Ok(());
        };
        let mut written = self.written();
        for start in starts {
            let place = start.place as usize;
            let killed = written.killed[place] == start.generation;
            let fresh = written.spawns[place].pid == 0;
            written.spawns[place] = DevSpawn {
                pid: Pid::new(self.first + start.place, start.generation).number(),
                strings: start.strings,
                fuel: start.fuel,
                memory_limit: self.memory_limit,
                flags: start.flags | if fresh { PROCESS_FRESH } else { 0 } | self.flags(),
                kill: killed.into(),
                given: start.given,
                instance: start.instance,
            };
        }
        if (last.place - first.place) as usize + 1 != starts.len() {
            // Others' places lie between them.
            for run in starts.chunk_by(|a, b| b.place - a.place < 64) {
                let (from, to) = (run[0].place as usize, run[run.len() - 1].place as usize);
                let records = &written.spawns[from..=to];
                let records = records.iter().map(Layout::bytes);
                self.spawns
                    .write_pieces(from * size_of::<DevSpawn>(), records)?;
            }
            return Ok(());
        }
        let from = first.place as usize;
        let mut bytes = Vec::with_capacity(size_of_val(starts));
        for record in &written.spawns[from..from + starts.len()] {
            bytes.extend_from_slice(record.bytes());
        }
        let kills = written.kills;
        // Copied without the lock, which others need who start processes of their own meanwhile.
        drop(written);
        self.spawns.write_at(from * size_of::<DevSpawn>(), &bytes)?;
        let written = self.written();
        if written.kills != kills {
            // The copy may have come behind the word of a kill.
            for start in starts {
                if written.killed[start.place as usize] == start.generation {
                    self.write_kill(start.place)?;
                }
            }
        }
        Ok(())
    }

    /// Asks for the end of what has yet to be made ready in a place.
    fn write_kill(&self, place: u32) -> Result<(), everwarp_runtime::Error> {
        let at = place as usize * size_of::<DevSpawn>() + offset_of!(DevSpawn, kill);
        self.spawns.write_at(at, &1u32.to_le_bytes())
    }

    /// What the device's record says of the process in a place.
    pub(crate) fn look_at(&self, place: u32) -> Result<Seen, everwarp_runtime::Error> {
        let mut bytes = [0; Seen::BYTES];
        let at = place as usize * self.record_stride as usize;
        self.records.read_at(at, &mut bytes)?;
        Ok(Seen::of(&bytes))
    }

    /// Goes on with processes that were answered, ordered by place. A warp takes up to 32 answers, brings long replies
    /// to where they belong and waits for others of the group that are about to be answered.
    pub(crate) fn wake(
        &self,
        engine: &Engine,
        woken: &[u32],
    ) -> Result<(), everwarp_runtime::Error> {
        for (group, mask) in masks(woken.iter().copied(), START_PROCESSES) {
            let task = self.instance.task(program::WAKE).args(group, mask);
            drop(engine.submit(task)?);
        }
        Ok(())
    }

    /// Whether its processes can have channels, children or threads.
    pub(crate) fn meets_others(&self) -> bool {
        self.table.world.address() != 0
    }

    /// How many places there are.
    pub(crate) fn total(&self) -> u32 {
        self.count + self.children + self.threads
    }

    /// Asks for the end of what runs in a place, which must be that generation as long as this is called.
    pub(crate) fn kill(&self, place: u32, generation: u32) -> Result<(), everwarp_runtime::Error> {
        let mut written = self.written();
        let at = place as usize;
        written.killed[at] = generation;
        written.spawns[at].kill = 1;
        written.kills += 1;
        // The order matters: who makes the place ready reads this word after it has written the other.
        self.write_kill(place)?;
        let header = at * self.record_stride as usize + size_of::<DevProcess>();
        self.records
            .write_at(header + offset_of!(DevInstance, kill), &1u32.to_le_bytes())
    }
}

//! The places of one module's processes: their memory on the device, and what the host does with them.

mod memory;
mod size;
mod spread;
mod start;

use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use everwarp_compiler::{Addresses, DevInstance, Initial};
use everwarp_engine::sync::lock;
use everwarp_process::{Pid, StartError};
use everwarp_runtime::{Buffer, DevPtr, Engine, Instance};

use crate::code::LoadedCode;
use crate::config::{PlaceConfig, PlaceKey};
use crate::error::not_started;
use crate::layout::DevProcessTable;
use crate::layout::family::DevWorld;
use crate::layout::process::{
    CLEAR_PIECE, DevProcess, DevSpawn, ENTRY_NONE, PROCESS_INTERLEAVED, START_PROCESSES,
};
use crate::layout::snapshot::PlaceSnapshot;
use crate::lease::PlaceLease;
use crate::module::CompiledModule;
use crate::program;

use memory::PlaceMemory;
use size::PlaceSizes;
use spread::masks;
pub(crate) use start::ProcessStart;
use start::Written;

/// The settings that the places of all modules share.
#[derive(Clone)]
pub(crate) struct CommonParameters {
    /// How deep calls may nest.
    pub(crate) depth: u32,
    /// Nanoseconds from the device's clock to the time of day.
    pub(crate) clock_offset: u64,
    /// The key of random bytes.
    pub(crate) random_key: [u32; 8],
    /// The record of channels, children and threads; null for modules without.
    pub(crate) family: DevPtr<DevWorld>,
}

/// The places of one module. Their numbers among the places of all modules are those from `first` on: first the places
/// of processes that the host spawns, then those of processes that other processes spawn, then those of threads.
pub(crate) struct Places {
    pub(crate) first: u32,
    sizes: PlaceSizes,
    config: PlaceConfig,
    interleaved: bool,
    /// The parameters of tasks.
    pub(crate) table: DevProcessTable,
    pub(crate) instance: Arc<Instance>,
    memory: PlaceMemory,
    written: Mutex<Written>,
}

impl Places {
    /// Makes the places of a module, from number `first` on.
    pub(crate) fn new(
        engine: &Engine,
        code: &LoadedCode,
        first: u32,
        config: &PlaceConfig,
        common: &CommonParameters,
    ) -> Result<Self, StartError> {
        let module = &*code.module;
        let (sizes, initial) = PlaceSizes::of(module, config, common.depth)?;
        let interleaved = module.compiled.interleaved();
        let meets_others = common.family.address() != 0;
        let memory = PlaceMemory::reserve(engine, module, &sizes, &initial, meets_others);
        let memory = memory.map_err(not_started)?;
        let table = table(module, code.number, &sizes, &initial, &memory, common);
        // SAFETY: the buffers have the sizes that the strides and counts say, the engine frees a buffer only when the tasks
        // that were submitted before are done, and none is submitted without `Places`; the program checks its places.
        let instance = unsafe { engine.instance(&program::PROGRAM, &table) };
        let instance = instance.map_err(not_started)?;
        if let Some(bytes) = memory.uncleared_bytes() {
            clear(engine, &instance, bytes).map_err(not_started)?;
        }
        Ok(Self {
            first,
            written: Mutex::new(Written::new(sizes.count)),
            sizes,
            config: *config,
            interleaved,
            table,
            instance: Arc::new(instance),
            memory,
        })
    }

    /// Bytes of device memory that the places of a module would take.
    pub(crate) fn wanted_bytes(
        module: &CompiledModule,
        config: &PlaceConfig,
        depth: u32,
    ) -> Result<u64, StartError> {
        let (sizes, _) = PlaceSizes::of(module, config, depth)?;
        Ok(sizes.bytes(module.compiled.interleaved()))
    }

    /// Gives the places to another host, where their numbers are those from `first` on. No process is in them, and the host
    /// has no channels, children or threads.
    pub(crate) fn move_to(
        &mut self,
        engine: &Engine,
        first: u32,
        common: &CommonParameters,
    ) -> Result<(), everwarp_runtime::Error> {
        let table = DevProcessTable {
            clock_offset: common.clock_offset,
            random_key: common.random_key,
            ..self.table
        };
        self.memory.move_to(engine);
        // SAFETY: as in `new`; the buffers are the same.
        let instance = unsafe { engine.instance(&program::PROGRAM, &table) }?;
        (self.first, self.table, self.instance) = (first, table, Arc::new(instance));
        lock(&self.written).renumber();
        Ok(())
    }

    /// The settings that decide whether another host can have them.
    pub(crate) fn key(&self, depth: u32) -> PlaceKey {
        PlaceKey::new(&self.config, depth)
    }

    /// Bytes of device memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.bytes(self.interleaved)
    }

    /// How many places there are for processes that the host spawns.
    pub(crate) fn count(&self) -> u32 {
        self.sizes.count
    }

    /// How many places there are, including those for children and threads.
    pub(crate) fn total(&self) -> u32 {
        self.sizes.total()
    }

    /// The numbers of the places for processes that other processes spawn.
    pub(crate) fn of_children(&self) -> Range<u32> {
        let begin = self.first + self.sizes.count;
        begin..begin + self.sizes.children
    }

    /// The bytes that a linear memory may grow to.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.sizes.memory_limit
    }

    /// The flags of each process here: `PROCESS_…`.
    pub(crate) fn flags(&self) -> u32 {
        match self.interleaved {
            true => PROCESS_INTERLEAVED,
            false => 0,
        }
    }

    /// Whether the processes here can have channels, children or threads.
    pub(crate) fn meets_others(&self) -> bool {
        self.table.world.address() != 0
    }

    /// A place's number among those of all modules.
    pub(crate) fn number(&self, place: u32) -> u32 {
        self.first + place
    }

    /// The pid that the device has for the process with this lease.
    pub(crate) fn device_pid(&self, lease: PlaceLease) -> u64 {
        Pid::new(self.number(lease.place), lease.generation).number()
    }

    /// The device's record of the process in a place.
    pub(crate) fn snapshot(&self, place: u32) -> Result<PlaceSnapshot, everwarp_runtime::Error> {
        let mut bytes = [0; PlaceSnapshot::BYTES];
        let at = place as usize * self.sizes.record_stride as usize;
        self.memory.records.read_at(at, &mut bytes)?;
        Ok(PlaceSnapshot::of(&bytes))
    }

    /// Continues processes whose calls have been answered, ordered by place. A warp takes up to 32 answers, copies long
    /// replies to their destinations, and waits for others of the group that are about to be answered.
    pub(crate) fn wake(
        &self,
        engine: &Engine,
        places: &[u32],
    ) -> Result<(), everwarp_runtime::Error> {
        for (group, mask) in masks(places.iter().copied(), START_PROCESSES) {
            let task = self.instance.task(program::WAKE).args(group, mask);
            drop(engine.submit(task)?);
        }
        Ok(())
    }

    /// Asks the process with this lease to end. The place must not become another process's during the call.
    pub(crate) fn kill(&self, lease: PlaceLease) -> Result<(), everwarp_runtime::Error> {
        let mut written = lock(&self.written);
        written.kill(lease);
        // The order matters: the task that makes the place ready reads this word after it has written the other.
        self.write_kill(lease.place)?;
        let at = lease.place as usize * self.sizes.record_stride as usize;
        let header = at + size_of::<DevProcess>();
        let word = header + offset_of!(DevInstance, kill);
        self.memory.records.write_at(word, &1u32.to_le_bytes())
    }

    /// Asks the process that has yet to be made ready in a place to end.
    fn write_kill(&self, place: u32) -> Result<(), everwarp_runtime::Error> {
        let at = place as usize * size_of::<DevSpawn>() + offset_of!(DevSpawn, kill);
        self.memory.spawns.write_at(at, &1u32.to_le_bytes())
    }
}

/// The parameters of a module's tasks.
fn table(
    module: &CompiledModule,
    number: u32,
    sizes: &PlaceSizes,
    initial: &Initial,
    memory: &PlaceMemory,
    common: &CommonParameters,
) -> DevProcessTable {
    let layout = &module.compiled.layout;
    let address = |buffer: &Buffer<u8>| buffer.ptr().address();
    DevProcessTable {
        records: memory.records.ptr(),
        memories: memory.memories.ptr(),
        record_stride: sizes.record_stride,
        memory_stride: sizes.memory_stride,
        block: memory.block.ptr(),
        memory: memory.template.ptr(),
        module_data: memory.data.ptr(),
        spawns: DevPtr::new(address(&memory.spawns)),
        clock_offset: common.clock_offset,
        random_key: common.random_key,
        block_bytes: memory.block_bytes,
        initial_bytes: memory.initial_bytes,
        tables_at: layout.tables as u32,
        tables: initial.table_count() as u32,
        module: number,
        start: module.start().unwrap_or(ENTRY_NONE),
        entry: module.entry(),
        depth: sizes.depth,
        output_at: sizes.output_at,
        suspension_at: layout.suspension.unwrap_or(0) as u32,
        deep_at: layout.deep.unwrap_or(0) as u32,
        reserved: 0,
        world: common.family,
        teams: match &memory.teams {
            Some(teams) => DevPtr::new(address(teams)),
            None => DevPtr::NULL,
        },
        threads: sizes.threads,
        first_thread: sizes.count + sizes.children,
        thread_entry: module.thread_entry().unwrap_or(ENTRY_NONE),
        sharing_at: layout.sharing.unwrap_or(0) as u32,
        gathering: DevPtr::new(address(&memory.gathering)),
    }
}

/// The block of an instance at address 0, padded.
fn block_at_zero(initial: &Initial) -> Vec<u8> {
    padded(initial.block(Addresses {
        block: 0,
        memory: 0,
        module_data: 0,
    }))
}

/// These bytes, padded with zeros to a multiple of 16.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len().next_multiple_of(16).max(16);
    bytes.resize(len, 0);
    bytes
}

/// Has the GPU clear memories that nothing uses yet. `bytes` is a multiple of 16.
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

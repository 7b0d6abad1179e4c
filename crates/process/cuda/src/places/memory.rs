//! The device memory of a module's places.

use everwarp_compiler::Initial;
use everwarp_runtime::{Buffer, Engine, Error, LinkedEngine};

use super::size::PlaceSizes;
use super::{block_at_zero, padded};
use crate::layout::START_PROCESSES;
use crate::layout::process::DevSpawn;
use crate::layout::thread::DevTeam;
use crate::module::CompiledModule;

/// Memories are cleared by the host if they take no more bytes than this together; otherwise by the GPU, because the bus
/// is slower. Either way at the start: later each process leaves as much to clear as it could have written.
const CLEARED_MOST: u64 = 256 << 20;

/// The buffers that the device reads as long as the instance of the program lives.
pub(super) struct PlaceMemory {
    pub(super) records: Buffer<u8>,
    pub(super) memories: Buffer<u8>,
    /// Whether the GPU has to clear the memories.
    uncleared: bool,
    /// The start parameters of the places' processes.
    pub(super) spawns: Buffer<u8>,
    /// The initial block of an instance, at address 0.
    pub(super) block: Buffer<u8>,
    pub(super) block_bytes: u32,
    /// The initial bytes of linear memory.
    pub(super) template: Buffer<u8>,
    pub(super) initial_bytes: u32,
    /// Passive data segments.
    pub(super) data: Buffer<u8>,
    pub(super) gathering: Buffer<u8>,
    /// The records that the threads of each process share, if the module's memory is shared.
    pub(super) teams: Option<Buffer<u8>>,
}

impl PlaceMemory {
    /// Reserves the memory, and fills in what is the same for all processes.
    pub(super) fn reserve(
        engine: &Engine,
        module: &CompiledModule,
        sizes: &PlaceSizes,
        initial: &Initial,
        meets_others: bool,
    ) -> Result<Self, Error> {
        let memories = match module.compiled.interleaved() {
            true => sizes.total_of_groups(),
            false => sizes.memories(),
        };
        let memory_bytes = u64::from(memories) * sizes.memory_stride;
        let uncleared = memory_bytes > CLEARED_MOST;
        let memories = match uncleared {
            true => engine.buffer_uncleared(memory_bytes as usize)?,
            false => engine.buffer(memory_bytes as usize)?,
        };
        let record_bytes = (u64::from(sizes.total()) * sizes.record_stride) as usize;
        // Where other processes may wake or kill a process before it is ready, its record says that it does not wait.
        let records = match meets_others {
            true => engine.buffer(record_bytes)?,
            false => engine.buffer_uncleared(record_bytes)?,
        };
        let teams = module.threads.as_ref();
        let teams = teams.map(|_| engine.buffer(sizes.count as usize * size_of::<DevTeam>()));
        let teams = teams.transpose()?;
        let groups = sizes.total_of_groups();
        let spawns = engine.buffer(groups as usize * size_of::<DevSpawn>())?;
        let gathered = groups / START_PROCESSES;
        let gathering = engine.buffer(gathered as usize * size_of::<u64>())?;
        let block = block_at_zero(initial);
        let template = padded(initial.memory.clone());
        Ok(Self {
            records,
            memories,
            uncleared,
            spawns,
            block_bytes: block.len() as u32,
            block: engine.buffer_from(&block)?,
            initial_bytes: template.len().min(sizes.memory_stride as usize) as u32,
            template: engine.buffer_from(&template)?,
            data: engine.buffer_from(&padded(module.compiled.module_data()))?,
            gathering,
            teams,
        })
    }

    /// Gives the buffers to the region of another host.
    pub(super) fn move_to(&mut self, engine: &Engine) {
        let buffers = [
            &mut self.records,
            &mut self.memories,
            &mut self.spawns,
            &mut self.block,
            &mut self.template,
            &mut self.data,
            &mut self.gathering,
        ];
        for buffer in buffers.into_iter().chain(&mut self.teams) {
            engine.adopt(buffer);
        }
    }

    /// How many bytes the GPU has to clear, if it has to.
    pub(super) fn uncleared_bytes(&self) -> Option<u64> {
        self.uncleared.then(|| self.memories.len() as u64)
    }
}

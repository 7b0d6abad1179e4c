//! The bytes of an instance before its start function has run.

use core::mem::offset_of;

use everwarp_contract::layout::{DevPtr, Layout};

use crate::facts::abi::{DevDeep, DevInstance, DevSharing, DevSuspension, DevTable};
use crate::instance::link::SharedMemory;

/// The most that a host allows an instance.
#[derive(Clone, Copy, Debug)]
pub struct InstanceLimits {
    /// Pages of linear memory, reserved from the start.
    pub memory_pages: u64,
    /// Elements of each table, reserved from the start.
    pub table_elements: u64,
    /// Safepoints until the instance runs out of fuel; must be positive.
    pub fuel: i64,
    /// How deep calls may nest. The device's stack must hold that many frames.
    pub depth: u32,
}

/// The addresses of an instance's parts, which the host has chosen.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The instance's block, aligned to 16 bytes.
    pub block: u64,
    /// Its linear memory, aligned to 16 bytes; of [`Initial::memory_limit`] bytes.
    pub memory: u64,
    /// The module's data ([`Compiled::module_data`](crate::Compiled::module_data)), aligned to 16 bytes; instances share it.
    pub module_data: u64,
}

/// An instance before its start function has run.
#[derive(Clone, Debug)]
pub struct Initial {
    pub(super) block: Vec<u8>,
    /// The beginning of linear memory. What follows, up to the limit, must be zero.
    pub memory: Vec<u8>,
    /// How many bytes to reserve for linear memory; 0 if it is another instance's.
    pub memory_limit: u64,
    /// The active segments for a memory that is another instance's: an address in it, and the bytes to copy there.
    pub segments: Vec<(u64, Vec<u8>)>,
    /// Bytes at the end of the block where frames are saved while the instance is suspended. Its initial value is
    /// [`Compiled::save_bytes`](crate::Compiled::save_bytes) for the limits' depth, which always suffices; 0 if the module cannot be
    /// suspended.
    pub save_bytes: u64,
    /// Bytes after the save area for frames that the device's stack does not hold, if the module is compiled with
    /// [`CompileOptions::deep`](crate::CompileOptions::deep). At first none; the host decides how deep calls may nest.
    pub deep_bytes: u64,
    pub(super) header: DevInstance,
    pub(super) tables: Vec<(usize, DevTable)>,
    pub(super) tables_at: usize,
    pub(super) suspension: Option<usize>,
    pub(super) deep: Option<usize>,
    pub(super) sharing: Option<usize>,
    pub(super) shared: Option<SharedMemory>,
}

impl Initial {
    /// How many tables the block has.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// Size of the instance's block in bytes, with the areas for frames at its end.
    pub fn block_bytes(&self) -> usize {
        self.block.len() + (self.save_bytes + self.deep_bytes) as usize
    }

    /// The block's bytes, once the addresses of all parts are known. The save area, which follows, need not be
    /// initialised.
    pub fn block(&self, at: Addresses) -> Vec<u8> {
        let mut block = self.block.clone();
        let memory = self.shared.map_or(at.memory, |shared| shared.memory);
        let header = DevInstance {
            memory: DevPtr::new(memory),
            module_data: DevPtr::new(at.module_data),
            ..self.header
        };
        block[..size_of::<DevInstance>()].copy_from_slice(header.bytes());
        if let Some(from) = self.suspension {
            let base = at.block + self.block.len() as u64;
            let record = DevSuspension {
                base: DevPtr::new(base),
                end: DevPtr::new(base + self.save_bytes),
                top: DevPtr::new(base),
                entry: 0,
                slice: 0,
                mates: 0,
                stop_from: 0,
                stop: DevPtr::NULL,
            };
            block[from..from + size_of::<DevSuspension>()].copy_from_slice(record.bytes());
        }
        if let Some(from) = self.deep {
            let base = at.block + self.block.len() as u64 + self.save_bytes;
            let record = DevDeep {
                base: DevPtr::new(base),
                end: DevPtr::new(base + self.deep_bytes),
                top: DevPtr::new(base),
                mark: DevPtr::NULL,
                function: 0,
                marked: 0,
                left: 0,
                unused: 0,
            };
            block[from..from + size_of::<DevDeep>()].copy_from_slice(record.bytes());
        }
        if let Some(from) = self.sharing {
            let own = from + offset_of!(DevSharing, memory_bytes);
            let own = at.block + own as u64;
            let record = DevSharing {
                length: DevPtr::new(self.shared.map_or(own, |shared| shared.length)),
                memory_bytes: self.header.memory_bytes,
            };
            block[from..from + size_of::<DevSharing>()].copy_from_slice(record.bytes());
        }
        for (i, (offset, table)) in self.tables.iter().enumerate() {
            let elements = DevPtr::new(at.block + *offset as u64);
            let table = DevTable { elements, ..*table };
            let from = self.tables_at + i * size_of::<DevTable>();
            block[from..from + size_of::<DevTable>()].copy_from_slice(table.bytes());
        }
        block
    }
}

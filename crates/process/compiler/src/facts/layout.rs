//! The offsets of an instance's parts in its block.

use crate::facts::abi::{DevInstance, DevSharing, DevSuspension, DevTable, SUSPENSION};
use crate::facts::module::{Module, Placement};

/// The offsets of an instance's parts in its block: the header ([`DevInstance`]), the record of its suspension, that of
/// a shared memory, the arguments of tail calls, then globals, table records, lengths of segments, passive element
/// segments, and the tables' elements.
#[derive(Clone, Debug, Default)]
pub struct InstanceLayout {
    /// Offset of the record ([`DevSuspension`]) of a module that can be suspended.
    pub suspension: Option<usize>,
    /// Offset of the record ([`DevSharing`]) of a module whose memory may be shared.
    pub sharing: Option<usize>,
    /// Offset of the record ([`DevDeep`](crate::DevDeep)) of a module whose calls may nest deeper than the device's stack.
    pub deep: Option<usize>,
    /// Offset of where a call at a function's end leaves its arguments; 0 if the module has none.
    pub tail: usize,
    /// Offset of the globals, in the order of the module's index space.
    pub globals: usize,
    /// The offset of each global: 8 bytes, of a vector 16.
    pub global_offsets: Vec<usize>,
    /// Offset of the table records ([`DevTable`]).
    pub tables: usize,
    /// Offset of the blocks' addresses of instances that provide imported functions, 8 bytes for each
    /// imported function.
    pub providers: usize,
    /// Offset of the data segments' lengths, a `u32` each; 0 once dropped.
    pub data_lengths: usize,
    /// Offset of the element segments' lengths, a `u32` each; 0 once dropped.
    pub element_lengths: usize,
    /// For each element segment the offset of its references, if it is passive.
    pub elements: Vec<usize>,
    /// Offset of the first table's elements; further tables follow, each with room for its limit.
    pub table_elements: usize,
    /// For each data segment the offset of its bytes in the module's data, if it is passive.
    pub data: Vec<usize>,
    /// Size of the module's data in bytes.
    pub data_bytes: usize,
}

impl InstanceLayout {
    /// The offset of the global that functions carry, if there is one.
    pub(crate) fn carried(&self, module: &Module) -> Option<usize> {
        let global = module.convention.global?;
        Some(self.global_offsets[global as usize])
    }

    pub(crate) fn new(
        module: &Module,
        suspendable: bool,
        tail_bytes: usize,
        deep_bytes: Option<usize>,
    ) -> Self {
        let mut layout = Self {
            suspension: suspendable.then_some(SUSPENSION),
            globals: size_of::<DevInstance>(),
            ..Self::default()
        };
        if suspendable {
            layout.globals += size_of::<DevSuspension>();
        }
        if module.shares_memory() {
            layout.sharing = Some(layout.globals);
            layout.globals += size_of::<DevSharing>();
        }
        if tail_bytes > 0 {
            layout.tail = layout.globals;
            layout.globals += tail_bytes;
        }
        if let Some(bytes) = deep_bytes {
            layout.globals = layout.globals.next_multiple_of(16);
            layout.deep = Some(layout.globals);
            layout.globals += bytes;
        }
        let mut next = layout.globals;
        for global in &module.globals {
            layout.global_offsets.push(next);
            next += 8 * global.ty.slots();
        }
        layout.tables = next.next_multiple_of(16);
        layout.providers = layout.tables + size_of::<DevTable>() * module.tables.len();
        layout.data_lengths = layout.providers + 8 * module.imported_functions;
        layout.element_lengths = layout.data_lengths + 4 * module.data.len();
        let mut next = (layout.element_lengths + 4 * module.elements.len()).next_multiple_of(16);
        for segment in &module.elements {
            layout.elements.push(next);
            if matches!(segment.place, Placement::Passive) {
                next += 8 * segment.items.len();
            }
        }
        layout.table_elements = next.next_multiple_of(16);
        for segment in &module.data {
            layout.data.push(layout.data_bytes);
            if matches!(segment.place, Placement::Passive) {
                let end = layout.data_bytes + segment.bytes.len();
                layout.data_bytes = end.next_multiple_of(16);
            }
        }
        layout
    }
}

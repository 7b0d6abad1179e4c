//! Makes the initial bytes of an instance: the block part by part, then linear memory.

use everwarp_contract::TrapKind;
use everwarp_contract::layout::DevPtr;

use crate::compiled::Compiled;
use crate::error::InstantiateError;
use crate::facts::abi::{DevInstance, DevTable, PAGE};
use crate::facts::module::{Limits, Placement};
use crate::instance::initial::{Initial, InstanceLimits};
use crate::instance::link::{Link, Resolved};

/// A segment's length, as instances hold it: only what is passive can still be copied.
fn length(place: Placement, items: usize) -> u32 {
    match place {
        Placement::Passive => items as u32,
        Placement::Active { .. } | Placement::Declared => 0,
    }
}

fn within(what: &'static str, needed: u64, allowed: u64) -> Result<(), InstantiateError> {
    if needed > allowed {
        return Err(InstantiateError::BeyondLimit {
            what,
            needed,
            allowed,
        });
    }
    Ok(())
}

/// Length and limit of linear memory in bytes.
fn memory_size(
    pages: Option<Limits>,
    limits: &InstanceLimits,
) -> Result<(u64, u64), InstantiateError> {
    let Some(pages) = pages else {
        return Ok((0, 0));
    };
    within("pages of memory", pages.min, limits.memory_pages)?;
    // More than 65,536 pages cannot be addressed.
    let most = pages.max.unwrap_or(65_536).min(limits.memory_pages);
    Ok((pages.min * PAGE, most.max(pages.min) * PAGE))
}

/// An instance's block while it is filled. All offsets are in the block.
struct Block<'c> {
    compiled: &'c Compiled,
    bytes: Vec<u8>,
    /// For each table where its elements are, and its record.
    tables: Vec<(usize, DevTable)>,
    /// The values of all globals.
    globals: Vec<u128>,
}

impl<'c> Block<'c> {
    fn new(compiled: &'c Compiled, globals: Vec<u128>) -> Self {
        Self {
            compiled,
            bytes: vec![0; compiled.layout.table_elements],
            tables: Vec::new(),
            globals,
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Reserves the elements of each table, up to its limit. `imported` are the sizes of the imported tables.
    fn add_tables(
        &mut self,
        imported: &[Limits],
        limits: &InstanceLimits,
    ) -> Result<(), InstantiateError> {
        for (i, table) in self.compiled.module.tables.iter().enumerate() {
            let size = imported.get(i).copied().unwrap_or(table.limits);
            within("elements of a table", size.min, limits.table_elements)?;
            let most = size.max.unwrap_or(u64::from(u32::MAX));
            let limit = most.min(limits.table_elements).max(size.min);
            let record = DevTable {
                elements: DevPtr::NULL,
                len: size.min as u32,
                limit: limit as u32,
            };
            let from = self.bytes.len();
            self.tables.push((from, record));
            self.bytes
                .resize((from + 8 * limit as usize).next_multiple_of(16), 0);
        }
        Ok(())
    }

    /// The blocks of the instances that provide imported functions.
    fn put_providers(&mut self, addresses: &[u64]) {
        for (i, address) in addresses.iter().enumerate() {
            let at = self.compiled.layout.providers + 8 * i;
            self.put(at, &address.to_le_bytes());
        }
    }

    fn put_globals(&mut self) {
        for i in 0..self.globals.len() {
            let (ty, _) = self.compiled.global_type(i as u32);
            let bytes = self.globals[i].to_le_bytes();
            let at = self.compiled.layout.global_offsets[i];
            self.put(at, &bytes[..8 * ty.slots()]);
        }
    }

    fn put_data_lengths(&mut self) {
        for (i, segment) in self.compiled.module.data.iter().enumerate() {
            let length = length(segment.place, segment.bytes.len());
            let at = self.compiled.layout.data_lengths + 4 * i;
            self.put(at, &length.to_le_bytes());
        }
    }

    /// Keeps the passive element segments, and copies the active ones to their tables.
    fn put_elements(&mut self) -> Result<(), InstantiateError> {
        let layout = &self.compiled.layout;
        for (i, segment) in self.compiled.module.elements.iter().enumerate() {
            let length = length(segment.place, segment.items.len());
            self.put(layout.element_lengths + 4 * i, &length.to_le_bytes());
            let at = match segment.place {
                Placement::Declared => continue,
                Placement::Passive => layout.elements[i],
                Placement::Active { table, offset } => {
                    let (at, record) = self.tables[table as usize];
                    let first = u64::from(self.compiled.value(offset, &self.globals) as u32);
                    if first + segment.items.len() as u64 > u64::from(record.len) {
                        let trap = TrapKind::TableOutOfBounds;
                        return Err(InstantiateError::Trap { trap, segment: i });
                    }
                    at + 8 * first as usize
                }
            };
            for (j, &item) in segment.items.iter().enumerate() {
                let value = self.compiled.value(item, &self.globals) as u64;
                self.put(at + 8 * j, &value.to_le_bytes());
            }
        }
        Ok(())
    }

    /// The active data segments, by their addresses in a linear memory of this length.
    fn active_data(&self, memory_bytes: u64) -> Result<Vec<(u64, &'c [u8])>, InstantiateError> {
        let mut segments = Vec::new();
        for (i, segment) in self.compiled.module.data.iter().enumerate() {
            let Placement::Active { offset, .. } = segment.place else {
                continue;
            };
            let first = u64::from(self.compiled.value(offset, &self.globals) as u32);
            if first + segment.bytes.len() as u64 > memory_bytes {
                let trap = TrapKind::MemoryOutOfBounds;
                return Err(InstantiateError::Trap { trap, segment: i });
            }
            segments.push((first, segment.bytes.as_slice()));
        }
        Ok(segments)
    }
}

/// The beginning of a linear memory that holds these segments, zero between them.
fn initial_memory(segments: &[(u64, &[u8])]) -> Vec<u8> {
    let mut memory = Vec::new();
    for (first, bytes) in segments {
        let (first, end) = (*first as usize, *first as usize + bytes.len());
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[first..end].copy_from_slice(bytes);
    }
    memory
}

impl Compiled {
    /// The bytes of the passive data segments, which all instances share.
    pub fn module_data(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.data_bytes];
        for (segment, &at) in self.module.data.iter().zip(&self.layout.data) {
            if matches!(segment.place, Placement::Passive) {
                bytes[at..at + segment.bytes.len()].copy_from_slice(&segment.bytes);
            }
        }
        bytes
    }

    /// Resolves the imports, evaluates globals and copies the active segments.
    ///
    /// # Errors
    /// An import is missing or has another type, the limits are too small, or a segment does not fit.
    pub fn instantiate(
        &self,
        link: &dyn Link,
        limits: &InstanceLimits,
    ) -> Result<Initial, InstantiateError> {
        let resolved = Resolved::new(self, link)?;
        let pages = resolved.memory.or(self.module.memory);
        let (memory_bytes, memory_limit) = memory_size(pages, limits)?;
        let mut block = Block::new(self, self.globals(&resolved.globals));
        block.add_tables(&resolved.tables, limits)?;
        block.put_providers(&resolved.providers);
        block.put_globals();
        block.put_data_lengths();
        block.put_elements()?;
        let segments = block.active_data(memory_bytes)?;
        let owned = |(at, bytes): &(u64, &[u8])| (*at, bytes.to_vec());
        let (memory, segments, own_limit) = match resolved.shared {
            None => (initial_memory(&segments), Vec::new(), memory_limit),
            Some(_) => (Vec::new(), segments.iter().map(owned).collect(), 0),
        };
        Ok(Initial {
            block: block.bytes,
            memory,
            memory_limit: own_limit,
            segments,
            header: DevInstance {
                trap: 0,
                trap_function: 0,
                trap_offset: 0,
                kill: 0,
                fuel: limits.fuel,
                memory: DevPtr::NULL,
                memory_bytes,
                memory_limit,
                module_data: DevPtr::NULL,
                depth: limits.depth,
                state: 0,
            },
            tables: block.tables,
            tables_at: self.layout.tables,
            save_bytes: self.save_bytes(limits.depth),
            deep_bytes: 0,
            deep: self.layout.deep,
            suspension: self.layout.suspension,
            sharing: self.layout.sharing,
            shared: resolved.shared,
        })
    }
}

//! The initial bytes of an instance, so that a host only allocates and copies.

use core::mem::offset_of;

use everwarp_contract::layout::{DevPtr, Layout};

use crate::TrapKind;
use crate::abi::{DevInstance, DevSharing, DevSuspension, DevTable, PAGE};
use crate::compile::Compiled;
use crate::module::{Constant, Limits, Placement, Step};
use crate::{FunctionType, ImportKind, InstantiateError, ValueType};

/// What a host gives an instance at most.
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

/// Where a memory is that instances share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// The address of its first byte.
    pub memory: u64,
    /// The address of its length, in the block of the instance whose memory it is: `memory_bytes` of its
    /// [`DevSharing`].
    pub length: u64,
}

/// What is provided for imports. Everything that is found belongs to the new instance alone: tables, mutable
/// globals and memories that are not declared as shared are not shared. Nothing is provided unless it is said.
pub trait Link {
    /// The type of a function.
    fn function(&self, module: &str, name: &str) -> Option<FunctionType> {
        let _ = (module, name);
        None
    }
    /// The address of the block of the instance whose function is imported. Needed only for functions that
    /// are provided by another module ([`Provider::Module`](crate::Provider::Module)).
    fn provider(&self, module: &str, name: &str) -> Option<u64> {
        let _ = (module, name);
        None
    }
    /// Type, mutability and bits of a global.
    fn global(&self, module: &str, name: &str) -> Option<(ValueType, bool, u128)> {
        let _ = (module, name);
        None
    }
    /// Size and largest size of a memory, in pages.
    fn memory(&self, module: &str, name: &str) -> Option<Limits> {
        let _ = (module, name);
        None
    }
    /// Where a memory is that is shared. Needed only for memories that [`Link::memory`] says are.
    fn shared_memory(&self, module: &str, name: &str) -> Option<SharedMemory> {
        let _ = (module, name);
        None
    }
    /// Element type, size and largest size of a table.
    fn table(&self, module: &str, name: &str) -> Option<(ValueType, Limits)> {
        let _ = (module, name);
        None
    }
}

/// Provides nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoImports;

impl Link for NoImports {}

/// Where a host has put the parts of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The instance's block, aligned to 16 bytes.
    pub block: u64,
    /// Its linear memory, aligned to 16 bytes; of [`Initial::memory_limit`] bytes.
    pub memory: u64,
    /// The module's data ([`Compiled::module_data`]), aligned to 16 bytes; instances share it.
    pub module_data: u64,
}

/// An instance before its start function has run.
#[derive(Clone, Debug)]
pub struct Initial {
    block: Vec<u8>,
    /// The beginning of linear memory. What follows, up to the limit, must be zero.
    pub memory: Vec<u8>,
    /// How many bytes to reserve for linear memory; 0 if it is another instance's.
    pub memory_limit: u64,
    /// Bytes to copy to a memory that is another instance's, by the address in it: active segments.
    pub segments: Vec<(u64, Vec<u8>)>,
    /// Bytes at the end of the block where frames are saved while the instance is suspended. It begins as
    /// [`Compiled::save_bytes`] for the limits' depth, which always suffices; 0 if the module cannot be
    /// suspended.
    pub save_bytes: u64,
    header: DevInstance,
    tables: Vec<(usize, DevTable)>,
    tables_at: usize,
    suspension: Option<usize>,
    sharing: Option<usize>,
    shared: Option<SharedMemory>,
}

impl Initial {
    /// How many tables the block has.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// Size of the instance's block in bytes, with the save area at its end.
    pub fn block_bytes(&self) -> usize {
        self.block.len() + self.save_bytes as usize
    }

    /// The block's bytes, once it is known where everything lies. What follows, the save area, need not
    /// be initialised.
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

/// A segment's length, as instances hold it: zero when it is gone.
fn length(place: Placement, items: usize) -> u32 {
    match place {
        Placement::Passive => items as u32,
        Placement::Active { .. } | Placement::Declared => 0,
    }
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
        let resolved = self.resolve(link)?;
        let globals = self.globals(&resolved.globals);
        let value = |constant| self.value(constant, &globals);

        let pages = resolved.memory.or(self.module.memory);
        let (memory_bytes, memory_limit) = match pages {
            None => (0, 0),
            Some(pages) => {
                within("pages of memory", pages.min, limits.memory_pages)?;
                // More than 65,536 pages cannot be addressed.
                let most = pages.max.unwrap_or(65_536).min(limits.memory_pages);
                (pages.min * PAGE, most.max(pages.min) * PAGE)
            }
        };
        let mut block = vec![0; self.layout.table_elements];
        let mut tables = Vec::new();
        for (i, table) in self.module.tables.iter().enumerate() {
            let size = resolved.tables.get(i).copied().unwrap_or(table.limits);
            within("elements of a table", size.min, limits.table_elements)?;
            let most = size.max.unwrap_or(u64::from(u32::MAX));
            let limit = most.min(limits.table_elements).max(size.min);
            let record = DevTable {
                elements: DevPtr::NULL,
                len: size.min as u32,
                limit: limit as u32,
            };
            tables.push((block.len(), record));
            block.resize((block.len() + 8 * limit as usize).next_multiple_of(16), 0);
        }
        for (i, address) in resolved.providers.iter().enumerate() {
            let at = self.layout.providers + 8 * i;
            block[at..at + 8].copy_from_slice(&address.to_le_bytes());
        }
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        for (i, bits) in globals.iter().enumerate() {
            let (ty, _) = self.global_type(i as u32);
            let bytes = &bits.to_le_bytes()[..8 * ty.slots()];
            put(self.layout.global_offsets[i], bytes);
        }
        for (i, segment) in self.module.data.iter().enumerate() {
            let length = length(segment.place, segment.bytes.len());
            put(self.layout.data_lengths + 4 * i, &length.to_le_bytes());
        }
        for (i, segment) in self.module.elements.iter().enumerate() {
            let length = length(segment.place, segment.items.len());
            put(self.layout.element_lengths + 4 * i, &length.to_le_bytes());
            let at = match segment.place {
                Placement::Declared => continue,
                Placement::Passive => self.layout.elements[i],
                Placement::Active { table, offset } => {
                    let (at, record) = tables[table as usize];
                    let first = u64::from(value(offset) as u32);
                    if first + segment.items.len() as u64 > u64::from(record.len) {
                        let trap = TrapKind::TableOutOfBounds;
                        return Err(InstantiateError::Trap { trap, segment: i });
                    }
                    at + 8 * first as usize
                }
            };
            for (j, &item) in segment.items.iter().enumerate() {
                put(at + 8 * j, &(value(item) as u64).to_le_bytes());
            }
        }
        let (mut memory, mut segments) = (Vec::new(), Vec::new());
        for (i, segment) in self.module.data.iter().enumerate() {
            let Placement::Active { offset, .. } = segment.place else {
                continue;
            };
            let first = u64::from(value(offset) as u32);
            let end = first + segment.bytes.len() as u64;
            if end > memory_bytes {
                let trap = TrapKind::MemoryOutOfBounds;
                return Err(InstantiateError::Trap { trap, segment: i });
            }
            if resolved.shared.is_some() {
                segments.push((first, segment.bytes.clone()));
                continue;
            }
            if memory.len() < end as usize {
                memory.resize(end as usize, 0);
            }
            memory[first as usize..end as usize].copy_from_slice(&segment.bytes);
        }
        Ok(Initial {
            block,
            memory,
            memory_limit: match resolved.shared {
                None => memory_limit,
                Some(_) => 0,
            },
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
            tables,
            tables_at: self.layout.tables,
            save_bytes: self.save_bytes(limits.depth),
            suspension: self.layout.suspension,
            sharing: self.layout.sharing,
            shared: resolved.shared,
        })
    }

    fn globals(&self, imported: &[u128]) -> Vec<u128> {
        let mut values = imported.to_vec();
        for global in &self.module.globals[imported.len()..] {
            let init = global.init.expect("only imports have no initial value");
            values.push(self.value(init, &values));
        }
        values
    }

    fn value(&self, constant: Constant, globals: &[u128]) -> u128 {
        match constant {
            Constant::Bits(bits) => bits,
            Constant::Global(global) => globals[global as usize],
            Constant::Function(function) => self.reference(function).into(),
            Constant::Computed(number) => self.computed(number, globals),
        }
    }

    /// The value of an expression of more than one instruction, which has been validated.
    fn computed(&self, number: u32, globals: &[u128]) -> u128 {
        let mut stack: Vec<u64> = Vec::new();
        let pop = |stack: &mut Vec<u64>| stack.pop().expect("there is an operand");
        for step in &self.module.computed[number as usize] {
            let (bits, result) = match *step {
                Step::Push(constant) => (64, self.value(constant, globals) as u64),
                Step::Add(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_add(b))
                }
                Step::Sub(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_sub(b))
                }
                Step::Mul(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_mul(b))
                }
            };
            stack.push(result & (u64::MAX >> (64 - bits)));
        }
        pop(&mut stack).into()
    }

    fn resolve(&self, link: &dyn Link) -> Result<Resolved, InstantiateError> {
        let mut resolved = Resolved::default();
        for import in &self.module.imports {
            let (module, name) = (import.module.as_str(), import.name.as_str());
            let other = |reason: String| InstantiateError::IncompatibleImport {
                module: module.to_owned(),
                name: name.to_owned(),
                reason,
            };
            let missing = || {
                // Something of another kind under that name is a mismatch, not an absence.
                let found = link.function(module, name).is_some()
                    || link.global(module, name).is_some()
                    || link.memory(module, name).is_some()
                    || link.table(module, name).is_some();
                if found {
                    return other("it is of another kind".to_owned());
                }
                InstantiateError::UnknownImport {
                    module: module.to_owned(),
                    name: name.to_owned(),
                }
            };
            match &import.kind {
                ImportKind::Function(ty) => {
                    let found = link.function(module, name).ok_or_else(missing)?;
                    if found != *ty {
                        return Err(other(format!("wanted {ty:?}, found {found:?}")));
                    }
                    let provider = link.provider(module, name).unwrap_or(0);
                    resolved.providers.push(provider);
                }
                ImportKind::Global { ty, mutable } => {
                    let found = link.global(module, name).ok_or_else(missing)?;
                    if (found.0, found.1) != (*ty, *mutable) {
                        return Err(other(format!(
                            "wanted {ty:?} (mutable: {mutable}), found {:?} ({})",
                            found.0, found.1
                        )));
                    }
                    resolved.globals.push(found.2);
                }
                ImportKind::Memory(wanted) => {
                    let found = link.memory(module, name).ok_or_else(missing)?;
                    fits(found, *wanted).map_err(other)?;
                    if wanted.shared {
                        let shared = link.shared_memory(module, name);
                        let unplaced = || other("nobody says where it is".to_owned());
                        resolved.shared = Some(shared.ok_or_else(unplaced)?);
                    }
                    resolved.memory = Some(found);
                }
                ImportKind::Table { ty, limits } => {
                    let (found, size) = link.table(module, name).ok_or_else(missing)?;
                    if found != *ty {
                        return Err(other(format!("wanted {ty:?}, found {found:?}")));
                    }
                    fits(size, *limits).map_err(other)?;
                    resolved.tables.push(size);
                }
            }
        }
        Ok(resolved)
    }
}

/// What the imports turned out to be, in the order of their index spaces.
#[derive(Default)]
struct Resolved {
    providers: Vec<u64>,
    globals: Vec<u128>,
    memory: Option<Limits>,
    shared: Option<SharedMemory>,
    tables: Vec<Limits>,
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

/// Whether something of this size can stand for an import of that size.
fn fits(found: Limits, wanted: Limits) -> Result<(), String> {
    let small = found.min < wanted.min;
    let large = wanted
        .max
        .is_some_and(|most| found.max.is_none_or(|m| m > most));
    if small || large || found.shared != wanted.shared {
        return Err(format!("wanted {wanted:?}, found {found:?}"));
    }
    Ok(())
}

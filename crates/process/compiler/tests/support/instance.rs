//! A process: the steps by which a host makes and calls an instance.

use std::rc::Rc;

use everwarp_compiler::{
    Addresses, Compiled, DevInstance, DevSharing, DevTable, INTERLEAVED, Initial, PAGE,
    SharedMemory, TrapKind, UNIT, UNIT_STRIDE,
};

use super::machine::SharedMachine;

/// One instance with its memory.
pub(crate) struct Process {
    pub(crate) compiled: &'static Compiled,
    pub(crate) machine: SharedMachine,
    /// The prefix under which its module was compiled and loaded.
    pub(crate) prefix: String,
    /// The address of its block.
    pub(crate) block: u64,
    pointer: u64,
    args: u64,
    results: u64,
}

/// Slots for arguments and results.
const SLOTS: u64 = 4096;

/// A call that ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trapped {
    pub(crate) trap: TrapKind,
    pub(crate) function: u32,
    pub(crate) offset: u32,
}

impl Process {
    /// Puts an instance into a machine that has loaded its module's code under this prefix.
    pub(crate) fn new(
        compiled: &'static Compiled,
        machine: &SharedMachine,
        prefix: &str,
        initial: &Initial,
    ) -> Result<Self, String> {
        let mut memory = machine.borrow_mut();
        let block = memory.allocate(&[], initial.block_bytes() as u64)?;
        let linear = match compiled.interleaved() {
            false => memory.allocate(&initial.memory, initial.memory_limit)?,
            true => {
                let all = memory.allocate(&[], initial.memory_limit * INTERLEAVED)?;
                // The index is not always 0, and it differs between processes.
                let own = all + UNIT * (block / 256 % INTERLEAVED);
                for (unit, bytes) in (0..).zip(initial.memory.chunks(UNIT as usize)) {
                    memory.write(own + unit * UNIT_STRIDE, bytes)?;
                }
                own
            }
        };
        assert!(
            initial.segments.is_empty(),
            "the owner of a shared memory copies its segments"
        );
        let data = compiled.module_data();
        let module_data = memory.allocate(&data, data.len() as u64)?;
        let pointer = memory.allocate(&block.to_le_bytes(), 8)?;
        let args = memory.allocate(&[], 8 * SLOTS)?;
        let results = memory.allocate(&[], 8 * SLOTS)?;
        let at = Addresses {
            block,
            memory: linear,
            module_data,
        };
        memory.write(block, &initial.block(at))?;
        Ok(Self {
            compiled,
            machine: Rc::clone(machine),
            prefix: prefix.to_owned(),
            block,
            pointer,
            args,
            results,
        })
    }

    /// Calls a function that the host may call. The outer error comes from the machine.
    pub(crate) fn call(
        &mut self,
        function: u32,
        args: &[u64],
    ) -> Result<Result<Vec<u64>, Trapped>, String> {
        let entry = self.compiled.entry(function).ok_or("no entry")?;
        let mut machine = self.machine.borrow_mut();
        let bytes: Vec<u8> = args.iter().flat_map(|a| a.to_le_bytes()).collect();
        machine.write(self.args, &bytes)?;
        let params = [
            self.pointer.to_le_bytes().to_vec(),
            1u32.to_le_bytes().to_vec(),
            entry.to_le_bytes().to_vec(),
            self.args.to_le_bytes().to_vec(),
            self.results.to_le_bytes().to_vec(),
            0u32.to_le_bytes().to_vec(),
            0u32.to_le_bytes().to_vec(),
        ];
        machine.run(&self.prefix, &params)?;
        let mut word = |at: usize| -> Result<u32, String> {
            Ok(machine.number(self.block + at as u64, 4)? as u32)
        };
        let code = word(core::mem::offset_of!(DevInstance, trap))?;
        if code != 0 {
            let function = core::mem::offset_of!(DevInstance, trap_function);
            let offset = core::mem::offset_of!(DevInstance, trap_offset);
            return Ok(Err(Trapped {
                trap: TrapKind::from_code(code).ok_or("an unknown trap")?,
                function: word(function)?,
                offset: word(offset)?,
            }));
        }
        let results = &self.compiled.function_type(function).results;
        let slots: usize = results.iter().map(|ty| ty.slots()).sum();
        let mut bytes = vec![0; 8 * slots];
        machine.read(self.results, &mut bytes)?;
        let numbers = bytes.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b));
        Ok(Ok(numbers.collect()))
    }

    /// The bits of a global.
    pub(crate) fn global(&mut self, index: u32) -> Result<u128, String> {
        let at = self.block + self.compiled.layout.global_offsets[index as usize] as u64;
        let (ty, _) = self.compiled.global_type(index);
        let mut machine = self.machine.borrow_mut();
        let high = match ty.slots() {
            1 => 0,
            _ => machine.number(at + 8, 8)?,
        };
        Ok(u128::from(high) << 64 | u128::from(machine.number(at, 8)?))
    }

    /// Pages of linear memory.
    pub(crate) fn memory_pages(&mut self) -> Result<u64, String> {
        let own = self.block + core::mem::offset_of!(DevInstance, memory_bytes) as u64;
        let at = self.shared_memory()?.map_or(own, |shared| shared.length);
        Ok(self.machine.borrow_mut().number(at, 8)? / PAGE)
    }

    /// The address of its memory, if the memory can be shared.
    pub(crate) fn shared_memory(&mut self) -> Result<Option<SharedMemory>, String> {
        let Some(record) = self.compiled.layout.sharing else {
            return Ok(None);
        };
        let mut machine = self.machine.borrow_mut();
        let mut word = |at: usize| machine.number(self.block + at as u64, 8);
        let memory = word(core::mem::offset_of!(DevInstance, memory))?;
        let length = word(record + core::mem::offset_of!(DevSharing, length))?;
        Ok(Some(SharedMemory { memory, length }))
    }

    /// Elements of a table.
    pub(crate) fn table_len(&mut self, table: u32) -> Result<u64, String> {
        let record = self.compiled.layout.tables + size_of::<DevTable>() * table as usize;
        let at = record + core::mem::offset_of!(DevTable, len);
        self.machine.borrow_mut().number(self.block + at as u64, 4)
    }

    /// Fuel that is left.
    pub(crate) fn fuel(&mut self) -> i64 {
        let at = self.block + core::mem::offset_of!(DevInstance, fuel) as u64;
        self.machine
            .borrow_mut()
            .number(at, 8)
            .expect("the header is allocated") as i64
    }

    /// Sets the kill word.
    pub(crate) fn kill(&mut self) {
        let at = self.block + core::mem::offset_of!(DevInstance, kill) as u64;
        self.machine
            .borrow_mut()
            .write(at, &1u32.to_le_bytes())
            .expect("the header is allocated");
    }
}

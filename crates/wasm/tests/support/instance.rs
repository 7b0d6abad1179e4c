//! A process on the interpreter: what a host does on a GPU, done here.

use std::cell::RefCell;
use std::rc::Rc;

use everwarp_wasm::{Addresses, Compiled, DevInstance, DevTable, Initial, PAGE, Trap};

use super::ptx::Machine;

/// A machine that several processes may share.
pub(crate) type SharedMachine = Rc<RefCell<Machine>>;

/// One instance with its memory.
pub(crate) struct Process {
    pub(crate) compiled: &'static Compiled,
    pub(crate) machine: SharedMachine,
    /// What its kernel is called.
    kernel: String,
    /// Where its block is.
    pub(crate) block: u64,
    pointer: u64,
    args: u64,
    results: u64,
}

/// Slots for arguments and results.
const SLOTS: usize = 4096;

/// A call that ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trapped {
    pub(crate) trap: Trap,
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
    ) -> Self {
        let mut borrowed = machine.borrow_mut();
        let memory = &mut borrowed.memory;
        let block = memory.allocate(vec![0; initial.block_bytes()]);
        let mut linear = vec![0; initial.memory_limit as usize];
        linear[..initial.memory.len()].copy_from_slice(&initial.memory);
        let linear = memory.allocate(linear);
        let module_data = memory.allocate(compiled.module_data());
        let pointer = memory.allocate(block.to_le_bytes().to_vec());
        let args = memory.allocate(vec![0; 8 * SLOTS]);
        let results = memory.allocate(vec![0; 8 * SLOTS]);
        let at = Addresses {
            block,
            memory: linear,
            module_data,
        };
        let bytes = initial.block(at);
        let to = memory.bytes(block, bytes.len()).expect("just allocated");
        to.copy_from_slice(&bytes);
        Self {
            compiled,
            machine: Rc::clone(machine),
            kernel: format!("{prefix}run"),
            block,
            pointer,
            args,
            results,
        }
    }

    /// Calls a function that the host may call. The outer error is the interpreter's.
    pub(crate) fn call(
        &mut self,
        function: u32,
        args: &[u64],
    ) -> Result<Result<Vec<u64>, Trapped>, String> {
        let entry = self.compiled.entry(function).ok_or("no entry")?;
        let machine = &mut *self.machine.borrow_mut();
        for (i, arg) in args.iter().enumerate() {
            machine.memory.store(self.args + 8 * i as u64, 8, *arg)?;
        }
        let params = [
            self.pointer.to_le_bytes().to_vec(),
            1u32.to_le_bytes().to_vec(),
            entry.to_le_bytes().to_vec(),
            self.args.to_le_bytes().to_vec(),
            self.results.to_le_bytes().to_vec(),
            0u32.to_le_bytes().to_vec(),
            0u32.to_le_bytes().to_vec(),
        ];
        machine.run(&self.kernel, &params)?;
        let word = |machine: &mut Machine, at: usize| -> Result<u32, String> {
            Ok(machine.memory.load(self.block + at as u64, 4)? as u32)
        };
        let code = word(machine, core::mem::offset_of!(DevInstance, trap))?;
        if code != 0 {
            let function = core::mem::offset_of!(DevInstance, trap_function);
            let offset = core::mem::offset_of!(DevInstance, trap_offset);
            return Ok(Err(Trapped {
                trap: Trap::from_code(code).ok_or("an unknown trap")?,
                function: word(machine, function)?,
                offset: word(machine, offset)?,
            }));
        }
        let results = self.compiled.function_type(function).results.len();
        let read = |i| machine.memory.load(self.results + 8 * i as u64, 8);
        (0..results).map(read).collect::<Result<_, _>>().map(Ok)
    }

    /// The bits of a global.
    pub(crate) fn global(&mut self, index: u32) -> Result<u64, String> {
        let at = self.compiled.layout.globals + 8 * index as usize;
        self.machine
            .borrow_mut()
            .memory
            .load(self.block + at as u64, 8)
    }

    /// Pages of linear memory.
    pub(crate) fn memory_pages(&mut self) -> Result<u64, String> {
        let at = core::mem::offset_of!(DevInstance, memory_bytes);
        Ok(self
            .machine
            .borrow_mut()
            .memory
            .load(self.block + at as u64, 8)?
            / PAGE)
    }

    /// Elements of a table.
    pub(crate) fn table_len(&mut self, table: u32) -> Result<u64, String> {
        let record = self.compiled.layout.tables + size_of::<DevTable>() * table as usize;
        let at = record + core::mem::offset_of!(DevTable, len);
        self.machine
            .borrow_mut()
            .memory
            .load(self.block + at as u64, 4)
    }

    /// Fuel that is left.
    pub(crate) fn fuel(&mut self) -> i64 {
        let at = self.block + core::mem::offset_of!(DevInstance, fuel) as u64;
        self.machine
            .borrow_mut()
            .memory
            .load(at, 8)
            .expect("the header is there") as i64
    }

    /// Sets the kill word.
    pub(crate) fn kill(&mut self) {
        let at = self.block + core::mem::offset_of!(DevInstance, kill) as u64;
        self.machine
            .borrow_mut()
            .memory
            .store(at, 4, 1)
            .expect("the header is there");
    }
}

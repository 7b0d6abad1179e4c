//! A machine on which processes run: memory, and code that works on it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use everwarp_compiler::PTX_HEAD;

use super::gpu::Gpu;
use super::ptx::Interpreter;

/// The operations of a GPU, or of a substitute for it, that tests need.
pub(crate) trait Machine {
    /// Loads a module's code, which may call the modules that were loaded earlier under these prefixes. Returns how
    /// deep its calls may nest, which is less than the requested depth if its frames are large.
    fn load(
        &mut self,
        prefix: &str,
        ptx: &str,
        calls: &[String],
        depth: u32,
    ) -> Result<u32, String>;
    /// Allocates memory, aligned to 256, that begins with these bytes and is zero up to its length.
    fn allocate(&mut self, bytes: &[u8], length: u64) -> Result<u64, String>;
    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), String>;
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String>;
    /// Runs a module's kernel in this number of threads and waits until it finishes.
    fn run_many(&mut self, prefix: &str, params: &[Vec<u8>], threads: u32) -> Result<(), String>;
    /// Runs a module's kernel in one thread and waits until it finishes.
    fn run(&mut self, prefix: &str, params: &[Vec<u8>]) -> Result<(), String> {
        self.run_many(prefix, params, 1)
    }
}

/// A machine that several processes may share.
pub(crate) type SharedMachine = Rc<RefCell<dyn Machine>>;

/// The first CUDA device if `EVERWARP_MACHINE` is `cuda`, else an interpreter.
pub(crate) fn chosen() -> SharedMachine {
    match std::env::var("EVERWARP_MACHINE").as_deref() {
        Ok("cuda") => Rc::new(RefCell::new(Gpu::open(None).expect("a device").linking())),
        Ok(other) if other != "interpreter" => panic!("EVERWARP_MACHINE is `{other}`"),
        _ => interpreter(),
    }
}

/// An interpreter without code and memory.
pub(crate) fn interpreter() -> SharedMachine {
    Rc::new(RefCell::new(Interpreter::new()))
}

impl dyn Machine + '_ {
    /// A number of this many bytes.
    pub(crate) fn number(&mut self, at: u64, bytes: usize) -> Result<u64, String> {
        let mut number = [0; 8];
        self.read(at, &mut number[..bytes])?;
        Ok(u64::from_le_bytes(number))
    }
}

impl Machine for Interpreter {
    fn load(&mut self, _: &str, ptx: &str, _: &[String], depth: u32) -> Result<u32, String> {
        Interpreter::load(self, ptx)?;
        Ok(depth)
    }

    fn allocate(&mut self, bytes: &[u8], length: u64) -> Result<u64, String> {
        let mut memory = vec![0; length as usize];
        memory[..bytes.len()].copy_from_slice(bytes);
        Ok(self.memory.allocate(memory))
    }

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), String> {
        to.copy_from_slice(self.memory.bytes(at, to.len())?);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let to = self.memory.bytes(at, bytes.len())?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn run_many(&mut self, prefix: &str, params: &[Vec<u8>], threads: u32) -> Result<(), String> {
        Interpreter::run(self, &format!("{prefix}run"), params, threads)
    }
}

/// The texts of modules that call each other. A GPU needs one image for each module, with the module's own code and
/// the code of all modules that it may reach. Code may be duplicated, because all state is in memory.
#[derive(Default)]
pub(crate) struct Images {
    parts: Vec<Part>,
    by_prefix: HashMap<String, usize>,
}

struct Part {
    text: String,
    /// The modules that it may reach, including itself, in the order in which they were added.
    reaches: BTreeSet<usize>,
}

impl Images {
    /// Adds a module and returns its image.
    pub(crate) fn add(
        &mut self,
        prefix: &str,
        ptx: &str,
        calls: &[String],
    ) -> Result<String, String> {
        let text = ptx.strip_prefix(PTX_HEAD).ok_or("no head")?.to_owned();
        let own = self.parts.len();
        let mut reaches = BTreeSet::from([own]);
        for prefix in calls {
            let called = self.by_prefix.get(prefix).ok_or("no such module")?;
            reaches.extend(&self.parts[*called].reaches);
        }
        self.by_prefix.insert(prefix.to_owned(), own);
        self.parts.push(Part { text, reaches });
        let texts = self.parts[own]
            .reaches
            .iter()
            .map(|i| &*self.parts[*i].text);
        Ok([PTX_HEAD].into_iter().chain(texts).collect())
    }
}

//! `tree`: a full binary tree of block-shaped tasks, each 256 loads and 256 multiply-adds.

mod entry;
#[path = "tree.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, Engine, Error, Instance, dev_struct, program};

use twin::node;

pub use entry::BinaryTree;

/// Elements of the table that nodes load from (power of two).
pub const TABLE: usize = 1 << 20;
/// Places that results are added to: several, so that tasks seldom contend for one address.
pub const SUMS: usize = 1 << 12;

dev_struct! {
    /// Parameters of `tree`.
    pub struct DevTree: align 16, size 16 {
        /// `TABLE` numbers.
        pub table: DevPtr<u32>,
        /// `SUMS` sums.
        pub sums: DevPtr<u64>,
    }
}

program! {
    /// The program.
    pub static PROGRAM: tree(DevTree), "tree.cu"; wgsl "tree.wgsl" {
        /// A node; argument = node number | levels below it << 32.
        NODE: block(node).spawns(2),
    }
}

/// A tree ready to run.
#[derive(Debug)]
pub struct Tree {
    instance: Instance,
    sums: Buffer<u64>,
    _table: Buffer<u32>,
}

/// Element `i` of the table.
fn table(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761) ^ 0x5bd1_e995
}

/// The sum of one node: the definition that device, twin and reference share.
fn node_sum(node: u32, load: impl Fn(usize) -> u32) -> u64 {
    (0..256u32)
        .map(|thread| {
            let at = (node.wrapping_mul(256).wrapping_add(thread)) as usize % TABLE;
            u64::from(load(at).wrapping_mul(node | 1).wrapping_add(thread))
        })
        .sum()
}

impl Tree {
    /// Prepares the program's data.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine) -> Result<Self, Error> {
        let table = engine.buffer_from(&(0..TABLE as u32).map(table).collect::<Vec<_>>())?;
        let sums = engine.buffer(SUMS)?;
        let params = DevTree {
            table: table.ptr(),
            sums: sums.ptr(),
        };
        // SAFETY: the buffers have the sizes that the program asks for and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            sums,
            _table: table,
        })
    }
    /// Runs a tree of `depth` levels below its root; returns the sum of all results.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, engine: &Engine, depth: u32) -> Result<u64, Error> {
        self.clear()?;
        self.run_timed(engine, depth)?;
        self.sum()
    }
    /// Forgets the results so far.
    ///
    /// # Errors
    /// The copy fails.
    pub fn clear(&self) -> Result<(), Error> {
        self.sums.fill_bytes(0)
    }
    /// The sum of all results since [`clear`](Self::clear).
    ///
    /// # Errors
    /// The copy fails.
    pub fn sum(&self) -> Result<u64, Error> {
        Ok(self.sums.read()?.into_iter().fold(0, u64::wrapping_add))
    }
    /// Runs a tree without clearing or reading the sums.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run_timed(&self, engine: &Engine, depth: u32) -> Result<(), Error> {
        engine
            .run(self.instance.task(NODE).args(0, depth))
            .map(drop)
    }
}

/// The sum of all results, computed plainly.
pub fn reference(depth: u32) -> u64 {
    (0..nodes(depth) as u32)
        .map(|node| node_sum(node, |i| table(i as u32)))
        .fold(0, u64::wrapping_add)
}

/// How many tasks a tree has.
pub fn nodes(depth: u32) -> u64 {
    (1 << (depth + 1)) - 1
}

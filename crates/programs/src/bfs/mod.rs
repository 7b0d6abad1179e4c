//! `bfs`: breadth-first search; every frontier vertex is a task that spawns tasks.
//!
//! The search is label-correcting: a vertex holds the best level and, within it, the smallest parent
//! offered so far, in one 64-bit word that is only ever lowered. A vertex whose level was lowered is
//! visited again, so the order in which tasks run cannot change the result: levels are exact, and each
//! parent is the smallest vertex of the level before. Why not a group for each level? Roads have
//! hundreds of levels of a few hundred vertices, and a join costs more than the work of one.

mod reference;
mod twin;

use everwarp::{
    Buffer, DevPtr, Engine, Error, Function, Instance, Layout, Order, Program, Shape, dev_struct,
};

use crate::lane;

pub use reference::reference;

/// Function number of a visit: argument = vertex | its level << 32.
pub const VISIT: u32 = 0;
/// Function number of a visit to many edges by a whole warp: argument = vertex | first part << 32 |
/// logarithm of the number of parts << 58; tag = the level's low byte.
pub const HUB: u32 = 1;
/// Function number of forgetting a range of vertices: argument = first part | parts << 32.
pub const RESET: u32 = 2;
/// Edges that one lane follows; vertices with more are hubs.
const LANE_EDGES: u32 = 4;
/// Edges in one part of a hub.
const PART_EDGES: u32 = 96;
/// Vertices in one part of a reset.
const RESET_VERTICES: u32 = 1024;

dev_struct! {
    /// Parameters of `bfs`.
    pub struct DevBfs: align 16, size 32 {
        /// Row offsets, one more than vertices.
        pub rows: DevPtr<u32>,
        /// Neighbours.
        pub columns: DevPtr<u32>,
        /// For each vertex: level << 32 | parent.
        pub best: DevPtr<u64>,
        /// Number of vertices.
        pub vertices: u32,
        /// Spelled-out hole.
        pub reserved: u32,
    }
}

/// The program.
pub static PROGRAM: Program = Program {
    name: "bfs",
    functions: &[
        Function {
            order: Order::BreadthFirst,
            max_spawn: LANE_EDGES as u16,
            spawns: true,
            ..lane("visit", twin::visit)
        },
        Function {
            shape: Shape::Warp,
            order: Order::BreadthFirst,
            max_spawn: PART_EDGES as u16,
            spawns: true,
            ..lane("hub", twin::hub)
        },
        Function {
            shape: Shape::Warp,
            max_spawn: 2,
            spawns: true,
            ..lane("reset", twin::reset)
        },
    ],
    device_source: include_str!("bfs.cu"),
    write_params: DevBfs::write_struct,
    params_name: DevBfs::NAME,
};

/// What a search found, by vertex. -1 stands for unreached; the source is its own parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Distance from the source in edges.
    pub levels: Vec<i64>,
    /// The smallest neighbour in the level before.
    pub parents: Vec<i64>,
}

impl Found {
    fn from_words(words: &[u64]) -> Self {
        let part = |f: fn(u64) -> i64| {
            words
                .iter()
                .map(|&w| if w == u64::MAX { -1 } else { f(w) })
                .collect()
        };
        Self {
            levels: part(|w| (w >> 32) as i64),
            parents: part(|w| w as u32 as i64),
        }
    }
    /// How many vertices were reached.
    pub fn reached(&self) -> usize {
        self.levels.iter().filter(|&&l| l >= 0).count()
    }
    /// How many levels there are, the source's included.
    pub fn depth(&self) -> i64 {
        self.levels.iter().max().map_or(0, |l| l + 1)
    }
}

/// A graph in the engine's memory, ready to be searched.
#[derive(Debug)]
pub struct Bfs {
    instance: Instance,
    best: Buffer<u64>,
    _rows: Buffer<u32>,
    _columns: Buffer<u32>,
}

impl Bfs {
    /// Copies a graph to the engine: row offsets (one more than vertices) and neighbours.
    ///
    /// # Panics
    /// The arrays are no valid CSR graph.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, rows: &[u32], columns: &[u32]) -> Result<Self, Error> {
        let vertices = rows.len() - 1;
        assert!(
            rows.is_sorted() && rows[0] == 0 && rows[vertices] as usize == columns.len(),
            "not a CSR graph"
        );
        assert!(
            columns.iter().all(|&c| (c as usize) < vertices),
            "a neighbour is no vertex"
        );
        let rows = engine.buffer_from(rows)?;
        let columns = engine.buffer_from(columns)?;
        let best = engine.buffer(vertices)?;
        let params = DevBfs {
            rows: rows.ptr(),
            columns: columns.ptr(),
            best: best.ptr(),
            vertices: vertices as u32,
            reserved: 0,
        };
        // SAFETY: the buffers hold a valid graph, and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            best,
            _rows: rows,
            _columns: columns,
        })
    }
    /// Forgets the last search, by tasks of the engine: what they write stays near to those that search.
    ///
    /// # Errors
    /// Whatever ends the engine.
    ///
    /// # Panics
    /// `source` is no vertex.
    pub fn reset(&self, engine: &Engine, source: u32) -> Result<(), Error> {
        assert!(
            (source as usize) < self.best.len(),
            "the source is no vertex of the graph"
        );
        let parts = u64::from(self.reset_parts());
        engine
            .submit(self.instance.task(RESET).arg(parts << 32))?
            .wait()?;
        self.best.write_at(source as usize, &[u64::from(source)])
    }
    fn reset_parts(&self) -> u32 {
        (self.best.len() as u32).div_ceil(RESET_VERTICES)
    }
    /// How many tasks a reset is: the leaves of a binary tree and what is above them.
    pub fn reset_tasks(&self) -> u64 {
        2 * u64::from(self.reset_parts()) - 1
    }
    /// Searches, after [`reset`](Self::reset).
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn search(&self, engine: &Engine, source: u32) -> Result<(), Error> {
        engine
            .submit(self.instance.task(VISIT).arg(source.into()))?
            .wait()
            .map(drop)
    }
    /// What the last search found.
    ///
    /// # Errors
    /// The copy fails.
    pub fn found(&self) -> Result<Found, Error> {
        Ok(Found::from_words(&self.best.read()?))
    }
}

//! `bfs`: breadth-first search; every frontier vertex is a task that spawns tasks.
//!
//! The search is label-correcting: a vertex holds the best level and, within it, the smallest parent
//! offered so far, in one 64-bit word that is only ever lowered. A vertex whose level was lowered is
//! visited again, so the order in which tasks run cannot change the result: levels are exact, and each
//! parent is the smallest vertex of the level before. Why not a group for each level? Roads have
//! hundreds of levels of a few hundred vertices, and a join costs more than the work of one. Graphs with many
//! edges a vertex have few levels; those are searched level by level, from both sides ([`Way::Levels`]).

mod consts;
mod levels;
mod reference;
mod twin;

use everwarp::{
    Buffer, DevPtr, Engine, Error, Function, Instance, Layout, Order, Program, Shape, TwinFn,
    dev_struct,
};

use crate::lane;
use consts::{BFS_LANE_EDGES, BFS_PART_EDGES, BFS_RESET_VERTICES};

pub use reference::reference;

/// Function number of a visit: argument = vertex | its level << 32.
pub const VISIT: u32 = 0;
/// Function number of a visit to many edges by a whole warp: argument = vertex | first part << 32 |
/// logarithm of the number of parts << 58; tag = the level's low byte.
pub const HUB: u32 = 1;
/// Function number of forgetting a range of vertices: argument = first part | parts << 32.
pub const RESET: u32 = 2;
/// Function number of a level: argument = level, or the source with the tag that says so.
pub const LEVEL: u32 = 3;
/// Function number of a part of a frontier: argument = first entry | entries << 32.
pub const DOWN: u32 = 4;
/// Function number of a part of a vertex' edges: argument = vertex | part << 32 | logarithm of the number of parts << 58.
pub const WIDE: u32 = 5;
/// Function number of a search from the unreached side: argument = first part | parts << 32.
pub const UP: u32 = 6;
/// With at least so many edges a vertex a graph is searched by levels.
const LEVELS_DEGREE: usize = 8;
dev_struct! {
    /// What the tasks of a search by levels share.
    pub struct DevBfsState: align 16, size 16 {
        /// Vertices found so far, of an even and of an odd level.
        pub found: [u32; 2],
        /// The level whose neighbours are looked for.
        pub level: u32,
        /// Vertices reached up to that level.
        pub reached: u32,
    }
}

dev_struct! {
    /// Parameters of `bfs`.
    pub struct DevBfs: align 16, size 80 {
        /// Row offsets, one more than vertices.
        pub rows: DevPtr<u32>,
        /// Neighbours.
        pub columns: DevPtr<u32>,
        /// For each vertex: level << 32 | parent.
        pub best: DevPtr<u64>,
        /// Row offsets of the edges that lead to each vertex; the same as `rows` where edges lead both ways.
        pub in_rows: DevPtr<u32>,
        /// Where they come from, ascending.
        pub in_columns: DevPtr<u32>,
        /// What has been reached: two bitmaps of `words` each, one after the other.
        pub bits: DevPtr<u32>,
        /// The frontiers of even and of odd levels, room for `vertices` each, one after the other.
        pub queue: DevPtr<u32>,
        /// What the tasks of a search by levels share.
        pub state: DevPtr<DevBfsState>,
        /// Number of vertices.
        pub vertices: u32,
        /// Words of a bitmap; 0 without any.
        pub words: u32,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

/// A long warp-shaped function that spawns.
const fn warp(name: &'static str, twin: TwinFn) -> Function {
    Function {
        shape: Shape::Warp,
        outlined: true,
        spawns: true,
        ..lane(name, twin)
    }
}

/// The program.
pub static PROGRAM: Program = Program {
    name: "bfs",
    functions: &[
        Function {
            order: Order::BreadthFirst,
            max_spawn: BFS_LANE_EDGES as u16,
            spawns: true,
            ..lane("visit", twin::visit)
        },
        Function {
            shape: Shape::Warp,
            order: Order::BreadthFirst,
            max_spawn: BFS_PART_EDGES as u16,
            spawns: true,
            ..lane("hub", twin::hub)
        },
        Function {
            shape: Shape::Warp,
            max_spawn: 2,
            spawns: true,
            ..lane("reset", twin::reset)
        },
        Function {
            max_spawn: 64,
            forks: true,
            ..warp("level", levels::level)
        },
        Function {
            max_spawn: 64,
            ..warp("down", levels::down)
        },
        Function {
            max_spawn: 64,
            ..warp("wide", levels::wide)
        },
        Function {
            max_spawn: 64,
            ..warp("up", levels::up)
        },
    ],
    device_source: concat!(include_str!("bfs.cu"), include_str!("levels.cu")),
    write_params: |out| {
        consts::write_consts(out)?;
        DevBfsState::write_struct(out)?;
        DevBfs::write_struct(out)
    },
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

/// How a graph is searched. The result is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every frontier vertex is a task, and no task waits for another: for graphs with many levels.
    Visits,
    /// Level by level, from both sides: for graphs whose vertices have many edges.
    Levels,
}

impl Way {
    /// The way that suits so many edges.
    pub fn for_graph(vertices: usize, edges: usize) -> Self {
        match edges / LEVELS_DEGREE >= vertices {
            true => Self::Levels,
            false => Self::Visits,
        }
    }
}

/// A graph in the engine's memory, ready to be searched.
#[derive(Debug)]
pub struct Bfs {
    instance: Instance,
    best: Buffer<u64>,
    way: Way,
    _rows: Buffer<u32>,
    _columns: Buffer<u32>,
    _incoming: Option<(Buffer<u32>, Buffer<u32>)>,
    _bits: Buffer<u32>,
    _queue: Buffer<u32>,
    _state: Buffer<u32>,
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
        let way = Way::for_graph(rows.len() - 1, columns.len());
        Self::with_way(engine, rows, columns, way)
    }
    /// As [`new`](Self::new), searched in the given way.
    ///
    /// # Panics
    /// The arrays are no valid CSR graph.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn with_way(
        engine: &Engine,
        rows: &[u32],
        columns: &[u32],
        way: Way,
    ) -> Result<Self, Error> {
        let vertices = rows.len() - 1;
        assert!(
            rows.is_sorted() && rows[0] == 0 && rows[vertices] as usize == columns.len(),
            "not a CSR graph"
        );
        assert!(
            columns.iter().all(|&c| (c as usize) < vertices),
            "a neighbour is no vertex"
        );
        let incoming = match way {
            Way::Visits => None,
            Way::Levels => {
                Some(levels::transpose(rows, columns)).filter(|(r, c)| r != rows || c != columns)
            }
        };
        let rows = engine.buffer_from(rows)?;
        let columns = engine.buffer_from(columns)?;
        let incoming = match incoming {
            None => None,
            Some(i) => Some((engine.buffer_from(&i.0)?, engine.buffer_from(&i.1)?)),
        };
        let (in_rows, in_columns) = match &incoming {
            None => (rows.ptr(), columns.ptr()),
            Some((rows, columns)) => (rows.ptr(), columns.ptr()),
        };
        let best = engine.buffer(vertices)?;
        // A buffer has at least one element; a search by visits needs none of these.
        let (words, queue) = match way {
            Way::Visits => (0, 1),
            Way::Levels => {
                let parts = (vertices as u32).div_ceil(consts::BFS_UP_VERTICES);
                (parts * consts::BFS_UP_VERTICES / 32, 2 * vertices)
            }
        };
        let bits = engine.buffer((2 * words as usize).max(1))?;
        let queue = engine.buffer(queue.max(1))?;
        let state = engine.buffer(size_of::<DevBfsState>() / size_of::<u32>())?;
        let params = DevBfs {
            rows: rows.ptr(),
            columns: columns.ptr(),
            best: best.ptr(),
            in_rows,
            in_columns,
            bits: bits.ptr(),
            queue: queue.ptr(),
            state: DevPtr::new(state.ptr().address()),
            vertices: vertices as u32,
            words,
            reserved: 0,
        };
        // SAFETY: the buffers hold a valid graph, and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            best,
            way,
            _rows: rows,
            _columns: columns,
            _incoming: incoming,
            _bits: bits,
            _queue: queue,
            _state: state,
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
        (self.best.len() as u32).div_ceil(BFS_RESET_VERTICES)
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
        let root = match self.way {
            Way::Visits => self.instance.task(VISIT),
            Way::Levels => self.instance.task(LEVEL).tag(levels::START),
        };
        engine.submit(root.arg(source.into()))?.wait().map(drop)
    }
    /// What the last search found.
    ///
    /// # Errors
    /// The copy fails.
    pub fn found(&self) -> Result<Found, Error> {
        Ok(Found::from_words(&self.best.read()?))
    }
}

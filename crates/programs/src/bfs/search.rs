//! The host's side of a search: a graph in the engine's memory.

use everwarp::{Buffer, DevPtr, Engine, Error, Instance};

use super::consts::{BFS_RESET_VERTICES, BFS_START, BFS_UP_VERTICES};
use super::reference::Found;
use super::{DevBfs, DevBfsState, LEVEL, PROGRAM, RESET, VISIT};

/// A graph with at least this many edges for each vertex is searched by levels.
const LEVELS_DEGREE: usize = 8;

/// How a graph is searched. Both ways give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every frontier vertex is a task, and no task waits for another: for graphs with many levels.
    Visits,
    /// Level by level, from both sides: for graphs whose vertices have many edges.
    Levels,
}

impl Way {
    /// The way that suits a graph of this size.
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
    /// The arrays are not a valid CSR graph.
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
    /// The arrays are not a valid CSR graph.
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
            "a neighbour is not a vertex"
        );
        let incoming = match way {
            Way::Visits => None,
            Way::Levels => {
                Some(transpose(rows, columns)).filter(|(r, c)| r != rows || c != columns)
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
        // A buffer has at least one element; a search by visits uses none of these buffers.
        let (words, queue) = match way {
            Way::Visits => (0, 1),
            Way::Levels => {
                let parts = (vertices as u32).div_ceil(BFS_UP_VERTICES);
                (parts * BFS_UP_VERTICES / 32, 2 * vertices)
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
    /// Forgets the last search, by tasks of the engine: what these write stays in caches near the tasks of the search.
    ///
    /// # Errors
    /// The engine has stopped or is lost.
    ///
    /// # Panics
    /// `source` is not a vertex.
    pub fn reset(&self, engine: &Engine, source: u32) -> Result<(), Error> {
        assert!(
            (source as usize) < self.best.len(),
            "the source is not a vertex of the graph"
        );
        let parts = u64::from(self.reset_parts());
        engine.run(self.instance.task(RESET).arg(parts << 32))?;
        self.best.write_at(source as usize, &[u64::from(source)])
    }
    fn reset_parts(&self) -> u32 {
        (self.best.len() as u32).div_ceil(BFS_RESET_VERTICES)
    }
    /// How many tasks a reset takes: the nodes of a binary tree with a leaf for each part.
    pub fn reset_tasks(&self) -> u64 {
        2 * u64::from(self.reset_parts()) - 1
    }
    /// Searches, after [`reset`](Self::reset).
    ///
    /// # Errors
    /// The engine has stopped or is lost.
    pub fn search(&self, engine: &Engine, source: u32) -> Result<(), Error> {
        let root = match self.way {
            Way::Visits => self.instance.task(VISIT),
            Way::Levels => self.instance.task(LEVEL).tag(BFS_START as u8),
        };
        engine.run(root.arg(source.into())).map(drop)
    }
    /// The result of the last search.
    ///
    /// # Errors
    /// The copy fails.
    pub fn found(&self) -> Result<Found, Error> {
        Ok(Found::from_words(&self.best.read()?))
    }
}

/// The edges that lead to each vertex: row offsets and the vertices that they come from, in ascending order.
fn transpose(rows: &[u32], columns: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut to = vec![0; rows.len()];
    columns.iter().for_each(|&u| to[u as usize + 1] += 1);
    for v in 1..to.len() {
        to[v] += to[v - 1];
    }
    let (mut next, mut from) = (to.clone(), vec![0; columns.len()]);
    for (v, row) in rows.windows(2).enumerate() {
        for &u in &columns[row[0] as usize..row[1] as usize] {
            from[next[u as usize] as usize] = v as u32;
            next[u as usize] += 1;
        }
    }
    (to, from)
}

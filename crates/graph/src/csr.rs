//! Compressed sparse rows: the one graph type of the programs.

use std::fmt;

use crate::direction::Direction;
use crate::error::GraphError;

/// A graph as compressed sparse rows.
///
/// `rows` has one `u32` per vertex and one more; the neighbours of vertex `v` are
/// `columns[rows[v]..rows[v + 1]]`, in ascending order. Offsets have 32 bits because that is what
/// the device code reads: half the memory traffic of 64, at the price of at most `u32::MAX` edges.
///
/// Parallel edges are **kept as given**, so a neighbour may be listed more than once. Breadth-first search gives the same
/// result either way, but for PageRank a link given twice weighs twice. Only the owner of the data knows whether that is
/// meant.
#[derive(Clone, PartialEq, Eq)]
pub struct Csr {
    rows: Vec<u32>,
    columns: Vec<u32>,
    input_edges: u64,
}

impl Csr {
    /// Builds the graph of `vertices` vertices, numbered from 0, with these edges.
    ///
    /// Two passes of a counting sort by row, then each row is sorted: O(n + m log d) time with d the
    /// largest degree, and no memory beyond the result.
    ///
    /// # Errors
    /// [`GraphError::NoSuchVertex`] for an id of `vertices` or more, [`GraphError::TooManyEdges`]
    /// when more than `u32::MAX` directed edges would be stored, [`GraphError::OutOfMemory`].
    pub fn from_edges(
        vertices: u32,
        edges: &[(u32, u32)],
        direction: Direction,
    ) -> Result<Csr, GraphError> {
        for (edge, &(u, v)) in edges.iter().enumerate() {
            let id = u.max(v);
            if id >= vertices {
                return Err(GraphError::NoSuchVertex { edge, id, vertices });
            }
        }
        let stored = edges.iter().map(|&(u, v)| direction.stored(u, v)).sum();
        if stored > u64::from(u32::MAX) {
            return Err(GraphError::TooManyEdges { stored });
        }
        let mut rows = zeroed(vertices as usize + 1)?;
        let mut columns = zeroed(stored as usize)?;
        let arcs = || {
            edges.iter().flat_map(|&(u, v)| {
                let back = direction.stored(u, v) == 2;
                std::iter::once((u, v)).chain(back.then_some((v, u)))
            })
        };
        scatter(&mut rows, &mut columns, arcs);
        for row in rows.windows(2) {
            columns[row[0] as usize..row[1] as usize].sort_unstable();
        }
        Ok(Csr {
            rows,
            columns,
            input_edges: edges.len() as u64,
        })
    }

    /// The number of vertices.
    pub fn vertices(&self) -> u32 {
        (self.rows.len() - 1) as u32
    }

    /// The number of directed edges stored: the length of [`Csr::columns`].
    pub fn edges(&self) -> u64 {
        self.columns.len() as u64
    }

    /// The number of edges as the file or the generator gave them, before an undirected edge was
    /// stored in both directions.
    pub fn input_edges(&self) -> u64 {
        self.input_edges
    }

    /// Row offsets into [`Csr::columns`]: `vertices() + 1` of them, the first 0, never descending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The target vertex of each stored edge, row after row: `edges()` of them.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The vertices that the edges of `v` lead to, in ascending order, parallel edges repeated.
    ///
    /// # Panics
    /// When `v` is not below [`Csr::vertices`].
    pub fn neighbors(&self, v: u32) -> &[u32] {
        let v = v as usize;
        &self.columns[self.rows[v] as usize..self.rows[v + 1] as usize]
    }

    /// The largest number of stored edges that leave one vertex; 0 for a graph without edges.
    pub fn max_degree(&self) -> u32 {
        self.rows
            .windows(2)
            .map(|row| row[1] - row[0])
            .max()
            .unwrap_or(0)
    }

    /// The same graph with every stored edge reversed; `input_edges` stays.
    ///
    /// The host must have the memory for a second graph of this size; without it the process aborts,
    /// as for any `Vec`.
    pub fn transpose(&self) -> Csr {
        let mut rows = vec![0; self.rows.len()];
        let mut columns = vec![0; self.columns.len()];
        // Sources come in ascending order, so each new row is filled in ascending order.
        scatter(&mut rows, &mut columns, || {
            (0..self.vertices()).flat_map(|u| self.neighbors(u).iter().map(move |&v| (v, u)))
        });
        Csr {
            rows,
            columns,
            input_edges: self.input_edges,
        }
    }
}

/// A summary, because a list of every edge of a graph is too long to read.
impl fmt::Debug for Csr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Csr")
            .field("vertices", &self.vertices())
            .field("edges", &self.edges())
            .field("input_edges", &self.input_edges)
            .finish_non_exhaustive()
    }
}

/// Fills the zeroed `rows` and `columns` from `arcs`, which is walked twice: once to count, once to
/// place. Within a row the order of `arcs` is kept.
fn scatter<I: Iterator<Item = (u32, u32)>>(
    rows: &mut [u32],
    columns: &mut [u32],
    arcs: impl Fn() -> I,
) {
    let vertices = rows.len() - 1;
    for (u, _) in arcs() {
        rows[u as usize] += 1;
    }
    let mut start = 0;
    for row in rows.iter_mut() {
        (*row, start) = (start, start + *row);
    }
    // Each offset serves as its row's cursor and so ends at the start of the next row: moving all
    // of them up by one restores the offsets without a second array of cursors.
    for (u, v) in arcs() {
        let cursor = &mut rows[u as usize];
        columns[*cursor as usize] = v;
        *cursor += 1;
    }
    rows.copy_within(..vertices, 1);
    rows[0] = 0;
}

/// `len` zeros, or an error instead of an abort when the host refuses the memory.
fn zeroed(len: usize) -> Result<Vec<u32>, GraphError> {
    let mut words = Vec::new();
    words
        .try_reserve_exact(len)
        .map_err(|_| GraphError::OutOfMemory {
            bytes: len as u64 * 4,
        })?;
    words.resize(len, 0);
    Ok(words)
}

//! The edges of a file while it is being read.

use crate::csr::Csr;
use crate::direction::Direction;
use crate::error::GraphError;

/// Most vertices that `edges` edges justify: beyond it, ids are hashes or addresses rather than
/// numbers, and the row offsets alone would take gigabytes.
fn vertex_limit(edges: u64) -> u64 {
    edges.saturating_mul(64).saturating_add(1_000_001)
}

/// Refuses a graph that is nearly all isolated vertices; `line` is the line that asks for it.
pub(crate) fn check_density(line: u64, vertices: u64, edges: u64) -> Result<(), GraphError> {
    let limit = vertex_limit(edges);
    if vertices > limit {
        return Err(GraphError::SparseIds {
            line,
            vertices,
            edges,
            limit,
        });
    }
    Ok(())
}

/// Edges read so far, and how many directed edges they will take when stored.
pub(crate) struct Edges {
    list: Vec<(u32, u32)>,
    stored: u64,
    limit: u64,
    direction: Direction,
}

impl Edges {
    pub(crate) fn new(direction: Direction) -> Edges {
        Edges::with_limit(direction, u64::from(u32::MAX))
    }

    /// With another limit, so that a test reaches it without four billion lines.
    pub(crate) fn with_limit(direction: Direction, limit: u64) -> Edges {
        Edges {
            list: Vec::new(),
            stored: 0,
            limit,
            direction,
        }
    }

    /// Most directed edges that may be stored.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn len(&self) -> u64 {
        self.list.len() as u64
    }

    /// Makes room for edges that a header promises. The promise is not trusted beyond a million:
    /// a wrong header must not cost more memory than the file that follows it.
    pub(crate) fn expect(&mut self, edges: u64) {
        self.list.reserve(edges.min(1 << 20) as usize);
    }

    #[inline]
    pub(crate) fn push(&mut self, line: u64, u: u32, v: u32) -> Result<(), GraphError> {
        self.stored += self.direction.stored(u, v);
        if self.stored > self.limit {
            return Err(GraphError::FileTooLarge {
                line,
                limit: self.limit,
            });
        }
        if self.list.len() == self.list.capacity() {
            self.grow()?;
        }
        self.list.push((u, v));
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<(), GraphError> {
        let more = self.list.capacity().max(1 << 12);
        self.list
            .try_reserve_exact(more)
            .map_err(|_| GraphError::OutOfMemory {
                bytes: (self.list.capacity() + more) as u64 * size_of::<(u32, u32)>() as u64,
            })
    }

    pub(crate) fn into_csr(self, vertices: u32) -> Result<Csr, GraphError> {
        Csr::from_edges(vertices, &self.list, self.direction)
    }
}

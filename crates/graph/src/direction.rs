//! Whether the edges of a graph have a direction.

/// Whether an edge `(u, v)` may be followed from `v` to `u` as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Each edge is stored once, from its first vertex to its second.
    Directed,
    /// Each edge is stored in both directions; a self loop is stored once.
    Undirected,
}

impl Direction {
    /// Directed edges stored for the edge `(u, v)`: 1 or 2.
    pub(crate) fn stored(self, u: u32, v: u32) -> u64 {
        1 + u64::from(self == Direction::Undirected && u != v)
    }
}

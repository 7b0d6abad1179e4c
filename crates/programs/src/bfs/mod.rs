//! `bfs`: breadth-first search; every frontier vertex is a task that spawns tasks.
//!
//! The search is label-correcting: a vertex holds the best level and, within it, the smallest parent
//! offered so far, in one 64-bit word that is only ever lowered. A vertex whose level was lowered is
//! visited again, so the order in which tasks run cannot change the result: levels are exact, and each
//! parent is the smallest vertex of the level before. Why not a group for each level? Roads have
//! hundreds of levels of a few hundred vertices, and a join costs more than the work of one level. Graphs with many
//! edges for each vertex have few levels; they are searched level by level, from both sides ([`Way::Levels`]).

mod consts;
mod entry;
mod levels;
mod memory;
mod reference;
mod search;
#[path = "bfs.rs"]
mod twin;

use everwarp::{DevPtr, Layout, dev_struct, program};

use consts::{BFS_FAN, BFS_LANE_EDGES, BFS_PART_EDGES};
use levels::{down, level, up, wide};
use twin::{hub, reset, visit};

/// Vertices in one part of a reset, for hosts that submit it by themselves.
pub const RESET_VERTICES: u32 = consts::BFS_RESET_VERTICES;

pub use entry::{BreadthFirstSearch, Start};
pub use reference::{Found, reference};
pub use search::{Bfs, Way};

dev_struct! {
    /// The state that the tasks of a search by levels share.
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
        /// The vertices that those edges come from, ascending.
        pub in_columns: DevPtr<u32>,
        /// The reached vertices: two bitmaps of `words` words each, one after the other.
        pub bits: DevPtr<u32>,
        /// The frontiers of even and of odd levels, room for `vertices` each, one after the other.
        pub queue: DevPtr<u32>,
        /// The state that the tasks of a search by levels share.
        pub state: DevPtr<DevBfsState>,
        /// Number of vertices.
        pub vertices: u32,
        /// Words of a bitmap; 0 without any.
        pub words: u32,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

program! {
    /// The program.
    pub static PROGRAM: bfs(DevBfs; consts::write_consts, DevBfsState::write_struct), "bfs.cu", "levels.cu"; wgsl "bfs.wgsl" {
        /// A visit: argument = vertex | its level << 32.
        VISIT: lane(visit).spawns(BFS_LANE_EDGES as u16).breadth_first(),
        /// A visit by a whole warp, for a vertex with many edges: argument = vertex | first part << 32 | logarithm of the
        /// number of parts << 58; tag = the level's low byte.
        HUB: warp(hub).spawns(BFS_PART_EDGES as u16).breadth_first(),
        /// Forgets a range of vertices: argument = first part | parts << 32.
        RESET: warp(reset).spawns(2),
        /// A level: argument = the level, or the source with the tag for it.
        LEVEL: warp(level).spawns(BFS_FAN as u16).forks(BFS_FAN as u16).outlined(),
        /// A part of a frontier: argument = first entry | entries << 32.
        DOWN: warp(down).spawns(BFS_FAN as u16).outlined(),
        /// A part of a vertex' edges: argument = vertex | part << 32 | logarithm of the number of parts << 58.
        WIDE: warp(wide).spawns(BFS_FAN as u16).outlined(),
        /// A search from the unreached side: argument = first part | parts << 32.
        UP: warp(up).spawns(BFS_FAN as u16).outlined(),
    }
}

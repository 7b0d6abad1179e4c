//! The numbers that device sources and CPU twins share.

everwarp::dev_consts! {
    /// Writes them as CUDA C++.
    pub(super) fn write_consts;
    /// Edges that one lane follows; vertices with more are hubs.
    pub(super) const BFS_LANE_EDGES = 4;
    /// Edges in one part of a hub.
    pub(super) const BFS_PART_EDGES = 96;
    /// Vertices in one part of a reset.
    pub(super) const BFS_RESET_VERTICES = 1024;
    /// By levels: the number of tasks among which a task divides its range.
    pub(super) const BFS_FAN = 64;
    /// Entries of the queue in one task.
    pub(super) const BFS_DOWN_ENTRIES = 32;
    /// Vertices with more edges are divided.
    pub(super) const BFS_WIDE_EDGES = 1024;
    /// Vertices in one part of a search from the unreached side.
    pub(super) const BFS_UP_VERTICES = 512;
    /// A frontier of more than 1 / this of the unreached vertices is worth searching from the other side.
    pub(super) const BFS_UP_SHARE = 32;
    /// A frontier of up to this many vertices goes on by visits, after levels from the unreached side.
    pub(super) const BFS_TAIL = 2048;
    /// After this many levels, a frontier of up to `BFS_NARROW` vertices goes on by visits too.
    pub(super) const BFS_PATIENCE = 32;
    /// The size of a narrow frontier: `BFS_PATIENCE`.
    pub(super) const BFS_NARROW = 1024;
    /// Tag of a level: the bitmap that holds the reached vertices.
    pub(super) const BFS_BITMAP = 1;
    /// Tag: the level before was searched from the unreached side.
    pub(super) const BFS_UPWARDS = 2;
    /// Tag: a frontier's vertices become visits.
    pub(super) const BFS_LEAVE = 4;
    /// Tag: the argument is the source.
    pub(super) const BFS_START = 8;
}

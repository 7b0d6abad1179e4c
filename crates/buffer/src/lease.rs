//! Leases: who uses which range of a buffer, on which side, and how.

use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use everwarp_runtime::EngineKind;

/// A side of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host: the program that made the buffer.
    Host,
    /// The device: tasks, handlers and libraries that compute there.
    Device,
}

/// How a range is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The side.
    pub side: Side,
    /// Whether it is written.
    pub writes: bool,
    /// Whether others on the same side may use it at the same time in the same careless way, as arrays of Python do that
    /// are views of each other.
    pub aliases: bool,
}

impl Use {
    /// Reads, as views of Rust do.
    pub const fn reads(side: Side) -> Self {
        Self {
            side,
            writes: false,
            aliases: false,
        }
    }
    /// Reads and writes, and no other use of the range is possible meanwhile.
    pub const fn writes(side: Side) -> Self {
        Self {
            side,
            writes: true,
            aliases: false,
        }
    }
    /// The same, but other uses of this kind on the same side are possible.
    pub const fn aliased(mut self) -> Self {
        self.aliases = true;
        self
    }
    fn excludes(self, other: Self) -> bool {
        let alias = self.side == other.side && self.aliases && other.aliases;
        !alias && (self.writes || other.writes)
    }
}

/// The holder of a lease, for messages: what it is, and the line that made it.
#[derive(Clone, Debug)]
pub struct Holder {
    what: Arc<str>,
    line: Line,
}

#[derive(Clone, Debug)]
enum Line {
    Rust(&'static Location<'static>),
    Other(Arc<str>),
}

impl Holder {
    /// A holder that was made by the calling line.
    #[track_caller]
    pub fn here(what: impl Into<Arc<str>>) -> Self {
        Self {
            what: what.into(),
            line: Line::Rust(Location::caller()),
        }
    }
    /// A holder that was made at a line of another language, such as `notebook.py, line 3`.
    pub fn at(what: impl Into<Arc<str>>, line: impl Into<Arc<str>>) -> Self {
        Self {
            what: what.into(),
            line: Line::Other(line.into()),
        }
    }
    /// What it is.
    pub fn what(&self) -> &str {
        &self.what
    }
    /// The line that made it.
    pub fn line(&self) -> String {
        match &self.line {
            Line::Rust(location) => location.to_string(),
            Line::Other(line) => line.to_string(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, made at {}", self.what, self.line())
    }
}

/// Why a range cannot be used.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The holder of the lease that is in the way.
    pub holder: Holder,
    /// How the holder uses the range.
    pub held: Use,
    /// How the range was to be used.
    pub wanted: Use,
    /// The engine of the buffer.
    pub engine: EngineKind,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side| match side {
            Side::Host => "the host",
            Side::Device => "the device",
        };
        let does = |use_: Use| if use_.writes { "written" } else { "read" };
        write!(
            f,
            "the buffer is in use: {} holds it to be {} on {}, so it cannot be {} on {} until that is dropped",
            self.holder,
            does(self.held),
            side(self.held.side),
            does(self.wanted),
            side(self.wanted.side)
        )
    }
}

/// One lease.
#[derive(Debug)]
struct Entry {
    id: u64,
    range: Range<usize>,
    how: Use,
    holder: Holder,
}

/// Whether two ranges have a byte in common; an empty one has none.
fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

/// The leases of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    entries: Vec<Entry>,
    last: u64,
}

impl Leases {
    /// The lease that excludes a use of a range.
    pub(crate) fn conflict(&self, range: &Range<usize>, how: Use) -> Option<(Holder, Use)> {
        let excludes = |entry: &&Entry| entry.how.excludes(how) && overlap(&entry.range, range);
        let found = self.entries.iter().find(excludes)?;
        Some((found.holder.clone(), found.how))
    }
    /// Whether a side uses a part of a range.
    pub(crate) fn uses(&self, range: &Range<usize>, side: Side) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.how.side == side && overlap(&entry.range, range))
    }
    /// Adds a lease; returns its number.
    pub(crate) fn add(&mut self, range: Range<usize>, how: Use, holder: Holder) -> u64 {
        self.last += 1;
        let id = self.last;
        self.entries.push(Entry {
            id,
            range,
            how,
            holder,
        });
        id
    }
    /// Ends a lease.
    pub(crate) fn end(&mut self, id: u64) {
        if let Some(at) = self.entries.iter().position(|entry| entry.id == id) {
            self.entries.swap_remove(at);
        }
    }
    /// The holders of leases.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        self.entries.iter().map(|e| e.holder.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_exclude_each_other_unless_both_read_or_are_aliases_of_one_side() {
        let (read, write) = (Use::reads(Side::Host), Use::writes(Side::Host));
        let device = Use::reads(Side::Device);
        assert!(!read.excludes(read) && !read.excludes(device));
        assert!(read.excludes(write) && write.excludes(write) && write.excludes(device));
        let alias = write.aliased();
        assert!(!alias.excludes(alias) && !alias.excludes(read.aliased()));
        assert!(alias.excludes(read), "a slice of Rust must not change");
        assert!(alias.excludes(Use::writes(Side::Device).aliased()));
    }

    #[test]
    fn conflicts_are_found_only_where_ranges_overlap() {
        let mut leases = Leases::default();
        let write = Use::writes(Side::Host);
        let id = leases.add(10..20, write, Holder::here("a view"));
        assert!(leases.conflict(&(0..10), write).is_none());
        assert!(leases.conflict(&(20..30), write).is_none());
        let (holder, _) = leases.conflict(&(19..21), write).expect("they overlap");
        assert_eq!(holder.what(), "a view");
        assert!(holder.line().contains("lease.rs"), "{holder}");
        leases.end(id);
        assert!(leases.conflict(&(0..30), write).is_none());
    }
}

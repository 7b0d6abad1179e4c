//! Reading ahead: which misses of a file continue each other.
//!
//! A stream reads windows, which double up to a limit. The first page of each has a mark, and when a task comes to it, the stream reads
//! on until enough windows are ahead of that task. One is enough at first. A task that has to wait for a page with a mark says that it is
//! not, because a window takes longer to come than the task takes for the one before; then there are twice as many.

/// Streams that are known of a file at a time.
const MOST: usize = 32;
/// The pages of the first window.
const FIRST: u32 = 4;
/// The most windows of a stream that are ahead of the one to which a task has come.
const DEPTH: u32 = 4;

/// A sequence of misses.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The page with a mark to which a task has come last.
    reached: u64,
    /// The page after those that were read.
    next: u64,
    /// Pages that are read at a time.
    window: u32,
    /// Windows ahead of the one to which a task has come.
    depth: u32,
    /// When it was used last.
    used: u64,
}

/// How much may be read ahead now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Pages of a window.
    pub(crate) window: u32,
    /// Windows that all streams of the file may have, if each is to have more than two.
    pub(crate) windows: u32,
    /// Pages that have room.
    pub(crate) room: u32,
}

/// Pages to be read ahead. The first of them is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) first: u64,
    pub(crate) count: u32,
}

/// The streams of a file.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    time: u64,
}

impl Stream {
    /// Makes the window longer, and reads the next `pages` of it as far as there is room.
    fn read(&mut self, pages: impl Fn(u32) -> u32, limits: Limits) -> Option<Ahead> {
        self.window = match self.window {
            0 => FIRST,
            window => window.saturating_mul(2),
        };
        self.window = self.window.min(limits.window);
        let (first, count) = (self.next, pages(self.window).min(limits.room));
        // What has found no room is read from here on later.
        self.next += u64::from(count);
        (count > 0).then_some(Ahead { first, count })
    }
}

impl Streams {
    /// How many windows a stream may have ahead of the one to which a task has come.
    fn depth(&self, limits: Limits) -> u32 {
        let streams = self.all.iter().filter(|stream| stream.window > 0).count();
        let each = limits.windows / (streams as u32).max(1);
        each.saturating_sub(1).clamp(1, DEPTH)
    }
    fn find(&mut self, is: impl FnMut(&&mut Stream) -> bool) -> Option<&mut Stream> {
        self.time += 1;
        let stream = self.all.iter_mut().find(is)?;
        stream.used = self.time;
        Some(stream)
    }
    /// The stream that has read this page, which has a mark.
    fn of_mark(&mut self, page: u64) -> Option<&mut Stream> {
        self.find(|stream| (stream.reached..stream.next).contains(&page))
    }
    /// A page was missed, and is being read. Returns what to read after it.
    pub(crate) fn missed(&mut self, page: u64, limits: Limits) -> Option<Ahead> {
        if limits.window == 0 {
            return None;
        }
        if let Some(stream) = self.find(|stream| stream.next == page) {
            stream.next = page + 1;
            stream.reached = stream.next;
            // The window has the missed page, too: together they are one read.
            return stream.read(|window| (window - 1).max(1), limits);
        }
        let fresh = Stream {
            reached: page + 1,
            next: page + 1,
            window: 0,
            depth: 1,
            used: self.time,
        };
        if self.all.len() < MOST {
            self.all.push(fresh);
        } else if let Some(oldest) = self.all.iter_mut().min_by_key(|s| s.used) {
            *oldest = fresh;
        }
        None
    }
    /// A task has come to a page with a mark. Returns what to read ahead now; the caller asks until that is nothing.
    pub(crate) fn used(&mut self, page: u64, limits: Limits) -> Option<Ahead> {
        let most = self.depth(limits);
        let stream = self.of_mark(page)?;
        stream.reached = page;
        let enough = u64::from(stream.depth.min(most)) * u64::from(stream.window);
        match stream.next - page > enough {
            true => None,
            false => stream.read(|window| window, limits),
        }
    }
    /// A task waits for a page with a mark that is being read.
    pub(crate) fn late(&mut self, page: u64, limits: Limits) {
        let most = self.depth(limits);
        // Longer windows come first: they cost less.
        if let Some(stream) = self.of_mark(page)
            && stream.window >= limits.window
        {
            stream.depth = (2 * stream.depth).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        window: 16,
        windows: 100,
        room: 1000,
    };

    fn ahead(first: u64, count: u32) -> Option<Ahead> {
        Some(Ahead { first, count })
    }
    fn window(window: u32) -> Limits {
        Limits { window, ..LIMITS }
    }

    #[test]
    fn windows_double_while_a_stream_goes_on() {
        let mut streams = Streams::default();
        assert_eq!(streams.missed(10, LIMITS), None);
        assert_eq!(streams.missed(11, LIMITS), ahead(12, 3));
        assert_eq!(streams.missed(500, LIMITS), None, "another stream");
        assert_eq!(streams.used(12, LIMITS), ahead(15, 8));
        assert_eq!(streams.used(12, LIMITS), None, "once");
        assert_eq!(streams.used(15, LIMITS), ahead(23, 16));
        assert_eq!(streams.used(12, LIMITS), None, "a task that is behind");
        assert_eq!(streams.missed(39, LIMITS), ahead(40, 15), "no mark was met");
        assert_eq!(streams.missed(501, window(2)), ahead(502, 1));
        assert_eq!(streams.used(502, window(2)), ahead(503, 2));
        assert_eq!(streams.missed(600, window(1)), None);
        assert_eq!(streams.missed(601, window(1)), ahead(602, 1));
    }

    #[test]
    fn more_windows_are_ahead_of_a_task_that_waits_for_one() {
        let mut streams = Streams::default();
        assert_eq!(streams.missed(0, window(4)), None);
        assert_eq!(streams.missed(1, window(4)), ahead(2, 3));
        assert_eq!(streams.used(2, window(4)), ahead(5, 4));
        assert_eq!(streams.used(5, window(8)), ahead(9, 8));
        streams.late(9, LIMITS);
        assert_eq!(
            streams.used(9, LIMITS),
            ahead(17, 16),
            "longer windows first"
        );
        let mut next = 33;
        for (page, windows) in [(17, 2), (33, 3), (49, 1)] {
            streams.late(page, LIMITS);
            for _ in 0..windows {
                assert_eq!(streams.used(page, LIMITS), ahead(next, 16), "at {page}");
                next += 16;
            }
            assert_eq!(streams.used(page, LIMITS), None, "at {page}");
        }
        // Another stream takes its part.
        let few = Limits {
            windows: 6,
            ..LIMITS
        };
        assert_eq!(streams.missed(500, few), None);
        assert_eq!(streams.missed(501, few), ahead(502, 3));
        assert_eq!(streams.used(65, few), None, "four windows are ahead");
        assert_eq!(streams.used(97, few), ahead(129, 16), "two of them");
    }

    #[test]
    fn what_has_no_room_is_read_later() {
        let mut streams = Streams::default();
        let room = |room| Limits { room, ..LIMITS };
        assert_eq!(streams.missed(10, LIMITS), None);
        assert_eq!(streams.missed(11, room(1)), ahead(12, 1));
        assert_eq!(streams.used(12, room(0)), None);
        assert_eq!(streams.used(12, room(2)), ahead(13, 2));
        assert_eq!(streams.missed(15, room(0)), None);
        assert_eq!(streams.missed(16, LIMITS), ahead(17, 15));
    }

    #[test]
    fn random_misses_read_nothing_ahead_and_take_little_memory() {
        let mut streams = Streams::default();
        for page in 0..1000 {
            assert_eq!(streams.missed(page * 7919 % 100_003, LIMITS), None);
        }
        assert_eq!(streams.all.len(), MOST);
    }
}

//! Reading ahead: which misses of a file continue each other.

/// Streams that are known of a file at a time.
const MOST: usize = 32;
/// The pages that the second miss of a stream reads ahead.
const FIRST: u32 = 4;

/// A sequence of misses.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The page after those that were read.
    next: u64,
    /// The page whose use is reported.
    mark: u64,
    /// Pages that are read ahead at a time.
    window: u32,
    /// When it was used last.
    used: u64,
}

/// Pages to be read ahead. The first of them is marked, or the one after it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) mark: u64,
}

/// The streams of a file.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    time: u64,
}

impl Streams {
    fn advance(&mut self, at: usize, first: u64, most: u32) -> Ahead {
        self.time += 1;
        let stream = &mut self.all[at];
        stream.window = match stream.window {
            0 => FIRST.min(most),
            window => window.saturating_mul(2).min(most),
        };
        stream.next = first + u64::from(stream.window);
        stream.mark = first;
        stream.used = self.time;
        Ahead {
            first,
            count: stream.window,
            mark: stream.mark,
        }
    }
    /// A page was missed. Returns what to read ahead of it, up to `most` pages.
    pub(crate) fn missed(&mut self, page: u64, most: u32) -> Option<Ahead> {
        if most == 0 {
            return None;
        }
        match self.all.iter().position(|stream| stream.next == page) {
            Some(at) => Some(self.advance(at, page + 1, most)),
            None => {
                self.time += 1;
                let fresh = Stream {
                    next: page + 1,
                    mark: u64::MAX,
                    window: 0,
                    used: self.time,
                };
                if self.all.len() < MOST {
                    self.all.push(fresh);
                } else if let Some(oldest) = self.all.iter_mut().min_by_key(|s| s.used) {
                    *oldest = fresh;
                }
                None
            }
        }
    }
    /// A marked page was used. Returns what to read ahead now.
    pub(crate) fn used(&mut self, page: u64, most: u32) -> Option<Ahead> {
        let at = self.all.iter().position(|stream| stream.mark == page)?;
        let first = self.all[at].next;
        Some(self.advance(at, first, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_double_while_a_stream_goes_on() {
        let mut streams = Streams::default();
        assert_eq!(streams.missed(10, 16), None);
        let ahead = |first, count, mark| Some(Ahead { first, count, mark });
        assert_eq!(streams.missed(11, 16), ahead(12, 4, 12));
        assert_eq!(streams.missed(500, 16), None, "another stream");
        assert_eq!(streams.used(12, 16), ahead(16, 8, 16));
        assert_eq!(streams.used(12, 16), None, "once");
        assert_eq!(streams.used(16, 16), ahead(24, 16, 24));
        assert_eq!(streams.missed(40, 16), ahead(41, 16, 41), "it was too late");
        assert_eq!(streams.missed(501, 2), ahead(502, 2, 502));
    }

    #[test]
    fn random_misses_read_nothing_ahead_and_take_little_memory() {
        let mut streams = Streams::default();
        for page in 0..1000 {
            assert_eq!(streams.missed(page * 7919 % 100_003, 64), None);
        }
        assert_eq!(streams.all.len(), MOST);
    }
}

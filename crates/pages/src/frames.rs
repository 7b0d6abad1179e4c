//! The frames of a cache, as the host knows them.

use crate::lists::List;
use crate::pager::CachedFile;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    /// A page is being read into it.
    Reading,
    /// A page is in it, and its word does not say so yet.
    Unfilled,
    /// A page is in it.
    Here,
    /// A page is in it, and an order that may take the page out is on its way.
    Leaving,
    /// An order that may take written parts is on its way.
    Taking,
    /// Written parts are on their way to the file.
    Writing,
}

/// A frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) phase: Phase,
    pub(crate) file: CachedFile,
    /// The number of the page's word.
    pub(crate) word: u64,
    /// Whether the word gets the mark.
    pub(crate) mark: bool,
    /// Tasks that wait for the page: while it is read, and until it is known whether it has left.
    pub(crate) waiters: List,
}

/// All frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) all: Vec<Frame>,
    /// The free ones; the last is the next to be used.
    pub(crate) free: Vec<u32>,
    /// The frame of each word plus one; 0: none.
    places: Vec<u32>,
    hand: u32,
}

impl Frames {
    pub(crate) fn new(frames: u32, words: u64) -> Self {
        let frame = |_| Frame {
            phase: Phase::Free,
            file: CachedFile(0),
            word: 0,
            mark: false,
            waiters: List::default(),
        };
        Self {
            all: (0..frames).map(frame).collect(),
            free: (0..frames).rev().collect(),
            places: vec![0; words as usize],
            hand: 0,
        }
    }
    pub(crate) fn at(&mut self, frame: u32) -> &mut Frame {
        &mut self.all[frame as usize]
    }
    /// The frame of a page.
    pub(crate) fn of(&self, word: u64) -> Option<u32> {
        self.places[word as usize].checked_sub(1)
    }
    /// Gives a page a free frame.
    pub(crate) fn occupy(&mut self, file: CachedFile, word: u64, mark: bool) -> Option<u32> {
        let frame = self.free.pop()?;
        self.places[word as usize] = frame + 1;
        let record = self.at(frame);
        debug_assert!(record.phase == Phase::Free && record.waiters.is_empty());
        (record.phase, record.file) = (Phase::Reading, file);
        (record.word, record.mark) = (word, mark);
        Some(frame)
    }
    /// Frees a frame.
    pub(crate) fn vacate(&mut self, frame: u32) {
        let record = self.at(frame);
        debug_assert!(record.phase != Phase::Free && record.waiters.is_empty());
        record.phase = Phase::Free;
        let word = record.word;
        self.places[word as usize] = 0;
        self.free.push(frame);
    }
    /// The frame under the clock's hand, which moves on.
    pub(crate) fn next(&mut self) -> u32 {
        let frame = self.hand;
        self.hand = (frame + 1) % self.all.len() as u32;
        frame
    }
    /// The frames of some of a file's pages, given by their words.
    pub(crate) fn of_words(&self, words: std::ops::Range<u64>) -> Vec<(u32, u64)> {
        if words.end - words.start > self.all.len() as u64 {
            let all = self.all.iter().enumerate();
            let there = all.filter(|(_, f)| f.phase != Phase::Free && words.contains(&f.word));
            return there.map(|(at, f)| (at as u32, f.word)).collect();
        }
        let frame = |word| Some((self.of(word)?, word));
        words.filter_map(frame).collect()
    }
}

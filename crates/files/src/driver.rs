//! What a thread has for driving sockets.

/// Sockets that a thread drives itself in a round, where there are workers enough for the others.
const ITSELF: usize = 32;

/// A thread that drives sockets.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// Memory for bytes that move.
    pub(crate) stage: Vec<u8>,
    /// How many sockets it still drives itself in this round.
    left: usize,
}

impl Driver {
    /// Begins a round.
    pub(crate) fn begin(&mut self, workers: usize) {
        // Two workers have no more cores than this thread and the other one.
        self.left = if workers > 2 { ITSELF } else { usize::MAX };
    }
    /// Whether it drives one more socket in this round.
    pub(crate) fn drives_itself(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

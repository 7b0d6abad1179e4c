//! How far the assembler is, for a command that shows it.

use std::sync::OnceLock;

/// How far a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pieces that are assembled.
    pub done: usize,
    /// All pieces.
    pub of: usize,
}

/// A function that is called when a piece is done, on any thread.
pub type Listener = fn(Progress);

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Has this function called for all later work of this process. Only the first call has an effect.
pub fn listen(listener: Listener) {
    let _ = LISTENER.set(listener);
}

pub(crate) fn report(progress: Progress) {
    if let Some(listener) = LISTENER.get() {
        listener(progress);
    }
}

//! Ending a native program whose client has gone.

use std::sync::Mutex;

use everwarp_engine::sync::lock;

#[derive(Default)]
struct CancelState {
    cancelled: bool,
    on_cancel: Option<Box<dyn FnOnce() + Send>>,
}

/// Tells a native program to end.
#[derive(Default)]
pub struct Cancellation(Mutex<CancelState>);

impl Cancellation {
    /// Calls `act` when the client goes, or now if it has gone. It replaces what was to be called before.
    pub fn on_cancel(&self, act: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0);
        match state.cancelled {
            true => {
                drop(state);
                act();
            }
            false => state.on_cancel = Some(Box::new(act)),
        }
    }

    /// Whether the client has gone.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0).cancelled
    }

    /// The client has gone.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.0);
        state.cancelled = true;
        let act = state.on_cancel.take();
        drop(state);
        if let Some(act) = act {
            act();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_is_to_be_done_is_done_once_before_and_after_the_end() {
        let cancellation = Cancellation::default();
        let done = Arc::new(AtomicU32::new(0));
        let add = |by| {
            let done = Arc::clone(&done);
            move || {
                done.fetch_add(by, Ordering::Relaxed);
            }
        };
        cancellation.on_cancel(add(1));
        cancellation.on_cancel(add(10));
        assert!(!cancellation.is_cancelled());
        cancellation.cancel();
        cancellation.cancel();
        assert!(cancellation.is_cancelled());
        assert_eq!(done.load(Ordering::Relaxed), 10);
        cancellation.on_cancel(add(100));
        assert_eq!(done.load(Ordering::Relaxed), 110);
    }
}

//! Ending an engine's work from outside.

use std::sync::{Arc, Weak};

use crate::core::EngineCore;
use crate::engine::Engine;
use crate::error::Error;

/// Ends the work of an engine from another thread. It does not keep the engine.
#[derive(Clone, Debug)]
pub struct Canceller(Weak<EngineCore>);

impl Canceller {
    /// Ends the engine's work: threads that wait for it get [`Error::Lost`], and it takes no further work. Tasks end where
    /// the next one would start.
    pub fn cancel(&self) {
        if let Some(core) = self.0.upgrade() {
            let reason = "its work was cancelled".to_owned();
            drop(core.fail(Error::Lost { reason }));
        }
    }
}

impl Engine {
    /// A handle that ends the engine's work. Not a stable API.
    #[doc(hidden)]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::downgrade(&self.core))
    }
}

//! What actors of the host run, and the values that messages carry: both need the whole crate.

use std::sync::{Arc, Mutex, PoisonError};

use crate::context::ActorCx;
use crate::far::Own;
use crate::message::Message;

pub(super) use crate::payload::Payloads;

/// What an actor of the host runs.
pub(super) type Closure = dyn FnMut(&mut ActorCx<'_, '_, '_>, &Message) + Send;

/// The closure of an actor of the host, and what the actor keeps next to it if a GPU lends it to the host.
#[derive(Clone)]
pub(crate) struct Part(Arc<Mutex<Box<Closure>>>, Arc<Mutex<Own>>);

impl Part {
    pub(super) fn new(closure: Box<Closure>) -> Self {
        Self(Arc::new(Mutex::new(closure)), Arc::default())
    }
    /// What the actor keeps. One thread at a time runs the actor.
    pub(crate) fn own(&self) -> Arc<Mutex<Own>> {
        self.1.clone()
    }
    /// An actor of the host that a GPU holds begins anew.
    pub(crate) fn begins_anew(&self) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Own::default();
    }
    /// Handles a message.
    pub(crate) fn run(&self, actor: &mut ActorCx<'_, '_, '_>, message: &Message) {
        let mut closure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closure(actor, message);
    }
}
impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Part")
    }
}

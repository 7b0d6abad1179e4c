//! Names of actors, and actors that are known by a key.

use std::collections::HashMap;

use crate::id::ActorId;

use super::Side;

#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: HashMap<String, ActorId>,
    by_key: HashMap<(u32, u64), ActorId>,
}

impl Names {
    pub(super) fn remove(&mut self, names: &[String], key: Option<(u32, u64)>) {
        for name in names {
            self.by_name.remove(name);
        }
        if let Some(key) = key {
            self.by_key.remove(&key);
        }
    }
}

/// Why a name was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNamed {
    /// This actor has the name.
    Taken(ActorId),
    /// The actor does not live.
    Gone,
}

impl Side {
    /// Gives an actor a name.
    pub(crate) fn register(
        &self,
        name: &str,
        actor: ActorId,
        know: impl FnOnce(ActorId) -> bool,
    ) -> Result<(), NotNamed> {
        let mut state = self.state();
        if let Some(&holder) = state.names.by_name.get(name) {
            return Err(NotNamed::Taken(holder));
        }
        // The lock is held, so that the end is not reported in between.
        if !know(actor) {
            return Err(NotNamed::Gone);
        }
        state.names.by_name.insert(name.to_owned(), actor);
        state.record(actor).names.push(name.to_owned());
        Ok(())
    }
    /// The actor with a name; none if there is none.
    pub(crate) fn lookup(&self, name: &str) -> ActorId {
        let state = self.state();
        let found = state.names.by_name.get(name);
        found.copied().unwrap_or(ActorId::NONE)
    }
    /// Takes a name away. Returns the actor that had it.
    pub(crate) fn unregister(&self, name: &str) -> ActorId {
        let mut state = self.state();
        let Some(actor) = state.names.by_name.remove(name) else {
            return ActorId::NONE;
        };
        state.record(actor).names.retain(|n| n != name);
        actor
    }

    /// The actor of a kind with a key, which `launch` launches if there is none.
    pub(crate) fn at(
        &self,
        kind: u32,
        key: u64,
        launch: impl FnOnce() -> ActorId,
        know: impl FnOnce(ActorId) -> bool,
    ) -> ActorId {
        let mut state = self.state();
        if state.closed {
            return ActorId::NONE;
        }
        if let Some(&actor) = state.names.by_key.get(&(kind, key)) {
            return actor;
        }
        let actor = launch();
        if !actor.is_none() && know(actor) {
            state.names.by_key.insert((kind, key), actor);
            state.record(actor).key = Some((kind, key));
        }
        actor
    }
    /// The actor of a kind with a key, if it lives.
    pub(crate) fn known_at(&self, kind: u32, key: u64) -> Option<ActorId> {
        self.state().names.by_key.get(&(kind, key)).copied()
    }
    /// The key by which an actor was launched.
    pub(crate) fn key(&self, actor: ActorId) -> Option<u64> {
        let state = self.state();
        Some(state.records.get(&actor)?.key?.1)
    }
}

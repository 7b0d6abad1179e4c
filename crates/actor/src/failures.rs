//! Why actors failed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::id::ActorId;

/// How many failures are kept for each system.
const KEPT: usize = 64;

/// The failure of an actor, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The actor.
    pub actor: ActorId,
    /// The tag of the message that it failed to handle.
    pub tag: u8,
    /// What happened.
    pub reason: String,
}

/// The failures of the actors of one program, in all its systems. A system is known by the address of its control words.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Vec<Log>>);

#[derive(Debug)]
struct Log {
    system: u64,
    count: u64,
    last: VecDeque<Failure>,
}

impl FailureLog {
    /// Adds a failure.
    pub(crate) fn add(&self, system: u64, actor: ActorId, tag: u8, reason: &str) {
        let failure = Failure {
            actor,
            tag,
            reason: reason.to_owned(),
        };
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let log = match logs.iter_mut().position(|log| log.system == system) {
            Some(at) => &mut logs[at],
            None => {
                logs.push(Log {
                    system,
                    count: 0,
                    last: VecDeque::new(),
                });
                logs.last_mut().expect("it was just added")
            }
        };
        log.count += 1;
        log.last.push_back(failure);
        if log.last.len() > KEPT {
            log.last.pop_front();
        }
    }
    /// The failures in a system, and how many there were.
    pub(crate) fn of(&self, system: u64) -> (Vec<Failure>, u64) {
        let logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.iter().find(|log| log.system == system);
        log.map_or((Vec::new(), 0), |log| {
            (log.last.iter().cloned().collect(), log.count)
        })
    }
    /// Forgets a system that ends, whose address may become that of another.
    pub(crate) fn forget(&self, system: u64) {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logs.retain(|log| log.system != system);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_failures_of_each_system_are_kept_and_all_are_counted() {
        let log = FailureLog::default();
        for i in 0..100 {
            log.add(1, ActorId::from_bits(i), 3, "trap");
        }
        log.add(2, ActorId::NONE, 4, "fuel");
        let (kept, count) = log.of(1);
        assert_eq!((kept.len(), count), (KEPT, 100));
        assert_eq!(kept[KEPT - 1].actor, ActorId::from_bits(99));
        assert_eq!(log.of(2).1, 1);
        log.forget(1);
        assert_eq!(log.of(1), (Vec::new(), 0));
    }
}

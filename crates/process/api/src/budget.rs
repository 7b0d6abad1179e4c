//! What all processes of a host may take together.

use std::sync::atomic::{AtomicU64, Ordering};

/// An amount that is taken and given back.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
}

impl Budget {
    /// A budget of this amount; `u64::MAX` is no limit.
    pub fn new(amount: u64) -> Self {
        Self {
            left: AtomicU64::new(amount),
        }
    }

    /// The amount that is left.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes up to `amount`, and returns how much was taken.
    #[must_use]
    pub fn take_up_to(&self, amount: u64) -> u64 {
        // The amount orders nothing else.
        let mut left = self.left.load(Ordering::Relaxed);
        loop {
            let taken = amount.min(left);
            let next = left - taken;
            let change =
                self.left
                    .compare_exchange_weak(left, next, Ordering::Relaxed, Ordering::Relaxed);
            match change {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Takes all of `amount`, or nothing.
    #[must_use]
    pub fn take(&self, amount: u64) -> bool {
        let less = |left: u64| left.checked_sub(amount);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }

    /// Gives back what was taken.
    pub fn give(&self, amount: u64) {
        self.left.fetch_add(amount, Ordering::Relaxed);
    }
}

/// The budgets of a host.
#[derive(Debug)]
pub struct HostBudgets {
    /// Bytes of linear memory and tables: on the CPU engine those of the processes that run, on a GPU those of all places,
    /// which a host reserves for its modules.
    pub memory: Budget,
    /// Bytes of captured output, until the host's owner gives them back.
    pub output: Budget,
    /// Sockets that processes of the CPU engine open or accept. On a GPU there are places for all descriptors.
    pub sockets: Budget,
}

impl HostBudgets {
    /// How many of `bytes` bytes of captured output fit, which are taken. Without budgets all do.
    #[must_use]
    pub fn take_output(budgets: Option<&Self>, bytes: usize) -> usize {
        match budgets {
            None => bytes,
            Some(budgets) => budgets.output.take_up_to(bytes as u64) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = Budget::new(10);
        assert!(budget.take(7) && !budget.take(4));
        assert_eq!(budget.take_up_to(4), 3);
        assert_eq!(budget.take_up_to(4), 0);
        budget.give(5);
        assert_eq!(budget.left(), 5);
        assert!(budget.take(5) && !budget.take(1));
    }
}

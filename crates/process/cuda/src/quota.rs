//! What a host may take of the device's memory, if its owner limits that.

use std::sync::Arc;

use everwarp_process::{HostBudgets, LoadConfig};

/// The memory of a host within its budgets. A process's memory is reserved with its place, so places count, whether
/// processes are in them or not. What was taken is given back with this value.
#[derive(Debug, Default)]
pub(crate) struct MemoryQuota {
    budgets: Option<Arc<HostBudgets>>,
    taken: u64,
}

impl MemoryQuota {
    pub(crate) fn new(budgets: Option<&Arc<HostBudgets>>) -> Self {
        Self {
            budgets: budgets.cloned(),
            taken: 0,
        }
    }

    /// The bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        match &self.budgets {
            None => u64::MAX,
            Some(budgets) => budgets.memory.left(),
        }
    }

    /// A configuration of `modules` modules whose own budget, if it sets one, is not more than is left.
    pub(crate) fn limit(&self, config: &LoadConfig, modules: usize) -> LoadConfig {
        let each = self.left() / (modules.max(1) as u64);
        LoadConfig {
            memory_budget: config.memory_budget.map(|wanted| wanted.min(each)),
            ..config.clone()
        }
    }

    /// Counts the bytes of places that were made. They come in groups, so they may take a little more than was left.
    pub(crate) fn count(&mut self, bytes: u64) {
        if let Some(budgets) = &self.budgets {
            self.taken += budgets.memory.take_up_to(bytes);
        }
    }
}

impl Drop for MemoryQuota {
    fn drop(&mut self) {
        if let Some(budgets) = &self.budgets {
            budgets.memory.give(self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everwarp_process::Budget;

    #[test]
    fn places_of_all_modules_count_until_the_host_ends() {
        let budgets = Arc::new(HostBudgets {
            memory: Budget::new(1000),
            output: Budget::new(0),
            sockets: Budget::new(0),
        });
        let config = |memory_budget| LoadConfig {
            memory_budget,
            ..LoadConfig::default()
        };
        let mut quota = MemoryQuota::new(Some(&budgets));
        assert_eq!(quota.limit(&config(Some(600)), 2).memory_budget, Some(500));
        assert_eq!(quota.limit(&config(Some(400)), 2).memory_budget, Some(400));
        // Without a budget of its own, a module gets a share of what the device has, which the host limits.
        assert_eq!(quota.limit(&config(None), 2).memory_budget, None);
        quota.count(700);
        assert_eq!(quota.left(), 300);
        quota.count(310);
        assert_eq!(quota.left(), 0);
        drop(quota);
        assert_eq!(budgets.memory.left(), 1000);
    }

    #[test]
    fn without_budgets_nothing_is_limited() {
        let mut quota = MemoryQuota::default();
        quota.count(1 << 60);
        assert_eq!(quota.left(), u64::MAX);
    }
}

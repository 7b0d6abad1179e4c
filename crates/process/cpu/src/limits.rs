//! The memory that one process may have.

use std::sync::Arc;

use everwarp_process::HostBudgets;
use wasmtime::ResourceLimiter;

/// Bytes that an element of a table counts for.
pub(crate) const ELEMENT_BYTES: u64 = 8;

/// Elements that the tables of a process may have together if its module has no memory limit and does not start with
/// more. Without this bound a process took 10 GB in 30 s.
pub(crate) const DEFAULT_TABLE_ELEMENTS: u64 = 10_000_000;

/// What a process may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBound {
    /// Bytes of linear memory and tables together.
    bytes: u64,
    /// Elements of all tables.
    elements: u64,
}

impl MemoryBound {
    /// A limit in bytes, or the default for a module whose tables start with `elements` elements: linear memory as the
    /// module declares it, and [`DEFAULT_TABLE_ELEMENTS`].
    pub(crate) fn new(limit: Option<u64>, elements: u64) -> Self {
        match limit {
            Some(bytes) => Self {
                bytes,
                elements: u64::MAX,
            },
            None => Self {
                bytes: u64::MAX,
                elements: elements.max(DEFAULT_TABLE_ELEMENTS),
            },
        }
    }
}

/// Counts the linear memory and the tables of one process together.
pub(crate) struct MemoryCounter {
    bound: MemoryBound,
    bytes: u64,
    elements: u64,
    /// Bytes and elements of the last request, in case that the machine cannot serve it.
    last: (u64, u64),
    /// What all processes of the host may have together.
    budgets: Option<Arc<HostBudgets>>,
}

impl Drop for MemoryCounter {
    fn drop(&mut self) {
        if let Some(budgets) = &self.budgets {
            budgets.memory.give(self.bytes);
        }
    }
}

impl MemoryCounter {
    pub(crate) fn new(bound: MemoryBound, budgets: Option<Arc<HostBudgets>>) -> Self {
        Self {
            bound,
            budgets,
            bytes: 0,
            elements: 0,
            last: (0, 0),
        }
    }

    /// Bytes that the process has now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn grow(&mut self, bytes: u64, elements: u64, within_maximum: bool) -> bool {
        self.last = (0, 0);
        let total = self.bytes.saturating_add(bytes);
        let total_elements = self.elements.saturating_add(elements);
        let fits = total <= self.bound.bytes && total_elements <= self.bound.elements;
        let budget = self.budgets.as_ref().map(|budgets| &budgets.memory);
        if !fits || !within_maximum || budget.is_some_and(|budget| !budget.take(bytes)) {
            return false;
        }
        (self.bytes, self.elements) = (total, total_elements);
        self.last = (bytes, elements);
        true
    }

    fn take_back(&mut self) {
        let (bytes, elements) = std::mem::take(&mut self.last);
        self.bytes -= bytes;
        self.elements -= elements;
        if let Some(budgets) = &self.budgets {
            budgets.memory.give(bytes);
        }
    }
}

fn within(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_none_or(|m| desired <= m)
}

impl ResourceLimiter for MemoryCounter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow((desired - current) as u64, 0, within(desired, maximum)))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = (desired - current) as u64;
        let bytes = elements.saturating_mul(ELEMENT_BYTES);
        Ok(self.grow(bytes, elements, within(desired, maximum)))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }
}

//! The memory that one process may have.

use wasmtime::ResourceLimiter;

/// Bytes that an element of a table counts for.
pub(crate) const ELEMENT_BYTES: u64 = 8;

/// Counts linear memory and tables together.
pub(crate) struct Limits {
    limit: u64,
    used: u64,
    /// What the request before took, should the machine not be able to serve it.
    last: u64,
}

impl Limits {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(u64::MAX),
            used: 0,
            last: 0,
        }
    }

    /// Bytes that the process has now.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    fn grow(&mut self, more: u64, within_maximum: bool) -> bool {
        self.last = 0;
        let fits = self.used.checked_add(more).filter(|u| *u <= self.limit);
        match fits {
            Some(used) if within_maximum => {
                (self.used, self.last) = (used, more);
                true
            }
            _ => false,
        }
    }

    fn take_back(&mut self) {
        self.used -= std::mem::take(&mut self.last);
    }
}

fn within(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_none_or(|m| desired <= m)
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow((desired - current) as u64, within(desired, maximum)))
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
        let more = ((desired - current) as u64).saturating_mul(ELEMENT_BYTES);
        Ok(self.grow(more, within(desired, maximum)))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }
}

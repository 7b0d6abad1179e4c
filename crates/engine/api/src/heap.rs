//! The heap of an engine, from which tasks allocate: what it is made with, and what the host learns of it.

use std::fmt;

use everwarp_contract::heap::{
    HEAP_ERROR_FOREIGN, HEAP_ERROR_MIDDLE, HEAP_ERROR_OVERFLOW, HEAP_ERROR_TWICE,
    HEAP_GROWTH_PAGES, HEAP_OWNERS, HEAP_PAGE_SHIFT,
};
use everwarp_contract::{DevHeapError, HeapOwner};

use crate::EngineError;

/// How much a heap knows of its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeapMode {
    /// Where they are. Frees of what is no block are counted and change nothing.
    #[default]
    Plain,
    /// Whose they are as well: what each owner holds is counted, may be limited, and can be taken back at once.
    /// Takes an eighth more memory, for tags.
    Owned,
    /// As [`Owned`](Self::Owned), and blocks have guards behind their ends: what is freed wrongly or written
    /// behind an end is reported with its owner.
    Checked,
}

/// What a heap is made with. By default there is none, and nothing is paid for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapConfig {
    /// Bytes at the start, rounded up to 16 MiB; 0: no heap.
    pub bytes: u64,
    /// Bytes that it may grow to; its tables are as large as that asks for, a hundredth of it.
    pub limit: u64,
    /// What it knows of its blocks.
    pub mode: HeapMode,
    /// Owners that there can be, 0 to this less one; those of instances are 1 to 256.
    pub owners: u32,
}

/// Heaps are as large as a multiple of this.
pub const HEAP_STEP: u64 = (HEAP_GROWTH_PAGES as u64) << HEAP_PAGE_SHIFT;

impl HeapConfig {
    /// A heap of this size that does not grow.
    pub const fn of(bytes: u64) -> Self {
        Self {
            bytes,
            limit: bytes,
            mode: HeapMode::Plain,
            owners: 257,
        }
    }
    /// Lets it grow to this size.
    pub const fn up_to(self, limit: u64) -> Self {
        Self { limit, ..self }
    }
    /// Sets what it knows of its blocks.
    pub const fn mode(self, mode: HeapMode) -> Self {
        Self { mode, ..self }
    }
    /// The same with sizes that are whole steps.
    ///
    /// # Errors
    /// [`EngineError::Pool`] names what cannot be.
    pub fn rounded(self) -> Result<Self, EngineError> {
        let wrong = |what, rule, value| Err(EngineError::Pool { what, rule, value });
        if self.limit < self.bytes || self.limit > 1 << 40 {
            return wrong("heap.limit", "from heap.bytes up to 1 TiB", self.limit);
        }
        if self.mode != HeapMode::Plain && !(257..=HEAP_OWNERS).contains(&self.owners) {
            return wrong("heap.owners", "257 to 32,768", self.owners.into());
        }
        Ok(Self {
            bytes: self.bytes.next_multiple_of(HEAP_STEP),
            limit: self.limit.next_multiple_of(HEAP_STEP),
            ..self
        })
    }
}

/// What a heap holds. Exact while no task allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Its size now.
    pub bytes: u64,
    /// The size that it may grow to.
    pub limit: u64,
    /// Bytes of blocks in use, as the heap rounds them.
    pub in_use: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Frees of what was not allocated: twice, or never.
    pub wrong_frees: u64,
    /// Errors that a checked heap found, wrong frees among them.
    pub errors: u64,
}

/// What an owner holds. Exact while none of its tasks allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapOwnerStats {
    /// Bytes of its blocks, as the heap rounds them.
    pub in_use: u64,
    /// The most that it may hold, if it is limited.
    pub quota: Option<u64>,
    /// Its requests that were refused.
    pub refused: u64,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapErrorKind {
    /// A block was freed that had been freed before.
    FreedTwice,
    /// An address was freed at which the heap has no block.
    Foreign,
    /// An address inside a block was freed.
    MiddleOfBlock,
    /// Something wrote behind the end of a block.
    Overflow,
}

/// An error that a checked heap found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapError {
    /// What is wrong.
    pub kind: HeapErrorKind,
    /// What was freed, or the block whose end was overwritten.
    pub address: u64,
    /// The block's size, as the heap rounds it; 0 where there is none.
    pub bytes: u64,
    /// The block's owner; of a block that was freed before, its last one.
    pub owner: HeapOwner,
    /// Who freed; the owner where a sweep found it.
    pub by: HeapOwner,
}

impl HeapError {
    /// Reads a device's record; none when it is not complete.
    pub fn from_device(record: &DevHeapError) -> Option<Self> {
        let kind = match record.kind {
            HEAP_ERROR_TWICE => HeapErrorKind::FreedTwice,
            HEAP_ERROR_FOREIGN => HeapErrorKind::Foreign,
            HEAP_ERROR_MIDDLE => HeapErrorKind::MiddleOfBlock,
            HEAP_ERROR_OVERFLOW => HeapErrorKind::Overflow,
            _ => return None,
        };
        Some(Self {
            kind,
            address: record.address,
            bytes: record.bytes,
            owner: HeapOwner(record.owner),
            by: HeapOwner(record.by),
        })
    }
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            bytes,
            owner,
            by,
            ..
        } = *self;
        match self.kind {
            HeapErrorKind::FreedTwice => write!(
                f,
                "owner {by} freed the block at {address:#x} ({bytes} bytes), which owner {owner} held last and which had \
                 been freed before"
            ),
            HeapErrorKind::Foreign => write!(
                f,
                "owner {by} freed {address:#x}, where the heap has no block"
            ),
            HeapErrorKind::MiddleOfBlock => write!(
                f,
                "owner {by} freed {address:#x}, which lies inside a block of {bytes} bytes of owner {owner}"
            ),
            HeapErrorKind::Overflow => write!(
                f,
                "something wrote behind the end of the block at {address:#x} ({bytes} bytes) of owner {owner}"
            ),
        }
    }
}
impl std::error::Error for HeapError {}

/// What the host may do with an engine's heap while the engine runs.
pub trait HeapControl: Send + Sync {
    /// What it was made with.
    fn config(&self) -> HeapConfig;
    /// What it holds.
    fn stats(&self) -> Result<HeapStats, EngineError>;
    /// What an owner holds; `owner` is one that there is, and the heap has owners.
    fn owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, EngineError>;
    /// Limits an owner; likewise.
    fn set_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), EngineError>;
    /// The first errors that were found, oldest first.
    fn errors(&self) -> Result<Vec<HeapError>, EngineError>;
    /// Makes it larger by at least so many bytes; its size then.
    fn grow(&self, bytes: u64) -> Result<u64, EngineError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_and_checked() {
        let heap = HeapConfig::of(1).up_to((1 << 24) + 1).rounded();
        let heap = heap.expect("it can be");
        assert_eq!((heap.bytes, heap.limit), (1 << 24, 1 << 25));
        let none = HeapConfig::default().rounded().expect("no heap");
        assert_eq!(none.bytes, 0);
        for wrong in [
            HeapConfig::of(100).up_to(99),
            HeapConfig::of(1).up_to(1 << 41),
            HeapConfig {
                owners: 256,
                ..HeapConfig::of(1).mode(HeapMode::Owned)
            },
        ] {
            assert!(matches!(wrong.rounded(), Err(EngineError::Pool { .. })));
        }
    }

    #[test]
    fn errors_name_the_owner_and_the_place() {
        let mut record = DevHeapError {
            address: 0x1234,
            bytes: 48,
            kind: 0,
            owner: 7,
            by: 8,
            hole: 0,
        };
        assert_eq!(HeapError::from_device(&record), None);
        for (kind, parts) in [
            (
                HEAP_ERROR_TWICE,
                &["owner 8", "owner 7", "before", "48"][..],
            ),
            (HEAP_ERROR_FOREIGN, &["owner 8", "no block"]),
            (HEAP_ERROR_MIDDLE, &["owner 8", "inside", "owner 7", "48"]),
            (HEAP_ERROR_OVERFLOW, &["owner 7", "behind the end", "48"]),
        ] {
            record.kind = kind;
            let text = HeapError::from_device(&record)
                .expect("it is complete")
                .to_string();
            for part in parts.iter().chain(&["0x1234"]) {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}

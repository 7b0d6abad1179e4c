//! The heap of an engine, from which tasks allocate: its configuration, its counters and its errors.

use std::fmt;

use everwarp_contract::heap::{
    HEAP_ERROR_FOREIGN, HEAP_ERROR_MIDDLE, HEAP_ERROR_OVERFLOW, HEAP_ERROR_TWICE,
    HEAP_GROWTH_PAGES, HEAP_OWNERS, HEAP_PAGE_SHIFT,
};
use everwarp_contract::{DevHeapError, HeapOwner};

use crate::EngineError;

/// How much a heap records about its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeapMode {
    /// Only where they are. Frees of addresses without a block are counted and change nothing.
    #[default]
    Plain,
    /// Also the owner of each: the bytes of an owner are counted, may be limited, and can be released at once. Takes an
    /// eighth more memory, for tags.
    Owned,
    /// As [`Owned`](Self::Owned), and blocks have guards after their ends: wrong frees and writes past an end are reported
    /// with the owner.
    Checked,
}

/// The configuration of a heap. By default an engine has no heap, and it costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapConfig {
    /// Bytes at the start, rounded up to 16 MiB; 0: no heap.
    pub bytes: u64,
    /// Bytes that it may grow to; its tables are made for that size and take a hundredth of it.
    pub limit: u64,
    /// How much it records about its blocks.
    pub mode: HeapMode,
    /// The number of owners, which count from 0; those of instances are 1 to 256.
    pub owners: u32,
}

/// The size of a heap is a multiple of this.
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
    /// Sets how much it records about its blocks.
    pub const fn mode(self, mode: HeapMode) -> Self {
        Self { mode, ..self }
    }
    /// The same with sizes that are whole steps.
    ///
    /// # Errors
    /// [`EngineError::Pool`] names the size that cannot work.
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

/// The state of a heap. Exact while no task allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Its current size.
    pub bytes: u64,
    /// The size that it may grow to.
    pub limit: u64,
    /// Bytes of blocks in use, as the heap rounds them.
    pub in_use: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Frees of addresses that were not allocated, or freed before.
    pub wrong_frees: u64,
    /// Errors that a checked heap found, including wrong frees.
    pub errors: u64,
}

/// The account of an owner. Exact while none of its tasks allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapOwnerStats {
    /// Bytes of the owner's blocks, as the heap rounds them.
    pub in_use: u64,
    /// The most bytes that the owner may hold, if it is limited.
    pub quota: Option<u64>,
    /// Refused requests of the owner.
    pub refused: u64,
}

/// The kinds of errors that a checked heap finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapErrorKind {
    /// A block was freed that had been freed before.
    FreedTwice,
    /// An address without a block was freed.
    Foreign,
    /// An address inside a block was freed.
    MiddleOfBlock,
    /// Something wrote past the end of a block.
    Overflow,
}

/// An error that a checked heap found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapError {
    /// The kind of the error.
    pub kind: HeapErrorKind,
    /// The address that was freed, or the block with the overwritten end.
    pub address: u64,
    /// The block's size, as the heap rounds it; 0 if there is no block.
    pub bytes: u64,
    /// The block's owner; of a freed block, its last owner.
    pub owner: HeapOwner,
    /// The owner whose task freed; the block's owner if a sweep found the error.
    pub by: HeapOwner,
}

impl HeapError {
    /// Decodes a device's record; `None` if it is not complete.
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
                "owner {by} freed the block at {address:#x} ({bytes} bytes), last held by owner {owner} and already \
                 freed before"
            ),
            HeapErrorKind::Foreign => write!(
                f,
                "owner {by} freed {address:#x}, but the heap has no block there"
            ),
            HeapErrorKind::MiddleOfBlock => write!(
                f,
                "owner {by} freed {address:#x}, which is inside a block of {bytes} bytes of owner {owner}"
            ),
            HeapErrorKind::Overflow => write!(
                f,
                "something wrote past the end of the block at {address:#x} ({bytes} bytes) of owner {owner}"
            ),
        }
    }
}
impl std::error::Error for HeapError {}

/// The host's access to the heap of a running engine.
pub trait HeapControl: Send + Sync {
    /// The heap's configuration.
    fn config(&self) -> HeapConfig;
    /// The heap's state.
    fn stats(&self) -> Result<HeapStats, EngineError>;
    /// The account of an owner. The heap must have owners, and this one among them.
    fn owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, EngineError>;
    /// Limits an owner, with the same conditions.
    fn set_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), EngineError>;
    /// The first errors that the heap found, oldest first.
    fn errors(&self) -> Result<Vec<HeapError>, EngineError>;
    /// Makes the heap larger by at least `bytes`. Returns its new size.
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
    fn errors_name_the_owner_and_the_address() {
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
            (HEAP_ERROR_OVERFLOW, &["owner 7", "past the end", "48"]),
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

//! A place as one process has it.

/// A place of a module, and which of the place's processes is meant: a place is used again after its process has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceLease {
    /// The place's number among those of its module.
    pub(crate) place: u32,
    /// Which of the place's processes, from 1.
    pub(crate) generation: u32,
}

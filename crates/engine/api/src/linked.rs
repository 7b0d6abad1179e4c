//! Code that is compiled elsewhere and linked into an image: WebAssembly modules, as PTX.

use std::sync::Arc;

/// What is linked into an image besides its programs. Without any, an image is compiled as one whole
/// program, and its code is the same as if this did not exist.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// The parts, in the order in which they were added. A later image may append to the list, never
    /// reorder it.
    pub parts: Vec<LinkedPart>,
    /// CUDA C++ that stands before the programs' sources: it declares what they call in the parts.
    pub declarations: String,
    /// Headers that the programs' sources include: the name in `#include "…"`, and the text.
    pub headers: &'static [(&'static str, &'static str)],
    /// The stack that each thread of the device gets, in bytes. The driver reserves that much device memory
    /// for every thread that the device can hold, not only for those of the engine.
    pub stack_bytes: u32,
    /// Slots of the host-call ring, a power of two; 0 if nothing that is linked calls the host. The ring is
    /// made with the engine; what a later image says here changes nothing.
    pub host_call_slots: u32,
}

/// One file of PTX.
#[derive(Clone, Debug)]
pub struct LinkedPart {
    /// What errors call it.
    pub name: Arc<str>,
    /// The text, from its `.version` line on.
    pub ptx: Arc<str>,
}

impl Linked {
    /// Whether there is nothing to link.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

//! The messages and kinds that the modules of a program name.

use std::collections::BTreeMap;

use crate::interface::Signature;

/// A message of a program.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) tag: u8,
    /// The types of its fields and of its reply.
    pub(crate) signature: Signature,
}

/// The names of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) messages: BTreeMap<String, Known>,
    pub(crate) kinds: Vec<String>,
}

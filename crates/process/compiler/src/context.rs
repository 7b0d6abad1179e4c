//! What the emitters of a module share: the facts, in one place.

use std::collections::BTreeSet;

use crate::facts::deep::Deep;
use crate::facts::layout::InstanceLayout;
use crate::facts::module::Module;
use crate::facts::referenced::Referenced;
use crate::facts::suspending::Suspending;
use crate::facts::tails::Tails;

/// What all functions of a module need for their translation.
#[derive(Clone, Copy)]
pub(crate) struct Context<'m> {
    pub(crate) module: &'m Module,
    pub(crate) layout: &'m InstanceLayout,
    pub(crate) referenced: &'m Referenced,
    pub(crate) tails: &'m Tails,
    /// Given if the module can be suspended.
    pub(crate) suspending: Option<&'m Suspending>,
    /// Given if calls may nest deeper than the device's stack.
    pub(crate) deep: Option<&'m Deep>,
    /// The functions to compile, if not all are.
    pub(crate) only: Option<&'m BTreeSet<u32>>,
    /// Branches may have lists of targets, which are constants of the kernel.
    pub(crate) tables: bool,
    pub(crate) prefix: &'m str,
}

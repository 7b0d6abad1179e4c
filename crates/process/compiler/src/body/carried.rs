//! The global that functions carry, where it must be found by others: see the module `carried` of the crate.

use super::Body;
use crate::carried;

impl Body<'_> {
    /// Text that puts the carried global where others find it.
    pub(super) fn keep_carried(&self) -> String {
        carried::keep(self.layout, self.module)
    }

    /// Text that takes it from there.
    pub(super) fn find_carried(&self) -> String {
        carried::find(self.layout, self.module)
    }
}

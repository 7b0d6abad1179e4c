//! The global that functions carry, where it must be found by others: see the module `carried` of the crate.

use super::{Body, line};

impl Body<'_> {
    /// Text that puts the carried global where others find it.
    pub(super) fn keep_carried(&self) -> String {
        let mut text = String::new();
        if let Some(at) = self.layout.carried(self.module) {
            line!(text, "  st.global.b32 [%inst+{at}], %carry;");
        }
        text
    }

    /// Text that takes it from there.
    pub(super) fn find_carried(&self) -> String {
        let mut text = String::new();
        if let Some(at) = self.layout.carried(self.module) {
            line!(text, "  ld.global.b32 %carry, [%inst+{at}];");
        }
        text
    }
}

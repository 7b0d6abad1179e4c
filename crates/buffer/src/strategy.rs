//! Where the memory of a buffer is.

use std::fmt;

/// Where a buffer's two sides are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Ordinary memory of the host, and memory of the device.
    Private,
    /// Page-locked memory of the host, from which a GPU copies without a detour, and memory of the device.
    #[default]
    Pinned,
    /// One memory for both sides: nothing is ever copied.
    Mapped,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Private, Self::Pinned, Self::Mapped];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Pinned => "pinned",
            Self::Mapped => "mapped",
        }
    }
    /// The strategy with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

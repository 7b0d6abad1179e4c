//! The key of an entry.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::unit::{Arch, Unit};

/// The hash of everything that decides what a compilation yields, save NVRTC's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub(super) [u8; 32]);

impl fmt::Display for Key {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The key of a unit for an architecture: SHA-256 of this crate's version, the unit's name (line information
/// contains it), source, headers, and every option that is passed. Each piece is preceded by its length, so
/// that no text can pass from one to the next unnoticed.
pub fn key(unit: &Unit<'_>, arch: Arch) -> Key {
    let mut hash = Sha256::new();
    let mut piece = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    piece(env!("CARGO_PKG_VERSION"));
    piece(unit.name);
    piece(unit.source);
    piece(&unit.headers.len().to_string());
    for (name, text) in unit.headers {
        piece(name);
        piece(text);
    }
    for option in unit.all_options(arch) {
        piece(&option);
    }
    Key(hash.finalize().into())
}

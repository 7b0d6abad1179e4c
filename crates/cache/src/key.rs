//! Keys: the hash of everything that goes into an entry.

use std::hash::Hasher;

use sha2::{Digest, Sha256};

/// A key in the making. Parts are separated by their lengths, so that no two lists of parts have the same key.
#[derive(Debug)]
pub struct Key(Sha256);

impl Key {
    /// The beginning of a key. It depends on this crate's version, which is that of all of everwarp.
    pub fn new() -> Self {
        Self(Sha256::new()).with(env!("CARGO_PKG_VERSION"))
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// The key as text.
    pub fn text(self) -> String {
        let hash = self.0.finalize();
        hash.iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

/// So that a value that can be hashed, and no more, becomes part of a key.
impl Hasher for Key {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finalize();
        u64::from_le_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_every_part_and_where_it_ends() {
        let of = |parts: &[&str]| {
            let key = parts.iter().fold(Key::new(), |key, part| key.with(part));
            key.text()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        for other in [&["ab"][..], &["a", "bc"], &["c", "ab"], &["ab", "d"]] {
            assert_ne!(of(&["ab", "c"]), of(other));
        }
        assert_eq!(of(&[]).len(), 64);
    }
}

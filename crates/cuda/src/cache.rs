//! Compiled images on disk, by the hash of everything that goes into them.
//!
//! The key does not contain NVRTC's version, so that a cached image runs where NVRTC is not installed.
//! An entry is its SHA-256 followed by the machine code; one that does not check out is made anew.

use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::image::Source;
use crate::nvrtc::{Nvrtc, NvrtcError, options};

/// A folder of compiled images; without one, every image is compiled.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's cache: `EVERWARP_CACHE_DIR`, or the system's folder for caches.
    pub fn user() -> Self {
        let folder = std::env::var_os("EVERWARP_CACHE_DIR")
            .map(PathBuf::from)
            .or_else(|| {
                directories::ProjectDirs::from("", "", "everwarp")
                    .map(|d| d.cache_dir().join("images"))
            });
        Self { folder }
    }
    /// A cache in this folder, which is created when first needed.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: Some(folder.to_owned()),
        }
    }
    /// Where entries lie.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The machine code of a source: from the cache, or compiled and then kept. A folder that cannot be
    /// written is no error: the image is compiled each time.
    pub fn compile(&self, source: &Source, arch: u32) -> Result<Vec<u8>, NvrtcError> {
        let entry = self
            .folder
            .as_ref()
            .map(|f| f.join(format!("{}.cubin", key(source, arch))));
        if let Some(image) = entry.as_deref().and_then(read) {
            return Ok(image);
        }
        let image = Nvrtc::open()?
            .compile(&source.unit, &source.headers, arch)?
            .image;
        if let Some(entry) = entry {
            let _ = write(&entry, &image);
        }
        Ok(image)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The hash of the source, its headers, the options and this crate's version.
pub fn key(source: &Source, arch: u32) -> String {
    let mut hash = Sha256::new();
    let mut part = |s: &str| {
        hash.update((s.len() as u64).to_le_bytes());
        hash.update(s);
    };
    part(env!("CARGO_PKG_VERSION"));
    part(&source.unit);
    for (name, text) in &source.headers {
        part(name);
        part(text);
    }
    for option in options(arch) {
        part(&option);
    }
    hex(&hash.finalize())
}

fn read(entry: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(entry).ok()?;
    let (sum, image) = bytes.split_at_checked(32)?;
    (Sha256::digest(image).as_slice() == sum).then(|| image.to_owned())
}

/// Atomic: a reader sees the whole entry or none.
fn write(entry: &Path, image: &[u8]) -> std::io::Result<()> {
    let folder = entry.parent().expect("an entry lies in the cache's folder");
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&Sha256::digest(image))?;
    file.write_all(image)?;
    file.persist(entry)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_entries_are_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let entry = folder.path().join("x.cubin");
        write(&entry, b"machine code").expect("the folder is writable");
        assert_eq!(read(&entry).as_deref(), Some(&b"machine code"[..]));
        let mut bytes = std::fs::read(&entry).expect("the entry was written");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        std::fs::write(&entry, bytes).expect("the folder is writable");
        assert_eq!(read(&entry), None);
        std::fs::write(&entry, b"short").expect("the folder is writable");
        assert_eq!(read(&entry), None);
    }

    #[test]
    fn the_key_depends_on_everything_that_is_compiled() {
        let source = |unit: &str, header: &str| Source {
            unit: unit.into(),
            headers: vec![("h".into(), header.into())],
        };
        let base = key(&source("a", "b"), 90);
        assert_ne!(base, key(&source("a", "c"), 90));
        assert_ne!(base, key(&source("b", "b"), 90));
        assert_ne!(base, key(&source("a", "b"), 80));
        assert_eq!(base, key(&source("a", "b"), 90));
    }
}

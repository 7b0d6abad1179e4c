//! Compiled images on disk, by the hash of everything that goes into them.
//!
//! The key does not contain NVRTC's version, so that a cached image runs where NVRTC is not installed.

use std::path::Path;

use everwarp_cache::{Kind, NotKept};
use everwarp_engine::{EngineError, Linked};
use sha2::{Digest, Sha256};

use crate::image::Source;
use crate::nvrtc::{Nvrtc, NvrtcError, options};

/// Machine code from the cache or from the compiler.
#[derive(Debug)]
pub struct Compiled {
    /// The machine code, as the driver loads it.
    pub image: Vec<u8>,
    /// Why it was not kept, if it should have been.
    pub not_kept: Option<NotKept>,
}

impl Compiled {
    /// The machine code; warns if it was not kept.
    pub fn into_image(self) -> Vec<u8> {
        if let Some(reason) = &self.not_kept {
            reason.warn();
        }
        self.image
    }
}

/// The images in a cache; without a folder, every image is compiled.
#[derive(Clone, Debug)]
pub struct Cache(everwarp_cache::Cache);

impl Cache {
    /// The user's cache ([`everwarp_cache::Cache::user`]).
    pub fn user() -> Self {
        Self(everwarp_cache::Cache::user())
    }
    /// A cache in this folder, which is created when first needed.
    pub fn at(folder: &Path) -> Self {
        Self(everwarp_cache::Cache::at(folder))
    }
    /// The folder of the entries.
    pub fn folder(&self) -> Option<&Path> {
        self.0.folder()
    }

    /// The cache that GPU engines and the CPU engine share.
    pub(crate) fn inner(&self) -> &everwarp_cache::Cache {
        &self.0
    }

    /// The machine code of a source: from the cache, or compiled and then kept. A folder that cannot be
    /// written is no error; the result says so.
    ///
    /// # Errors
    /// There is no NVRTC, or the source does not compile.
    pub fn compile(&self, source: &Source, arch: u32) -> Result<Compiled, NvrtcError> {
        self.get(&key(source, arch), &format!("sm_{arch}"), || {
            let cubin = Nvrtc::open()?.compile_source(source, arch)?;
            Ok(cubin.image)
        })
    }

    /// The machine code of a relocatable source linked with other parts: `link` turns the source's own machine
    /// code into the whole. Both steps are cached, so that loading another module assembles only that module.
    ///
    /// # Errors
    /// There is no NVRTC, the source does not compile, or `link` fails.
    pub fn linked(
        &self,
        source: &Source,
        linked: &Linked,
        arch: u32,
        link: impl FnOnce(&[u8]) -> Result<Vec<u8>, EngineError>,
    ) -> Result<Compiled, EngineError> {
        let key = linked_key(source, linked, arch);
        self.get(&key, &label(linked, arch), || {
            let unit = self.compile(source, arch);
            let unit = unit.map_err(|e| EngineError::Compile(Box::new(e)))?;
            link(&unit.into_image())
        })
    }

    /// Whether there is an entry with this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.read(Kind::Image, key).is_some()
    }

    /// The entry of a key; without one, `make` makes it and it is kept under a label.
    fn get<E>(
        &self,
        key: &str,
        label: &str,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Compiled, E> {
        if let Some(image) = self.0.read(Kind::Image, key) {
            let not_kept = None;
            return Ok(Compiled { image, not_kept });
        }
        let image = make()?;
        let not_kept = self.0.write(Kind::Image, key, label, &image).err();
        Ok(Compiled { image, not_kept })
    }
}

/// What an image with these parts is called in a list.
fn label(linked: &Linked, arch: u32) -> String {
    let names: Vec<_> = linked.parts.iter().map(|part| &*part.name).collect();
    format!("sm_{arch}: {}", names.join(", "))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
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
    for option in options(arch, source.relocatable) {
        part(&option);
    }
    hex(&hash.finalize())
}

/// The hash of the source's key and all that is linked to it.
pub(crate) fn linked_key(source: &Source, linked: &Linked, arch: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(key(source, arch));
    for part in &linked.parts {
        hash.update((part.ptx.len() as u64).to_le_bytes());
        hash.update(part.ptx.as_bytes());
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use everwarp_engine::LinkedPart;

    use super::*;

    #[test]
    fn an_image_is_made_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        let make = || Ok::<_, ()>(b"machine code".to_vec());
        let made = cache.get("k", "an image", make).expect("it is made");
        assert!(made.not_kept.is_none());
        let again = || Err("it was made although it is there");
        let found = cache.get("k", "an image", again);
        assert_eq!(found.expect("it is there").image, b"machine code");
    }

    #[test]
    fn key_depends_on_everything_that_is_compiled() {
        let source = |unit: &str, header: &str| Source {
            unit: unit.into(),
            headers: vec![("h".into(), header.into())],
            relocatable: false,
        };
        let base = key(&source("a", "b"), 90);
        assert_ne!(base, key(&source("a", "c"), 90));
        assert_ne!(base, key(&source("b", "b"), 90));
        assert_ne!(base, key(&source("a", "b"), 80));
        assert_eq!(base, key(&source("a", "b"), 90));
    }

    #[test]
    fn the_key_of_a_linked_image_depends_on_each_part() {
        let source = Source {
            unit: "a".into(),
            headers: Vec::new(),
            relocatable: true,
        };
        let of = |parts: &[&str]| {
            let part = |ptx: &&str| LinkedPart {
                name: "p".into(),
                ptx: (*ptx).into(),
            };
            let parts = parts.iter().map(part).collect();
            let linked = Linked {
                parts,
                ..Linked::default()
            };
            linked_key(&source, &linked, 90)
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        for other in [&["ab"][..], &["a", "bc"], &["c", "ab"], &["ab", "d"]] {
            assert_ne!(of(&["ab", "c"]), of(other));
        }
    }
}

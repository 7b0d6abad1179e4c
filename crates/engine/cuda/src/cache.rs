//! Compiled images on disk, by the hash of everything that goes into them.
//!
//! The key does not contain NVRTC's version, so that a cached image runs where NVRTC is not installed.
//! An entry is its SHA-256 followed by the machine code; one that does not check out is made anew.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use everwarp_engine::{EngineError, Linked};
use sha2::{Digest, Sha256};

use crate::image::Source;
use crate::nvrtc::{Nvrtc, NvrtcError, options};

/// Images that are kept. A service that loads one module after the other makes a new image for each.
const ENTRIES_MOST: usize = 256;

/// Why a compiled image could not be kept. No reason not to run it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the compiled image could not be kept in {folder}, so it will be compiled again each time: {source}; make the \
     folder writable, or set EVERWARP_CACHE_DIR to another"
)]
pub struct NotKept {
    /// The cache's folder.
    pub folder: PathBuf,
    /// The system's word.
    pub source: std::io::Error,
}

impl NotKept {
    /// Says so on standard error, once in a process: every engine would say the same.
    pub fn warn(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| eprintln!("everwarp: warning: {self}"));
    }
}

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

/// A folder of compiled images; without one, every image is compiled.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's cache: `EVERWARP_CACHE_DIR`, or the system's folder for caches.
    pub fn user() -> Self {
        Self::of_setting(std::env::var_os("EVERWARP_CACHE_DIR"))
    }
    /// As [`user`](Self::user), with the variable's value. An empty one counts as not set: it would name
    /// the current folder, which is never meant.
    fn of_setting(value: Option<OsString>) -> Self {
        let set = value.filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = set.or_else(|| {
            directories::ProjectDirs::from("", "", "everwarp").map(|d| d.cache_dir().join("images"))
        });
        Self { folder }
    }
    /// A cache in this folder, which is created when first needed.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: Some(folder.to_owned()),
        }
    }
    /// The folder of the entries.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The machine code of a source: from the cache, or compiled and then kept. A folder that cannot be
    /// written is no error; the result says so.
    ///
    /// # Errors
    /// There is no NVRTC, or the source does not compile.
    pub fn compile(&self, source: &Source, arch: u32) -> Result<Compiled, NvrtcError> {
        self.get(&key(source, arch), || {
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
        self.get(&linked_key(source, linked, arch), || {
            let unit = self.compile(source, arch);
            let unit = unit.map_err(|e| EngineError::Compile(Box::new(e)))?;
            link(&unit.into_image())
        })
    }

    /// The entry of a key; without one, `make` makes it and it is kept.
    fn get<E>(&self, key: &str, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Compiled, E> {
        let Some(folder) = &self.folder else {
            let (image, not_kept) = (make()?, None);
            return Ok(Compiled { image, not_kept });
        };
        let entry = folder.join(format!("{key}.cubin"));
        if let Some(image) = read(&entry) {
            note_use(&entry);
            let not_kept = None;
            return Ok(Compiled { image, not_kept });
        }
        let image = make()?;
        let kept = write(&entry, &image);
        if kept.is_ok() {
            prune(folder, ENTRIES_MOST);
        }
        let not_kept = kept.err().map(|source| NotKept {
            folder: folder.clone(),
            source,
        });
        Ok(Compiled { image, not_kept })
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
    for option in options(arch, source.relocatable) {
        part(&option);
    }
    hex(&hash.finalize())
}

/// The hash of the source's key and all that is linked to it.
fn linked_key(source: &Source, linked: &Linked, arch: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(key(source, arch));
    for part in &linked.parts {
        hash.update((part.ptx.len() as u64).to_le_bytes());
        hash.update(part.ptx.as_bytes());
    }
    hex(&hash.finalize())
}

fn read(entry: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(entry).ok()?;
    let (sum, image) = bytes.split_at_checked(32)?;
    (Sha256::digest(image).as_slice() == sum).then(|| image.to_owned())
}

/// Notes that an entry was used, so that it is not removed soon.
fn note_use(entry: &Path) {
    // A folder that cannot be written is not pruned either.
    if let Ok(file) = std::fs::File::options().append(true).open(entry) {
        drop(file.set_modified(SystemTime::now()));
    }
}

/// Removes the entries that have not been used for longest, if there are more than `most`. A folder that cannot be read or
/// written stays as it is.
fn prune(folder: &Path, most: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let entries = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let is_image = path
            .extension()
            .is_some_and(|extension| extension == "cubin");
        let used = path.metadata().and_then(|found| found.modified());
        Some((used.ok()?, path)).filter(|_| is_image)
    });
    let mut entries: Vec<_> = entries.collect();
    if entries.len() <= most {
        return;
    }
    entries.sort();
    // Some more, so that not every new entry looks at all of them.
    let over = entries.len() - most + most / 4;
    for (_, path) in entries.iter().take(over) {
        drop(std::fs::remove_file(path));
    }
}

/// Atomic: a reader sees the whole entry or none.
fn write(entry: &Path, image: &[u8]) -> std::io::Result<()> {
    let folder = entry.parent().expect("an entry is in the cache's folder");
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&Sha256::digest(image))?;
    file.write_all(image)?;
    file.persist(entry)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everwarp_engine::LinkedPart;

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
    fn the_entries_that_were_used_last_are_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let entry = |number: u32| folder.path().join(format!("{number}.cubin"));
        for number in 0..12 {
            write(&entry(number), b"machine code").expect("the folder is writable");
            let file = std::fs::File::options().append(true).open(entry(number));
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(number.into());
            file.and_then(|file| file.set_modified(then))
                .expect("it is ours");
        }
        std::fs::write(folder.path().join("other"), b"").expect("the folder is writable");
        prune(folder.path(), 12);
        note_use(&entry(0));
        prune(folder.path(), 8);
        let kept: Vec<_> = (0..12).filter(|&number| entry(number).exists()).collect();
        assert_eq!(kept, [0, 7, 8, 9, 10, 11]);
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn truncated_entry_is_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        let make = |image: &'static [u8]| move || Ok::<_, ()>(image.to_owned());
        let entry = folder.path().join("k.cubin");
        cache.get("k", make(b"machine code")).expect("it is made");
        let whole = std::fs::read(&entry).expect("it was kept");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1
        );
        for len in 0..whole.len() {
            std::fs::write(&entry, &whole[..len]).expect("the folder is writable");
            let made = cache.get("k", make(b"made anew")).expect("it is made");
            assert_eq!(made.image, b"made anew", "{len} bytes of {}", whole.len());
            let found = cache.get("k", || Err("made although it is there"));
            assert_eq!(found.expect("it is there").image, b"made anew");
        }
    }

    #[test]
    fn image_that_cannot_be_cached_is_returned_with_a_warning() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Not even root can make a folder below a file.
        let file = folder.path().join("file");
        std::fs::write(&file, b"").expect("the folder is writable");
        let made = Cache::at(&file.join("images"))
            .get("k", || Ok::<_, ()>(b"machine code".to_vec()))
            .expect("it is made");
        assert_eq!(made.image, b"machine code");
        let text = made.not_kept.expect("it was not kept").to_string();
        assert!(text.contains("file/images"), "{text}");
        assert!(text.contains("EVERWARP_CACHE_DIR"), "{text}");

        let kept = Cache::at(&folder.path().join("new/images"))
            .get("k", || Ok::<_, ()>(Vec::new()))
            .expect("it is made");
        assert!(kept.not_kept.is_none());
    }

    #[test]
    fn an_empty_setting_is_none() {
        let empty = Cache::of_setting(Some(OsString::new()));
        assert_eq!(empty.folder(), Cache::of_setting(None).folder());
        assert!(empty.folder().is_none_or(Path::is_absolute));
        let set = Cache::of_setting(Some("/some/where".into()));
        assert_eq!(set.folder(), Some(Path::new("/some/where")));
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

//! The modules that clients have loaded lately, by content.
//!
//! What an engine has compiled lives with its module. A client that loads the same bytes under the same name gets the
//! same module, so that nothing is validated or compiled again.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::sync::Mutex;

use everwarp_engine::sync::lock;
use everwarp_process::{LoadError, Module};

/// How many modules are kept, and how many of their bytes.
const MODULES_MOST: usize = 64;
const BYTES_MOST: usize = 256 << 20;
/// A larger file is not read.
const FILE_MOST: u64 = 1 << 30;

#[derive(Default)]
struct Kept {
    modules: HashMap<u64, Module>,
    /// The keys, the longest unused one first.
    order: VecDeque<u64>,
    bytes: usize,
}

/// The modules that are kept.
#[derive(Default)]
pub(crate) struct ModuleCache(Mutex<Kept>);

fn key(name: &str, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Reads a client's file from its beginning, wherever the client has read to, and without moving that position.
pub(crate) fn read_file(file: &File) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let found = file.metadata()?;
    if !found.is_file() {
        let mut bytes = Vec::new();
        file.take(FILE_MOST).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    if found.len() > FILE_MOST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; found.len() as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

impl ModuleCache {
    /// The module with this name and these bytes.
    ///
    /// # Errors
    /// The bytes are no module that can be a process.
    pub(crate) fn get(&self, name: &str, bytes: Vec<u8>) -> Result<Module, LoadError> {
        let key = key(name, &bytes);
        let is_it = |module: &Module| module.name() == name && **module.bytes() == *bytes;
        {
            let mut kept = lock(&self.0);
            if let Some(module) = kept.modules.get(&key).filter(|module| is_it(module)) {
                let module = module.clone();
                kept.order.retain(|other| *other != key);
                kept.order.push_back(key);
                return Ok(module);
            }
        }
        let module = Module::library(name, bytes)?;
        self.insert(key, &module);
        Ok(module)
    }

    /// Adds a module, so that clients which load the same bytes get it.
    pub(crate) fn add(&self, module: Module) {
        self.insert(key(module.name(), module.bytes()), &module);
    }

    fn insert(&self, key: u64, module: &Module) {
        let mut kept = lock(&self.0);
        let kept = &mut *kept;
        // Another client may have loaded it meanwhile, or another module may have the same key.
        if let Entry::Vacant(entry) = kept.modules.entry(key) {
            kept.bytes += module.bytes().len();
            entry.insert(module.clone());
            kept.order.push_back(key);
        }
        while kept.modules.len() > MODULES_MOST || kept.bytes > BYTES_MOST {
            let Some(oldest) = kept.order.pop_front() else {
                break;
            };
            if let Some(module) = kept.modules.remove(&oldest) {
                kept.bytes -= module.bytes().len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

    /// A module that differs from others by its number: a custom section holds it.
    fn numbered(number: u32) -> Vec<u8> {
        let mut bytes = EMPTY.to_vec();
        bytes.extend([0, 6, 1, b'n']);
        bytes.extend(number.to_le_bytes());
        bytes
    }

    #[test]
    fn same_bytes_under_the_same_name_are_the_same_module() {
        let cache = ModuleCache::default();
        let get = |name, number| cache.get(name, numbered(number)).expect("it is valid");
        assert!(get("a", 1).is(&get("a", 1)));
        assert!(!get("a", 1).is(&get("b", 1)));
        assert!(!get("a", 1).is(&get("a", 2)));
        assert!(cache.get("a", b"no module".to_vec()).is_err());
    }

    #[test]
    fn old_modules_are_forgotten() {
        let cache = ModuleCache::default();
        let first = cache.get("m", numbered(0)).expect("it is valid");
        for number in 1..10_000 {
            drop(cache.get("m", numbered(number)));
            // It is used now and then, so it stays.
            assert!(cache.get("m", numbered(0)).expect("it is valid").is(&first));
        }
        let kept = cache.0.lock().expect("no thread panics");
        assert_eq!(
            (kept.modules.len(), kept.order.len()),
            (MODULES_MOST, MODULES_MOST)
        );
        assert_eq!(kept.bytes, MODULES_MOST * numbered(0).len());
    }
}

//! The functions of a module that its processes are likely to call, which its first image has if it does not have all.
//!
//! They are decided once for each module of a program, before its code is made: by a rehearsal, or by the note of an earlier one in
//! the cache. The code of a module depends on them, so they stay.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use everwarp_cache::{Cache, Key, Kind};
use everwarp_process::{HostConfig, Module};

use crate::module::{CompileChoice, Likely, as_compiled};

/// The version of an entry's layout and of the numbers of functions in it.
const FORMAT: &str = "functions likely to be called 1";

/// What is kept with a module.
#[derive(Default)]
struct Decided(OnceLock<Arc<Likely>>);

/// The functions that processes of a module are likely to call.
pub(crate) fn likely(module: &Module) -> Arc<Likely> {
    let decided = module.keep(Decided::default);
    let noted = || Note::of(module, Cache::user()).read().unwrap_or_default();
    Arc::clone(decided.0.get_or_init(noted))
}

/// The cache's entry for a module.
struct Note {
    cache: Cache,
    key: String,
}

impl Note {
    fn of(module: &Module, cache: Cache) -> Self {
        let key = Key::new().with(FORMAT).with(module.bytes()).text();
        Self { cache, key }
    }

    /// What was noted: the functions, each in 4 bytes, little-endian.
    fn read(&self) -> Option<Arc<Likely>> {
        let entry = self.cache.read(Kind::Image, &self.key)?;
        let (words, []) = entry.as_chunks() else {
            return None;
        };
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        Some(Arc::new(Likely {
            functions: words.collect(),
            are_all: true,
        }))
    }

    fn write(&self, name: &str, functions: &BTreeSet<u32>) {
        let words = functions.iter().flat_map(|f| f.to_le_bytes());
        let label = format!("{name}: the functions that a rehearsal has called");
        // The images are kept as well, and say if the folder cannot be written.
        let _ = self
            .cache
            .write(Kind::Image, &self.key, &label, &words.collect::<Vec<_>>());
    }
}

/// A module whose processes call functions that are not known yet.
pub struct Unrehearsed<'m> {
    module: &'m Module,
    note: Note,
}

impl<'m> Unrehearsed<'m> {
    /// A module that a host with this configuration compiles in part; `None` if it compiles all of it, or if the functions that
    /// its processes are likely to call are known.
    pub fn of(module: &'m Module, config: &HostConfig) -> Option<Self> {
        Self::with(module, config, Cache::user())
    }

    fn with(module: &'m Module, config: &HostConfig, cache: Cache) -> Option<Self> {
        let choice = CompileChoice::of(config).for_module(module);
        // A smaller module is compiled as a whole.
        let large = choice
            .first
            .is_some_and(|first| module.bytes().len() >= first.least);
        let decided = module.keep(Decided::default);
        if !choice.begins_with_likely() || !large || decided.0.get().is_some() {
            return None;
        }
        let note = Note::of(module, cache);
        match note.read() {
            Some(likely) => {
                // Another thread may have decided at the same time, from the same note.
                let _ = decided.0.set(likely);
                None
            }
            None => Some(Self { module, note }),
        }
    }

    /// What is to be rehearsed: the module as it is compiled, in which long functions are divided.
    pub fn bytes(&self) -> Vec<u8> {
        as_compiled(self.module)
    }

    /// Processes have called these functions of it. If they are not all that the real ones will call, as far as is known, only this
    /// program uses them, and the next one rehearses again.
    pub fn rehearsed(self, functions: BTreeSet<u32>, are_all: bool) {
        if are_all {
            self.note.write(self.module.name(), &functions);
        }
        let likely = Arc::new(Likely { functions, are_all });
        let decided = self.module.keep(Decided::default);
        // The first one stays.
        let _ = decided.0.set(likely);
    }
}

#[cfg(test)]
mod tests {
    use everwarp_process::Tier;
    use tempfile::TempDir;

    use super::*;

    /// A module with many functions, or with one.
    fn module(functions: usize) -> Module {
        let function =
            "(func (param i32) (result i32) (loop (br_if 0 (local.get 0))) (i32.const 77777))";
        let text = format!(
            "(module (func (export \"_start\")) {})",
            function.repeat(functions)
        );
        let buffer = wast::parser::ParseBuffer::new(&text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let bytes = wat.encode().expect("it can be encoded");
        Module::new("m", bytes).expect("it is valid")
    }

    fn config(tier: Tier) -> HostConfig {
        HostConfig {
            tier,
            ..HostConfig::default()
        }
    }

    fn all(functions: &[u32]) -> Likely {
        Likely {
            functions: functions.iter().copied().collect(),
            are_all: true,
        }
    }

    fn cache(folder: &TempDir) -> Cache {
        Cache::at(&folder.path().join("cache"))
    }

    #[test]
    fn a_module_is_rehearsed_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (lazy, large) = (config(Tier::Lazy), module(30_000));
        let first = Unrehearsed::with(&large, &lazy, cache(&folder)).expect("nothing is known");
        first.rehearsed([3, 300, 7].into(), true);
        assert_eq!(*likely(&large), all(&[3, 7, 300]));
        assert!(Unrehearsed::with(&large, &lazy, cache(&folder)).is_none());
        // Another program finds the note.
        let again = module(30_000);
        assert!(Unrehearsed::with(&again, &lazy, cache(&folder)).is_none());
        assert_eq!(*likely(&again), all(&[3, 7, 300]));
        // What was noted without calls is known, too.
        let other = module(30_001);
        let first = Unrehearsed::with(&other, &lazy, cache(&folder)).expect("nothing is known");
        first.rehearsed(BTreeSet::new(), true);
        let again = module(30_001);
        assert!(Unrehearsed::with(&again, &lazy, cache(&folder)).is_none());
    }

    #[test]
    fn what_is_not_all_is_not_noted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (lazy, large) = (config(Tier::Lazy), module(30_000));
        let first = Unrehearsed::with(&large, &lazy, cache(&folder)).expect("nothing is known");
        first.rehearsed([3].into(), false);
        let decided = likely(&large);
        assert!(decided.functions == [3].into() && !decided.are_all);
        assert!(Unrehearsed::with(&large, &lazy, cache(&folder)).is_none());
        assert!(Unrehearsed::with(&module(30_000), &lazy, cache(&folder)).is_some());
    }

    #[test]
    fn modules_that_are_compiled_as_a_whole_are_not_rehearsed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let of = |module: &Module, tier| {
            Unrehearsed::with(module, &config(tier), cache(&folder)).is_some()
        };
        let (large, small) = (module(30_000), module(1));
        assert!(!of(&large, Tier::Best) && !of(&large, Tier::Least));
        assert!(!of(&small, Tier::Lazy));
        assert!(of(&large, Tier::Lazy));
    }

    #[test]
    fn damaged_notes_say_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let module = module(1);
        let note = Note::of(&module, cache(&folder));
        let written = note.cache.write(Kind::Image, &note.key, "m", &[1, 0, 0]);
        written.expect("the folder is writable");
        assert!(note.read().is_none());
    }
}

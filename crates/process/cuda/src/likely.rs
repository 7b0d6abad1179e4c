//! The functions of a module that its processes are likely to call, which its first image has if it does not have all.
//!
//! They are decided once for each module of a program, before its code is made: by a rehearsal, or by the note of an earlier one in
//! the cache. Without, they are not known, and the image has all functions. The code of a module depends on what its first
//! rehearsal has shown, so that stays. What later rehearsals show besides, of processes that are given something else, comes in
//! batches.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use everwarp_cache::{Cache, Key, Kind};
use everwarp_process::{HostConfig, Module, Rehearsal};

use crate::module::{CompileChoice, Likely, as_compiled};

/// The version of an entry's layout and of the numbers of functions in it.
const FORMAT: &str = "functions likely to be called 1";

/// What the entry for what processes are given says: their rehearsal has shown all functions that they will call, as far as is known.
const SHOWN_ALL: &[u8] = b"all";
/// Or it has not.
const SHOWN_LESS: &[u8] = b"less";

/// What is kept with a module. Nothing, once it is decided that its processes call what is not known.
#[derive(Default)]
struct Decided(OnceLock<Option<Arc<Likely>>>);

/// The functions that processes of a module are likely to call. None if that is not known.
pub(crate) fn likely(module: &Module) -> Option<Arc<Likely>> {
    module.keep(Decided::default).0.get().cloned().flatten()
}

/// Takes what another program's first rehearsal of the module has noted, which has shown all that processes will call.
pub fn recall_rehearsal(module: &Module) {
    recall(module, Cache::user());
}

fn recall(module: &Module, cache: Cache) {
    let decided = module.keep(Decided::default);
    let noted = || Note::of(module, cache).read().map(first);
    decided.0.get_or_init(noted);
}

/// What the first rehearsal has shown, and nothing besides.
fn first(functions: BTreeSet<u32>) -> Arc<Likely> {
    Arc::new(Likely {
        functions,
        others: BTreeSet::new(),
    })
}

/// The cache's entry with the functions that the first rehearsal of a module has called.
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
    fn read(&self) -> Option<BTreeSet<u32>> {
        let entry = self.cache.read(Kind::Image, &self.key)?;
        let (words, []) = entry.as_chunks() else {
            return None;
        };
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        Some(words.collect())
    }

    fn write(&self, name: &str, functions: &BTreeSet<u32>) {
        let words = functions.iter().flat_map(|f| f.to_le_bytes());
        let label = format!("{name}: the functions that a rehearsal has called");
        // The images are kept as well, and say if the folder cannot be written.
        let _ = self
            .cache
            .write(Kind::Image, &self.key, &label, &words.collect::<Vec<_>>());
    }

    /// The key of the entry which says that processes were rehearsed that are given this.
    fn key_of(&self, given: &[Rehearsal]) -> String {
        let mut key = Key::new().with(&self.key);
        for Rehearsal {
            args,
            env,
            stdin,
            directories,
        } in given
        {
            let lengths = [args.len(), env.len(), directories.len()];
            for length in lengths.map(|length| length as u64) {
                key = key.with(length.to_le_bytes());
            }
            key = args.iter().fold(key, Key::with);
            key = env
                .iter()
                .fold(key, |key, (name, value)| key.with(name).with(value));
            for directory in directories {
                let path = directory.path().as_os_str().as_encoded_bytes();
                key = key.with(path).with(directory.guest());
            }
            key = match stdin {
                Some(bytes) => key.with("known").with(bytes),
                None => key.with("not known"),
            };
        }
        key.text()
    }
}

/// A module whose processes may call functions that are not known yet.
pub struct Unrehearsed<'m> {
    module: &'m Module,
    note: Note,
    /// What the first rehearsal has shown, if there was one.
    noted: Option<BTreeSet<u32>>,
    /// [`Note::key_of`] what processes are given now.
    given: String,
}

impl<'m> Unrehearsed<'m> {
    /// A module that a host with this configuration compiles in part, unless processes were rehearsed that are given this; `None` if
    /// they were, or if it compiles all of it.
    pub fn of(module: &'m Module, given: &[Rehearsal], config: &HostConfig) -> Option<Self> {
        Self::with(module, given, config, Cache::user())
    }

    fn with(
        module: &'m Module,
        given: &[Rehearsal],
        config: &HostConfig,
        cache: Cache,
    ) -> Option<Self> {
        let decided = module.keep(Decided::default);
        if !depends_on_calls(module, config) || decided.0.get().is_some() {
            return None;
        }
        let note = Note::of(module, cache);
        let (noted, given) = (note.read(), note.key_of(given));
        let likely = match (note.cache.read(Kind::Image, &given).as_deref(), noted) {
            (Some(SHOWN_ALL), Some(noted)) => Some(first(noted)),
            (Some(SHOWN_LESS), _) => None,
            (_, noted) => {
                return Some(Self {
                    module,
                    note,
                    noted,
                    given,
                });
            }
        };
        // Another thread may have decided at the same time, from the same note.
        let _ = decided.0.set(likely);
        None
    }

    /// What is to be rehearsed: the module as it is compiled, in which long functions are divided.
    pub fn bytes(&self) -> Vec<u8> {
        as_compiled(self.module)
    }

    /// Processes have called these functions of it. If they are not all that the real ones will call, as far as is known, the module is
    /// compiled as a whole.
    pub fn rehearsed(self, functions: BTreeSet<u32>, are_all: bool) {
        let likely = match self.noted {
            _ if !are_all => None,
            Some(noted) => Some(Arc::new(Likely {
                others: &functions - &noted,
                functions: noted,
            })),
            None => {
                self.note.write(self.module.name(), &functions);
                Some(first(functions))
            }
        };
        let label = format!("{}: it was rehearsed", self.module.name());
        let shown = match are_all {
            true => SHOWN_ALL,
            false => SHOWN_LESS,
        };
        // As for the note.
        let _ = (self.note.cache).write(Kind::Image, &self.given, &label, shown);
        let decided = self.module.keep(Decided::default);
        // The first one stays.
        let _ = decided.0.set(likely);
    }
}

/// Whether a host with this configuration compiles the module in part if it is known what its processes call. It compiles all of a
/// smaller one.
fn depends_on_calls(module: &Module, config: &HostConfig) -> bool {
    let choice = CompileChoice::of(config).for_module(module);
    let least = choice.first.map_or(usize::MAX, |first| first.least);
    choice.begins_with_likely() && module.bytes().len() >= least
}

/// Whether a host with this configuration can do without a rehearsal of the module: it was rehearsed, and all that its processes will
/// call is known, or the host compiles all of it in any case.
pub fn is_rehearsed(module: &Module, config: &HostConfig) -> bool {
    !depends_on_calls(module, config) || likely(module).is_some()
}

#[cfg(test)]
mod tests {
    use everwarp_process::{Bytes, Directory, Tier};
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

    fn set(functions: &[u32]) -> BTreeSet<u32> {
        functions.iter().copied().collect()
    }

    /// What a module begins with, and what comes with it.
    fn known(module: &Module) -> Option<(BTreeSet<u32>, BTreeSet<u32>)> {
        let likely = likely(module)?;
        Some((likely.functions.clone(), likely.others.clone()))
    }

    /// A process with this argument.
    fn given(argument: &str) -> [Rehearsal; 1] {
        [Rehearsal {
            args: vec!["m".to_owned(), argument.to_owned()],
            ..Rehearsal::default()
        }]
    }

    fn cache(folder: &TempDir) -> Cache {
        Cache::at(&folder.path().join("cache"))
    }

    #[test]
    fn processes_are_rehearsed_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (lazy, large) = (config(Tier::Lazy), module(30_000));
        let of =
            |module, argument| Unrehearsed::with(module, &given(argument), &lazy, cache(&folder));
        let first = of(&large, "a").expect("nothing is known");
        first.rehearsed([3, 300, 7].into(), true);
        assert_eq!(known(&large), Some((set(&[3, 7, 300]), set(&[]))));
        assert!(of(&large, "a").is_none());
        // Another program finds the note.
        let again = module(30_000);
        assert!(of(&again, "a").is_none());
        assert_eq!(known(&again), Some((set(&[3, 7, 300]), set(&[]))));
        // What was noted without calls is known, too.
        let other = module(30_001);
        of(&other, "a")
            .expect("nothing is known")
            .rehearsed(set(&[]), true);
        assert!(of(&module(30_001), "a").is_none());
    }

    #[test]
    fn processes_that_are_given_something_else_are_rehearsed_and_the_note_stays() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lazy = config(Tier::Lazy);
        let rehearse = |given: &[Rehearsal], functions: &[u32], are_all| {
            let module = module(30_000);
            let unrehearsed = Unrehearsed::with(&module, given, &lazy, cache(&folder))?;
            unrehearsed.rehearsed(set(functions), are_all);
            known(&module)
        };
        let noted = set(&[3, 7]);
        assert_eq!(
            rehearse(&given("a"), &[3, 7], true),
            Some((noted.clone(), set(&[])))
        );
        assert_eq!(
            rehearse(&given("b"), &[7, 9], true),
            Some((noted.clone(), set(&[9])))
        );
        // Of these, all functions are compiled.
        assert_eq!(rehearse(&given("c"), &[8], false), None);
        for again in ["b", "c"] {
            assert_eq!(rehearse(&given(again), &[], true), None);
        }
        // Everything that a process is given counts.
        let mut others = [given("a"), given("a"), given("a"), given("a")];
        others[0][0].stdin = Some(Bytes::new());
        others[1][0].env.push(("a".to_owned(), "b".to_owned()));
        others[2][0].args = vec!["ma".to_owned()];
        let directory = Directory::open(folder.path(), "d").expect("it is there");
        others[3][0].directories.push(directory);
        for given in &others {
            assert_eq!(rehearse(given, &[7], true), Some((noted.clone(), set(&[]))));
            assert_eq!(rehearse(given, &[], true), None);
        }
        assert_eq!(
            rehearse(&[given("a"), given("a")].concat(), &[3], true),
            Some((noted, set(&[])))
        );
    }

    #[test]
    fn a_module_is_whole_unless_a_rehearsal_has_shown_all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lazy = config(Tier::Lazy);
        let of =
            |module, argument| Unrehearsed::with(module, &given(argument), &lazy, cache(&folder));
        let first = module(30_000);
        of(&first, "a")
            .expect("nothing is known")
            .rehearsed(set(&[3]), false);
        assert_eq!(known(&first), None);
        // The next program does not try again.
        let again = module(30_000);
        assert!(of(&again, "a").is_none());
        assert_eq!(known(&again), None);
        // Others may show all, which says nothing of these.
        let other = module(30_000);
        of(&other, "b")
            .expect("it is not known")
            .rehearsed(set(&[4]), true);
        assert_eq!(known(&other), Some((set(&[4]), set(&[]))));
        let again = module(30_000);
        assert!(of(&again, "a").is_none());
        assert_eq!(known(&again), None);
        let again = module(30_000);
        assert!(of(&again, "b").is_none());
        assert_eq!(known(&again), Some((set(&[4]), set(&[]))));
    }

    #[test]
    fn what_other_programs_have_noted_is_taken_where_it_is_recalled() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lazy = config(Tier::Lazy);
        let first = module(30_000);
        assert!(!is_rehearsed(&first, &lazy));
        let unrehearsed = Unrehearsed::with(&first, &given("a"), &lazy, cache(&folder));
        unrehearsed
            .expect("nothing is known")
            .rehearsed(set(&[4]), true);
        assert!(is_rehearsed(&first, &lazy));
        let other = module(30_000);
        assert!(!is_rehearsed(&other, &lazy) && is_rehearsed(&other, &config(Tier::Best)));
        recall(&other, cache(&folder));
        assert_eq!(known(&other), Some((set(&[4]), set(&[]))));
        let never = module(30_001);
        recall(&never, cache(&folder));
        assert_eq!(known(&never), None);
        assert!(
            is_rehearsed(&module(1), &lazy),
            "a small module is compiled as a whole"
        );
    }

    #[test]
    fn modules_that_are_compiled_as_a_whole_are_not_rehearsed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let of = |module: &Module, tier| {
            Unrehearsed::with(module, &[], &config(tier), cache(&folder)).is_some()
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

//! The code of a module whose image lacks functions.
//!
//! It has a part with the first functions, which also has all that is not a function of the module; a part with what stands in
//! for the functions that are left out; a part with a table of the addresses of all functions; and a part for each batch of these
//! functions that was there when the image was linked. No part depends on which batches there are: so only new functions are
//! assembled, and the same batches give the same image in the next program. The module is translated once; the text of a batch is
//! written from that.
//!
//! A batch that comes later is loaded next to the image, with bridges in place of what it calls. What stands in for its functions
//! finds their addresses in the table from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use everwarp_assembler::library::{Bridges, Library};
use everwarp_assembler::split::{Place, divide_by};
use everwarp_engine::sync::{lock, on_threads};
use everwarp_runtime::cuda::MAX_REGISTERS;
use everwarp_runtime::{LinkedPart, Publisher};

use crate::asked::AskedFunctions;
use crate::batches::Batches;
use crate::module::{CompileChoice, CompiledModule};

/// The most bytes of functions that come because a function that was asked for calls them: about a megabyte of PTX.
const NEAR_BYTES: usize = 48 << 10;
/// The bytes of PTX of a batch: one process of ptxas takes about a tenth of a second for it.
const BATCH_BYTES: usize = 64 << 10;
/// The most batches of a module, as long as no function is longer than a batch. The linker takes time for each.
const BATCHES_MOST: usize = 1024;

/// Functions that come together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) functions: BTreeSet<u32>,
    pub(crate) part: LinkedPart,
}

/// A batch that is assembled.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) part: LinkedPart,
    /// Given if it can be loaded next to an image.
    pub(crate) apart: Option<Apart>,
}

/// What a batch is linked with to be loaded next to an image.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    pub(crate) part: LinkedPart,
    /// It writes the addresses of the batch's functions into the image's table.
    pub(crate) gives: Publisher,
    /// It takes the addresses from there of all that the batch calls.
    pub(crate) takes: Publisher,
}

/// What a module has besides the parts that all images have.
pub(crate) struct Partial {
    name: String,
    /// The text of the functions that an image may lack.
    library: Library,
    /// For each of them its number in the library.
    numbers: BTreeMap<u32, usize>,
    /// They in batches, those first that processes are likely to call first.
    batches: Vec<BTreeSet<u32>>,
    /// Batches are assembled that no process has asked for.
    unasked: bool,
    /// It writes the addresses of the functions that an image has into its table.
    publisher: Publisher,
    /// What the image has of the batches, by their first functions.
    image: Mutex<BTreeMap<u32, Batch>>,
    /// Where the list of these is kept for the next program.
    asked: AskedFunctions,
}

/// A module's number of a function of the image, if it is one of the module's own.
fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.strip_prefix('f')?.parse().ok()
}

/// Divides functions with these bytes of text into batches, in their order. A batch has more than `most` bytes only if it is one
/// function.
fn in_batches(functions: impl Iterator<Item = (u32, usize)>, most: usize) -> Vec<BTreeSet<u32>> {
    let (mut batches, mut taken) = (Vec::<BTreeSet<u32>>::new(), 0);
    for (function, bytes) in functions {
        match batches.last_mut() {
            Some(batch) if taken + bytes <= most => {
                batch.insert(function);
                taken += bytes;
            }
            _ => {
                batches.push([function].into());
                taken = bytes;
            }
        }
    }
    batches
}

impl Partial {
    /// Takes a module apart that was compiled with [`CompileChoice::first`]: the parts that all its images have, and the rest. The
    /// image is to have what it had in earlier programs. `None` if no function was left out.
    pub(crate) fn of(
        choice: CompileChoice,
        compiled: &mut CompiledModule,
        asked: AskedFunctions,
    ) -> Option<(Vec<LinkedPart>, Self)> {
        let left_out: BTreeSet<u32> = compiled.compiled.missing().iter().copied().collect();
        if left_out.is_empty() {
            return None;
        }
        let texts = divide_by(&compiled.compiled.ptx, 2, |name| {
            match number(name, &compiled.prefix) {
                Some(function) if left_out.contains(&function) => Place::StandIn(1),
                _ => Place::File(0),
            }
        })?;
        let functions = std::mem::take(&mut compiled.compiled.left_out);
        let table = format!("{}table", compiled.prefix);
        let library = Library::new(&compiled.compiled.ptx, functions, table.clone())?;
        let [first, stand_ins] = texts.try_into().ok()?;
        let stand_ins = library.passing_on(&stand_ins)?;
        let (addresses, kernel) = library.table(MAX_REGISTERS as usize)?;
        let publisher = Publisher {
            kernel: kernel.into(),
            table: table.into(),
        };
        let mut numbers = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        for (at, (name, bytes)) in (0..).zip(library.functions()) {
            let function = number(name, &compiled.prefix)?;
            numbers.insert(function, at);
            sizes.insert(function, bytes);
        }
        if !numbers.keys().eq(&left_out) {
            return None;
        }
        let unasked = !choice.asked_only();
        let most = match unasked {
            true => BATCH_BYTES.max(sizes.values().sum::<usize>() / BATCHES_MOST),
            false => 0,
        };
        let order = compiled.compiled.by_distance().into_iter();
        let order = order.filter_map(|f| Some((f, *sizes.get(&f)?)));
        let part = |text: String| LinkedPart {
            name: compiled.name.as_str().into(),
            ptx: text.into(),
        };
        let partial = Self {
            name: compiled.name.clone(),
            library,
            numbers,
            batches: in_batches(order, most),
            unasked,
            publisher,
            image: Mutex::default(),
            asked,
        };
        let mut asked = partial.asked.read(&left_out);
        // Another version of the compiler may have made other batches.
        asked.retain(|functions| partial.batches.contains(functions));
        partial.add_all(asked);
        let parts = [first, stand_ins, addresses];
        Some((parts.into_iter().map(part).collect(), partial))
    }

    /// The first image is to have these functions as well, and so is the next program's.
    pub(crate) fn begin_with(&self, functions: &BTreeSet<u32>) {
        let present = self.present();
        let wanted =
            |batch: &&BTreeSet<u32>| !batch.is_disjoint(functions) && batch.is_disjoint(&present);
        let wanted: Vec<_> = self.batches.iter().filter(wanted).cloned().collect();
        if !wanted.is_empty() {
            self.add_all(wanted);
            self.keep();
        }
    }

    /// Adds these batches to the next image. Their text is written on all cores, because a process waits for it.
    fn add_all(&self, batches: Vec<BTreeSet<u32>>) {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = cores.min(batches.len());
        let batches = Mutex::new(batches.into_iter());
        let next = || lock(&batches).next();
        on_threads(threads, || {
            for functions in std::iter::from_fn(next) {
                let part = self.part(&functions);
                self.add(Batch { functions, part });
            }
        });
    }

    /// How far the batches are when an image runs that has the [`parts`](Self::parts) of now. `ahead`: code can be assembled ahead of an image.
    pub(crate) fn batches(&self, ahead: bool) -> Batches<Made> {
        let batches = self.batches.iter().cloned();
        let unasked = self.unasked && ahead;
        Batches::new(batches, &self.present(), unasked)
    }

    /// The functions of each batch.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &BTreeSet<u32>> {
        self.batches.iter()
    }

    /// The numbers of functions in the library, in its order.
    fn numbers_of(&self, functions: &BTreeSet<u32>) -> Vec<usize> {
        let mut numbers: Vec<_> = functions.iter().map(|f| self.numbers[f]).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The code of functions that images may lack.
    pub(crate) fn part(&self, functions: &BTreeSet<u32>) -> LinkedPart {
        LinkedPart {
            name: self.name.as_str().into(),
            ptx: self.library.file(&self.numbers_of(functions)).into(),
        }
    }

    /// What these functions are linked with to be loaded next to an image; `None` if they cannot be.
    pub(crate) fn apart(&self, functions: &BTreeSet<u32>) -> Option<Apart> {
        let Bridges { ptx, gives, takes } = self.library.bridges(&self.numbers_of(functions))?;
        let publisher = |kernel: String| Publisher {
            kernel: kernel.into(),
            table: Arc::clone(&self.publisher.table),
        };
        Some(Apart {
            part: LinkedPart {
                name: self.name.as_str().into(),
                ptx: ptx.into(),
            },
            gives: publisher(gives),
            takes: publisher(takes),
        })
    }

    /// A function without parameters. The image has to have a call of it, which is never made: by way of it the engine's kernel reaches
    /// all that batches may call.
    pub(crate) fn roots(&self) -> String {
        self.library.roots()
    }

    /// The kernel that writes the addresses of the functions that an image has into its table.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Whether an image of the module may lack a function.
    pub(crate) fn leaves_out(&self, function: u32) -> bool {
        self.numbers.contains_key(&function)
    }

    /// The functions that were left out and that have come.
    pub(crate) fn present(&self) -> BTreeSet<u32> {
        let image = lock(&self.image);
        let functions = image.values().flat_map(|batch| &batch.functions);
        functions.copied().collect()
    }

    /// The functions that the image lacks.
    pub(crate) fn missing(&self) -> BTreeSet<u32> {
        let present = self.present();
        let missing = self.numbers.keys().filter(|f| !present.contains(f));
        missing.copied().collect()
    }

    /// The parts of the batches that have come. Their order does not depend on when they came, so that the image has the same key in
    /// each program.
    pub(crate) fn parts(&self) -> Vec<LinkedPart> {
        let image = lock(&self.image);
        image.values().map(|batch| batch.part.clone()).collect()
    }

    /// The functions that a process is likely to call next that has asked for this one: those that direct calls lead to and that
    /// the image lacks, up to some bytes.
    pub(crate) fn near(&self, module: &CompiledModule, function: u32) -> BTreeSet<u32> {
        // Functions that all images have are present, too.
        let mut present = self.present();
        present.extend((0..module.compiled.function_count()).filter(|f| !self.leaves_out(*f)));
        module.compiled.reached([function], &present, NEAR_BYTES)
    }

    /// Adds a batch to the next image.
    pub(crate) fn add(&self, batch: Batch) {
        let first = batch.functions.first().copied();
        let first = first.expect("a batch has functions");
        lock(&self.image).insert(first, batch);
    }

    /// Takes a batch back that no image has got.
    pub(crate) fn take_back(&self, functions: &BTreeSet<u32>) {
        lock(&self.image).retain(|_, other| other.functions != *functions);
    }

    /// Keeps what the image has for the next program.
    pub(crate) fn keep(&self) {
        let image = lock(&self.image);
        let functions = image.values().map(|batch| &batch.functions);
        self.asked.write(&self.name, functions);
    }
}

#[cfg(test)]
mod tests {
    use everwarp_cache::Cache;
    use everwarp_compiler::FirstFunctions;
    use everwarp_process::Module;
    use tempfile::TempDir;

    use super::*;
    use crate::module::compile_module;

    /// The entry calls `$a`, which calls `$b`, and `$c` through the table. Each has a loop, so that it can be left out.
    const TEXT: &str = r#"(module
      (type $f (func (param i32) (result i32)))
      (table funcref (elem $c))
      (func $start (export "_start")
        (drop (call $a (i32.const 3))) (drop (call_indirect (type $f) (i32.const 1) (i32.const 0))))
      (func $a (param i32) (result i32) (loop (br_if 0 (i32.const 0))) (call $b (local.get 0)))
      (func $b (param i32) (result i32) (loop (br_if 0 (i32.const 0))) (i32.const 7777))
      (func $c (param i32) (result i32) (loop (br_if 0 (i32.const 0))) (call $a (i32.const 8888))))"#;
    const START: u32 = 0;
    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;
    const PREFIX: &str = "m0123456789ab_";

    fn set(functions: &[u32]) -> BTreeSet<u32> {
        functions.iter().copied().collect()
    }

    struct World {
        folder: TempDir,
        module: Module,
    }

    impl World {
        fn new() -> Self {
            let buffer = wast::parser::ParseBuffer::new(TEXT).expect("it is text");
            let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
            let bytes = wat.encode().expect("it can be encoded");
            Self {
                folder: tempfile::tempdir().expect("a temporary folder"),
                module: Module::new("m", bytes).expect("it is valid"),
            }
        }

        /// What another program makes of the module.
        fn partial(&self, most: usize) -> Option<(CompiledModule, Vec<LinkedPart>, Partial)> {
            self.partial_with(most, &set(&[]))
        }

        /// The same if processes are likely to call these functions.
        fn partial_with(
            &self,
            most: usize,
            likely: &BTreeSet<u32>,
        ) -> Option<(CompiledModule, Vec<LinkedPart>, Partial)> {
            let choice = CompileChoice {
                first: Some(FirstFunctions { least: 0, most }),
                ..CompileChoice::default()
            };
            let compiled = compile_module(&self.module, PREFIX, choice, likely);
            let mut compiled = compiled.expect("it is supported");
            let cache = Cache::at(&self.folder.path().join("cache"));
            let asked = AskedFunctions::of(b"m", cache);
            let (parts, partial) = Partial::of(choice, &mut compiled, asked)?;
            Some((compiled, parts, partial))
        }
    }

    fn defines(text: &str, linkage: &str, function: u32) -> bool {
        let name = format!(" {PREFIX}f{function} (");
        text.lines()
            .any(|line| line.starts_with(linkage) && line.contains(&name) && !line.ends_with(';'))
    }

    #[test]
    fn what_is_left_out_has_a_stand_in() {
        let world = World::new();
        let (_, parts, partial) = world.partial(0).expect("functions are left out");
        let [first, stand_ins, table] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        for function in [A, B, C] {
            assert!(partial.leaves_out(function));
            assert!(defines(&stand_ins.ptx, ".weak .func", function));
            assert!(!defines(&first.ptx, ".visible .func", function));
        }
        // What has come is called.
        let table_of = format!("{PREFIX}table");
        assert!(stand_ins.ptx.contains(&format!("[{table_of}+")));
        assert!(table.ptx.contains(&format!("{table_of}[")));
        assert_eq!(*partial.publisher().table, *table_of);
        assert!(!partial.leaves_out(START) && !partial.leaves_out(99));
        assert!(defines(&first.ptx, ".visible .func", START));
        assert!(first.ptx.contains(&format!("{PREFIX}enter(")));
        assert!(partial.parts().is_empty());
    }

    #[test]
    fn an_image_has_what_processes_are_likely_to_call() {
        let world = World::new();
        // A function that the module does not have changes nothing.
        let some = world.partial_with(0, &set(&[C, 99]));
        let (_, parts, partial) = some.expect("functions are left out");
        assert_eq!(partial.missing(), set(&[A, B]));
        assert!(defines(&parts[0].ptx, ".visible .func", C));
        assert!(world.partial_with(0, &set(&[A, B, C])).is_none());
    }

    #[test]
    fn an_image_begins_with_batches_of_what_was_found_out_later() {
        let world = World::new();
        let (_, _, partial) = world
            .partial_with(0, &set(&[C]))
            .expect("some are left out");
        partial.begin_with(&set(&[C, 99]));
        assert!(partial.parts().is_empty());
        partial.begin_with(&set(&[B]));
        partial.begin_with(&set(&[B]));
        assert_eq!((partial.missing(), partial.parts().len()), (set(&[A]), 1));
        assert!(defines(&partial.parts()[0].ptx, ".visible .func", B));
        // The next program has it without being told.
        let (_, _, next) = world
            .partial_with(0, &set(&[C]))
            .expect("some are left out");
        assert_eq!(next.missing(), set(&[A]));
        next.begin_with(&set(&[A]));
        assert!(next.missing().is_empty());
    }

    #[test]
    fn a_module_that_fits_is_whole() {
        // All but `$c`, which no direct call reaches.
        let (_, _, partial) = World::new().partial(1 << 20).expect("one is left out");
        assert_eq!(partial.missing(), set(&[C]));
        let buffer = wast::parser::ParseBuffer::new(r#"(module (func (export "_start")))"#);
        let buffer = buffer.expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let bytes = wat.encode().expect("it can be encoded");
        let world = World {
            module: Module::new("m", bytes).expect("it is valid"),
            ..World::new()
        };
        assert!(world.partial(0).is_none());
    }

    #[test]
    fn a_batch_is_written_when_it_is_needed() {
        let (module, _, partial) = World::new().partial(0).expect("functions are left out");
        let batch = |functions: &[u32]| Batch {
            part: partial.part(&set(functions)),
            functions: set(functions),
        };
        let both = batch(&[A, B]);
        assert!(defines(&both.part.ptx, ".visible .func", A));
        assert!(defines(&both.part.ptx, ".visible .func", B));
        assert!(!both.part.ptx.contains(&format!("{PREFIX}enter(")));
        // Loaded next to an image, it calls others through bridges.
        let apart = |functions: &[u32]| partial.apart(&set(functions)).expect("it can be");
        assert!(!defines(&apart(&[A, B]).part.ptx, ".weak .func", B));
        let alone = apart(&[A]);
        assert!(defines(&alone.part.ptx, ".weak .func", B));
        assert!(alone.part.ptx.contains(&*alone.gives.kernel));
        assert_eq!(alone.takes.table, partial.publisher().table);
        let third = batch(&[C]);
        partial.add(both.clone());
        assert_eq!(partial.missing(), set(&[C]));
        partial.add(third.clone());
        assert!(partial.missing().is_empty());
        partial.take_back(&both.functions);
        assert_eq!(partial.missing(), set(&[A, B]));
        // A process that waits for a function will call those that the function calls.
        assert_eq!(partial.near(&module, A), set(&[A, B]));
        assert_eq!(partial.near(&module, B), set(&[B]));
        partial.take_back(&third.functions);
        assert_eq!(partial.near(&module, C), set(&[A, B, C]));
    }

    #[test]
    fn batches_have_even_sizes_in_the_order_of_calls() {
        let functions = [(3, 40), (1, 50), (7, 20), (2, 300), (5, 10)];
        let batches = in_batches(functions.into_iter(), 100);
        let expected = [&[1, 3][..], &[7], &[2], &[5]];
        assert_eq!(batches, expected.map(set));
        assert_eq!(in_batches(functions.into_iter(), 0).len(), 5);
        // Of this module, all that is left out is one batch unless each function is to be asked for.
        let batches = |most| {
            let (_, _, partial) = World::new().partial(most).expect("some are left out");
            partial.batches.len()
        };
        assert_eq!((batches(0), batches(1)), (3, 1));
    }

    #[test]
    fn the_next_program_has_the_same_parts() {
        let world = World::new();
        let (_, parts, partial) = world.partial(0).expect("functions are left out");
        for functions in [&[C][..], &[B]] {
            partial.add(Batch {
                part: partial.part(&set(functions)),
                functions: set(functions),
            });
        }
        partial.keep();
        let texts = |parts: &[LinkedPart], partial: &Partial| -> Vec<_> {
            let parts = parts.iter().cloned().chain(partial.parts());
            parts.map(|part| part.ptx).collect()
        };
        let (_, next_parts, next) = world.partial(0).expect("functions are left out");
        assert_eq!(texts(&parts, &partial), texts(&next_parts, &next));
        assert_eq!(next.missing(), set(&[A]));
        // With other first functions the numbers do not fit, and nothing of it is used.
        let (_, _, other) = world.partial(1 << 20).expect("one is left out");
        assert_eq!(other.missing(), set(&[C]));
    }
}

//! The code of a module whose image lacks functions.
//!
//! It has a part with the first functions, which also has all that is not a function of the module; a part with what stands in
//! for the functions that are left out; and a part for each round of functions that processes have asked for. No part depends on
//! which rounds there are: so only new functions are assembled, and the same rounds give the same image in the next program.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use everwarp_assembler::split::{Place, divide_by};
use everwarp_engine::sync::lock;
use everwarp_process::{LoadError, Module};
use everwarp_runtime::LinkedPart;

use crate::asked::AskedFunctions;
use crate::module::{CompileChoice, CompiledModule, compile_module};

/// The most bytes of functions that are compiled because a function that was asked for calls them: about a megabyte of PTX.
const ROUND_BYTES: usize = 48 << 10;

/// Functions that come together.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) functions: BTreeSet<u32>,
    pub(crate) part: LinkedPart,
}

/// What a module has besides the parts that all images have.
pub(crate) struct Partial {
    source: Module,
    choice: CompileChoice,
    /// The functions that an image may lack.
    left_out: BTreeSet<u32>,
    /// What the image has of them.
    rounds: Mutex<Vec<Round>>,
    /// Where the rounds are kept for the next program.
    asked: AskedFunctions,
}

/// A module's number of a function of the image, if it is one of the module's own.
fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.strip_prefix('f')?.parse().ok()
}

/// The text of each list of functions, in a module that has them all.
fn texts_of(compiled: &CompiledModule, lists: &[BTreeSet<u32>]) -> Option<Vec<Arc<str>>> {
    let texts = divide_by(&compiled.compiled.ptx, lists.len(), |name| {
        let list = number(name, &compiled.prefix)
            .and_then(|function| lists.iter().position(|list| list.contains(&function)));
        list.map_or(Place::Nowhere, Place::File)
    })?;
    Some(texts.into_iter().map(Arc::from).collect())
}

impl Partial {
    /// Takes a module apart that was compiled with [`CompileChoice::first`]: the parts that all its images have, and the rest. What
    /// earlier programs have asked for is compiled as well. `None` if no function was left out.
    pub(crate) fn of(
        source: &Module,
        choice: CompileChoice,
        compiled: &CompiledModule,
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
        let part = |text: String| LinkedPart {
            name: compiled.name.as_str().into(),
            ptx: text.into(),
        };
        let partial = Self {
            source: source.clone(),
            choice,
            rounds: Mutex::default(),
            asked,
            left_out,
        };
        let earlier = partial.asked.read(&partial.left_out);
        // What cannot be compiled is asked for again, and reported then.
        if let Ok(rounds) = partial.rounds_of(&compiled.prefix, earlier) {
            *lock(&partial.rounds) = rounds;
        }
        Some((texts.into_iter().map(part).collect(), partial))
    }

    /// Compiles rounds, which the image is to have together with those that it has.
    fn rounds_of(&self, prefix: &str, lists: Vec<BTreeSet<u32>>) -> Result<Vec<Round>, LoadError> {
        if lists.is_empty() {
            return Ok(Vec::new());
        }
        let mut only = self.present();
        only.extend(lists.iter().flatten());
        let compiled = compile_module(&self.source, prefix, self.choice, only)?;
        let texts = texts_of(&compiled, &lists).ok_or_else(|| {
            LoadError::Compile("the text of the module cannot be divided".to_owned())
        })?;
        let round = |(functions, ptx)| Round {
            functions,
            part: LinkedPart {
                name: compiled.name.as_str().into(),
                ptx,
            },
        };
        Ok(lists.into_iter().zip(texts).map(round).collect())
    }

    /// Whether an image of the module may lack a function.
    pub(crate) fn leaves_out(&self, function: u32) -> bool {
        self.left_out.contains(&function)
    }

    /// The functions that were left out and that came with later rounds.
    pub(crate) fn present(&self) -> BTreeSet<u32> {
        let rounds = lock(&self.rounds);
        let functions = rounds.iter().flat_map(|round| &round.functions);
        functions.copied().collect()
    }

    /// The functions that the image lacks.
    pub(crate) fn missing(&self) -> BTreeSet<u32> {
        &self.left_out - &self.present()
    }

    /// The parts of the rounds.
    pub(crate) fn parts(&self) -> Vec<LinkedPart> {
        let rounds = lock(&self.rounds);
        rounds.iter().map(|round| round.part.clone()).collect()
    }

    /// Compiles functions that were asked for, with those that they call directly if the caller wants `callees`. `None` if the image
    /// has all of them by now.
    pub(crate) fn compile(
        &self,
        module: &CompiledModule,
        functions: &BTreeSet<u32>,
        callees: bool,
    ) -> Result<Option<Round>, LoadError> {
        // Functions that all images have are present, too.
        let known = |function: &u32| !self.left_out.contains(function);
        let mut present = self.present();
        present.extend((0..module.compiled.function_count()).filter(known));
        let most = if callees { ROUND_BYTES } else { 0 };
        let from = functions.iter().copied();
        let functions = module.compiled.reached(from, &present, most);
        if functions.is_empty() {
            return Ok(None);
        }
        let rounds = self.rounds_of(&module.prefix, vec![functions])?;
        Ok(rounds.into_iter().next())
    }

    /// Adds a round to the next image.
    pub(crate) fn add(&self, round: Round) {
        lock(&self.rounds).push(round);
    }

    /// Takes back the last round, which no image has got.
    pub(crate) fn take_back(&self) {
        lock(&self.rounds).pop();
    }

    /// Keeps what the image has for the next program.
    pub(crate) fn keep(&self) {
        let rounds = lock(&self.rounds);
        let functions = rounds.iter().map(|round| &round.functions);
        self.asked.write(self.source.name(), functions);
    }
}

#[cfg(test)]
mod tests {
    use everwarp_cache::Cache;
    use everwarp_compiler::FirstFunctions;
    use tempfile::TempDir;

    use super::*;

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
            let choice = CompileChoice {
                first: Some(FirstFunctions { least: 0, most }),
                ..CompileChoice::default()
            };
            let compiled = compile_module(&self.module, PREFIX, choice, BTreeSet::new());
            let compiled = compiled.expect("it is supported");
            let cache = Cache::at(&self.folder.path().join("cache"));
            let asked = AskedFunctions::of(b"m", cache);
            let (parts, partial) = Partial::of(&self.module, choice, &compiled, asked)?;
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
        let [first, stand_ins] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        for function in [A, B, C] {
            assert!(partial.leaves_out(function));
            assert!(defines(&stand_ins.ptx, ".weak .func", function));
            assert!(!defines(&first.ptx, ".visible .func", function));
        }
        assert!(!partial.leaves_out(START) && !partial.leaves_out(99));
        assert!(defines(&first.ptx, ".visible .func", START));
        assert!(first.ptx.contains(&format!("{PREFIX}enter(")));
        assert!(partial.parts().is_empty());
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
    fn functions_come_with_those_that_they_call() {
        let (module, _, partial) = World::new().partial(0).expect("functions are left out");
        let compile = |functions: &[u32], callees| {
            let round = partial.compile(&module, &set(functions), callees);
            round.expect("it compiles")
        };
        let round = compile(&[A], true).expect("it is missing");
        assert_eq!(round.functions, set(&[A, B]));
        assert!(defines(&round.part.ptx, ".visible .func", A));
        assert!(defines(&round.part.ptx, ".visible .func", B));
        assert!(!round.part.ptx.contains(&format!("{PREFIX}enter(")));
        let alone = compile(&[A], false).expect("it is missing");
        assert_eq!(alone.functions, set(&[A]));
        partial.add(round);
        assert_eq!(partial.missing(), set(&[C]));
        assert!(compile(&[A, B], true).is_none(), "they are there");
        let next = compile(&[C, A], true).expect("one is missing");
        assert_eq!(next.functions, set(&[C]));
        partial.take_back();
        assert_eq!(partial.missing(), set(&[A, B, C]));
    }

    #[test]
    fn the_next_program_has_the_same_parts() {
        let world = World::new();
        let (module, parts, partial) = world.partial(0).expect("functions are left out");
        for functions in [&[C][..], &[B]] {
            let round = partial.compile(&module, &set(functions), false);
            let round = round.expect("it compiles").expect("it is missing");
            partial.add(round);
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

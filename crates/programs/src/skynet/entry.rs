//! The registry's entry of `skynet`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{SKYNET, Tree, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Skynet;

const N: ProgramOption =
    ProgramOption::number("--n", "How many leaves", 1_000_000).at_most(10_000_000);

impl NativeProgram for Skynet {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str = "a tree of actors, launched and added up";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "1000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        SKYNET.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(u64, Duration), RunError> {
        let tree = Tree::new(engine, n)?;
        let begin = Instant::now();
        let sum = tree.run()?;
        Ok((sum, begin.elapsed()))
    }
    fn reference(&self, &n: &u32) -> u64 {
        reference(n)
    }
    fn compare(&self, &output: &u64, &expected: &u64) -> Result<(), String> {
        same_number(output, expected)
    }
    fn facts(&self, _: &u32, &output: &u64) -> Facts {
        Facts {
            result: Some(output),
            ..Facts::default()
        }
    }
}

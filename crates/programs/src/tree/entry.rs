//! The registry's entry of `tree`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{PROGRAM, Tree, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct BinaryTree;

const N: ProgramOption =
    ProgramOption::number("--n", "How many levels there are below the root", 12).at_most(28);

impl NativeProgram for BinaryTree {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str =
        "a full binary tree of block-shaped tasks, each 256 loads and 256 multiply-adds";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "6")];

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(u64, Duration), RunError> {
        let tree = Tree::new(engine)?;
        tree.clear()?;
        let begin = Instant::now();
        tree.run_timed(engine, n)?;
        let elapsed = begin.elapsed();
        Ok((tree.sum()?, elapsed))
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

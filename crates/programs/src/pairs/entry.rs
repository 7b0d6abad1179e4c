//! The registry's entry of `pairs`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{PROGRAM, Pairs, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct DependentPairs;

const N: ProgramOption = ProgramOption::number("--n", "How many pairs", 10000);

impl NativeProgram for DependentPairs {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str =
        "pairs of tasks; the second needs the result of the first (for `bench A`)";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "1000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(u64, Duration), RunError> {
        let pairs = Pairs::new(engine, n)?;
        pairs.clear()?;
        let begin = Instant::now();
        pairs.run_on_device(engine, true)?;
        let elapsed = begin.elapsed();
        Ok((pairs.sum()?, elapsed))
    }
    fn reference(&self, &n: &u32) -> u64 {
        (0..n).fold(0, |sum, pair| sum.wrapping_add(reference(pair, 1)))
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

//! The registry's entry of `range`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{FAN, GRAIN_UNIT, PROGRAM, Range};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct CountedRange;

/// Cells in one grain.
const GRAIN: u32 = 8 * GRAIN_UNIT;

const N: ProgramOption = ProgramOption::number("--n", "How many cells", 1000000);

impl NativeProgram for CountedRange {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str = "adds 1 to every cell of a range: a task for each cell, or ranges that divide themselves (for `bench B`)";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "10000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(u64, Duration), RunError> {
        let range = Range::new(engine, n, GRAIN)?;
        range.clear()?;
        let begin = Instant::now();
        range.run(engine, FAN)?;
        let elapsed = begin.elapsed();
        Ok((range.sum()?, elapsed))
    }
    fn reference(&self, &n: &u32) -> u64 {
        n.into()
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

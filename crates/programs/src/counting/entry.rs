//! The registry's entry of `counting`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{COUNTING, Count};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Counting;

const N: ProgramOption =
    ProgramOption::number("--n", "How many numbers", 1_000_000).at_most(1_000_000_000);
const PRODUCERS: ProgramOption =
    ProgramOption::number("--producers", "How many actors send them", 100).at_most(100_000);

impl NativeProgram for Counting {
    type Input = [u32; 2];
    type Output = (u64, u64);
    const ABOUT: &'static str = "numbers that many actors send to one";
    const OPTIONS: &'static [ProgramOption] = &[N, PRODUCERS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--n", "10000"), ("--producers", "10")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        COUNTING.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 2], InputError> {
        Ok([options.number(&N)?, options.at_least_one(&PRODUCERS)?])
    }
    fn run(
        &self,
        engine: &Engine,
        &[n, producers]: &[u32; 2],
    ) -> Result<((u64, u64), Duration), RunError> {
        let count = Count::new(engine, producers)?;
        let begin = Instant::now();
        let counted = count.run(n)?;
        Ok((counted, begin.elapsed()))
    }
    fn reference(&self, &[n, _]: &[u32; 2]) -> (u64, u64) {
        let n = u64::from(n);
        (n * n.saturating_sub(1) / 2, n)
    }
    fn compare(&self, output: &(u64, u64), expected: &(u64, u64)) -> Result<(), String> {
        same_number(output.0, expected.0)?;
        same_number(output.1, expected.1)
    }
    fn facts(&self, _: &[u32; 2], output: &(u64, u64)) -> Facts {
        Facts {
            result: Some(output.1),
            ..Facts::default()
        }
    }
}

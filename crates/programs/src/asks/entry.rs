//! The registry's entry of `asks`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{ASKS, Questions};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_pairs};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Asks;

const PAIRS: ProgramOption =
    ProgramOption::number("--pairs", "How many pairs of actors", 1000).at_most(1_000_000);
const QUESTIONS: ProgramOption =
    ProgramOption::number("--questions", "How often each of them asks", 1000);

impl NativeProgram for Asks {
    type Input = [u32; 2];
    /// For each asker, the replies and their sum.
    type Output = Vec<(u64, u64)>;
    const ABOUT: &'static str = "pairs of actors that ask and reply";
    const OPTIONS: &'static [ProgramOption] = &[PAIRS, QUESTIONS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--pairs", "50"), ("--questions", "100")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        ASKS.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 2], InputError> {
        Ok([options.at_least_one(&PAIRS)?, options.number(&QUESTIONS)?])
    }
    fn run(
        &self,
        engine: &Engine,
        &[pairs, questions]: &[u32; 2],
    ) -> Result<(Vec<(u64, u64)>, Duration), RunError> {
        let all = Questions::new(engine, pairs)?;
        let begin = Instant::now();
        let replies = all.run(questions)?;
        Ok((replies, begin.elapsed()))
    }
    fn reference(&self, &[pairs, questions]: &[u32; 2]) -> Vec<(u64, u64)> {
        let n = u64::from(questions);
        vec![(n, n * (n + 1) / 2); pairs as usize]
    }
    fn compare(&self, output: &Vec<(u64, u64)>, expected: &Vec<(u64, u64)>) -> Result<(), String> {
        same_pairs("asker", output, expected)
    }
    fn facts(&self, _: &[u32; 2], output: &Vec<(u64, u64)>) -> Facts {
        Facts {
            result: Some(output.iter().map(|(replies, _)| replies).sum()),
            ..Facts::default()
        }
    }
}

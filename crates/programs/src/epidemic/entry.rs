//! The registry's entry of `epidemic`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{EPIDEMIC, Population, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Epidemic;

const N: ProgramOption =
    ProgramOption::number("--n", "How many agents", 100_000).at_most(4_000_000);
const DAYS: ProgramOption = ProgramOption::number("--days", "How many days", 100).at_most(1_000);
const BEGIN: ProgramOption =
    ProgramOption::number("--begin", "How many are infected at the beginning", 10);
const RISK: ProgramOption =
    ProgramOption::number("--risk", "Percent of the meetings that infect", 4).at_most(100);

impl NativeProgram for Epidemic {
    type Input = [u32; 4];
    /// For each agent, the day on which it was infected, plus one; 0 for never.
    type Output = Vec<u64>;
    const ABOUT: &'static str = "agents that meet and infect each other, day by day";
    const OPTIONS: &'static [ProgramOption] = &[N, DAYS, BEGIN, RISK];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "2000"), ("--days", "30")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        EPIDEMIC.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 4], InputError> {
        Ok([
            options.at_least_one(&N)?,
            options.number(&DAYS)?,
            options.number(&BEGIN)?,
            options.number(&RISK)?,
        ])
    }
    fn run(
        &self,
        engine: &Engine,
        &[n, days, begin, risk]: &[u32; 4],
    ) -> Result<(Vec<u64>, Duration), RunError> {
        let population = Population::new(engine, n, risk)?;
        let start = Instant::now();
        let since = population.run(begin, days)?;
        Ok((since, start.elapsed()))
    }
    fn reference(&self, &[n, days, begin, risk]: &[u32; 4]) -> Vec<u64> {
        reference(n, begin, days, risk)
    }
    fn compare(&self, output: &Vec<u64>, expected: &Vec<u64>) -> Result<(), String> {
        match (output.iter().zip(expected)).position(|(got, wanted)| got != wanted) {
            None => Ok(()),
            Some(at) => Err(format!(
                "agent {at} was infected on day {} instead of {} (both plus one; 0 is never)",
                output[at], expected[at]
            )),
        }
    }
    fn facts(&self, _: &[u32; 4], output: &Vec<u64>) -> Facts {
        Facts {
            result: Some(output.iter().filter(|since| **since != 0).count() as u64),
            ..Facts::default()
        }
    }
}

//! The registry's entry of `philosophers`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{PHILOSOPHERS, Table};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Philosophers;

const N: ProgramOption =
    ProgramOption::number("--n", "How many philosophers, at least 2", 1000).at_most(1_000_000);
const MEALS: ProgramOption = ProgramOption::number("--meals", "How often each of them eats", 100);

impl NativeProgram for Philosophers {
    type Input = [u32; 2];
    /// The meals of each, and how often a fork had two holders.
    type Output = (Vec<u64>, u64);
    const ABOUT: &'static str = "philosophers that share forks, and never wait in a circle";
    const OPTIONS: &'static [ProgramOption] = &[N, MEALS];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "5"), ("--meals", "100")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        PHILOSOPHERS.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 2], InputError> {
        Ok([options.at_least_one(&N)?.max(2), options.number(&MEALS)?])
    }
    fn run(
        &self,
        engine: &Engine,
        &[n, meals]: &[u32; 2],
    ) -> Result<((Vec<u64>, u64), Duration), RunError> {
        let table = Table::new(engine, n)?;
        let begin = Instant::now();
        let eaten = table.run(meals)?;
        Ok((eaten, begin.elapsed()))
    }
    fn reference(&self, &[n, meals]: &[u32; 2]) -> (Vec<u64>, u64) {
        (vec![meals.into(); n as usize], 0)
    }
    fn compare(
        &self,
        (meals, errors): &(Vec<u64>, u64),
        (expected, _): &(Vec<u64>, u64),
    ) -> Result<(), String> {
        if *errors != 0 {
            return Err(format!("a fork had two holders {errors} times"));
        }
        match (meals.iter().zip(expected)).position(|(got, wanted)| got != wanted) {
            None => Ok(()),
            Some(at) => Err(format!(
                "philosopher {at} ate {} times instead of {}",
                meals[at], expected[at]
            )),
        }
    }
    fn facts(&self, _: &[u32; 2], (meals, _): &(Vec<u64>, u64)) -> Facts {
        Facts {
            result: Some(meals.iter().sum()),
            ..Facts::default()
        }
    }
}

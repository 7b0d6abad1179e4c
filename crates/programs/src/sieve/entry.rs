//! The registry's entry of `sieve`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{Line, SIEVE, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Sieve;

const N: ProgramOption =
    ProgramOption::number("--n", "Find the primes below this number", 100_000).at_most(10_000_000);

impl NativeProgram for Sieve {
    type Input = u32;
    type Output = Vec<u32>;
    const ABOUT: &'static str = "prime numbers by a growing line of actors";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "5000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        SIEVE.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(Vec<u32>, Duration), RunError> {
        let line = Line::new(engine, n)?;
        let begin = Instant::now();
        let primes = line.run(n)?;
        Ok((primes, begin.elapsed()))
    }
    fn reference(&self, &n: &u32) -> Vec<u32> {
        reference(n)
    }
    fn compare(&self, output: &Vec<u32>, expected: &Vec<u32>) -> Result<(), String> {
        if output == expected {
            return Ok(());
        }
        Err(format!(
            "{} primes instead of {}, or other ones",
            output.len(),
            expected.len()
        ))
    }
    fn facts(&self, _: &u32, output: &Vec<u32>) -> Facts {
        Facts {
            result: Some(output.len() as u64),
            ..Facts::default()
        }
    }
}

//! The registry's entry of `ring`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{RING, Ring, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct TokenRing;

const N: ProgramOption = ProgramOption::number("--n", "How many actors", 1000).at_most(1_000_000);
const TOKENS: ProgramOption =
    ProgramOption::number("--tokens", "How many tokens", 1).at_most(1_000_000);
const HOPS: ProgramOption =
    ProgramOption::number("--hops", "How often each token is passed on", 100_000);

impl NativeProgram for TokenRing {
    type Input = [u32; 3];
    type Output = Vec<u64>;
    const ABOUT: &'static str = "tokens that actors pass around a ring";
    const OPTIONS: &'static [ProgramOption] = &[N, TOKENS, HOPS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--n", "100"), ("--tokens", "10"), ("--hops", "1000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        RING.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 3], InputError> {
        Ok([
            options.at_least_one(&N)?,
            options.number(&TOKENS)?,
            options.number(&HOPS)?,
        ])
    }
    fn run(
        &self,
        engine: &Engine,
        &[n, tokens, hops]: &[u32; 3],
    ) -> Result<(Vec<u64>, Duration), RunError> {
        let ring = Ring::new(engine, n, tokens)?;
        let begin = Instant::now();
        ring.run(tokens, hops)?;
        let elapsed = begin.elapsed();
        Ok((ring.ended()?, elapsed))
    }
    fn reference(&self, &[n, tokens, hops]: &[u32; 3]) -> Vec<u64> {
        reference(n, tokens, hops)
    }
    fn compare(&self, output: &Vec<u64>, expected: &Vec<u64>) -> Result<(), String> {
        match output == expected {
            true => Ok(()),
            false => Err("tokens ended at other actors than they should".into()),
        }
    }
    fn facts(&self, &[_, tokens, hops]: &[u32; 3], _: &Vec<u64>) -> Facts {
        Facts {
            result: Some(u64::from(tokens) * u64::from(hops)),
            ..Facts::default()
        }
    }
}

//! The registry's entry of `big`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{BIG, Crowd, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_pairs};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct ManyToMany;

const N: ProgramOption =
    ProgramOption::number("--n", "How many actors", 100_000).at_most(4_000_000);
const HOPS: ProgramOption =
    ProgramOption::number("--hops", "How often each message is sent on", 10).at_most(10_000);

impl NativeProgram for ManyToMany {
    type Input = [u32; 2];
    type Output = Vec<(u64, u64)>;
    const ABOUT: &'static str = "many actors that send messages on at random";
    const OPTIONS: &'static [ProgramOption] = &[N, HOPS];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "1000"), ("--hops", "20")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        BIG.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 2], InputError> {
        Ok([options.at_least_one(&N)?, options.number(&HOPS)?])
    }
    fn run(
        &self,
        engine: &Engine,
        &[n, hops]: &[u32; 2],
    ) -> Result<(Vec<(u64, u64)>, Duration), RunError> {
        let crowd = Crowd::new(engine, n)?;
        let begin = Instant::now();
        crowd.run(hops)?;
        let elapsed = begin.elapsed();
        Ok((crowd.handled()?, elapsed))
    }
    fn reference(&self, &[n, hops]: &[u32; 2]) -> Vec<(u64, u64)> {
        reference(n, hops)
    }
    fn compare(&self, output: &Vec<(u64, u64)>, expected: &Vec<(u64, u64)>) -> Result<(), String> {
        same_pairs("actor", output, expected)
    }
    fn facts(&self, &[n, hops]: &[u32; 2], _: &Vec<(u64, u64)>) -> Facts {
        Facts {
            result: Some(u64::from(n) * (u64::from(hops) + 1)),
            ..Facts::default()
        }
    }
}

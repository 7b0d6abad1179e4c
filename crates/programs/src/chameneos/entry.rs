//! The registry's entry of `chameneos`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{CHAMENEOS, Meetings, Met};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Chameneos;

const N: ProgramOption =
    ProgramOption::number("--n", "How many creatures, at least 2", 100).at_most(1_000_000);
const MEETINGS: ProgramOption =
    ProgramOption::number("--meetings", "How often two of them meet", 200_000);

impl NativeProgram for Chameneos {
    type Input = [u32; 2];
    type Output = Met;
    const ABOUT: &'static str = "creatures that meet in pairs, all through one actor";
    const OPTIONS: &'static [ProgramOption] = &[N, MEETINGS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--n", "10"), ("--meetings", "2000")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        CHAMENEOS.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 2], InputError> {
        // One creature alone meets no other.
        Ok([options.at_least_one(&N)?.max(2), options.number(&MEETINGS)?])
    }
    fn run(&self, engine: &Engine, &[n, meetings]: &[u32; 2]) -> Result<(Met, Duration), RunError> {
        let all = Meetings::new(engine, n)?;
        let begin = Instant::now();
        let met = all.run(meetings)?;
        Ok((met, begin.elapsed()))
    }
    fn reference(&self, &[_, meetings]: &[u32; 2]) -> Met {
        Met {
            counted: 2 * u64::from(meetings),
            errors: 0,
        }
    }
    fn compare(&self, output: &Met, expected: &Met) -> Result<(), String> {
        match output == expected {
            true => Ok(()),
            false => Err(format!("{output:?} instead of {expected:?}")),
        }
    }
    fn facts(&self, _: &[u32; 2], output: &Met) -> Facts {
        Facts {
            result: Some(output.counted / 2),
            ..Facts::default()
        }
    }
}

//! The registry's entry of `pingpong`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{PROGRAM, instance, reference, run};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct PingPong;

const N: ProgramOption =
    ProgramOption::number("--n", "How many steps follow the first task", 10000);

impl NativeProgram for PingPong {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str = "two tasks that spawn each other in turn";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "1000")];

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<u32, InputError> {
        options.number(&N)
    }
    fn run(&self, engine: &Engine, &n: &u32) -> Result<(u64, Duration), RunError> {
        let instance = instance(engine)?;
        let begin = Instant::now();
        let result = run(engine, &instance, n)?;
        Ok((result, begin.elapsed()))
    }
    fn reference(&self, &n: &u32) -> u64 {
        reference(n)
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

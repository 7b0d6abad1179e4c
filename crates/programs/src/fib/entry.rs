//! The registry's entry of `fib`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{MAX_N, PROGRAM, instance, reference, run};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Fibonacci;

const N: ProgramOption =
    ProgramOption::number("--n", "Which Fibonacci number to compute", 25).at_most(MAX_N);

impl NativeProgram for Fibonacci {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str =
        "Fibonacci numbers by their definition; every call is a task with a join";
    const OPTIONS: &'static [ProgramOption] = &[N];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[("--n", "15")];

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

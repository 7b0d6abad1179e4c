//! The registry's entry of `noop`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Error, Program};

use super::{NOTHING, PROGRAM, instance};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Nothing;

const N: ProgramOption = ProgramOption::number("--n", "How many tasks", 10000);

impl NativeProgram for Nothing {
    type Input = u32;
    type Output = u64;
    const ABOUT: &'static str = "tasks that do nothing, from the host";
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
        let tasks = vec![instance.task(NOTHING).build(); n as usize];
        let before = executed(engine)?;
        let begin = Instant::now();
        engine.submit_all(&tasks)?;
        let elapsed = begin.elapsed();
        Ok((executed(engine)? - before, elapsed))
    }
    fn reference(&self, &n: &u32) -> u64 {
        n.into()
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

/// How many tasks have run. The engine parks for it, so that the count is final.
fn executed(engine: &Engine) -> Result<u64, Error> {
    engine.park()?;
    let executed = engine.stats()?.executed;
    engine.resume()?;
    Ok(executed)
}

//! The registry's entry of `operators`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{Operators, PROGRAM, agrees, input, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct OperatorPipeline;

const ROWS: ProgramOption = ProgramOption::number("--rows", "How many rows", 1024).at_most(1 << 20);
const COLUMNS: ProgramOption =
    ProgramOption::number("--columns", "How many columns, a multiple of 4", 1024).at_most(1 << 12);

/// An input of the pipeline.
#[derive(Debug)]
pub struct Matrix {
    input: Vec<f32>,
    bias: Vec<f32>,
}

impl NativeProgram for OperatorPipeline {
    type Input = Matrix;
    /// Single precision from the engine, double precision from the reference.
    type Output = Vec<f64>;
    const ABOUT: &'static str =
        "bias and ReLU, then the softmax of each row, as dependent block tasks (for `bench E`)";
    const OPTIONS: &'static [ProgramOption] = &[ROWS, COLUMNS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--rows", "100"), ("--columns", "64")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<Matrix, InputError> {
        let columns = options.number(&COLUMNS)?;
        if columns == 0 || !columns.is_multiple_of(4) {
            return Err(InputError::Value {
                option: COLUMNS.flag,
                rule: "a positive multiple of 4".to_owned(),
                value: columns.into(),
            });
        }
        let (input, bias) = input(options.number(&ROWS)?, columns);
        Ok(Matrix { input, bias })
    }
    fn run(&self, engine: &Engine, matrix: &Matrix) -> Result<(Vec<f64>, Duration), RunError> {
        let pipeline = Operators::new(engine, &matrix.input, &matrix.bias)?;
        pipeline.clear()?;
        let begin = Instant::now();
        pipeline.run(engine)?;
        let elapsed = begin.elapsed();
        let output = pipeline.output()?;
        // A buffer has at least one element, so it is longer than the result of no rows.
        let cells = output.iter().take(matrix.input.len());
        Ok((cells.map(|&cell| cell.into()).collect(), elapsed))
    }
    fn reference(&self, matrix: &Matrix) -> Vec<f64> {
        reference(&matrix.input, &matrix.bias)
    }
    fn compare(&self, output: &Vec<f64>, expected: &Vec<f64>) -> Result<(), String> {
        let single: Vec<f32> = output.iter().map(|&cell| cell as f32).collect();
        match agrees(&single, expected) {
            true => Ok(()),
            false => Err("a cell is off by more than a ten-thousandth of its value".to_owned()),
        }
    }
    fn facts(&self, _: &Matrix, _: &Vec<f64>) -> Facts {
        Facts::default()
    }
}

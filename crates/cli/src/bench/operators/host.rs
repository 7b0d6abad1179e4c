//! The operators on the host's cores without the engine.

use everwarp_programs::operators::{ROWS, agrees, bias_relu_row, softmax_row};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};

use super::{COLUMNS, Problem, SIZES};
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

const ROW: usize = COLUMNS as usize;
/// Numbers of one task of the engine.
const TASK: usize = ROWS as usize * ROW;

struct OnHost {
    problem: Problem,
    middle: Vec<f32>,
    output: Vec<f32>,
    run: fn(&Problem, &mut [f32], &mut [f32]),
}

impl Work for OnHost {
    fn before(&mut self) -> Result<(), CliError> {
        self.output.fill(0.0);
        Ok(())
    }
    fn run(&mut self) -> Result<(), CliError> {
        (self.run)(&self.problem, &mut self.middle, &mut self.output);
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(agrees(&self.output, &self.problem.expected))
    }
}

fn measure(
    cx: &Context<'_>,
    what: &str,
    run: fn(&Problem, &mut [f32], &mut [f32]),
) -> Result<(), CliError> {
    sweep(cx, Label::new(what, "row", Role::Rival), &SIZES, |rows| {
        let problem = Problem::new(rows);
        let zeros = vec![0.0; problem.input.len()];
        Ok(OnHost {
            middle: zeros.clone(),
            output: zeros,
            problem,
            run,
        })
    })
}

/// Both operators on some rows; one small array holds the row between the two.
fn fuse(input: &[f32], bias: &[f32], output: &mut [f32]) {
    let mut between = [0.0; ROW];
    for (x, out) in input.chunks(ROW).zip(output.chunks_mut(ROW)) {
        bias_relu_row(x, bias, &mut between);
        softmax_row(&between, out);
    }
}

pub(super) fn threads(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a thread for each 8 rows, 64 at a time";
    measure(cx, what, |p, _, output| {
        let mut tasks = p.input.chunks(TASK).zip(output.chunks_mut(TASK)).peekable();
        while tasks.peek().is_some() {
            std::thread::scope(|scope| {
                for (input, output) in tasks.by_ref().take(64) {
                    scope.spawn(|| fuse(input, &p.bias, output));
                }
            });
        }
    })
}

pub(super) fn pool(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a pool (rayon) over all rows for each operator";
    measure(cx, what, |p, middle, output| {
        let rows = p.input.par_chunks(ROW).zip(middle.par_chunks_mut(ROW));
        rows.for_each(|(x, y)| bias_relu_row(x, &p.bias, y));
        let rows = middle.par_chunks(ROW).zip(output.par_chunks_mut(ROW));
        rows.for_each(|(x, y)| softmax_row(x, y));
    })
}

pub(super) fn pool_fused(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a pool (rayon) over all rows, both operators on each";
    measure(cx, what, |p, _, output| {
        let rows = p.input.par_chunks(ROW).zip(output.par_chunks_mut(ROW));
        rows.for_each(|(x, y)| fuse(x, &p.bias, y));
    })
}

pub(super) fn plain_loop(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a loop for each operator", |p, middle, output| {
        for (x, y) in p.input.chunks(ROW).zip(middle.chunks_mut(ROW)) {
            bias_relu_row(x, &p.bias, y);
        }
        for (x, y) in middle.chunks(ROW).zip(output.chunks_mut(ROW)) {
            softmax_row(x, y);
        }
    })
}

pub(super) fn loop_fused(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a loop, both operators on each row", |p, _, output| {
        fuse(&p.input, &p.bias, output);
    })
}

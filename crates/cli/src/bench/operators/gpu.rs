//! The operators by kernels.

use everwarp::cuda::baseline::{Baseline, Operators, OperatorsWay};
use everwarp_programs::operators::agrees;

use super::{Problem, SIZES};
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

struct Launched<'b> {
    operators: Operators<'b>,
    expected: Vec<f64>,
}

impl Work for Launched<'_> {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.operators.clear()?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.operators.run()?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(agrees(&self.operators.output()?, &self.expected))
    }
}

fn measure(cx: &Context<'_>, way: OperatorsWay, what: &str) -> Result<(), CliError> {
    let base = Baseline::new(cx.gpu())?;
    sweep(cx, Label::new(what, "row", Role::Rival), &SIZES, |rows| {
        let problem = Problem::new(rows);
        Ok(Launched {
            operators: Operators::new(&base, way, &problem.input, &problem.bias)?,
            expected: problem.expected,
        })
    })
}

pub(super) fn kernels(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a kernel for each operator, one wait";
    measure(cx, OperatorsWay::Kernels, what)
}
pub(super) fn graph(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, OperatorsWay::Graph, "a graph of the two kernels")
}
pub(super) fn fused(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, OperatorsWay::Fused, "both operators in one kernel")
}

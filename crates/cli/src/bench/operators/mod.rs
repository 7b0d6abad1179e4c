//! E: bias and ReLU, then the softmax of each row.

mod gpu;
mod host;

use everwarp::Engine;
use everwarp_programs::operators::{self, Operators};

use super::experiment::{Context, Experiment, On, Part};
use super::stats::Role;
use super::work::{Label, Work, sweep};
use crate::error::CliError;

/// Numbers of rows.
pub(super) const SIZES: [u64; 3] = [256, 4096, 16_384];
/// Numbers in a row.
const COLUMNS: u32 = 1024;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E",
    title: "two operators in a row",
    about: "Bias and ReLU, then the softmax of each row of 1,024 numbers. The engine runs both as block tasks of 8 \
            rows, the second of the same rows spawned by the first. `fused` keeps a row in registers between the \
            operators and saves the traffic to memory between them: where operators can be fused beforehand, fusing is better than \
            scheduling them.",
    parts: &[
        Part::many("kernels", On::Cuda, gpu::kernels),
        Part::many("graph", On::Cuda, gpu::graph),
        Part::many("fused", On::Cuda, gpu::fused),
        Part::many("threads", On::Cpu, host::threads),
        Part::many("pool", On::Cpu, host::pool),
        Part::many("pool_fused", On::Cpu, host::pool_fused),
        Part::many("loop", On::Cpu, host::plain_loop),
        Part::many("loop_fused", On::Cpu, host::loop_fused),
        Part::many("tasks", On::Both, tasks),
    ],
};

/// An input with its reference.
pub(super) struct Problem {
    pub(super) input: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) expected: Vec<f64>,
}

impl Problem {
    pub(super) fn new(rows: u64) -> Self {
        let (input, bias) = operators::input(rows as u32, COLUMNS);
        let expected = operators::reference(&input, &bias);
        Self {
            input,
            bias,
            expected,
        }
    }
}

struct Ours {
    engine: Engine,
    operators: Operators,
    expected: Vec<f64>,
}

impl Work for Ours {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.operators.clear()?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok(self.operators.run(&self.engine)?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(operators::agrees(&self.operators.output()?, &self.expected))
    }
}

fn tasks(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = cx.device.engine().program(&operators::PROGRAM).start()?;
    let what = "block tasks of 8 rows; the first operator's spawns the second's";
    sweep(cx, Label::new(what, "row", Role::Ours), &SIZES, |rows| {
        let problem = Problem::new(rows);
        Ok(Ours {
            engine: engine.clone(),
            operators: Operators::new(&engine, &problem.input, &problem.bias)?,
            expected: problem.expected,
        })
    })
}

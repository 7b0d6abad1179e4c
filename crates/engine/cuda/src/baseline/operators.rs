//! Two operators by kernels.

use everwarp_engine::EngineError;

use super::Baseline;
use super::graph::Graph;
use super::launch::{Shape, args, blocks};
use super::memory::Memory;

/// Columns that the kernels are written for.
const COLUMNS: u32 = 1024;

/// How the operators are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorsWay {
    /// A kernel for each operator.
    Kernels,
    /// A graph of the two kernels.
    Graph,
    /// Both operators in one kernel, which keeps the row between them in registers.
    Fused,
}

/// Operators ready to run.
#[derive(Debug)]
pub struct Operators<'b> {
    base: &'b Baseline,
    way: OperatorsWay,
    rows: u32,
    input: Memory<f32>,
    bias: Memory<f32>,
    middle: Memory<f32>,
    output: Memory<f32>,
    /// One thread for four numbers, and one warp for a row.
    by_quads: Shape,
    by_rows: Shape,
    graph: Option<Graph>,
}

impl<'b> Operators<'b> {
    /// Copies input and bias to the device.
    ///
    /// # Panics
    /// The bias has not 1,024 numbers, or the input is not made of rows of as many.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(
        base: &'b Baseline,
        way: OperatorsWay,
        input: &[f32],
        bias: &[f32],
    ) -> Result<Self, EngineError> {
        assert!(
            bias.len() == COLUMNS as usize && input.len().is_multiple_of(bias.len()),
            "the kernels are written for rows of {COLUMNS}"
        );
        let rows = (input.len() / bias.len()) as u32;
        let second = match way {
            OperatorsWay::Fused => c"base_fused",
            _ => c"base_softmax",
        };
        let shape = |name, threads| {
            Ok::<_, EngineError>(Shape {
                kernel: base.kernel(name)?,
                grid: blocks(threads, 256),
                block: 256,
            })
        };
        let mut made = Self {
            base,
            way,
            rows,
            input: Memory::from(base, input)?,
            bias: Memory::from(base, bias)?,
            middle: Memory::new(base, input.len())?,
            output: Memory::new(base, input.len())?,
            by_quads: shape(c"base_bias_relu", rows * (COLUMNS / 4))?,
            by_rows: shape(second, rows * 32)?,
            graph: None,
        };
        if way == OperatorsWay::Graph {
            made.graph = Some(made.build()?);
        }
        Ok(made)
    }

    fn build(&self) -> Result<Graph, EngineError> {
        let nodes = self.base.nodes()?;
        let (mut input, mut bias, mut rows) = (self.input.at, self.bias.at, self.rows);
        let (mut middle, mut output) = (self.middle.at, self.output.at);
        // SAFETY: the kernels' parameters; all arrays have `rows` rows and live as long as the graph.
        unsafe {
            let params = &mut args![input, bias, middle, rows];
            let first = nodes.add(self.by_quads, params, &[])?;
            nodes.add(self.by_rows, &mut args![middle, output, rows], &[first])?;
        }
        nodes.finish()
    }

    /// Runs both operators once and waits for them.
    ///
    /// # Errors
    /// The device refuses.
    pub fn run(&self) -> Result<(), EngineError> {
        let (mut input, mut bias, mut rows) = (self.input.at, self.bias.at, self.rows);
        let (mut middle, mut output) = (self.middle.at, self.output.at);
        match (&self.graph, self.way) {
            (Some(graph), _) => graph.launch(&self.base.stream)?,
            // SAFETY: the kernel's parameters; all arrays have `rows` rows.
            (None, OperatorsWay::Fused) => unsafe {
                let params = &mut args![input, bias, output, rows];
                self.base.launch(self.by_rows, params)?;
            },
            // SAFETY: as above.
            (None, _) => unsafe {
                let params = &mut args![input, bias, middle, rows];
                self.base.launch(self.by_quads, params)?;
                self.base
                    .launch(self.by_rows, &mut args![middle, output, rows])?;
            },
        }
        self.base.stream.synchronize()
    }

    /// Forgets the last result.
    ///
    /// # Errors
    /// The device refuses.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.output.fill(0)
    }

    /// The last result.
    ///
    /// # Errors
    /// The device refuses.
    pub fn output(&self) -> Result<Vec<f32>, EngineError> {
        self.output.read()
    }
}

//! `operators`: bias and ReLU, then the softmax of each row, as block tasks: the second operator of a few
//! rows follows the first of the same rows, not the first of all.

mod entry;
#[path = "operators.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, Engine, Error, Instance, dev_struct, program};

use twin::{bias_relu, softmax, spread};

pub use entry::{Matrix, OperatorPipeline};

/// Rows of one task: one for each warp of a block.
pub const ROWS: u32 = 8;

dev_struct! {
    /// Parameters of `operators`.
    pub struct DevOperators: align 16, size 48 {
        /// `rows` by `columns` numbers.
        pub input: DevPtr<f32>,
        /// `columns` numbers.
        pub bias: DevPtr<f32>,
        /// The output of the first operator, as large as the input.
        pub middle: DevPtr<f32>,
        /// The output of the second operator.
        pub output: DevPtr<f32>,
        /// How many rows.
        pub rows: u32,
        /// How many columns, a multiple of 4.
        pub columns: u32,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

program! {
    /// The program.
    pub static PROGRAM: operators(DevOperators), "operators.cu"; wgsl "operators.wgsl" {
        /// Halves a range of rows (first | count << 32) down to [`ROWS`].
        SPREAD: lane(spread).spawns(2),
        /// A block that adds the bias to up to [`ROWS`] rows, sets negative results to 0 and spawns `SOFTMAX`.
        BIAS_RELU: block(bias_relu).spawns(1),
        /// A block that takes the softmax of up to [`ROWS`] rows.
        SOFTMAX: block(softmax),
    }
}

/// The first operator on one row.
pub fn bias_relu_row(input: &[f32], bias: &[f32], output: &mut [f32]) {
    for ((out, x), b) in output.iter_mut().zip(input).zip(bias) {
        *out = (x + b).max(0.0);
    }
}

/// The second operator on one row: exp(x - m) / sum of exp(x - m), with m the largest x.
pub fn softmax_row(input: &[f32], output: &mut [f32]) {
    let most = input.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for (out, x) in output.iter_mut().zip(input) {
        *out = (x - most).exp();
        sum += *out;
    }
    output.iter_mut().for_each(|out| *out /= sum);
}

/// An input of `rows` by `columns` numbers between -4 and 4, and a bias.
pub fn input(rows: u32, columns: u32) -> (Vec<f32>, Vec<f32>) {
    let number = |i: u64| {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        mixed as f32 / (1 << 21) as f32 - 4.0
    };
    let cells = u64::from(rows) * u64::from(columns);
    let bias = (cells..cells + u64::from(columns)).map(number).collect();
    ((0..cells).map(number).collect(), bias)
}

/// Both operators, computed plainly in double precision.
pub fn reference(input: &[f32], bias: &[f32]) -> Vec<f64> {
    let mut output = Vec::with_capacity(input.len());
    for row in input.chunks(bias.len()) {
        let exps: Vec<f64> = row
            .iter()
            .zip(bias)
            .map(|(x, b)| f64::from((x + b).max(0.0)).exp())
            .collect();
        let sum: f64 = exps.iter().sum();
        output.extend(exps.iter().map(|e| e / sum));
    }
    output
}

/// Whether a result in single precision equals the reference to within a ten-thousandth of each value:
/// fast exponentials of a GPU are good to about 2 in a million.
pub fn agrees(output: &[f32], expected: &[f64]) -> bool {
    output.len() == expected.len()
        && output
            .iter()
            .zip(expected)
            .all(|(&a, &b)| (f64::from(a) - b).abs() <= 1e-4 * b)
}

/// A pipeline ready to run.
#[derive(Debug)]
pub struct Operators {
    instance: Instance,
    output: Buffer<f32>,
    rows: u32,
    _buffers: [Buffer<f32>; 3],
}

impl Operators {
    /// Copies an input and a bias to the engine.
    ///
    /// # Panics
    /// The input is not made of rows as long as the bias, or that is no positive multiple of 4.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, input: &[f32], bias: &[f32]) -> Result<Self, Error> {
        let columns = bias.len();
        assert!(
            columns > 0 && columns.is_multiple_of(4) && input.len().is_multiple_of(columns),
            "rows are as long as the bias, which is a multiple of 4"
        );
        let rows = (input.len() / columns) as u32;
        let (middle, output) = (engine.buffer(input.len())?, engine.buffer(input.len())?);
        let (input, bias) = (engine.buffer_from(input)?, engine.buffer_from(bias)?);
        let params = DevOperators {
            input: input.ptr(),
            bias: bias.ptr(),
            middle: middle.ptr(),
            output: output.ptr(),
            rows,
            columns: columns as u32,
            reserved: 0,
        };
        // SAFETY: the buffers have the sizes that the program asks for and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            output,
            rows,
            _buffers: [input, bias, middle],
        })
    }
    /// Forgets the last result.
    ///
    /// # Errors
    /// The copy fails.
    pub fn clear(&self) -> Result<(), Error> {
        self.output.fill_bytes(0)
    }
    /// Runs both operators on all rows.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, engine: &Engine) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        let root = self.instance.task(SPREAD).args(0, self.rows);
        engine.run(root).map(drop)
    }
    /// The result of the last run.
    ///
    /// # Errors
    /// The copy fails.
    pub fn output(&self) -> Result<Vec<f32>, Error> {
        self.output.read()
    }
}

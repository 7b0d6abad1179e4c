//! Ring kernels for benchmarks and the conformance suite: each handler is a closure for the CPU and CUDA C++ for a GPU.

use std::time::{Duration, Instant};

use everwarp::ring::{CudaHandler, Failure, RingError, RingKernel};

/// The message for which [`count`] fails.
pub const REFUSED: u64 = 13;
/// With which number.
pub const REASON: i32 = 7;

/// Repeats the first number of a message, and says how many messages were handled before. It takes all numbers but
/// [`REFUSED`].
///
/// # Errors
/// Those of [`RingKernel::new`].
pub fn count() -> Result<RingKernel<u64, u64>, RingError> {
    let mut handled = 0;
    let kernel = RingKernel::new(
        "count",
        &[2],
        &[2],
        move |input: &[u64], output: &mut [u64]| {
            output.copy_from_slice(&[input[0], handled]);
            handled += 1;
            match input[0] {
                REFUSED => Err(Failure::new(format!("the handler returned {REASON}"))),
                _ => Ok(()),
            }
        },
    )?;
    Ok(kernel.cuda(CudaHandler::new(include_str!("count.cu")).zeroed_state(8)))
}

/// Multiplies and adds, in place of a message's elements: `2 x + 1`, all threads of a block together.
///
/// # Errors
/// Those of [`RingKernel::new`].
pub fn scale(elements: usize) -> Result<RingKernel<f32, f32>, RingError> {
    let twin = |input: &[f32], output: &mut [f32]| {
        for (from, to) in input.iter().zip(output) {
            *to = 2.0 * from + 1.0;
        }
        Ok(())
    };
    let kernel = RingKernel::new("scale", &[elements], &[elements], twin)?;
    Ok(kernel.cuda(CudaHandler::new(include_str!("scale.cu"))))
}

/// Computes for as many nanoseconds as a message says, then answers as [`count`].
///
/// # Errors
/// Those of [`RingKernel::new`].
pub fn busy() -> Result<RingKernel<u64, u64>, RingError> {
    let mut handled = 0;
    let kernel = RingKernel::new(
        "busy",
        &[2],
        &[2],
        move |input: &[u64], output: &mut [u64]| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_nanos(input[1]) {
                std::hint::spin_loop();
            }
            output.copy_from_slice(&[input[0], handled]);
            handled += 1;
            Ok(())
        },
    )?;
    Ok(kernel.cuda(CudaHandler::new(include_str!("busy.cu")).zeroed_state(8)))
}

//! A ring kernel whose handler is a module, for the CPU engine and for GPUs.

use everwarp::buffer::{DType, Shape};
use everwarp::ring::{RawKernel, RingModule, Signature};

/// Adds up messages in its memory, counts them in a variable, and has a word of data; traps for 0. It is for ring kernels.
const SUMS: &str = r#"(module
  (memory (export "memory") 1)
  (global (export "input") i32 (i32.const 16))
  (global (export "output") i32 (i32.const 32))
  (global $count (mut i64) (i64.const 5))
  (data (i32.const 104) "\07\00\00\00\00\01")
  (func $sum (param $n i64) (result i64)
    (if (i64.eqz (local.get $n)) (then unreachable))
    (i64.add (i64.load (i32.const 32)) (local.get $n)))
  (func (export "handle")
    (global.set $count (i64.add (global.get $count) (i64.const 1)))
    (i64.store (i32.const 40) (global.get $count))
    (i64.store (i32.const 48) (i64.load (i32.const 104)))
    (i64.store (i32.const 32) (call $sum (i64.load (i32.const 16))))))"#;

/// A ring kernel whose handler is a module: a message of one number, and a result of three.
pub(crate) fn ring_sums() -> RawKernel {
    let signature = |elements: usize| Signature {
        dtype: DType::I64,
        shape: Shape::new(&[elements]).expect("small"),
    };
    let (input, output) = (signature(1), signature(3));
    let bytes = wat::parse_str(SUMS).expect("it is a module");
    let module = RingModule::new("sums", &bytes, &input, &output).expect("it fits");
    let cuda = RingModule::cuda("sums", &bytes, &input, &output).expect("it fits a GPU");
    RawKernel::new("sums", input, output, module).cuda(cuda)
}

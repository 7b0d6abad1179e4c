//! The program of a kernel that runs as device code: the task that counts messages, and the one that handles them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use everwarp_buffer::DType;
use everwarp_runtime::{Function, Layout, Params, Program, ProgramRef, Shape, TaskCx, Twin};

use super::layout::{DevRing, DevRingMessage, DevRingOwn, DevRingWords};
use super::twin;
use crate::handler::{CudaHandler, Form, Handler, Signature};

/// Counts the messages that are handed over; the argument says how many they are.
pub(crate) const KICK: u32 = 0;
/// Handles messages.
pub(crate) const TURN: u32 = 1;

/// The program of a handler in CUDA C++. Kernels with the same handler share it.
pub(crate) fn of_cuda(
    kernel: &str,
    cuda: &CudaHandler,
    input: &Signature,
    output: &Signature,
) -> ProgramRef {
    let body = text(kernel, cuda, input.dtype, output.dtype);
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let name = format!("ring_{:016x}", hasher.finish());
    let source = body.replace(PROGRAM, &name);
    let gone: fn(&mut dyn TaskCx) = |_| unreachable!("the CPU engine runs no handlers of a GPU");
    made(name, source, [Twin::Function(gone), Twin::Function(gone)])
}

/// A program whose tasks run a handler of the host: for tests, on the CPU engine.
pub(crate) fn of_host(
    number: u64,
    handler: Arc<Mutex<Box<dyn Handler>>>,
    bytes: (usize, usize),
) -> ProgramRef {
    let turn = Twin::new(move |task| {
        let mut handler = handler.lock().unwrap_or_else(PoisonError::into_inner);
        twin::turn(task, &mut **handler, bytes);
    });
    let twins = [Twin::Function(twin::kick), turn];
    made(format!("ring_host_{number}"), String::new(), twins)
}

fn made(name: String, source: String, [kick, turn]: [Twin; 2]) -> ProgramRef {
    let functions = vec![
        Function::shaped(Shape::Lane, "kick".into(), kick).spawns(1),
        Function::shaped(Shape::Block, "turn".into(), turn).spawns(1),
    ];
    Arc::new(Program {
        name: name.into(),
        functions: functions.into(),
        device_source: source.into(),
        wgsl_source: "".into(),
        params: Params::written(DevRing::NAME, |out| {
            DevRingWords::write_struct(out)?;
            DevRingMessage::write_struct(out)?;
            DevRingOwn::write_struct(out)?;
            DevRing::write_struct(out)
        }),
    })
    .into()
}

/// Stands for the program's name in its text.
const PROGRAM: &str = "$PROGRAM";

/// The device source. Types that C has in a header are declared next to the handler, because its text includes nothing.
fn text(kernel: &str, cuda: &CudaHandler, input: DType, output: DType) -> String {
    let file: String = kernel
        .chars()
        .map(|c| {
            if c.is_control() || "\"\\".contains(c) {
                '_'
            } else {
                c
            }
        })
        .collect();
    let call = match cuda.form {
        Form::Function => format!(
            "(u64)(u32){PROGRAM}_handler::handle((const {}*)input, ring.inputs, ({}*)output, ring.outputs, (void*)ring.state)",
            c_type(input),
            c_type(output)
        ),
        Form::Module => format!("{PROGRAM}_handler::handle(t, input, output, ring.state)"),
    };
    format!(
        "#include \"everwarp/ring/ring.cuh\"\n{}\
         namespace {PROGRAM}_handler {{\n\
         using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long long;\n\
         using uint8_t = u8; using uint16_t = u16; using uint32_t = u32; using uint64_t = u64;\n\
         #line 1 \"{file}\"\n{}\n}}\n#line 1 \"ring\"\n\
         __device__ __forceinline__ void {PROGRAM}_kick(ew::Lane& t, const DevRing& ring) {{\n  \
         ew::ring_kick(t, ring, FN_{PROGRAM}_turn);\n}}\n\
         __device__ __forceinline__ void {PROGRAM}_turn(ew::Block& t, const DevRing& ring) {{\n  \
         ew::ring_turn(t, ring, FN_{PROGRAM}_turn, [&](const u8* input, u8* output) -> u64 {{\n    \
         return {call};\n  }});\n}}\n",
        match cuda.form {
            Form::Function => "",
            Form::Module => "#include \"everwarp/wasm/guest.cuh\"\n",
        },
        cuda.source
    )
}

/// What CUDA C++ calls a type of elements.
fn c_type(dtype: DType) -> &'static str {
    match (dtype.kind(), dtype.size()) {
        ('b', _) => "bool",
        ('f', 4) => "float",
        ('f', _) => "double",
        ('i', 1) => "signed char",
        ('i', 2) => "short",
        ('i', 4) => "int",
        ('i', _) => "long long",
        (_, 1) => "u8",
        (_, 2) => "u16",
        (_, 4) => "u32",
        _ => "u64",
    }
}

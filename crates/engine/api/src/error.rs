//! The errors of an engine.

use std::time::Duration;

/// An error of an engine. The message says how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The device has no memory left for the request.
    #[error(
        "out of {kind} memory: {bytes} bytes were asked for ({detail}); use smaller pools or buffers"
    )]
    OutOfMemory {
        /// `device` or `pinned host`.
        kind: &'static str,
        /// The size of the request.
        bytes: u64,
        /// The driver's message.
        detail: String,
    },
    /// Tasks did not end, so the engine could not park.
    #[error("the engine did not park within {grace:?}: a task does not end; workers:\n{report}")]
    Stuck {
        /// How long the engine was given.
        grace: Duration,
        /// The state of each worker.
        report: String,
    },
    /// A size that the device cannot hold.
    #[error("this engine can have a size of {min} to {max}, not {asked}")]
    Size {
        /// The size asked for.
        asked: u32,
        /// The smallest possible.
        min: u32,
        /// The largest possible.
        max: u32,
    },
    /// The device has an engine already.
    #[error(
        "{device} has an engine of this process already, and can have one at a time: end that engine first, with all that \
         was started on it, or use the CPU engine for one of the two"
    )]
    Occupied {
        /// The device's name.
        device: String,
    },
    /// A pool or ring size that cannot work.
    #[error("{what} must be {rule}, not {value}")]
    Pool {
        /// The pool or ring.
        what: &'static str,
        /// The rule it breaks.
        rule: &'static str,
        /// The value given.
        value: u64,
    },
    /// A function may spawn more tasks in one call than an engine can promise room for.
    #[error(
        "function `{function}` of program `{program}` declares max_spawn = {value}, but the limit is {limit}: spawn \
         in several steps, each task a part of the rest"
    )]
    MaxSpawn {
        /// The program.
        program: String,
        /// The function.
        function: String,
        /// The declared number.
        value: u16,
        /// The most it may declare.
        limit: u16,
    },
    /// A variable of the environment that cannot be used.
    #[error("{name} is `{value}`: give {rule}, or unset it")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The call needs a parked engine.
    #[error("the engine is running: park it before {action}")]
    NotParked {
        /// The attempted action.
        action: &'static str,
    },
    /// The call needs a running engine.
    #[error("the engine is parked: resume it before {action}")]
    Parked {
        /// The attempted action.
        action: &'static str,
    },
    /// The image was changed in a way that queued tasks would not survive.
    #[error(
        "a new image must begin with the programs of the old one ({old}), but begins with {new}"
    )]
    ImageOrder {
        /// The old list.
        old: String,
        /// The new list.
        new: String,
    },
    /// A heap cannot grow that far.
    #[error(
        "the heap has {size} bytes and may grow to {limit}, which {bytes} more would exceed: start the engine with a \
         larger HeapConfig::limit"
    )]
    HeapLimit {
        /// Its size.
        size: u64,
        /// The size that it may grow to.
        limit: u64,
        /// The size of the request.
        bytes: u64,
    },
    /// A call into the driver failed.
    #[error("{call} failed: {name} ({code})")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its error code.
        code: i32,
        /// The code's name.
        name: String,
    },
    /// The image could not be compiled.
    #[error("the image could not be compiled: {0}")]
    Compile(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The code of a module could not be assembled or linked by a compiler's child process.
    #[error("the image could not be made: {0}")]
    Assemble(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Code that is linked into the image could not be assembled or linked by the driver.
    #[error(
        "{part} could not be linked into the image: {call} failed: {name} ({code}); the driver's log:\n{log}"
    )]
    Link {
        /// The part's name.
        part: String,
        /// The driver's function.
        call: &'static str,
        /// Its error code.
        code: i32,
        /// The code's name.
        name: String,
        /// The log of the driver's assembler or linker.
        log: String,
    },
    /// The machine code of a linked image does not say how large its stack frames are.
    #[error(
        "the driver's linker left no stack frames in the image's machine code, so no depth of calls is safe: \
         update the driver, or use --engine cpu"
    )]
    Frames,
    /// A program has no source for this engine.
    #[error(
        "program `{program}` has no source for the {engine} engine: use another engine, or write one next to the others"
    )]
    NoSource {
        /// The program.
        program: String,
        /// The engine.
        engine: crate::EngineKind,
    },
    /// The engine does not offer this.
    #[error("the {engine} engine does not have {what} yet: use --engine cpu or --engine cuda")]
    NotHere {
        /// The missing part.
        what: &'static str,
        /// The engine.
        engine: crate::EngineKind,
    },
    /// The adapter cannot hold the engine.
    #[error(
        "the adapter {adapter} offers {value} {what}, but the engine needs {needed}: use another adapter or engine"
    )]
    Adapter {
        /// The adapter's name.
        adapter: String,
        /// The limit.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least that is needed.
        needed: u64,
    },
    /// The driver does not do what it promises.
    #[error("the adapter {adapter} {fault}")]
    BadDriver {
        /// The adapter's name.
        adapter: String,
        /// The wrong behaviour, and how to mend it.
        fault: String,
    },
    /// The engine was lost earlier, because it got stuck.
    #[error("the engine was lost: {reason}")]
    Lost {
        /// The reason.
        reason: String,
    },
    /// The operating system refused a thread or memory.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

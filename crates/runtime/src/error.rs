//! The errors of this crate, with the blame and the remedy.

use std::fmt;
use std::time::Duration;

use everwarp_contract::{HeapOwner, TokenId};
use everwarp_engine::EngineError;
use everwarp_engine_cuda::CudaUnavailable;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such engine.
    #[error("there is no engine called `{name}`: use cpu, cuda, wgpu or auto")]
    UnknownEngine {
        /// The given name.
        name: String,
    },
    /// There is no CUDA device to use.
    #[error(transparent)]
    Cuda(#[from] CudaUnavailable),
    /// There is no adapter to use.
    #[cfg(feature = "wgpu")]
    #[error(transparent)]
    Wgpu(#[from] everwarp_engine_wgpu::WgpuUnavailable),
    /// The wgpu engine is not in this program.
    #[error(
        "this program was built without the wgpu engine: build it with the feature `wgpu`, or use --engine cpu or cuda"
    )]
    NotBuilt,
    /// The engine or the driver failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The submission ring, the tokens or the arena have no room.
    #[error("the engine takes no more for now: {what} is full; wait for an earlier submission")]
    Full {
        /// The ring or pool that is full.
        what: &'static str,
    },
    /// A batch that can never fit.
    #[error(
        "a batch of {tasks} tasks is larger than the arena ({limit}): use submit_all, or larger pools"
    )]
    BatchTooLarge {
        /// Tasks in the batch.
        tasks: usize,
        /// The arena's size.
        limit: u32,
    },
    /// A batch without tasks.
    #[error("a batch needs at least one task")]
    BatchEmpty,
    /// A descriptor in a batch that its instance cannot have made.
    #[error(
        "task {index} of the batch names a function that its instance does not have, or sets flags: build tasks with \
         Instance::task, and keep the instance until they are submitted"
    )]
    BadTask {
        /// Its place in the batch.
        index: usize,
    },
    /// A batch whose tasks belong to several instances.
    #[error("the tasks of one batch belong to one instance; make a batch for each")]
    BatchMixed,
    /// A task built from an instance of another engine.
    #[error("the task's instance belongs to another engine: make an instance on this one")]
    OtherEngine,
    /// The engine was stopped.
    #[error("the engine was stopped: start another one")]
    Stopped,
    /// The engine is parked.
    #[error("the engine is parked, so nothing will complete: resume it before waiting")]
    Parked,
    /// The time given to a wait is over; the submission is still in flight.
    #[error("not done after {after:?}; it can be waited for again")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// An earlier wait has taken the result.
    #[error("this submission was already waited for")]
    AlreadyTaken,
    /// A program that the engine was not started with.
    #[error(
        "the engine does not hold the program `{program}`: name it when the engine is started, or load it"
    )]
    UnknownProgram {
        /// The program.
        program: String,
    },
    /// Two different programs with one name.
    #[error(
        "two different programs are called `{program}`, which would hide one of them: rename one"
    )]
    DuplicateProgram {
        /// The name.
        program: String,
    },
    /// More functions than a descriptor can number.
    #[error(
        "the programs have {functions} functions together, but an image holds {limit}: use fewer programs"
    )]
    TooManyFunctions {
        /// Functions of all programs.
        functions: usize,
        /// The most there can be.
        limit: usize,
    },
    /// Parameters of another type than the program declares.
    #[error("program `{program}` takes {expected}, not {given}")]
    WrongParams {
        /// The program.
        program: String,
        /// The type it declares.
        expected: String,
        /// The type given.
        given: String,
    },
    /// All instance slots are taken.
    #[error("an engine holds 256 instances at once: drop one first")]
    TooManyInstances,
    /// A copy that does not fit its buffer.
    #[error("{len} elements at offset {offset} do not fit a buffer of {capacity}")]
    OutOfBounds {
        /// Where it begins.
        offset: usize,
        /// How many elements.
        len: usize,
        /// Elements of the buffer.
        capacity: usize,
    },
    /// A length that overflows the address space.
    #[error("a buffer of {len} elements is larger than any memory: check the length")]
    BufferTooLarge {
        /// Elements asked for.
        len: usize,
    },
    /// The engine has no heap, or one without owners.
    #[error("the engine has no heap{with}: start it with EngineBuilder::heap")]
    NoHeap {
        /// The missing part, if there is a heap.
        with: &'static str,
    },
    /// There is no such owner.
    #[error("the heap has no owner {owner}: it was made for owners below {limit}")]
    NoOwner {
        /// The owner.
        owner: HeapOwner,
        /// Owners that there are.
        limit: u32,
    },
    /// A task broke a rule, and the engine ended.
    #[error("the engine ended: {what} in {function} (detail {detail:#x}); {fix}{report}")]
    Fault {
        /// The broken rule.
        what: &'static str,
        /// The function that was running.
        function: String,
        /// More about it, as a number.
        detail: u64,
        /// The remedy.
        fix: &'static str,
        /// What each worker did last, if the engine measures; else empty.
        report: String,
    },
    /// The driver has lost the device, and everything on it.
    #[error(
        "the engine ended: the driver has lost the device ({reason}); start another engine, update the driver, or use \
         --engine cpu"
    )]
    DeviceLost {
        /// The driver's reason.
        reason: String,
    },
    /// A pool is exhausted, and no task can go on.
    #[error(
        "the pools are exhausted: room for {tasks} waiting tasks (refused {task_refusals} times) and {groups} groups \
         (refused {group_refusals} times), and nothing can go on; if the program ends at all, start the engine with \
         larger {}", pools_to_raise(*task_refusals, *group_refusals)
    )]
    PoolExhausted {
        /// Tasks the pool holds.
        tasks: u64,
        /// How often it refused a request.
        task_refusals: u64,
        /// Groups the pool holds.
        groups: u64,
        /// How often it refused a request.
        group_refusals: u64,
    },
    /// Nothing moved for as long as the watchdog waits.
    #[error("nothing moved for {after:?}: {reason}; the workers:\n{report}")]
    Stuck {
        /// How long.
        after: Duration,
        /// The meaning of that.
        reason: StuckReason,
        /// The states of the workers.
        report: String,
    },
    /// The engine completed a submission that was not in flight, and ended: its completion ring cannot be trusted.
    #[error(
        "the engine completed submission {token}, which is not in flight ({count} such completions), so its completion \
         ring cannot be trusted: start another engine; unless a program wrote outside its buffers, this is a bug in \
         everwarp: please report it"
    )]
    BogusCompletion {
        /// The token that the engine named first.
        token: TokenId,
        /// How many such completions there were so far.
        count: u64,
    },
    /// The engine was lost to an earlier error.
    #[error("the engine was lost earlier: {reason}")]
    Lost {
        /// The earlier error.
        reason: String,
    },
}

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StuckReason {
    /// A task runs and does not end.
    Running,
    /// Nothing runs, although submissions are in flight.
    Deadlock,
}

impl fmt::Display for StuckReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "a task does not end; fix it, split it, or give the engine a longer watchdog",
            Self::Deadlock => {
                "a deadlock: nothing runs although submissions are in flight; this is a bug in everwarp: please report it"
            }
        })
    }
}

fn pools_to_raise(task_refusals: u64, group_refusals: u64) -> &'static str {
    match (task_refusals, group_refusals) {
        (_, 0) => "Pools::tasks",
        (0, _) => "Pools::groups",
        _ => "Pools::tasks and Pools::groups",
    }
}

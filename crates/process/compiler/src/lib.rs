//! The compiler from WebAssembly to PTX, and the initial memory of an instance.
//!
//! One thread runs one instance. All of an instance lies in device memory, so a host allocates, copies
//! bytes and launches; nothing here touches a GPU. Supported is WebAssembly 2.0 with tail calls and
//! extended constants, and where the options allow it the threads proposal; what is not supported is refused with its offset
//! ([`CompileError::Unsupported`]).
//!
//! # From a module to a launch
//!
//! 1. [`compile`] gives a [`Compiled`]: the PTX, and everything a host must know of the module.
//!    [`Compiled::ptx`] is a file of its own. Give it to `cuLinkAddData` rather than to
//!    `cuModuleLoadData`: as relocatable code ptxas 13.0 took 4 s and 150 MB for a module of 135 kB (a Rust
//!    library with JSON and SHA-256), as a whole program 34 s and 1 GB. To put several modules in one image
//!    join [`PTX_HEAD`] and what [`compile_part`] gives for each, every one under another
//!    [`CompileOptions::prefix`].
//! 2. [`Compiled::module_data`] are bytes that all instances of the module read. Copy them once.
//! 3. [`Compiled::instantiate`] gives an [`Initial`]: it has resolved imports, evaluated globals and
//!    copied active segments. Reserve [`Initial::block_bytes`] for the block and
//!    [`Initial::memory_limit`] for linear memory, both aligned to 16 bytes.
//! 4. Copy [`Initial::block`], made for the [`Addresses`] of these three, to the block; and
//!    [`Initial::memory`] to the beginning of linear memory. **The rest of linear memory, up to the limit,
//!    must be zero**: `memory.grow` only raises the length.
//! 5. If [`Compiled::start`] names a function, call it once before all others.
//!
//! # Calls
//!
//! The kernel is `{prefix}run`, its parameters in this order:
//!
//! | parameter | type | meaning |
//! |---|---|---|
//! | instances | `u64` | address of an array of blocks' addresses |
//! | count | `u32` | how many there are; thread `i` of the grid (x only) runs instance `i`, further ones nothing |
//! | entry | `u32` | which function: [`Compiled::entry`] |
//! | args | `u64` | address of the first instance's arguments |
//! | results | `u64` | address of the first instance's results |
//! | args_stride | `u32` | bytes from one instance's arguments to the next one's; a multiple of 8, 0 to share them |
//! | results_stride | `u32` | bytes from one instance's results to the next one's; a multiple of 8 |
//!
//! Every argument and every result takes 8 bytes, a vector 16, in order. Of a 32-bit argument the lower half
//! counts; a 32-bit result has a zero upper half. Floating-point numbers are their bits. Device code calls the same
//! through `.visible .func {prefix}enter(.param .b64 block, .param .b32 entry, .param .b64 args,
//! .param .b64 results)`.
//!
//! A call sets `trap` in the header ([`DevInstance`]) to 0 first. When it ends, `trap` is 0 and the results
//! are written, or it is a [`TrapKind`], of which [`Compiled::describe_trap`] makes a sentence with
//! `trap_function` and `trap_offset`; then no result is written. An instance may be called again after a
//! trap; its memory is what the trap left behind. Out of fuel at the very start, and an entry that does
//! not exist ([`TrapKind::UnlinkedImport`]), leave the other two words as they were. `fuel` is what is left.
//!
//! # What a host must see to
//!
//! * **Stack.** Calls nest on the device's own stack, up to `depth` of those functions that call others; an
//!   indirect call takes the frame of a function of its own between the two, and a leaf, a helper and
//!   `enter` come on top. For modules with recursion the driver cannot know the size: set
//!   `CU_LIMIT_STACK_SIZE` to at least 2 * `depth` + 3 times the largest frame that `ptxas -v` reports (or
//!   `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES` of a module without recursion). Nothing on the device checks it.
//! * **Fuel.** One unit for each round of a loop, and one for each call of a function that itself calls.
//!   Must be positive when a call begins; `i64::MAX` is as good as endless. A bulk operation
//!   (`memory.fill` and the like) is one step, however long.
//! * **Kill.** A nonzero `kill` word ends the instance when its fuel next reaches a multiple of
//!   [`KILL_INTERVAL`], read with `ld.relaxed.sys`. It stays set until the host clears it.
//! * **References.** A function reference is a number that this compiler makes
//!   ([`Compiled::referenced_function`]); it means nothing in another module. An external reference is any
//!   number of the host's but 0, which is null.
//!
//! # Imported functions
//!
//! A function that is imported traps when it is called ([`TrapKind::UnlinkedImport`]), unless its calls are to
//! do nothing ([`CompileOptions::ignored_imports`]) or something in the image provides it
//! ([`CompileOptions::provided_imports`]): device code, which gets the block of its caller and may read
//! and write that instance's memory, or a function of another module. Either looks like a compiled
//! function, as described below. In CUDA C++ one that takes an `i32` and gives an `f64` is
//! `struct Ret { int64_t fuel; double value; };` with
//! `extern "C" __device__ Ret name(DevInstance*, int64_t fuel, uint32_t depth, uint32_t a0)`; a vector is four
//! parameters of 32 bits, the lowest lanes first, and 16 bytes of the result;
//! it returns the fuel that it was given, or less but a positive number, or exactly -1 after writing
//! `trap`, `trap_function`, `trap_offset` and `fuel` of the header itself, or if it may, exactly -2 to
//! suspend. If a function of another module
//! traps, its own header says where, and the caller's header names the import.
//!
//! # Suspension
//!
//! A thread of the GPU must not wait for what takes long: an instance that waits is taken off its thread, and
//! put on one again later. With [`CompileOptions::suspendable`] an imported function of which
//! [`ProvidedImport::suspends`] is set may return exactly [`SUSPENDED`], -2, instead of a fuel. Then every
//! function on the way up saves what is live in it and returns the same, and the call ends: `trap` is 0,
//! `state` is [`CallState::Waiting`], `fuel` is what is left, and no result is written. **A call of an instance
//! whose `state` is not 0 resumes it**: every function takes back what it saved and goes on at its call, and the
//! import is called once more with the same arguments. So an import is written as: if no request of mine is
//! pending, post one and suspend; if it is not answered, suspend; else take the answer and return. It may
//! suspend any number of times. Results, traps, fuel and depth are as if nothing had happened.
//!
//! With [`CompileOptions::preempt`] an instance can be suspended at its safepoints as well. It looks at its
//! `kill` word at the same moments as always, whenever its fuel reaches a multiple of [`KILL_INTERVAL`]: finds
//! it there [`YIELD`], the call ends with `state` [`CallState::Preempted`]; any other number but 0 is a kill.
//! If the word is 0, and fewer lanes of its warp are beside it than its [`DevSuspension`] says have begun together
//! (`mates`), it is preempted, too: lanes that have parted run one after another until they return, and so they can
//! begin together again. It is preempted as well if the word at `stop` there, if there is one, has come to `stop_from`,
//! by which whoever runs many instances asks all of them at once. Otherwise it takes one from `slice`, and is preempted
//! if that leaves none: a slice of `n` is between `n - 1` and `n` times the interval in fuel. Nobody clears or refills them
//! but who resumes the instance: the word with an exchange that compares, lest a kill be lost.
//!
//! | before a call: `state` | `fuel` | the call |
//! |---|---|---|
//! | 0 | positive | begins `entry` with `args` |
//! | 1 or 2 | positive | goes on with what is suspended; `entry` and `args` do not count, `results` does and may be elsewhere than before |
//! | any | 0 or less | is [`TrapKind::OutOfFuel`]; `state` is as it was, so with new fuel it can be resumed |
//!
//! | after a call: `state` | `trap` | |
//! |---|---|---|
//! | 0 | 0 | it has returned, and the results are written |
//! | 0 | a [`TrapKind`] | it has trapped, and nothing is suspended |
//! | 1 | 0 | an import has suspended it |
//! | 2 | 0 | it was preempted |
//!
//! The kernel `{prefix}run` does for each instance what `{prefix}enter` does: one that has ended begins again,
//! so give it those alone that are to go on. What a host must see to:
//!
//! * **Save area.** Frames are saved at the end of the block: [`Initial::block_bytes`] counts the area in,
//!   [`Initial::save_bytes`] is its size and may be changed before the block is made, and
//!   [`Compiled::save_bytes`], which it begins as, always suffices: the frames of the longest chain of calls,
//!   or with recursion as many of the [largest](Compiled::largest_frame) as the depth allows. The area may lie
//!   elsewhere: write `base` and `end` of the [`DevSuspension`], which follows the header. Only what is on the
//!   stack is saved. A frame that does not fit ends the call with [`TrapKind::StackExhausted`], at the call that was
//!   to be suspended; a request that an import has posted is then pending with nobody who waits for it.
//! * **Meanwhile** fuel may be added, and the kill word be set, which counts at the next look. With less
//!   `depth` than before the call may end with [`TrapKind::StackExhausted`]. Memory, globals and tables are the
//!   instance's own, and whoever answers a request may read and write them.
//! * **Another thread** may resume it. Compiled code has no fences: who hands an instance over releases it at
//!   the device's scope, and who takes it acquires.
//! * **Giving up.** Set `state` to 0, and the next call begins anew. A request that is pending is the
//!   import's to forget.
//! * **Other modules.** For a function of another module ([`Provider::Module`]) `suspends` must be what
//!   [`Compiled::may_suspend`] says there. What it runs is saved in its own instance's area, and its own kill word
//!   and slice preempt it; `state` and `fuel` of the instance that was called count. Until the call has ended
//!   nothing else may call into either.
//!
//! What it costs:
//!
//! * A function that cannot reach such an import is compiled as without the option; with `preempt`, one
//!   without loops and calls. Any other has two instructions more at its entry, a comparison and a branch, and
//!   the stub of an import one or two. No call has more; what saves and restores is out of line.
//!   Of an address that was checked before a call that may suspend nothing is known after it.
//! * A frame is all locals that are read anywhere in the function, what is live of the operand stack, in 4 or 8
//!   bytes each, and 4 for the place. A suspension saves every frame of the stack, and a resumption restores
//!   every one: an import that is asked too early costs that much.
//! * Loops have one entry as before: who goes back into one passes through its safepoint, and `emit/body/ways.rs` says
//!   why.
//! * On an H200 (`bench/results/h200-2026-11-21/wasm-suspend.txt`) a loop of 100,000 calls of a small function
//!   that may suspend took 20.2 ms instead of 17.4, and 20.6 with `preempt`.
//! * With `preempt` a loop's look at its fuel is a part of the loop, where it is not without (`emit/body/fuel.rs`): a small
//!   loop pays some four instructions more.
//!
//! # Shared memories
//!
//! With [`CompileOptions::threads`] a memory may be declared as shared, and atomic instructions work on it, in
//! the order of the whole device. An instance that imports one is told by [`Link::shared_memory`] where it lies
//! and where its length is; both are another instance's, or the host's alone. Bytes of active segments are then not in
//! [`Initial::memory`]: the host copies [`Initial::segments`]. `memory_bytes` of a header may be behind the
//! memory's length, never ahead of it. It is brought up to date before an imported function of the device's is
//! called, and before an access would trap, so growth reaches every instance without a look at each access.
//!
//! `memory.atomic.wait32`, `wait64` and `notify` call two functions that the host provides like imports:
//! [`WAITING`] has the contract. Who waits is suspended, as above, so it does not keep its thread.
//!
//! # Interleaved memories
//!
//! Lanes of a warp that run instances of one module in step access the same addresses at the same time, a memory's
//! size apart. With [`CompileOptions::interleaved`] the memories of [`INTERLEAVED`] instances lie in units of [`UNIT`]
//! bytes: what such lanes access lies side by side, in a fraction of the sectors and with as much more of it in the
//! caches. The memory of instance `i` of 32 is at the first one's address and `i * UNIT`, which is what its header and
//! [`Addresses`] say and is aligned to a unit; the byte at `n` is at that and `n / UNIT * UNIT_STRIDE + n % UNIT`. 32
//! memories take as much as apart, and must have the same limit. Whoever reads or writes them (device code that is
//! imported, and the host for [`Initial::memory`]) must know the layout. Instances of which each does something else
//! lose by it: what one accesses then lies in more sectors. So measure it.
//!
//! # Inside
//!
//! A WebAssembly function `n` is `.func (.param .align 8 .b8 ret[8 + 8 * results]) {prefix}fn(.param .b64 inst,
//! .param .b64 fuel, .param .b32 depth, …)`: block, fuel and remaining depth, then the arguments as `.b32`
//! or `.b64`, a vector as four `.b32`. It returns the fuel that is left, then its results, 8 bytes each, 16 for a
//! vector. **A negative fuel says
//! that it trapped**: then the header has been written, and every caller returns at once. That is why a
//! trap needs no flag beside the fuel, and why neither costs a memory access. Of the negative numbers -1 is
//! a trap, -2 a suspension, and those below say what an indirect call could not call. A function that is
//! *given* a negative fuel goes on where it was suspended, and finds its fuel in the header.
//!
//! In a module without tail calls its functions pass on more between the depth and the arguments: the first global
//! that is the module's own, mutable and an `i32` (`.param .b32 carry`), which they give back behind the results, and
//! where memory begins (`.param .b64 mem`). While code runs, that global's place in the block is behind; it is brought
//! up to date when an entry returns, traps or is suspended, and before an imported function is called. Other modules
//! call `{prefix}xn` ([`Compiled::symbol`]), which loads both and stores the global. Length and bounds of a memory that
//! cannot grow are constants.
//!
//! A tail call leaves the arguments and the callee's number in the block and returns; a trampoline then calls. So
//! the code of a function with tail calls is `{prefix}t{n}`, and `{prefix}fn` calls the trampoline for it. Any
//! number of tail calls takes the stack of one, and each counts as a call for the fuel.
//!
//! A function without calls that loops no loop cannot run for long; so it has no safepoint.
//!
//! Results are the same as those of every engine that canonicalizes NaNs: arithmetic gives the one NaN
//! with only the highest bit of the payload set; loads, stores, constants, `neg`, `abs`, `copysign` and
//! reinterpretations keep bits as they are.
//!
//! # Not there yet
//!
//! Whatever else came after 2.0. Tables, mutable globals and memories that are not declared as
//! shared are not shared between instances: an import of one gives the instance its own.

mod compile;
mod compiled;
mod context;
mod emit;
mod error;
mod facts;
mod instance;
mod text;

pub use compile::{PTX_HEAD, compile, compile_part};
pub use compiled::Compiled;
pub use error::{CompileError, InstantiateError};
pub use everwarp_contract::TrapKind;
pub use facts::abi::{
    CallState, DevInstance, DevSharing, DevSuspension, DevTable, INTERLEAVED, KILL_INTERVAL, PAGE,
    SUSPENDED, UNIT, UNIT_STRIDE, YIELD,
};
pub use facts::layout::InstanceLayout;
pub use facts::module::{Export, Import, ImportKind, Limits};
pub use facts::options::{CompileOptions, ProvidedImport, Provider};
pub use facts::types::{FunctionType, ValueType};
pub use facts::waiting::{NOTIFY, WAIT, WAITING};
pub use instance::{Addresses, Initial, InstanceLimits, Link, NoImports, SharedMemory};

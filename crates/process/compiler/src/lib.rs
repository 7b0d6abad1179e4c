//! The compiler from WebAssembly to PTX, and the initial memory of an instance.
//!
//! One GPU thread runs one instance. All parts of an instance are in device memory, so a host allocates, copies
//! bytes and launches; nothing in this crate touches a GPU. The compiler supports WebAssembly 2.0 with tail calls and
//! extended constants, and the threads proposal if the options allow it. It refuses anything else, and says at which
//! offset ([`CompileError::Unsupported`]).
//!
//! # From a module to a launch
//!
//! 1. [`compile`] returns a [`Compiled`]: the PTX, and everything that a host has to know about the module.
//!    [`Compiled::ptx`] is a complete file. Pass it to `cuLinkAddData` rather than to `cuModuleLoadData`: ptxas 13.0
//!    took 4 s and 150 MB for a module of 135 kB (a Rust library with JSON and SHA-256) as relocatable code, and 34 s
//!    and 1 GB as a whole program. To put several modules in one image, join [`PTX_HEAD`] and the result of
//!    [`compile_part`] for each module, and give each its own [`CompileOptions::prefix`].
//! 2. [`Compiled::module_data`] returns bytes that all instances of the module read. Copy them once.
//! 3. [`Compiled::instantiate`] returns an [`Initial`]. By then imports are resolved, globals are evaluated and active
//!    segments are copied. Reserve [`Initial::block_bytes`] for the block and [`Initial::memory_limit`] for linear
//!    memory, both aligned to 16 bytes.
//! 4. Make [`Initial::block`] for the [`Addresses`] of these three parts and copy it to the block. Copy
//!    [`Initial::memory`] to the beginning of linear memory. **The rest of linear memory, up to the limit, must be
//!    zero**: `memory.grow` only raises the length.
//! 5. If [`Compiled::start`] names a function, call it once before all others.
//!
//! # Calls
//!
//! The kernel is `{prefix}run`. It has these parameters, in this order:
//!
//! | parameter | type | meaning |
//! |---|---|---|
//! | instances | `u64` | address of an array of blocks' addresses |
//! | count | `u32` | the length of that array; thread `i` of the grid (x only) runs instance `i`, further threads do nothing |
//! | entry | `u32` | the function to call: [`Compiled::entry`] |
//! | args | `u64` | address of the first instance's arguments |
//! | results | `u64` | address of the first instance's results |
//! | args_stride | `u32` | bytes from one instance's arguments to the next one's; a multiple of 8, 0 to share them |
//! | results_stride | `u32` | bytes from one instance's results to the next one's; a multiple of 8 |
//!
//! Arguments and results are stored in order. Each takes 8 bytes, a vector 16. Only the lower half of a 32-bit
//! argument is read; a 32-bit result has a zero upper half. Floating-point numbers are stored as their bits. Device
//! code makes the same call through `.visible .func {prefix}enter(.param .b64 block, .param .b32 entry,
//! .param .b64 args, .param .b64 results)`.
//!
//! A call first sets `trap` in the header ([`DevInstance`]) to 0. When the call ends, either `trap` is 0 and the
//! results are written, or `trap` is a [`TrapKind`] and no result is written. [`Compiled::describe_trap`] turns
//! `trap`, `trap_function` and `trap_offset` into a sentence. An instance may be called again after a trap; its memory
//! is as the trap left it. Two refusals leave `trap_function` and `trap_offset` as they were: no fuel at the very
//! start, and an entry that does not exist ([`TrapKind::UnlinkedImport`]). `fuel` is the fuel that is left.
//!
//! # What the host is responsible for
//!
//! * **Stack.** Calls nest on the device's own stack: up to `depth` functions that call others. An indirect call adds
//!   the frames of one more function between caller and callee, or of two if it chooses between more than 256 functions,
//!   and a leaf, a helper and `enter` add one each. The driver cannot know the size for modules with recursion, and the
//!   device does not check it: set `CU_LIMIT_STACK_SIZE` to at least what [`Compiled::stack_need`] says for the depth,
//!   given the frames that the machine code declares, and add what the functions outside the module take (or to
//!   `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES` of a module without recursion).
//! * **Fuel.** Each round of a loop takes one unit, and so does each call of a function that itself calls. Fuel must
//!   be positive when a call begins; `i64::MAX` never runs out in practice. A bulk operation (`memory.fill` and the
//!   like) is one step, however long it is.
//! * **Kill.** A nonzero `kill` word ends the instance when its fuel next reaches a multiple of [`KILL_INTERVAL`]. The
//!   word is read with `ld.relaxed.sys` and stays set until the host clears it.
//! * **References.** A function reference is a number that this compiler makes ([`Compiled::referenced_function`]);
//!   it has no meaning in another module. An external reference is any number that the host chooses except 0, which
//!   is null.
//!
//! # Imported functions
//!
//! A call of an imported function traps ([`TrapKind::UnlinkedImport`]), with two exceptions: it does nothing if the
//! import is in [`CompileOptions::ignored_imports`], and it calls code in the image if the import is in
//! [`CompileOptions::provided_imports`]. That code is either device code, which receives the block of its caller and
//! may read and write the caller's memory, or a function of another module. Both look like a compiled function, as
//! described [below](#inside). In CUDA C++ a function that takes an `i32` and returns an `f64` is
//! `struct Ret { int64_t fuel; double value; };` with
//! `extern "C" __device__ Ret name(DevInstance*, int64_t fuel, uint32_t depth, uint32_t a0)`. A vector is four
//! parameters of 32 bits, the lowest lanes first, and 16 bytes of the result.
//!
//! The function returns one of three fuels: the fuel that it was given, or less but still positive; exactly -1 after
//! it has written `trap`, `trap_function`, `trap_offset` and `fuel` of the header; or, if it may suspend, exactly -2.
//! If a function of another module traps, its own header says where, and the caller's header names the import.
//!
//! # Suspension
//!
//! A GPU thread must not wait for slow events: an instance that waits leaves its thread and gets a thread again later.
//! With [`CompileOptions::suspendable`], an imported function whose [`ProvidedImport::suspends`] is set may return
//! exactly [`SUSPENDED`], -2, instead of a fuel. Then every function on the way up saves its live values and returns
//! the same number, and the call ends: `trap` is 0, `state` is [`CallState::Waiting`], `fuel` is the fuel that is left,
//! and no result is written. **A call of an instance whose `state` is not 0 resumes it**: every function restores what
//! it saved and continues at its call, and the import is called once more with the same arguments. So an import
//! follows this pattern: if it has no pending request, it posts one and suspends; if the request is not answered, it
//! suspends; otherwise it takes the reply and returns. It may suspend any number of times. Results, traps, fuel and
//! depth are as if the instance had never been suspended.
//!
//! With [`CompileOptions::preempt`] an instance can be suspended at its safepoints as well. It reads its `kill` word
//! at the same moments as without this option, whenever its fuel reaches a multiple of [`KILL_INTERVAL`]. If the word
//! is [`YIELD`], the call ends with `state` [`CallState::Preempted`]; any other number but 0 is a kill. If the word is
//! 0, the instance is preempted in these cases:
//!
//! * Fewer lanes of its warp are active than its [`DevSuspension`] says have started together (`mates`). Lanes that
//!   have diverged run one after another until they return; after a preemption they can start together again.
//! * The word at the address `stop` of that record, if there is one, has reached `stop_from`. A host that runs many
//!   instances asks all of them at once by this word.
//! * Its `slice` is used up. Each look takes one from it, so a slice of `n` is between `n - 1` and `n` times the
//!   interval in fuel.
//!
//! Compiled code neither clears the kill word nor refills the slice. The code that resumes the instance does that, and
//! clears the word with a compare-and-exchange so that no kill is lost.
//!
//! | before a call: `state` | `fuel` | the call |
//! |---|---|---|
//! | 0 | positive | starts `entry` with `args` |
//! | 1, 2 or 4 | positive | resumes; `entry` and `args` are ignored, `results` is read and may be elsewhere than before |
//! | any | 0 or less | is [`TrapKind::OutOfFuel`]; `state` does not change, so with new fuel the instance can be resumed |
//!
//! | after a call: `state` | `trap` | |
//! |---|---|---|
//! | 0 | 0 | it has returned, and the results are written |
//! | 0 | a [`TrapKind`] | it has trapped, and nothing is suspended |
//! | 1 | 0 | an import has suspended it |
//! | 2 | 0 | it was preempted |
//! | 4 | 0 | a function is missing |
//!
//! The kernel `{prefix}run` treats each instance as `{prefix}enter` does: an instance whose call has ended starts again,
//! so pass only instances that are to continue. The host is responsible for these points:
//!
//! * **Save area.** Frames are saved at the end of the block. [`Initial::block_bytes`] includes the area;
//!   [`Initial::save_bytes`] is its size and may be changed before the block is made. Its initial value
//!   [`Compiled::save_bytes`] always suffices: the most that the frames of a chain of calls take. To put the area elsewhere, write `base` and `end` of the
//!   [`DevSuspension`], which follows the header. Only frames that are on the stack are saved. A frame that does not fit
//!   ends the call with [`TrapKind::StackExhausted`] at the call that was to be suspended; a request that an import has
//!   posted is then still pending, but no instance waits for it.
//! * **While the instance is suspended**, fuel may be added and the kill word may be set; the next look reads it. With
//!   less `depth` than before the call may end with [`TrapKind::StackExhausted`]. Memory, globals and tables stay the
//!   instance's own, and the code that answers a request may read and write them.
//! * **Another thread** may resume the instance. Compiled code has no fences: the thread that hands an instance over
//!   must release at device scope, and the thread that takes it must acquire.
//! * **Giving up.** Set `state` to 0, and the next call starts afresh. The import has to forget a pending request.
//! * **Other modules.** For a function of another module ([`Provider::Module`]) `suspends` must be the result of
//!   [`Compiled::may_suspend`] there. Its frames are saved in the area of its own instance, and its own kill word and
//!   slice preempt it; `state` and `fuel` of the instance that was called from outside are the ones that count. No
//!   other call may enter either instance until the call has ended.
//!
//! The costs:
//!
//! * A function that cannot reach a suspending import is compiled as without the option; with `preempt` the same is
//!   true of a function without loops and calls. Any other function has two more instructions at its entry, a
//!   comparison and a branch, and the stub of an import has one or two more. No call has more; the code that saves and
//!   restores is out of line. After a call that may suspend, the results of earlier address checks are forgotten.
//! * A frame holds all locals that the function reads anywhere and the live part of the operand stack, in 4 or 8 bytes
//!   each, and 4 bytes for the place. A suspension saves every frame of the stack, and a resumption restores every
//!   frame: that is the price of asking an import too early.
//! * Loops have one entry, as without suspension: a resumption enters a loop through its safepoint, and
//!   `emit/body/ways.rs` says why.
//! * On an H200 (`bench/results/h200-2026-11-21/wasm-suspend.txt`) a loop of 100,000 calls of a small function that may
//!   suspend took 20.2 ms instead of 17.4, and 20.6 with `preempt`.
//! * With `preempt` a loop's look at its fuel is a part of the loop, which it is not otherwise (`emit/body/fuel.rs`): a
//!   small loop pays some four instructions more.
//!
//! # Deep calls
//!
//! With [`CompileOptions::deep`] a call that finds the device's stack full goes on: frames are moved to memory, and come
//! back when the calls that they wait for have returned. The host reserves that memory by [`Initial::deep_bytes`], or writes
//! `base`, `top` and `end` of the [`DevDeep`] elsewhere; calls that need more end with [`TrapKind::StackExhausted`]. Results,
//! traps and fuel are those of a stack that holds all calls. Frames are divided at functions that are in circles of calls, so
//! `depth` should be at least twice the number of calls that can follow each other without such a function. Nothing changes
//! where calls do not nest that deep; the code becomes 1 to 10 % longer.
//!
//! # Missing functions
//!
//! With [`CompileOptions::only`] an image has only some of the module's functions ([`Compiled::missing`] are the others). A call
//! of a missing one suspends the instance: `state` is [`CallState::Missing`], `trap` is 0, and `trap_function` is the function.
//! Resume the instance in an image that has the function; in another one it is suspended again. Images of one module and of
//! the same options, but for `only` and `prefix`, agree in everything else, so an instance may go from any of them to any other
//! while it is suspended, for whatever reason. Results, traps, fuel and depth are those of an image with all functions.
//!
//! # Long functions
//!
//! ptxas takes time with the square of a function's length. With [`CompileOptions::divide`] parts of long functions become
//! functions of their own before anything is compiled. They have numbers after those of the module; [`Compiled::place`] finds the
//! original function and offset of a trap. Results and traps are the same, but a part takes fuel and depth as any function does:
//! a unit and a level for each call of a part that calls others.
//!
//! # Shared memories
//!
//! With [`CompileOptions::threads`] a memory may be declared as shared, and atomic instructions work on it, in the
//! order of the whole device. For an instance that imports one, [`Link::shared_memory`] returns where the memory and its
//! length are; both belong to another instance, or to the host alone. The bytes of active segments are then not in
//! [`Initial::memory`]: the host copies [`Initial::segments`]. `memory_bytes` of a header may be less than the memory's
//! length, never more. It is updated before a call of imported device code and before an access would trap, so growth
//! reaches every instance although no access looks for it.
//!
//! `memory.atomic.wait32`, `wait64` and `notify` call two functions that the host provides like imports; [`WAITING`]
//! states their contract. An instance that waits is suspended, as above, so it does not keep its thread.
//!
//! # Interleaved memories
//!
//! Lanes of a warp that run instances of one module in step access the same addresses at the same time, one memory's
//! size apart. With [`CompileOptions::interleaved`] the memories of [`INTERLEAVED`] instances are stored in alternating
//! units of [`UNIT`] bytes. Bytes that such lanes access together are then neighbours: an access touches a fraction of
//! the sectors, and the caches hold more of what is used. The memory of instance `i` of 32 begins at the address of the
//! first memory plus `i * UNIT`; this is the address in its header and in [`Addresses`], aligned to a unit. Its byte `n`
//! is at that address plus `n / UNIT * UNIT_STRIDE + n % UNIT`. The 32 memories take as much space as separate ones and
//! must have the same limit. All code that reads or writes them (imported device code, and the host for
//! [`Initial::memory`]) must know the layout. Instances that each do something else get slower, because the accesses of
//! one instance then touch more sectors. So measure it.
//!
//! # Inside
//!
//! The crate stands on floors, and a test (`tests/layers.rs`) checks that no import points upwards: `divide` makes a module of
//! shorter functions; `facts` looks at the module and writes no text; `context` and `text` carry the facts and write lines of PTX; `emit` writes the code;
//! `compile` is the driver, a short list of phases; `instance` makes the initial bytes. The driver reads the functions'
//! operators several times: once each for suspension and tail calls, once for the locals that are assigned, and then to
//! validate and translate them.
//!
//! A WebAssembly function `n` is `.func (.param .align 8 .b8 ret[8 + 8 * results]) {prefix}fn(.param .b64 inst,
//! .param .b64 fuel, .param .b32 depth, …)`: block, fuel and remaining depth, then the arguments as `.b32` or `.b64`, a
//! vector as four `.b32`. It returns the fuel that is left, then its results, 8 bytes each, 16 for a vector.
//! **A negative fuel says that it trapped**: then the header has been written, and every caller returns at once.
//! Therefore a trap needs no flag next to the fuel, and neither costs a memory access. Of the negative numbers -1 is a
//! trap, -2 a suspension, and lower ones say why an indirect call failed. A function that is *given* a negative fuel
//! continues where it was suspended, and finds its fuel in the header.
//!
//! In a module without tail calls, functions pass on more between the depth and the arguments: the first global that is
//! the module's own, mutable and an `i32` (`.param .b32 carry`), which they return after the results, and the address of
//! memory (`.param .b64 mem`). While code runs, the copy of that global in the block is out of date; it is updated when
//! an entry returns, traps or is suspended, and before an imported function is called. Other modules call `{prefix}xn`
//! ([`Compiled::symbol`]), which loads both and stores the global. Length and bounds of a memory that cannot grow are
//! constants.
//!
//! A tail call stores the arguments and the callee's number in the block and returns; a trampoline then makes the call.
//! So the code of a function with tail calls is `{prefix}t{n}`, and `{prefix}fn` calls the trampoline for it. Any number
//! of tail calls takes the stack of one, and each counts as a call for the fuel.
//!
//! A function that neither calls nor loops cannot run for long, so it has no safepoint.
//!
//! Results are the same as those of every engine that canonicalizes NaNs: arithmetic returns the one NaN that has only
//! the highest bit of the payload set; loads, stores, constants, `neg`, `abs`, `copysign` and reinterpretations keep
//! the bits as they are.
//!
//! # Not supported yet
//!
//! All proposals after 2.0 that are not named above. Tables, mutable globals and memories that are not declared as
//! shared are not shared between instances: an import of one gives the instance its own.

mod compile;
mod compiled;
mod context;
mod divide;
mod emit;
mod error;
mod facts;
mod instance;
mod parallel;
mod stack_need;
mod text;

pub use compile::{PTX_HEAD, compile, compile_part, divided};
pub use compiled::Compiled;
pub use error::{CompileError, InstantiateError};
pub use everwarp_contract::TrapKind;
pub use facts::abi::{
    CallState, DevDeep, DevInstance, DevSharing, DevSuspension, DevTable, INTERLEAVED,
    KILL_INTERVAL, PAGE, SUSPENDED, UNIT, UNIT_STRIDE, YIELD,
};
pub use facts::first::FirstFunctions;
pub use facts::layout::InstanceLayout;
pub use facts::module::{Export, Import, ImportKind, Limits};
pub use facts::options::{CompileOptions, LONG_FUNCTION, ProvidedImport, Provider};
pub use facts::types::{FunctionType, ValueType};
pub use facts::waiting::{NOTIFY, WAIT, WAITING};
pub use instance::{Addresses, Initial, InstanceLimits, Link, NoImports, SharedMemory};
pub use stack_need::StackNeed;

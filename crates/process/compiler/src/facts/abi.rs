//! The structs that compiled code and its host share: the header of an instance, its suspension, tables.

use core::mem::offset_of;

use everwarp_contract::dev_struct;
use everwarp_contract::layout::DevPtr;

dev_struct! {
    /// The head of an instance's block. Compiled code finds everything else from here.
    pub struct DevInstance: align 16, size 64 {
        /// Why the last call ended: 0, or a [`TrapKind`].
        pub trap: u32,
        /// The function that trapped, in the module's index space.
        pub trap_function: u32,
        /// Where it trapped: an offset in the module's bytes.
        pub trap_offset: u32,
        /// A nonzero value asks the instance to end when it next reads this word; in modules that can be
        /// preempted, [`YIELD`] asks it to suspend instead.
        pub kill: u32,
        /// Safepoints left. Must be positive when a call begins.
        pub fuel: i64,
        /// Linear memory, aligned to 16 bytes, mapped up to `memory_limit` and zero where not initialised.
        pub memory: DevPtr<u8>,
        /// Its length in bytes, a multiple of a page.
        pub memory_bytes: u64,
        /// What `memory.grow` may raise the length to, in bytes.
        pub memory_limit: u64,
        /// The module's passive data segments, shared by all its instances.
        pub module_data: DevPtr<u8>,
        /// How deep calls may nest.
        pub depth: u32,
        /// Whether the last call has ended or can be resumed: a [`CallState`]. Only modules that can be
        /// suspended read or write it.
        pub state: u32,
    }
}

dev_struct! {
    /// What an instance that can be suspended has after its head ([`InstanceLayout::suspension`](crate::InstanceLayout::suspension)):
    /// where its frames are saved, and when it yields.
    pub struct DevSuspension: align 16, size 48 {
        /// The beginning of the save area, aligned to 8 bytes.
        pub base: DevPtr<u8>,
        /// Its end. A frame that does not fit below it ends the call with [`TrapKind::StackExhausted`].
        pub end: DevPtr<u8>,
        /// The end of what is saved; compiled code's own.
        pub top: DevPtr<u8>,
        /// The entry that is suspended; compiled code's own.
        pub entry: u32,
        /// How many more reads of the kill word until the instance yields by itself. From 0 it counts
        /// through all 32 bits, so 0 means practically never.
        pub slice: u32,
        /// How many lanes of the warp started the call together. If fewer are active, an instance that can be
        /// preempted yields at its next look, so that the lanes can start together again. 0 switches this off.
        pub mates: u32,
        /// The instance yields at its next look once the word at `stop` has this value or a larger one.
        pub stop_from: u32,
        /// The address of a word that asks all instances that share it to yield, or null.
        pub stop: DevPtr<u32>,
    }
}

dev_struct! {
    /// What an instance has whose calls may nest deeper than the device's stack, at
    /// [`InstanceLayout::deep`](crate::InstanceLayout::deep). The results of a function that returns to frames in memory
    /// follow it.
    pub struct DevDeep: align 16, size 48 {
        /// The beginning of the memory for frames that the stack does not hold, aligned to 8 bytes.
        pub base: DevPtr<u8>,
        /// Its end. Calls that need more end with [`TrapKind::StackExhausted`].
        pub end: DevPtr<u8>,
        /// The end of what it holds; compiled code's own, like all that follows.
        pub top: DevPtr<u8>,
        /// Where saved frames are divided, while the stack is full.
        pub mark: DevPtr<u8>,
        /// The number of the first function of the innermost part, or 0 if that is the entry.
        pub function: u32,
        /// The number of the function at the mark.
        pub marked: u32,
        /// How many more functions may move the mark.
        pub left: u32,
        /// Fills the record to a multiple of 16 bytes.
        pub unused: u32,
    }
}

dev_struct! {
    /// One table of an instance. An element is a reference: see [`Compiled::referenced_function`](crate::Compiled::referenced_function).
    pub struct DevTable: align 16, size 16 {
        /// The elements, 8 bytes each.
        pub elements: DevPtr<u64>,
        /// How many there are.
        pub len: u32,
        /// How many there may be.
        pub limit: u32,
    }
}

dev_struct! {
    /// What an instance has of a memory that may be shared, at [`InstanceLayout::sharing`](crate::InstanceLayout::sharing).
    ///
    /// The memory's length is one word for all instances that share it. `memory_bytes` of a header is the length that
    /// its instance has last read: never more than the length, because a memory does not shrink.
    pub struct DevSharing: align 16, size 16 {
        /// The address of the length: of this record's `memory_bytes`, or of that of the instance which
        /// provides the memory.
        pub length: DevPtr<u64>,
        /// The length in bytes, if the memory is this instance's own.
        pub memory_bytes: u64,
    }
}

pub(crate) const TRAP: usize = offset_of!(DevInstance, trap);
pub(crate) const TRAP_FUNCTION: usize = offset_of!(DevInstance, trap_function);
pub(crate) const TRAP_OFFSET: usize = offset_of!(DevInstance, trap_offset);
pub(crate) const KILL: usize = offset_of!(DevInstance, kill);
pub(crate) const FUEL: usize = offset_of!(DevInstance, fuel);
pub(crate) const MEMORY: usize = offset_of!(DevInstance, memory);
pub(crate) const MEMORY_BYTES: usize = offset_of!(DevInstance, memory_bytes);
pub(crate) const MEMORY_LIMIT: usize = offset_of!(DevInstance, memory_limit);
pub(crate) const MODULE_DATA: usize = offset_of!(DevInstance, module_data);
pub(crate) const DEPTH: usize = offset_of!(DevInstance, depth);
pub(crate) const STATE: usize = offset_of!(DevInstance, state);
/// Offset of the suspension record in the block of an instance that can be suspended.
pub(crate) const SUSPENSION: usize = size_of::<DevInstance>();
pub(crate) const SAVE_BASE: usize = SUSPENSION + offset_of!(DevSuspension, base);
pub(crate) const SAVE_END: usize = SUSPENSION + offset_of!(DevSuspension, end);
pub(crate) const SAVE_TOP: usize = SUSPENSION + offset_of!(DevSuspension, top);
pub(crate) const SLICE: usize = SUSPENSION + offset_of!(DevSuspension, slice);
pub(crate) const MATES: usize = SUSPENSION + offset_of!(DevSuspension, mates);
pub(crate) const STOP_FROM: usize = SUSPENSION + offset_of!(DevSuspension, stop_from);
pub(crate) const STOP: usize = SUSPENSION + offset_of!(DevSuspension, stop);
pub(crate) const SAVED_ENTRY: usize = SUSPENSION + offset_of!(DevSuspension, entry);
pub(crate) const DEEP_BASE: usize = offset_of!(DevDeep, base);
pub(crate) const DEEP_END: usize = offset_of!(DevDeep, end);
pub(crate) const DEEP_TOP: usize = offset_of!(DevDeep, top);
pub(crate) const DEEP_MARK: usize = offset_of!(DevDeep, mark);
pub(crate) const DEEP_FUNCTION: usize = offset_of!(DevDeep, function);
pub(crate) const DEEP_MARKED: usize = offset_of!(DevDeep, marked);
pub(crate) const DEEP_LEFT: usize = offset_of!(DevDeep, left);
pub(crate) const TABLE_LEN: usize = offset_of!(DevTable, len);
pub(crate) const TABLE_LIMIT: usize = offset_of!(DevTable, limit);

/// Bytes of a WebAssembly page.
pub const PAGE: u64 = 65_536;

/// Where memories are interleaved ([`CompileOptions::interleaved`](crate::CompileOptions::interleaved)), the bytes of
/// one memory that are stored together.
pub const UNIT: u64 = 4;
/// How many memories are interleaved.
pub const INTERLEAVED: u64 = 32;
/// Bytes from one unit of a memory to its next.
pub const UNIT_STRIDE: u64 = UNIT * INTERLEAVED;

/// Compiled code looks at the kill word whenever fuel reaches a multiple of this, a power of two.
pub const KILL_INTERVAL: u64 = 1024;

/// The fuel that a provided function returns to suspend its caller, and that a suspended function returns to its own
/// caller. A function that is called with this fuel resumes where it was suspended.
pub const SUSPENDED: i64 = -2;

/// The fuel that a function with a tail call returns to its trampoline: the trampoline makes the call.
pub(crate) const TAIL_CALL: i64 = -3;

/// What is in place of an operator's offset in a frame whose function has returned.
pub(crate) const RETURNED: i32 = -1;

/// The state of an instance while it makes room on a full stack. No host sees it.
pub(crate) const DEEP: u32 = 3;

/// What is in place of an operator's offset in a frame of a function that is called and has not started, because an image
/// did not have it. The frame holds its arguments, 8 bytes for each part.
pub(crate) const NOT_STARTED: i32 = -2;

/// The value of the kill word that asks an instance to suspend rather than to end. The code that
/// resumes the instance clears it with a compare-and-exchange, so that no kill is lost.
pub const YIELD: u32 = 0x8000_0000;

/// How the last call ended, in a header's `state`. A call of an instance whose state is not
/// [`CallState::Ended`] resumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CallState {
    /// It returned or trapped, or there was none.
    Ended = 0,
    /// An imported function suspended it, and is called again when it is resumed.
    Waiting = 1,
    /// It was preempted at a safepoint.
    Preempted = 2,
    /// The image does not have a function that it calls, whose number is in the header's `trap_function`. It goes on in an
    /// image that has the function: see [`CompileOptions::only`](crate::CompileOptions::only).
    Missing = 4,
}

impl CallState {
    /// The state with this number, as an instance's header holds it.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Ended),
            1 => Some(Self::Waiting),
            2 => Some(Self::Preempted),
            4 => Some(Self::Missing),
            _ => None,
        }
    }
}

/// A reference to a function: its type's canonical number in the upper half, and in the lower its place,
/// plus one, among the functions of that type that references may name. Zero is the null reference, of
/// every type; an external reference is any other number, and only the host knows its meaning.
pub(crate) const fn reference(type_id: u32, place: u32) -> u64 {
    ((type_id as u64) << 32) | (place as u64 + 1)
}

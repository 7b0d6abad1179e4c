//! The import module `everwarp:gpu`: functions beyond WASI that have the same meaning on every engine.
//!
//! `guests/GPU.md` says what each function does. The names, types, limits and numbers are declared here, once for all
//! engines.

/// The module that these functions are imported from.
pub const MODULE: &str = "everwarp:gpu";

/// A function of `everwarp:gpu`. A letter stands for a type: `i` for 32 bits, `l` for 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The imported name.
    pub name: &'static str,
    /// One letter for each parameter.
    pub params: &'static str,
    /// The letter of the result.
    pub result: char,
    /// Whether the calling process may have to wait for another one.
    pub waits: bool,
}

const fn function(name: &'static str, params: &'static str, result: char, waits: bool) -> Function {
    Function {
        name,
        params,
        result,
        waits,
    }
}

/// All functions.
pub const FUNCTIONS: &[Function] = &[
    function("lane", "", 'i', false),
    function("warp", "", 'i', false),
    function("process", "", 'l', false),
    function("instance", "", 'i', false),
    function("active", "", 'i', false),
    function("ballot", "i", 'i', false),
    function("shuffle", "li", 'l', false),
    function("channel", "iii", 'i', false),
    function("send", "iii", 'i', true),
    function("try_send", "iii", 'i', false),
    function("receive", "iii", 'i', true),
    function("try_receive", "iii", 'i', false),
    function("close", "i", 'i', false),
    function("spawn", "iiiiii", 'l', false),
    function("wait", "li", 'i', true),
    function("kill", "l", 'i', false),
];

/// The function with this name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|f| f.name == name)
}

/// The other side of the channel has no ends left, and no message is left to be received.
pub const CLOSED: i32 = -1;
/// The call would have to wait: the channel is full, or empty.
pub const AGAIN: i32 = -2;
/// No channel end of this direction has this handle in this process.
pub const HANDLE: i32 = -3;
/// A pointer reaches beyond the linear memory.
pub const MEMORY: i32 = -4;
/// A message, a channel or a list of arguments has an impossible size.
pub const SIZE: i32 = -5;
/// A quota is used up: handles, channels, children, places.
pub const LIMIT: i32 = -6;
/// No module has this name.
pub const NAME: i32 = -7;
/// The process has no child with this pid, or has waited for it.
pub const PROCESS: i32 = -8;

/// The channel ends that a process may have at the same time.
pub const HANDLES: u32 = 32;
/// The low bits of a handle, which are an index into the table; the upper bits are the entry's generation.
pub const HANDLE_BITS: u32 = 5;
/// The children that a process may have at the same time, including those that it has not waited for.
pub const CHILDREN: u32 = 64;
/// The descendants that a process may have at the same time.
pub const DESCENDANTS: u32 = 128;
/// The bytes of the longest message.
pub const MESSAGE_BYTES: u32 = 4096;
/// The bytes that the messages of one channel may take, each with a head of [`MESSAGE_HEAD`] bytes and rounded up to 16.
pub const CHANNEL_BYTES: u32 = 16 << 10;
/// The bytes of a message's head.
pub const MESSAGE_HEAD: u32 = 16;
/// The bytes of arguments that a process may pass to a child.
pub const ARGUMENT_BYTES: u32 = 1024;
/// The bytes of a module's name.
pub const NAME_BYTES: u32 = 64;

/// In a status: the child exited by itself, and the other word is the code.
pub const STATUS_EXITED: u32 = 0;
/// In a status: the child trapped.
pub const STATUS_TRAPPED: u32 = 1;
/// In a status: the child was killed.
pub const STATUS_KILLED: u32 = 2;
/// In a status: the child ran out of fuel.
pub const STATUS_OUT_OF_FUEL: u32 = 3;

/// The bytes that a message of up to `bytes` takes in a channel.
pub const fn stride(bytes: u32) -> u32 {
    MESSAGE_HEAD + bytes.next_multiple_of(16)
}

/// Whether a channel for `capacity` messages of up to `bytes` bytes is possible.
pub const fn possible(capacity: u32, bytes: u32) -> bool {
    capacity != 0
        && bytes <= MESSAGE_BYTES
        && capacity as u64 * stride(bytes) as u64 <= CHANNEL_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_fits_three_times() {
        assert!(possible(3, MESSAGE_BYTES) && !possible(4, MESSAGE_BYTES));
        assert!(!possible(1, MESSAGE_BYTES + 1) && !possible(0, 1));
        assert!(possible(CHANNEL_BYTES / MESSAGE_HEAD, 0));
        assert!(!possible(u32::MAX, u32::MAX / 2));
    }

    #[test]
    fn names_are_unique_and_handles_fit_their_bits() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            assert_eq!(find(f.name), Some(&FUNCTIONS[i]));
        }
        assert_eq!(find("fd_write"), None);
        assert_eq!(HANDLES, 1 << HANDLE_BITS);
    }
}

//! The import module `everwarp:gpu`: what a process may ask for beyond WASI, on every engine with one meaning.
//!
//! `guests/GPU.md` says what each function does. Here stand the names, types, limits and numbers, once for both
//! engines.

/// The module that these functions are imported from.
pub const MODULE: &str = "everwarp:gpu";

/// A function: its name, its parameters and its result, `i` for 32 bits and `l` for 64, and whether the process may
/// have to wait in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The imported name.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static str,
    /// Its result.
    pub result: char,
    /// Whether it waits for others.
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

/// The function of this name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|f| f.name == name)
}

/// The other side of the channel has no ends left, and nothing is left to be received.
pub const CLOSED: i32 = -1;
/// It would have to wait: the channel is full, or empty.
pub const AGAIN: i32 = -2;
/// No end of a channel has this handle in this process, or one of the other direction.
pub const HANDLE: i32 = -3;
/// A pointer that reaches beyond the linear memory.
pub const MEMORY: i32 = -4;
/// A message, a channel or arguments of a size that is not possible here.
pub const SIZE: i32 = -5;
/// A quota is used up: handles, channels, children, places.
pub const LIMIT: i32 = -6;
/// No module has this name.
pub const NAME: i32 = -7;
/// No child that has not been waited for has this pid.
pub const PROCESS: i32 = -8;

/// Ends of channels that a process may have at a time.
pub const HANDLES: u32 = 32;
/// Bits of a handle that say which entry of the table it is; those above are the entry's generation.
pub const HANDLE_BITS: u32 = 5;
/// Children that a process may have at a time, those that have ended and have not been waited for included.
pub const CHILDREN: u32 = 64;
/// Children that a process may have at a time together with their children and so on.
pub const DESCENDANTS: u32 = 128;
/// Bytes of the longest message.
pub const MESSAGE_BYTES: u32 = 4096;
/// Bytes that the messages of one channel may take, each with [`MESSAGE_HEAD`] before it and rounded up to 16.
pub const CHANNEL_BYTES: u32 = 16 << 10;
/// What a message takes beside its own bytes.
pub const MESSAGE_HEAD: u32 = 16;
/// Bytes of the arguments that a process gives a child.
pub const ARGUMENT_BYTES: u32 = 1024;
/// Bytes of the name of a module.
pub const NAME_BYTES: u32 = 64;

/// In a status: it ended by itself, and the other word is the code.
pub const STATUS_EXITED: u32 = 0;
/// In a status: it trapped.
pub const STATUS_TRAPPED: u32 = 1;
/// In a status: somebody ended it.
pub const STATUS_KILLED: u32 = 2;
/// In a status: its fuel was spent.
pub const STATUS_OUT_OF_FUEL: u32 = 3;

/// Bytes that a message of up to `bytes` takes in a channel.
pub const fn stride(bytes: u32) -> u32 {
    MESSAGE_HEAD + bytes.next_multiple_of(16)
}

/// Whether a channel of so many messages of up to so many bytes is possible.
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

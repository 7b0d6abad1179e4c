//! The host calls that the standard library does not offer: waiting with a time limit, and the ends of a connection.

use std::io;
use std::time::Duration;

/// Words of an event.
const EVENT_WORDS: usize = 4;
/// User data of the clock.
const THE_TIME: u64 = u64::MAX;
/// Kinds of subscriptions.
const CLOCK: u64 = 0;
const READ: u64 = 1;
const WRITE: u64 = 2;
const MONOTONIC: u64 = 1;
const NONBLOCK: u16 = 4;
const SHUT_WRITE: u8 = 2;
/// The flag of an event by which the host asks for a connection.
const ASKED_BACK: u64 = 1 << 8;

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn poll_oneoff(
        from: *const [u64; 6],
        to: *mut [u64; EVENT_WORDS],
        count: usize,
        events: *mut usize,
    ) -> u16;
    fn fd_fdstat_set_flags(fd: u32, flags: u16) -> u16;
    fn sock_shutdown(fd: u32, how: u8) -> u16;
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Bytes, or their end.
    Read,
    /// Room to write.
    Write,
}

fn check(errno: u16) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.into())),
    }
}

/// A descriptor that is ready.
pub(crate) struct Ready {
    /// Which of those that were waited for.
    pub(crate) which: usize,
    /// It is a connection, and the host asks for it.
    pub(crate) asked_back: bool,
}

/// Waits until a descriptor is ready; `None` if the time is over first.
pub(crate) fn wait(fd: u32, what: For, limit: Duration) -> io::Result<Option<Ready>> {
    wait_any(&[(fd, what)], limit)
}

/// Waits until one of up to two descriptors is ready; `None` if the time is over first.
pub(crate) fn wait_any(any: &[(u32, For)], limit: Duration) -> io::Result<Option<Ready>> {
    let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    // Subscriptions of six words: user data, kind, then what is waited for. The clock is the first.
    let mut list = [[0_u64; 6]; 3];
    list[0] = [THE_TIME, CLOCK, MONOTONIC, nanoseconds, 0, 0];
    for (at, (subscription, (fd, what))) in list[1..].iter_mut().zip(any).enumerate() {
        let kind = match what {
            For::Read => READ,
            For::Write => WRITE,
        };
        *subscription = [at as u64, kind, (*fd).into(), 0, 0, 0];
    }
    let mut events = [[0_u64; EVENT_WORDS]; 3];
    let mut count = 0;
    // SAFETY: the lists hold that many subscriptions and events, and are aligned; `count` is written.
    let polled = unsafe {
        poll_oneoff(
            list.as_ptr(),
            events.as_mut_ptr(),
            1 + any.len().min(2),
            &mut count,
        )
    };
    check(polled)?;
    let ready = events[..count].iter().find(|event| event[0] != THE_TIME);
    Ok(ready.map(|event| Ready {
        which: event[0] as usize,
        asked_back: event[3] & ASKED_BACK != 0,
    }))
}

/// Lets writes to a descriptor return instead of waiting, if it is a connection.
pub(crate) fn do_not_wait(fd: u32) {
    // SAFETY: the call takes numbers alone. Anything but a connection is left as it is.
    unsafe { fd_fdstat_set_flags(fd, NONBLOCK) };
}

/// Starts the program of a name with variables, `NAME=VALUE` and a zero byte each; returns the connection to it.
pub(crate) fn launch(name: &str, variables: &[u8]) -> io::Result<u32> {
    let mut fd = 0;
    // SAFETY: the pointers and lengths are those of slices, and `fd` is written.
    check(unsafe {
        net::launch(
            name.as_ptr(),
            name.len(),
            variables.as_ptr(),
            variables.len(),
            &mut fd,
        )
    })?;
    Ok(fd)
}

mod net {
    #[link(wasm_import_module = "everwarp:net")]
    unsafe extern "C" {
        pub(super) fn launch(
            name: *const u8,
            name_length: usize,
            variables: *const u8,
            variables_length: usize,
            fd: *mut u32,
        ) -> u16;
    }
}

/// Ends sending on a connection, so that the peer sees the end while its own bytes are still read.
pub(crate) fn end_sending(fd: u32) {
    // SAFETY: the call takes numbers alone.
    unsafe { sock_shutdown(fd, SHUT_WRITE) };
}

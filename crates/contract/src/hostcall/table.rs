//! The table of host calls.
//!
//! To add a call, add a row. Then `everwarp-hostcalls` does not compile until `plan.rs` says which thread serves the call
//! and `serve.rs` serves it; device code has a struct with the names of its arguments; and a test fails until the
//! reference in `docs/reference/host-calls.md` has been written anew. Numbers are the wire format between the two sides
//! of one build. The numbers 8 to 15 and 63 are free.

use super::declare::{
    Answer, Argument, ArgumentDescription, BadCall, CallDescription, Fd, Payload, Waits, host_calls,
};

/// The most arguments of a call.
pub const ARGUMENTS_MOST: usize = 6;

host_calls! {
    /// Returns its arguments and its payload. The device sends it to be called again when an area may be free, and to
    /// measure the ring.
    NOP = 1, Nop(first: u64, second: u64, third: u64), sends Bytes, gets Echo, waits Never;
    /// Says that the process has exited and how. The payload is the last of its standard output. The host closes its
    /// descriptors; requests that the process sends afterwards get `ERRNO_SRCH`.
    EXIT = 2, Exit(kind: u32, code: u32, trap: u32, function: u32, offset: u32, fuel_left: u64), sends Bytes, gets Nothing, waits Never;
    /// Writes standard output (1) or standard error (2) that the device has collected. It goes where `FD_WRITE` to that
    /// stream would have gone when the process was started, whatever the descriptor is now.
    OUTPUT = 3, Output(stream: u32), sends Bytes, gets Values("bytes taken"), waits Never;
    /// Is the first call of a process that another process has spawned. The arguments name its first ancestor, which
    /// the host has started: the new process gets that ancestor's output streams and directories.
    ADOPT = 4, Adopt(slot: u32, generation: u32), sends Nothing, gets Nothing, waits Never;
    /// Cancels what the process with this name waits for, now and from now on, because its parent has asked for its
    /// end. It is no error if the host does not know the process: then the process has not called yet.
    INTERRUPT = 5, Interrupt(slot: u32, generation: u32), sends Nothing, gets Nothing, waits Never;
    /// Cancels what another thread of the process waits for with this slot, if that is time or input. The thread's call
    /// gets `ECANCELED`.
    CALL_OFF = 6, CallOff(slot: u32), sends Nothing, gets Nothing, waits Never;
    /// Asks for a function that the process has called and that the image does not have. The call is answered when the engine
    /// runs an image with the function; an error says that there will be none.
    NEED_FUNCTION = 7, NeedFunction(function: u32), sends Nothing, gets Nothing, waits ForFunction;
    /// `fd_advise`.
    FD_ADVISE = 16, FdAdvise(fd: Fd, offset: u64, length: u64, advice: u32), sends Nothing, gets Nothing, waits Never;
    /// `fd_allocate`.
    FD_ALLOCATE = 17, FdAllocate(fd: Fd, offset: u64, length: u64), sends Nothing, gets Nothing, waits Never;
    /// `fd_close`.
    FD_CLOSE = 18, FdClose(fd: Fd), sends Nothing, gets Nothing, waits Never;
    /// `fd_datasync`.
    FD_DATASYNC = 19, FdDatasync(fd: Fd), sends Nothing, gets Nothing, waits Never;
    /// `fd_fdstat_get`.
    FD_FDSTAT_GET = 20, FdFdstatGet(fd: Fd), sends Nothing, gets Values("the 24 bytes of `fdstat`"), waits Never;
    /// `fd_fdstat_set_flags`.
    FD_FDSTAT_SET_FLAGS = 21, FdFdstatSetFlags(fd: Fd, flags: u32), sends Nothing, gets Nothing, waits Never;
    /// `fd_fdstat_set_rights`.
    FD_FDSTAT_SET_RIGHTS = 22, FdFdstatSetRights(fd: Fd, base: u64, inheriting: u64), sends Nothing, gets Nothing, waits Never;
    /// `fd_filestat_get`.
    FD_FILESTAT_GET = 23, FdFilestatGet(fd: Fd), sends Nothing, gets Record("`filestat`, 64 bytes"), waits Never;
    /// `fd_filestat_set_size`.
    FD_FILESTAT_SET_SIZE = 24, FdFilestatSetSize(fd: Fd, size: u64), sends Nothing, gets Nothing, waits Never;
    /// `fd_filestat_set_times`.
    FD_FILESTAT_SET_TIMES = 25, FdFilestatSetTimes(fd: Fd, accessed: u64, modified: u64, flags: u32), sends Nothing, gets Nothing, waits Never;
    /// `fd_pread`.
    FD_PREAD = 26, FdPread(fd: Fd, length: u32, offset: u64), sends Nothing, gets Bytes("the bytes read"), waits Never;
    /// `fd_prestat_get`.
    FD_PRESTAT_GET = 27, FdPrestatGet(fd: Fd), sends Nothing, gets Values("the 8 bytes of `prestat`"), waits Never;
    /// `fd_prestat_dir_name`; `length` is that of the process's buffer.
    FD_PRESTAT_DIR_NAME = 28, FdPrestatDirName(fd: Fd, length: u32), sends Nothing, gets Bytes("the name"), waits Never;
    /// `fd_pwrite`.
    FD_PWRITE = 29, FdPwrite(fd: Fd, offset: u64), sends Bytes, gets Values("bytes written"), waits Never;
    /// `fd_read`. A caller that is not patient gets `HOSTCALL_LATER` where the call has to wait, unless `fd` is 2 or less.
    /// On a connection it is `sock_recv` without flags.
    FD_READ = 30, FdRead(fd: Fd, length: u32), sends Nothing, gets Bytes("the bytes read"), waits ForInput;
    /// `fd_readdir`. The reply is the part of the listing after `cookie` that begins `skip` bytes into it. A device
    /// whose process has a larger buffer calls again with the same cookie and `skip` grown by the bytes it has, until
    /// the buffer is full or a reply is shorter than asked for, which is the end of the directory.
    FD_READDIR = 31, FdReaddir(fd: Fd, length: u32, cookie: u64, skip: u64), sends Nothing, gets Bytes("`dirent`s with their names"), waits Never;
    /// `fd_renumber`.
    FD_RENUMBER = 32, FdRenumber(from: Fd, to: Fd), sends Nothing, gets Nothing, waits Never;
    /// `fd_seek`.
    FD_SEEK = 33, FdSeek(fd: Fd, delta: i64, whence: u32), sends Nothing, gets Values("the new offset"), waits Never;
    /// `fd_sync`.
    FD_SYNC = 34, FdSync(fd: Fd), sends Nothing, gets Nothing, waits Never;
    /// `fd_tell`.
    FD_TELL = 35, FdTell(fd: Fd), sends Nothing, gets Values("the offset"), waits Never;
    /// `fd_write`. A caller that is not patient gets `HOSTCALL_LATER` where a connection has no room.
    FD_WRITE = 36, FdWrite(fd: Fd), sends Bytes, gets Values("bytes written"), waits ForPeer;
    /// `path_create_directory`.
    PATH_CREATE_DIRECTORY = 37, PathCreateDirectory(fd: Fd), sends Path, gets Nothing, waits Never;
    /// `path_filestat_get`.
    PATH_FILESTAT_GET = 38, PathFilestatGet(fd: Fd, lookup: u32), sends Path, gets Record("`filestat`, 64 bytes"), waits Never;
    /// `path_filestat_set_times`.
    PATH_FILESTAT_SET_TIMES = 39, PathFilestatSetTimes(fd: Fd, lookup: u32, accessed: u64, modified: u64, flags: u32), sends Path, gets Nothing, waits Never;
    /// `path_link`; the old path comes first.
    PATH_LINK = 40, PathLink(old_fd: Fd, lookup: u32, old_length: u32, new_fd: Fd), sends TwoPaths, gets Nothing, waits Never;
    /// `path_open`. The call waits if the process has nothing open and there is no room for more open files. A caller
    /// that is not patient gets `HOSTCALL_LATER` then.
    PATH_OPEN = 41, PathOpen(fd: Fd, lookup: u32, oflags: u32, fdflags: u32, base: u64, inheriting: u64), sends Path, gets Values("the new descriptor"), waits ForRoom;
    /// `path_readlink`; `length` is that of the process's buffer.
    PATH_READLINK = 42, PathReadlink(fd: Fd, length: u32), sends Path, gets Bytes("the target"), waits Never;
    /// `path_remove_directory`.
    PATH_REMOVE_DIRECTORY = 43, PathRemoveDirectory(fd: Fd), sends Path, gets Nothing, waits Never;
    /// `path_rename`; the old path comes first.
    PATH_RENAME = 44, PathRename(old_fd: Fd, old_length: u32, new_fd: Fd), sends TwoPaths, gets Nothing, waits Never;
    /// `path_symlink`; the target comes first.
    PATH_SYMLINK = 45, PathSymlink(target_length: u32, fd: Fd), sends TwoPaths, gets Nothing, waits Never;
    /// `path_unlink_file`.
    PATH_UNLINK_FILE = 46, PathUnlinkFile(fd: Fd), sends Path, gets Nothing, waits Never;
    /// `poll_oneoff`. Clocks are the device's, so the process's two times are sent: absolute timeouts are measured from
    /// them. Up to `HOSTCALL_POLL_MAX` subscriptions fit an area; for more the device returns `ERRNO_INVAL` itself.
    POLL_ONEOFF = 47, PollOneoff(count: u32, realtime: u64, monotonic: u64), sends Subscriptions, gets Events, waits ForEvents;
    /// `sock_accept`. `flags` are the `fdflags` of the connection; only `NONBLOCK` is known.
    SOCK_ACCEPT = 48, SockAccept(fd: Fd, flags: u32), sends Nothing, gets Values("the new descriptor"), waits ForPeer;
    /// `sock_recv`; `flags` are `riflags`. A caller that is not patient gets `HOSTCALL_LATER` where the call has to wait.
    SOCK_RECV = 49, SockRecv(fd: Fd, length: u32, flags: u32), sends Nothing, gets Bytes("the bytes received"), waits ForPeer;
    /// `sock_send`; `flags` must be 0. A caller that is not patient gets `HOSTCALL_LATER` where the call has to wait.
    SOCK_SEND = 50, SockSend(fd: Fd, flags: u32), sends Bytes, gets Values("bytes sent"), waits ForPeer;
    /// `sock_shutdown`; `how` has a bit for each direction: 1 for receiving, 2 for sending.
    SOCK_SHUTDOWN = 51, SockShutdown(fd: Fd, how: u32), sends Nothing, gets Nothing, waits Never;
    /// `launch` of `everwarp:net`. The payload is the name, of `name_length` bytes, and the variables.
    NET_LAUNCH = 52, NetLaunch(name_length: u32), sends Bytes, gets Values("the new descriptor"), waits Never;
    /// `socket` of `everwarp:net`. `family` is 4 or 6; `kind` is 1 for a stream, 2 for datagrams.
    NET_SOCKET = 53, NetSocket(family: u32, kind: u32), sends Nothing, gets Values("the new descriptor"), waits Never;
    /// `bind` of `everwarp:net`. The three words are an address.
    NET_BIND = 54, NetBind(fd: Fd, first: u64, second: u64, third: u64), sends Nothing, gets Nothing, waits Never;
    /// `connect` of `everwarp:net`. The three words are an address. A caller that is not patient gets `HOSTCALL_LATER`
    /// before anything is done.
    NET_CONNECT = 55, NetConnect(fd: Fd, first: u64, second: u64, third: u64), sends Nothing, gets Nothing, waits ForPeer;
    /// `listen` of `everwarp:net`.
    NET_LISTEN = 56, NetListen(fd: Fd, backlog: u32), sends Nothing, gets Nothing, waits Never;
    /// `address` of `everwarp:net`. `which` is 0 for the socket's own address, 1 for its peer's.
    NET_ADDRESS = 57, NetAddress(fd: Fd, which: u32), sends Nothing, gets Values("the address"), waits Never;
    /// `send_to` of `everwarp:net`. The three words are an address.
    NET_SEND_TO = 58, NetSendTo(fd: Fd, first: u64, second: u64, third: u64), sends Bytes, gets Values("bytes sent"), waits ForPeer;
    /// `receive_from` of `everwarp:net`; `flags` are `riflags`. Where there is no sender's address, the values are zero.
    NET_RECEIVE_FROM = 59, NetReceiveFrom(fd: Fd, length: u32, flags: u32), sends Nothing, gets Datagram, waits ForPeer;
    /// `option` of `everwarp:net`.
    NET_OPTION = 60, NetOption(fd: Fd, option: u32), sends Nothing, gets Values("the value"), waits Never;
    /// `set_option` of `everwarp:net`.
    NET_SET_OPTION = 61, NetSetOption(fd: Fd, option: u32, value: u64), sends Nothing, gets Nothing, waits Never;
    /// `look_up` of `everwarp:net`. The payload is a name; up to `most` addresses come back. Their ports are zero.
    NET_LOOK_UP = 62, NetLookUp(most: u32), sends Bytes, gets Addresses, waits ForName;
}

/// The numbers of all calls are below this.
pub const NUMBERS: usize = CALLS[CALLS.len() - 1].number as usize + 1;

const _: () = {
    let mut last = 0;
    let mut at = 0;
    while at < CALLS.len() {
        assert!(CALLS[at].number > last, "numbers rise, and 0 is no call");
        assert!(CALLS[at].arguments.len() <= ARGUMENTS_MOST);
        last = CALLS[at].number;
        at += 1;
    }
    assert!(last < super::HOSTCALL_PATIENT, "the bits above are flags");
};

/// The name of the call with a number.
pub fn name(number: u32) -> Option<&'static str> {
    let found = CALLS.binary_search_by_key(&number, |call| call.number);
    found.ok().map(|at| CALLS[at].name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_survives_encoding_and_decoding() {
        for call in CALLS {
            let words = core::array::from_fn(|at| at as u64 + 7);
            let decoded = HostCall::decode(call.number, words).expect("small words fit every type");
            assert_eq!(decoded.number(), call.number, "{}", call.name);
            assert_eq!(decoded.waits(), call.waits, "{}", call.name);
            let encoded = decoded.words();
            let (sent, rest) = encoded.split_at(call.arguments.len());
            assert_eq!(sent, &words[..sent.len()], "{}", call.name);
            assert!(rest.iter().all(|word| *word == 0), "{}", call.name);
            assert_eq!(name(call.number), Some(call.name));
        }
    }

    #[test]
    fn words_that_do_not_fit_their_argument_are_refused() {
        for call in CALLS {
            for (at, argument) in call.arguments.iter().enumerate() {
                let mut words = [0; ARGUMENTS_MOST];
                words[at] = 1 << 32;
                let wide = matches!(argument.device_type, "u64" | "i64");
                let bad = BadCall::Argument {
                    number: call.number,
                };
                let decoded = HostCall::decode(call.number, words);
                assert_eq!(decoded.is_ok(), wide, "{}: {}", call.name, argument.name);
                assert!(wide || decoded == Err(bad));
            }
        }
    }

    #[test]
    fn numbers_without_a_call_are_unknown() {
        for number in [0, 8, 15, 63, u32::MAX] {
            let decoded = HostCall::decode(number, [0; ARGUMENTS_MOST]);
            assert_eq!(decoded, Err(BadCall::Unknown { number }));
            assert_eq!(name(number), None);
        }
    }
}

//! The imports, as `guests/NET.md` names them, and those of WASI that the standard library does not use.

use std::io;

/// An address in memory.
#[repr(C, align(4))]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawAddress {
    /// 4 or 6.
    pub(crate) family: u16,
    pub(crate) port: u16,
    /// An IPv4 address has the first four.
    pub(crate) octets: [u8; 16],
    pub(crate) zone: u32,
}

const _: () = assert!(size_of::<RawAddress>() == 24);

/// A vector of WASI.
#[repr(C)]
pub(crate) struct Vector {
    pub(crate) at: *mut u8,
    pub(crate) length: usize,
}

#[link(wasm_import_module = "everwarp:net")]
unsafe extern "C" {
    pub(crate) fn socket(family: u32, kind: u32, to: *mut u32) -> u16;
    pub(crate) fn bind(fd: u32, at: *const RawAddress) -> u16;
    pub(crate) fn connect(fd: u32, at: *const RawAddress) -> u16;
    pub(crate) safe fn listen(fd: u32, backlog: u32) -> u16;
    pub(crate) fn address(fd: u32, which: u32, to: *mut RawAddress) -> u16;
    pub(crate) fn send_to(
        fd: u32,
        at: *const u8,
        length: usize,
        to: *const RawAddress,
        sent: *mut usize,
    ) -> u16;
    pub(crate) fn receive_from(
        fd: u32,
        at: *mut u8,
        length: usize,
        flags: u32,
        from: *mut RawAddress,
        received: *mut usize,
    ) -> u16;
    pub(crate) fn option(fd: u32, option: u32, to: *mut u64) -> u16;
    pub(crate) safe fn set_option(fd: u32, option: u32, value: u64) -> u16;
    pub(crate) fn look_up(
        name: *const u8,
        length: usize,
        to: *mut RawAddress,
        most: usize,
        count: *mut usize,
    ) -> u16;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    pub(crate) fn poll_oneoff(
        from: *const [u64; 6],
        to: *mut [u64; 4],
        count: usize,
        events: *mut usize,
    ) -> u16;
    pub(crate) fn sock_accept(fd: u32, flags: u16, to: *mut u32) -> u16;
    pub(crate) fn sock_recv(
        fd: u32,
        list: *const Vector,
        count: usize,
        flags: u16,
        received: *mut usize,
        out_flags: *mut u16,
    ) -> u16;
    pub(crate) fn sock_send(
        fd: u32,
        list: *const Vector,
        count: usize,
        flags: u16,
        sent: *mut usize,
    ) -> u16;
    pub(crate) safe fn sock_shutdown(fd: u32, how: u8) -> u16;
    pub(crate) safe fn fd_fdstat_set_flags(fd: u32, flags: u16) -> u16;
}

/// An error number as an error.
pub(crate) fn check(errno: u16) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.into())),
    }
}

//! The imports, as the specification of WASI preview 1 names them.

/// A run of bytes to read from or to write to.
#[repr(C)]
pub(crate) struct Vector {
    pub(crate) at: *const u8,
    pub(crate) length: usize,
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    pub(crate) fn args_sizes_get(count: *mut usize, bytes: *mut usize) -> u16;
    pub(crate) fn args_get(at: *mut *const u8, bytes: *mut u8) -> u16;
    pub(crate) fn environ_sizes_get(count: *mut usize, bytes: *mut usize) -> u16;
    pub(crate) fn environ_get(at: *mut *const u8, bytes: *mut u8) -> u16;
    pub(crate) fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u16;
    pub(crate) fn random_get(at: *mut u8, length: usize) -> u16;
    pub(crate) fn proc_exit(code: u32) -> !;
    pub(crate) fn fd_close(fd: u32) -> u16;
    pub(crate) fn fd_read(fd: u32, vectors: *const Vector, count: usize, done: *mut usize) -> u16;
    pub(crate) fn fd_write(fd: u32, vectors: *const Vector, count: usize, done: *mut usize) -> u16;
    pub(crate) fn fd_prestat_get(fd: u32, prestat: *mut [u32; 2]) -> u16;
    pub(crate) fn fd_prestat_dir_name(fd: u32, path: *mut u8, length: usize) -> u16;
    pub(crate) fn fd_readdir(
        fd: u32,
        at: *mut u8,
        length: usize,
        cookie: u64,
        used: *mut usize,
    ) -> u16;
    pub(crate) fn path_open(
        fd: u32,
        lookup: u32,
        path: *const u8,
        length: usize,
        how: u32,
        rights: u64,
        inheriting: u64,
        flags: u32,
        opened: *mut u32,
    ) -> u16;
}

//! The imports, as `guests/GPU.md` names them.

#[link(wasm_import_module = "everwarp:gpu")]
unsafe extern "C" {
    pub(crate) safe fn lane() -> u32;
    pub(crate) safe fn warp() -> u32;
    pub(crate) safe fn process() -> u64;
    pub(crate) safe fn instance() -> u32;
    pub(crate) safe fn active() -> u32;
    pub(crate) safe fn ballot(vote: u32) -> u32;
    pub(crate) safe fn shuffle(value: u64, lane: u32) -> u64;
    pub(crate) fn channel(capacity: u32, bytes: u32, ends: *mut [u32; 2]) -> i32;
    pub(crate) fn send(handle: u32, at: *const u8, length: usize) -> i32;
    pub(crate) fn try_send(handle: u32, at: *const u8, length: usize) -> i32;
    pub(crate) fn receive(handle: u32, at: *mut u8, length: usize) -> i32;
    pub(crate) fn try_receive(handle: u32, at: *mut u8, length: usize) -> i32;
    pub(crate) safe fn close(handle: u32) -> i32;
    pub(crate) fn spawn(
        name: *const u8,
        name_length: usize,
        args: *const u8,
        args_length: usize,
        ends: *const u32,
        count: usize,
    ) -> i64;
    pub(crate) fn wait(pid: u64, status: *mut [u32; 2]) -> i32;
    pub(crate) safe fn kill(pid: u64) -> i32;
}

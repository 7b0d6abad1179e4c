//! Timers as the CPU twin of a task sees them. Device source has the same names in `everwarp/files/files.cuh`.

use everwarp_contract::files::{FILE_SLEEP, FILE_TICK, FILE_TIMER};
use everwarp_contract::{DevFileRequest, DevType};

use crate::task::{FileTask, Then};

/// Times are nanoseconds from when the host takes the request, on a clock that no one sets. The host makes room for timers with
/// [`FilesConfig::timers`](crate::FilesConfig::timers).
impl FileTask<'_> {
    /// Goes on after this time.
    pub fn sleep(&mut self, nanos: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_SLEEP,
            offset: nanos,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Sets a timer that expires after this time, and then after each period; a period of 0 is none, and others are 0.1 ms at
    /// least. The result is its handle, which [`close`](Self::close) takes back.
    pub fn timer(&mut self, after: u64, period: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_TIMER,
            offset: after,
            room: period,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Goes on when a timer has expired. The result is how often it has since the last tick: none is lost, however late a task
    /// asks, and a period does not drift. One task waits for a timer at a time; a second gets `BUSY`. If the timer is closed,
    /// the task that waits gets `CANCELED`.
    pub fn tick(&mut self, handle: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_TICK,
            handle,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
}

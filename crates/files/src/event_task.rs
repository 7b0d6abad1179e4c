//! Events as the CPU twin of a task sees them. Device source has the same names in `everwarp/files/files.cuh`.

use everwarp_contract::files::{FILE_EVENTS, FILE_WATCH};
use everwarp_contract::{DevEvent, DevFileRequest, DevPtr, DevType};

use crate::task::{FileTask, Then};

/// The host gives a stream of events with [`Files::give_events`](crate::Files::give_events). [`cancel`](Self::cancel) ends a wait for
/// events, and [`close`](Self::close) gives the sources back.
impl FileTask<'_> {
    /// Chooses the sources (`SOURCE_…`) and the signals (bit *n* for signal *n*) of a stream, and no others from now on. An event
    /// `EVENT_WATCHING` says which of them the stream brings.
    pub fn watch(&mut self, handle: u32, sources: u32, signals: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_WATCH,
            handle,
            offset: sources.into(),
            address: signals,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Goes on when events have come, with up to `most` of them in a shared buffer, in their order. The result is how many, 8192 at
    /// most; 0: none comes any more.
    pub fn events(&mut self, handle: u32, to: DevPtr<DevEvent>, most: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_EVENTS,
            handle,
            address: to.address(),
            len: most,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
}

//! Waiting for several descriptors and a time.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::Ready;

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn poll_oneoff(
        from: *const [u64; 6],
        to: *mut [u64; 4],
        count: usize,
        events: *mut usize,
    ) -> u16;
}

/// The kind of a subscription for reading, and the clock that never goes back.
const READ: u64 = 1;
const MONOTONIC: u64 = 1;

pub(crate) fn wait(first: RawFd, others: &[RawFd], limit: Option<Duration>) -> io::Result<Ready> {
    let all = [first].into_iter().chain(others.iter().copied());
    // The number of a subscription comes back with its event.
    let mut list: Vec<[u64; 6]> = (0..)
        .zip(all)
        .map(|(at, fd)| [at, READ, fd as u64, 0, 0, 0])
        .collect();
    let time = list.len();
    if let Some(limit) = limit {
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        list.push([time as u64, 0, MONOTONIC, nanoseconds, 0, 0]);
    }
    let mut events = vec![[0; 4]; list.len()];
    let mut count = 0;
    // SAFETY: both lists have as many elements, and `count` is written.
    let errno = unsafe { poll_oneoff(list.as_ptr(), events.as_mut_ptr(), list.len(), &mut count) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno.into()));
    }
    let mut ready = Ready {
        others: vec![false; others.len()],
        ..Ready::default()
    };
    for event in &events[..count] {
        match event[0] as usize {
            0 => ready.events = true,
            at if at == time => ready.time_over = true,
            at => ready.others[at - 1] = true,
        }
    }
    Ok(ready)
}

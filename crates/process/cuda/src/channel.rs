//! Channels between the host and processes on a GPU, and between processes, as the host makes them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelEnd, ChannelError, Endpoint, Receiver, Sender, SpawnError, gpu};

use crate::family::SharedFamily;
use crate::layout::family::{
    END_RECEIVES, HOST_CLOSE, HOST_KEEP, HOST_OPEN, HOST_SEND, SIDE_RECEIVE, SIDE_SEND,
};

/// The host looks again after this time, and then after twice as long, up to [`LAST_NAP`]: a device cannot wake it.
const FIRST_NAP: Duration = Duration::from_micros(20);
const LAST_NAP: Duration = Duration::from_millis(1);

/// An end of a channel that the host holds, or that a process which has not started is to have. Clones are the same
/// end. It is closed when the last one is dropped.
#[derive(Clone)]
pub(crate) struct HostEnd(Arc<OpenEnd>);

impl fmt::Debug for HostEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEnd")
            .field("channel", &self.0.channel)
            .field("receives", &(self.0.side == SIDE_RECEIVE))
            .finish()
    }
}

struct OpenEnd {
    host: Weak<SharedFamily>,
    channel: u32,
    side: u32,
}

impl Drop for OpenEnd {
    fn drop(&mut self) {
        if let Some(family) = self.host.upgrade() {
            // With a lost engine there is nothing to close.
            drop(family.ask(HOST_CLOSE, self.channel, self.side, 0, &[]));
        }
    }
}

impl HostEnd {
    fn new(host: &Arc<SharedFamily>, channel: u32, side: u32) -> Self {
        let host = Arc::downgrade(host);
        Self(Arc::new(OpenEnd {
            host,
            channel,
            side,
        }))
    }

    /// The end that a caller gives to processes of the host with this family.
    pub(crate) fn of(end: &ChannelEnd, host: &Arc<SharedFamily>) -> Result<Self, SpawnError> {
        let end: Option<&Self> = end.endpoint().as_any().downcast_ref();
        let own = end.filter(|end| std::ptr::eq(end.0.host.as_ptr(), Arc::as_ptr(host)));
        own.cloned().ok_or(SpawnError::ForeignEnd)
    }

    /// The end's entry in a process's table of ends.
    pub(crate) fn entry(&self) -> u32 {
        let receives = match self.0.side {
            SIDE_RECEIVE => END_RECEIVES,
            _ => 0,
        };
        (self.0.channel + 1) | receives
    }

    /// Makes it the end of this many processes too.
    pub(crate) fn keep(&self, processes: u32) -> Result<(), ChannelError> {
        let end = &self.0;
        let Some(family) = end.host.upgrade() else {
            return Ok(());
        };
        let kept = family.ask(HOST_KEEP, end.channel, end.side, processes, &[]);
        kept.map(drop)
    }

    /// The host, if this end is on that side.
    fn host(&self, side: u32) -> Result<Arc<SharedFamily>, ChannelError> {
        let host = self.0.host.upgrade();
        host.filter(|_| self.0.side == side)
            .ok_or(ChannelError::Closed)
    }
}

impl Endpoint for HostEnd {
    fn duplicate(&self) -> Box<dyn Endpoint> {
        Box::new(self.clone())
    }

    fn send(&self, message: &[u8], timeout: Option<Duration>) -> Result<(), ChannelError> {
        if message.len() > gpu::MESSAGE_BYTES as usize {
            return Err(ChannelError::Size);
        }
        let bytes = message.len() as u32;
        until(timeout, || {
            let host = self.host(SIDE_SEND)?;
            let sent = host.ask(HOST_SEND, self.0.channel, SIDE_SEND, bytes, message);
            sent.map(drop)
        })
    }

    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError> {
        until(timeout, || self.host(SIDE_RECEIVE)?.receive(self.0.channel))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Tries until the attempt succeeds or fails for good, or the time is over.
fn until<T>(
    timeout: Option<Duration>,
    mut attempt: impl FnMut() -> Result<T, ChannelError>,
) -> Result<T, ChannelError> {
    let begin = Instant::now();
    let mut nap = FIRST_NAP;
    loop {
        match attempt() {
            Err(ChannelError::Again) => {}
            decided => return decided,
        }
        if timeout.is_some_and(|t| begin.elapsed() >= t) {
            return Err(ChannelError::Again);
        }
        std::thread::sleep(nap);
        nap = (2 * nap).min(LAST_NAP);
    }
}

/// Makes a channel for `capacity` messages of up to `bytes` bytes.
pub(crate) fn open(
    host: &Arc<SharedFamily>,
    capacity: u32,
    bytes: u32,
) -> Result<(Sender, Receiver), ChannelError> {
    let channel = host.ask(HOST_OPEN, 0, capacity, bytes, &[])?;
    let sender = HostEnd::new(host, channel, SIDE_SEND);
    let receiver = HostEnd::new(host, channel, SIDE_RECEIVE);
    Ok((
        Sender::new(Box::new(sender)),
        Receiver::new(Box::new(receiver)),
    ))
}

//! Channels between processes, and between processes and the host.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, Endpoint, gpu};
use tokio::sync::Notify;

use crate::lock::{lock, wait, wait_for};

/// Which side of a channel an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
}

impl Side {
    fn opposite(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
        }
    }
}

/// The host that a channel belongs to: the host refuses ends of other hosts' channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostId(pub(crate) u64);

#[derive(Debug)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// Open ends of each side.
    ends: [usize; 2],
}

impl Queue {
    /// Takes the first message, if it has up to `room` bytes.
    fn take(&mut self, room: usize) -> Result<Vec<u8>, ChannelError> {
        let first = self.messages.front();
        if first.is_some_and(|message| message.len() > room) {
            return Err(ChannelError::Size);
        }
        let closed = self.ends[Side::Send as usize] == 0;
        let empty = if closed {
            ChannelError::Closed
        } else {
            ChannelError::Again
        };
        self.messages.pop_front().ok_or(empty)
    }
}

/// A queue of messages.
#[derive(Debug)]
pub(crate) struct Channel {
    host: HostId,
    capacity: usize,
    bytes: usize,
    queue: Mutex<Queue>,
    /// For processes of each side: there may be room, or a message. If a process takes a permit and is killed before it
    /// uses it, the permit goes to the next one, so that a kill loses none.
    changed: [Notify; 2],
    /// The same for threads of the host.
    host_changed: Condvar,
}

impl Channel {
    /// Makes a channel with one end of each side: the sender's first.
    pub(crate) fn open(
        host: HostId,
        capacity: u32,
        bytes: u32,
    ) -> Result<(ChannelSide, ChannelSide), ChannelError> {
        if !gpu::possible(capacity, bytes) {
            return Err(ChannelError::Size);
        }
        let channel = Arc::new(Self {
            host,
            capacity: capacity as usize,
            bytes: bytes as usize,
            queue: Mutex::new(Queue {
                messages: VecDeque::new(),
                ends: [1, 1],
            }),
            changed: [Notify::new(), Notify::new()],
            host_changed: Condvar::new(),
        });
        let end = |side| ChannelSide {
            channel: Arc::clone(&channel),
            side,
        };
        Ok((end(Side::Send), end(Side::Receive)))
    }

    /// Wakes one waiter on this side.
    fn wake(&self, side: Side) {
        self.changed[side as usize].notify_one();
        self.host_changed.notify_all();
    }

    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        let sent = self.put(&mut lock(&self.queue), message);
        if sent.is_ok() {
            self.wake(Side::Receive);
        }
        sent
    }

    /// Receives a message of up to `room` bytes. A longer message stays in the queue.
    pub(crate) fn try_receive(&self, room: usize) -> Result<Vec<u8>, ChannelError> {
        let received = lock(&self.queue).take(room);
        match &received {
            Ok(_) => self.wake(Side::Send),
            // Another receiver may have room for it.
            Err(ChannelError::Size) => self.wake(Side::Receive),
            Err(_) => {}
        }
        received
    }

    fn put(&self, queue: &mut Queue, message: &[u8]) -> Result<(), ChannelError> {
        if queue.ends[Side::Receive as usize] == 0 {
            return Err(ChannelError::Closed);
        }
        if message.len() > self.bytes {
            return Err(ChannelError::Size);
        }
        if queue.messages.len() == self.capacity {
            return Err(ChannelError::Again);
        }
        queue.messages.push_back(message.to_vec());
        Ok(())
    }

    /// Repeats an attempt until it does not fail with [`ChannelError::Again`]; for processes.
    pub(crate) async fn retry<T>(
        &self,
        side: Side,
        mut attempt: impl FnMut() -> Result<T, ChannelError>,
    ) -> Result<T, ChannelError> {
        loop {
            // Enabled before the attempt, so that a change after the attempt wakes this waiter.
            let mut changed = pin!(self.changed[side as usize].notified());
            changed.as_mut().enable();
            match attempt() {
                Err(ChannelError::Again) => changed.await,
                decided => return decided,
            }
        }
    }

    /// Repeats an attempt for up to `timeout`; for threads of the host. The lock is held from the attempt to the wait, so that
    /// a change after the attempt ends the wait: `crates/actor/src/models/processes.rs` is its model.
    fn retry_blocking<T>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Queue) -> Result<T, ChannelError>,
    ) -> Result<T, ChannelError> {
        let begin = Instant::now();
        let mut queue = lock(&self.queue);
        loop {
            match attempt(&mut queue) {
                Err(ChannelError::Again) => {}
                decided => return decided,
            }
            queue = match timeout {
                None => wait(&self.host_changed, queue),
                Some(timeout) => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    if left.is_zero() {
                        return Err(ChannelError::Again);
                    }
                    wait_for(&self.host_changed, queue, left)
                }
            };
        }
    }
}

/// An end of a channel. Dropping the last end of a side closes that side; each clone is an end of its own.
#[derive(Debug)]
pub(crate) struct ChannelSide {
    pub(crate) channel: Arc<Channel>,
    pub(crate) side: Side,
}

impl ChannelSide {
    /// The host that made the channel.
    pub(crate) fn host(&self) -> HostId {
        self.channel.host
    }
}

impl Clone for ChannelSide {
    fn clone(&self) -> Self {
        lock(&self.channel.queue).ends[self.side as usize] += 1;
        Self {
            channel: Arc::clone(&self.channel),
            side: self.side,
        }
    }
}

impl Drop for ChannelSide {
    fn drop(&mut self) {
        let mut queue = lock(&self.channel.queue);
        queue.ends[self.side as usize] -= 1;
        let last = queue.ends[self.side as usize] == 0;
        drop(queue);
        if last {
            let opposite = self.side.opposite();
            self.channel.changed[opposite as usize].notify_waiters();
            self.channel.wake(opposite);
        }
    }
}

impl Endpoint for ChannelSide {
    fn duplicate(&self) -> Box<dyn Endpoint> {
        Box::new(self.clone())
    }

    fn send(&self, message: &[u8], timeout: Option<Duration>) -> Result<(), ChannelError> {
        let channel = &self.channel;
        channel.retry_blocking(timeout, |queue| channel.put(queue, message))?;
        channel.wake(Side::Receive);
        Ok(())
    }

    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError> {
        let channel = &self.channel;
        let message = channel.retry_blocking(timeout, |queue| queue.take(usize::MAX))?;
        channel.wake(Side::Send);
        Ok(message)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

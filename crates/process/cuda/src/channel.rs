//! Channels between the host and processes on a GPU, and between processes, as the host makes them.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, gpu};
use everwarp_runtime::Layout;

use crate::dispatch::Shared;
use crate::kin::{
    DevHostOp, END_RECEIVES, HOST_CLOSE, HOST_KEEP, HOST_OPEN, HOST_RECEIVE, HOST_SEND,
    SIDE_RECEIVE, SIDE_SEND,
};
use crate::program;
use crate::world::World;

/// The host looks again after so long, and then after twice as long, up to the other: a device cannot wake it.
const FIRST_NAP: Duration = Duration::from_micros(20);
const LAST_NAP: Duration = Duration::from_millis(1);

/// An end of a channel that the host holds, or that a process which has not started is to have; clones are the
/// same end. It is closed when the last one is dropped.
#[derive(Clone, Debug)]
pub struct End(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Weak<Shared>,
    channel: u32,
    side: u32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(shared) = self.host.upgrade() {
            // With a lost engine there is nothing to close.
            drop(shared.ask(HOST_CLOSE, self.channel, self.side, 0, &[]));
        }
    }
}

impl End {
    fn new(host: &Arc<Shared>, channel: u32, side: u32) -> Self {
        let host = Arc::downgrade(host);
        Self(Arc::new(Inner {
            host,
            channel,
            side,
        }))
    }

    /// As the table of ends of a process has it.
    pub(crate) fn entry(&self) -> u32 {
        let receives = if self.0.side == SIDE_RECEIVE {
            END_RECEIVES
        } else {
            0
        };
        (self.0.channel + 1) | receives
    }

    /// Makes it the end of so many processes too.
    pub(crate) fn keep(&self, shared: &Shared, processes: u32) -> Result<(), ChannelError> {
        let inner = &self.0;
        let kept = shared.ask(HOST_KEEP, inner.channel, inner.side, processes, &[]);
        kept.map(drop)
    }
}

/// Does something until it need not wait, or the time is over.
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

/// The host's end of a channel to send to.
#[derive(Clone, Debug)]
pub struct Sender(End);

impl Sender {
    /// Sends a message, and waits while the channel is full.
    ///
    /// # Errors
    /// [`ChannelError`]: nobody can receive it, or it is too long.
    pub fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        until(None, || self.try_send(message))
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`ChannelError`]: also when there is no room.
    pub fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        if message.len() > gpu::MESSAGE_BYTES as usize {
            return Err(ChannelError::Size);
        }
        let inner = &self.0.0;
        let shared = inner.host.upgrade().ok_or(ChannelError::Closed)?;
        let bytes = message.len() as u32;
        let sent = shared.ask(HOST_SEND, inner.channel, SIDE_SEND, bytes, message);
        sent.map(drop)
    }

    /// The same end, to be given to processes.
    pub fn end(&self) -> End {
        self.0.clone()
    }
}

/// The host's end of a channel to receive from.
#[derive(Clone, Debug)]
pub struct Receiver(End);

impl Receiver {
    /// Receives a message, and waits for one.
    ///
    /// # Errors
    /// [`ChannelError`]: there is none and nobody can send one.
    pub fn receive(&self) -> Result<Vec<u8>, ChannelError> {
        until(None, || self.try_receive())
    }

    /// Receives a message, and waits for so long.
    ///
    /// # Errors
    /// [`ChannelError`]: also when none has come.
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Vec<u8>, ChannelError> {
        until(Some(timeout), || self.try_receive())
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// [`ChannelError`]: also when there is none.
    pub fn try_receive(&self) -> Result<Vec<u8>, ChannelError> {
        let inner = &self.0.0;
        let shared = inner.host.upgrade().ok_or(ChannelError::Closed)?;
        shared.ask_for(inner.channel)
    }

    /// The same end, to be given to processes.
    pub fn end(&self) -> End {
        self.0.clone()
    }
}

fn lost(error: &everwarp_runtime::Error) -> ChannelError {
    ChannelError::Lost(error.to_string())
}

/// What an answer means, which is a length, a number or an error.
fn understood(answer: u32) -> Result<u32, ChannelError> {
    match ChannelError::of(answer as i32) {
        None => Ok(answer),
        Some(error) => Err(error),
    }
}

impl Shared {
    /// Makes a channel of so many messages of up to so many bytes.
    pub(crate) fn channel(
        self: &Arc<Self>,
        capacity: u32,
        bytes: u32,
    ) -> Result<(Sender, Receiver), ChannelError> {
        let channel = self.ask(HOST_OPEN, 0, capacity, bytes, &[])?;
        let sender = Sender(End::new(self, channel, SIDE_SEND));
        let receiver = Receiver(End::new(self, channel, SIDE_RECEIVE));
        Ok((sender, receiver))
    }

    fn ask(
        &self,
        operation: u32,
        channel: u32,
        side: u32,
        bytes: u32,
        message: &[u8],
    ) -> Result<u32, ChannelError> {
        let world = self.world.get().ok_or(ChannelError::Limit)?;
        // One at a time: they share the mailbox.
        let world = world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.ask_in(&world, operation, channel, side, bytes, message)
    }

    fn ask_for(&self, channel: u32) -> Result<Vec<u8>, ChannelError> {
        let world = self.world.get().ok_or(ChannelError::Limit)?;
        let world = world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = self.ask_in(&world, HOST_RECEIVE, channel, SIDE_RECEIVE, 0, &[])?;
        let mut message = vec![0; length as usize];
        world
            .mailbox
            .read_at(size_of::<DevHostOp>(), &mut message)
            .map_err(|e| lost(&e))?;
        Ok(message)
    }

    fn ask_in(
        &self,
        world: &World,
        operation: u32,
        channel: u32,
        side: u32,
        bytes: u32,
        message: &[u8],
    ) -> Result<u32, ChannelError> {
        let head = DevHostOp {
            operation,
            channel,
            side,
            bytes,
            reserved: [0; 4],
        };
        let all = [head.bytes(), message].concat();
        world.mailbox.write(&all).map_err(|e| lost(&e))?;
        let task = self.places[world.asker].instance.task(program::CHANNEL);
        let task = task.arg(world.mailbox.ptr().address());
        let mut pending = self.engine.submit(task).map_err(|e| lost(&e))?;
        let answer = pending.wait().map_err(|e| lost(&e))?.value;
        // One more than the answer, so that no answer is not one.
        understood((answer as u32).wrapping_sub(1))
    }
}

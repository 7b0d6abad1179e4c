//! Channels between the host and processes on a GPU, and between processes, as the host makes them.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelEnd, ChannelError, Endpoint, Receiver, Sender, SpawnError, gpu};
use everwarp_runtime::Layout;

use crate::dispatch::Shared;
use crate::error::channel_lost;
use crate::kin::{
    DevHostOp, END_RECEIVES, HOST_CLOSE, HOST_KEEP, HOST_OPEN, HOST_RECEIVE, HOST_SEND,
    SIDE_RECEIVE, SIDE_SEND,
};
use crate::program;
use crate::world::World;

/// The host looks again after this time, and then after twice as long, up to [`LAST_NAP`]: a device cannot wake it.
const FIRST_NAP: Duration = Duration::from_micros(20);
const LAST_NAP: Duration = Duration::from_millis(1);

/// An end of a channel that the host holds, or that a process which has not started is to have. Clones are the same
/// end. It is closed when the last one is dropped.
#[derive(Clone)]
pub(crate) struct HostEnd(Arc<OpenEnd>);

impl std::fmt::Debug for HostEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostEnd")
            .field("channel", &self.0.channel)
            .field("receives", &(self.0.side == SIDE_RECEIVE))
            .finish()
    }
}

struct OpenEnd {
    host: Weak<Shared>,
    channel: u32,
    side: u32,
}

impl Drop for OpenEnd {
    fn drop(&mut self) {
        if let Some(shared) = self.host.upgrade() {
            // With a lost engine there is nothing to close.
            drop(shared.ask(HOST_CLOSE, self.channel, self.side, 0, &[]));
        }
    }
}

impl HostEnd {
    fn new(host: &Arc<Shared>, channel: u32, side: u32) -> Self {
        let host = Arc::downgrade(host);
        Self(Arc::new(OpenEnd {
            host,
            channel,
            side,
        }))
    }

    /// The end that a caller gives to processes of this host.
    pub(crate) fn of(end: &ChannelEnd, shared: &Arc<Shared>) -> Result<Self, SpawnError> {
        let end: Option<&Self> = end.endpoint().as_any().downcast_ref();
        let own = end.filter(|end| std::ptr::eq(end.0.host.as_ptr(), Arc::as_ptr(shared)));
        own.cloned().ok_or(SpawnError::ForeignEnd)
    }

    /// As the table of ends of a process has it.
    pub(crate) fn entry(&self) -> u32 {
        let receives = match self.0.side {
            SIDE_RECEIVE => END_RECEIVES,
            _ => 0,
        };
        (self.0.channel + 1) | receives
    }

    /// Makes it the end of this many processes too.
    pub(crate) fn keep(&self, shared: &Shared, processes: u32) -> Result<(), ChannelError> {
        let end = &self.0;
        let kept = shared.ask(HOST_KEEP, end.channel, end.side, processes, &[]);
        kept.map(drop)
    }

    fn shared(&self, side: u32) -> Result<Arc<Shared>, ChannelError> {
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
            let shared = self.shared(SIDE_SEND)?;
            let sent = shared.ask(HOST_SEND, self.0.channel, SIDE_SEND, bytes, message);
            sent.map(drop)
        })
    }

    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError> {
        until(timeout, || {
            self.shared(SIDE_RECEIVE)?.ask_for(self.0.channel)
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Tries until the attempt need not wait, or the time is over.
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

/// What an answer means, which is a length, a number or an error.
fn understood(answer: u32) -> Result<u32, ChannelError> {
    match ChannelError::of(answer as i32) {
        None => Ok(answer),
        Some(error) => Err(error),
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Makes a channel for `capacity` messages of up to `bytes` bytes.
    pub(crate) fn channel(
        self: &Arc<Self>,
        capacity: u32,
        bytes: u32,
    ) -> Result<(Sender, Receiver), ChannelError> {
        let channel = self.ask(HOST_OPEN, 0, capacity, bytes, &[])?;
        let sender = HostEnd::new(self, channel, SIDE_SEND);
        let receiver = HostEnd::new(self, channel, SIDE_RECEIVE);
        Ok((
            Sender::new(Box::new(sender)),
            Receiver::new(Box::new(receiver)),
        ))
    }

    fn ask(
        &self,
        operation: u32,
        channel: u32,
        side: u32,
        bytes: u32,
        message: &[u8],
    ) -> Result<u32, ChannelError> {
        // One request at a time, because they share the mailbox.
        let world = lock(self.world.get().ok_or(ChannelError::Limit)?);
        self.ask_in(&world, operation, channel, side, bytes, message)
    }

    fn ask_for(&self, channel: u32) -> Result<Vec<u8>, ChannelError> {
        let world = lock(self.world.get().ok_or(ChannelError::Limit)?);
        let length = self.ask_in(&world, HOST_RECEIVE, channel, SIDE_RECEIVE, 0, &[])?;
        let mut message = vec![0; length as usize];
        world
            .mailbox
            .read_at(size_of::<DevHostOp>(), &mut message)
            .map_err(|e| channel_lost(&e))?;
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
        world.mailbox.write(&all).map_err(|e| channel_lost(&e))?;
        let task = self.places[world.asker].instance.task(program::CHANNEL);
        let task = task.arg(world.mailbox.ptr().address());
        let mut pending = self.engine.submit(task).map_err(|e| channel_lost(&e))?;
        let answer = pending.wait().map_err(|e| channel_lost(&e))?.value;
        // The device adds one, so that 0 is no answer.
        understood((answer as u32).wrapping_sub(1))
    }
}

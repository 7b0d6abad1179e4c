//! Channels between processes, and between them and the host.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, gpu};
use tokio::sync::Notify;

/// Which side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
}

#[derive(Debug)]
struct State {
    messages: VecDeque<Vec<u8>>,
    /// Ends of each side.
    ends: [usize; 2],
}

/// A queue of messages.
#[derive(Debug)]
pub(crate) struct Channel {
    capacity: usize,
    bytes: usize,
    state: Mutex<State>,
    /// For processes: there may be room, or a message. A permit that is taken by one who is then dropped goes to the
    /// next one, so that a kill loses none.
    changed: [Notify; 2],
    /// The same for threads of the host.
    host: Condvar,
}

impl Channel {
    /// A channel with an end of each side.
    pub(crate) fn open(capacity: u32, bytes: u32) -> Result<(End, End), ChannelError> {
        if !gpu::possible(capacity, bytes) {
            return Err(ChannelError::Size);
        }
        let channel = Arc::new(Self {
            capacity: capacity as usize,
            bytes: bytes as usize,
            state: Mutex::new(State {
                messages: VecDeque::new(),
                ends: [1, 1],
            }),
            changed: [Notify::new(), Notify::new()],
            host: Condvar::new(),
        });
        let end = |side| End {
            channel: Arc::clone(&channel),
            side,
        };
        Ok((end(Side::Send), end(Side::Receive)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One who waits on this side may go on.
    fn tell(&self, side: Side) {
        self.changed[side as usize].notify_one();
        self.host.notify_all();
    }

    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        let mut state = self.state();
        if state.ends[Side::Receive as usize] == 0 {
            return Err(ChannelError::Closed);
        }
        if message.len() > self.bytes {
            return Err(ChannelError::Size);
        }
        if state.messages.len() == self.capacity {
            return Err(ChannelError::Again);
        }
        state.messages.push_back(message.to_vec());
        drop(state);
        self.tell(Side::Receive);
        Ok(())
    }

    /// Receives a message of up to so many bytes; a longer one stays.
    pub(crate) fn try_receive(&self, room: usize) -> Result<Vec<u8>, ChannelError> {
        let mut state = self.state();
        let Some(message) = state.messages.pop_front() else {
            return Err(match state.ends[Side::Send as usize] {
                0 => ChannelError::Closed,
                _ => ChannelError::Again,
            });
        };
        if message.len() > room {
            state.messages.push_front(message);
            drop(state);
            self.tell(Side::Receive);
            return Err(ChannelError::Size);
        }
        drop(state);
        self.tell(Side::Send);
        Ok(message)
    }

    /// Does something, again and again, until it need not wait.
    pub(crate) async fn until<T>(
        &self,
        side: Side,
        mut attempt: impl FnMut() -> Result<T, ChannelError>,
    ) -> Result<T, ChannelError> {
        loop {
            // Before the attempt: what happens behind it is heard.
            let mut changed = pin!(self.changed[side as usize].notified());
            changed.as_mut().enable();
            match attempt() {
                Err(ChannelError::Again) => changed.await,
                decided => return decided,
            }
        }
    }

    /// The same on a thread of the host, for a while.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, ChannelError>,
    ) -> Result<T, ChannelError> {
        let begin = Instant::now();
        loop {
            match attempt() {
                Err(ChannelError::Again) => {}
                decided => return decided,
            }
            let left = match timeout {
                None => LOOK,
                Some(timeout) => timeout.saturating_sub(begin.elapsed()),
            };
            if left.is_zero() {
                return Err(ChannelError::Again);
            }
            // What changes between the attempt and this is seen by the next look at the latest.
            let state = self.state();
            drop(self.host.wait_timeout(state, left.min(LOOK)));
        }
    }
}

/// A thread of the host looks again at the latest after so long.
const LOOK: Duration = Duration::from_millis(1);

/// An end of a channel. A side is closed when its last end is dropped; clones are ends of their own.
#[derive(Debug)]
pub struct End {
    pub(crate) channel: Arc<Channel>,
    pub(crate) side: Side,
}

impl Clone for End {
    fn clone(&self) -> Self {
        self.channel.state().ends[self.side as usize] += 1;
        Self {
            channel: Arc::clone(&self.channel),
            side: self.side,
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.channel.state();
        state.ends[self.side as usize] -= 1;
        let last = state.ends[self.side as usize] == 0;
        drop(state);
        if last {
            let opposite = match self.side {
                Side::Send => Side::Receive,
                Side::Receive => Side::Send,
            };
            self.channel.changed[opposite as usize].notify_waiters();
            self.channel.tell(opposite);
        }
    }
}

/// The host's end of a channel to send to.
#[derive(Clone, Debug)]
pub struct Sender(pub(crate) End);

impl Sender {
    /// Sends a message, and waits while the channel is full.
    ///
    /// # Errors
    /// [`ChannelError`]: nobody can receive it, or it is too long.
    pub fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        let channel = &self.0.channel;
        channel.wait(None, || channel.try_send(message))
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`ChannelError`]: also when there is no room.
    pub fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        self.0.channel.try_send(message)
    }

    /// One more end, to be given to processes.
    pub fn end(&self) -> End {
        self.0.clone()
    }
}

/// The host's end of a channel to receive from.
#[derive(Clone, Debug)]
pub struct Receiver(pub(crate) End);

impl Receiver {
    /// Receives a message, and waits for one.
    ///
    /// # Errors
    /// [`ChannelError`]: there is none and nobody can send one.
    pub fn receive(&self) -> Result<Vec<u8>, ChannelError> {
        let channel = &self.0.channel;
        channel.wait(None, || self.try_receive())
    }

    /// Receives a message, and waits for so long.
    ///
    /// # Errors
    /// [`ChannelError`]: also when none has come.
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Vec<u8>, ChannelError> {
        let channel = &self.0.channel;
        channel.wait(Some(timeout), || self.try_receive())
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// [`ChannelError`]: also when there is none.
    pub fn try_receive(&self) -> Result<Vec<u8>, ChannelError> {
        self.0.channel.try_receive(usize::MAX)
    }

    /// One more end, to be given to processes.
    pub fn end(&self) -> End {
        self.0.clone()
    }
}

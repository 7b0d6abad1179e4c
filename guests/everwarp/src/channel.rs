//! Ends of channels. An end is closed when its value is dropped.

use crate::error::{Error, answer};
use crate::raw;

/// What is an end of a channel, to be given to a child, which gets an end of its own.
pub trait End {
    /// Its handle.
    fn handle(&self) -> u32;
}

/// An end to send to.
#[derive(Debug)]
pub struct Sender(u32);

/// An end to receive from.
#[derive(Debug)]
pub struct Receiver(u32);

/// A channel of up to `capacity` messages of up to `bytes` bytes each.
///
/// # Errors
/// [`Error::Size`] or [`Error::Limit`].
pub fn channel(capacity: u32, bytes: u32) -> Result<(Sender, Receiver), Error> {
    let mut ends = [0; 2];
    // SAFETY: the array is valid for a write.
    answer(unsafe { raw::channel(capacity, bytes, &mut ends) })?;
    Ok((Sender(ends[0]), Receiver(ends[1])))
}

impl Sender {
    /// The end with this number, from 0, among those that this process was given. It must be a sender. A caller that
    /// calls this twice has two values that close the same end.
    pub fn given(number: u32) -> Self {
        Self(number)
    }

    /// Sends a message, and waits while the channel is full.
    ///
    /// # Errors
    /// [`Error::Closed`] if no receiver is left, or [`Error::Size`].
    pub fn send(&self, message: &[u8]) -> Result<(), Error> {
        // SAFETY: the slice is valid for reads.
        answer(unsafe { raw::send(self.0, message.as_ptr(), message.len()) }).map(drop)
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// The same, and [`Error::Again`] if there is none.
    pub fn try_send(&self, message: &[u8]) -> Result<(), Error> {
        // SAFETY: the slice is valid for reads.
        answer(unsafe { raw::try_send(self.0, message.as_ptr(), message.len()) }).map(drop)
    }
}

impl Receiver {
    /// The end with this number, from 0, among those that this process was given. It must be a receiver. A caller that
    /// calls this twice has two values that close the same end.
    pub fn given(number: u32) -> Self {
        Self(number)
    }

    /// Waits for a message, receives it, and returns its length.
    ///
    /// # Errors
    /// [`Error::Closed`] if the channel is empty and no sender is left; [`Error::Size`] if the next message does not
    /// fit, which then stays.
    pub fn receive(&self, to: &mut [u8]) -> Result<usize, Error> {
        // SAFETY: the slice is valid for writes.
        answer(unsafe { raw::receive(self.0, to.as_mut_ptr(), to.len()) }).map(|n| n as usize)
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// The same, and [`Error::Again`] if there is none.
    pub fn try_receive(&self, to: &mut [u8]) -> Result<usize, Error> {
        // SAFETY: the slice is valid for writes.
        answer(unsafe { raw::try_receive(self.0, to.as_mut_ptr(), to.len()) }).map(|n| n as usize)
    }
}

impl End for Sender {
    fn handle(&self) -> u32 {
        self.0
    }
}

impl End for Receiver {
    fn handle(&self) -> u32 {
        self.0
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

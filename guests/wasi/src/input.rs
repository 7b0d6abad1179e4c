//! Input in pieces of one size.

use alloc::vec;
use alloc::vec::Vec;

use crate::errno::Errno;
use crate::file::File;

/// A buffer for reading one file after the other, so that memory does not grow with what is read.
#[derive(Debug)]
pub struct Input(Vec<u8>);

impl Input {
    /// A buffer of this many bytes.
    pub fn new(size: usize) -> Self {
        Self(vec![0; size])
    }

    /// Gives each piece of the file to `take`.
    ///
    /// # Errors
    ///
    /// What the host says; the pieces before were given.
    pub fn each(&mut self, file: &File, mut take: impl FnMut(&[u8])) -> Result<(), Errno> {
        loop {
            match file.read(&mut self.0)? {
                0 => return Ok(()),
                done => take(&self.0[..done]),
            }
        }
    }
}

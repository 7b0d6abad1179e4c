//! This process and its children.

use crate::channel::End;
use crate::error::{Error, answer};
use crate::raw;

/// The most ends that a child is given, and the most bytes of its arguments.
const ENDS: usize = 32;
const ARGUMENTS: usize = 1024;

/// A process: its place, and behind that which of the place's processes it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(u64);

/// This process.
pub fn process() -> Pid {
    Pid(raw::process())
}

/// Which of those that were spawned together this is, or which of its parent's children, from 0.
pub fn instance() -> u32 {
    raw::instance()
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this code.
    Exited(u32),
    /// By a trap.
    Trapped,
    /// It was killed.
    Killed,
    /// Its fuel was spent.
    OutOfFuel,
}

/// A child. It ends with this process at the latest, unless this process waits for it before.
#[derive(Debug)]
pub struct Child(u64);

/// Spawns a process of the module with this name, or of this process's own module without a name. It gets `args`
/// (the first is its name by convention), an end of its own for each of `ends`, no environment and no input.
///
/// # Errors
/// [`Error::Name`], [`Error::Limit`], or [`Error::Size`] for more than 1,024 bytes of arguments or 32 ends.
pub fn spawn(name: &str, args: &[&str], ends: &[&dyn End]) -> Result<Child, Error> {
    let mut text = [0; ARGUMENTS];
    let mut length = 0;
    for arg in args {
        let to = text.get_mut(length..length + arg.len() + 1);
        let to = to.ok_or(Error::Size)?;
        to[..arg.len()].copy_from_slice(arg.as_bytes());
        length += to.len();
    }
    let mut handles = [0; ENDS];
    let list = handles.get_mut(..ends.len()).ok_or(Error::Size)?;
    for (handle, end) in list.iter_mut().zip(ends) {
        *handle = end.handle();
    }
    // SAFETY: all three are valid for reads of the lengths next to them.
    let pid = unsafe {
        raw::spawn(
            name.as_ptr(),
            name.len(),
            text.as_ptr(),
            length,
            handles.as_ptr(),
            ends.len(),
        )
    };
    match u64::try_from(pid) {
        Ok(pid) => Ok(Child(pid)),
        Err(_) => Err(answer(pid as i32).map_or_else(|e| e, |_| Error::Other(pid as i32))),
    }
}

impl Child {
    /// Its pid.
    pub fn pid(&self) -> Pid {
        Pid(self.0)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::Process`], which only a number that somebody made up can bring about.
    pub fn wait(self) -> Result<Status, Error> {
        let mut status = [0; 2];
        // SAFETY: the array is valid for a write.
        answer(unsafe { raw::wait(self.0, &mut status) })?;
        Ok(match status[0] {
            0 => Status::Exited(status[1]),
            1 => Status::Trapped,
            2 => Status::Killed,
            _ => Status::OutOfFuel,
        })
    }

    /// Asks it to end, which it does soon. It is still to be waited for.
    pub fn kill(&self) {
        raw::kill(self.0);
    }
}

//! Starting the child of an engine.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::child::CONTROL_FD;

/// Starts a child with a socket to talk to it. The child has no terminal, and ends when this thread does.
pub(crate) fn spawn(mut command: Command) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    let supervisor = std::process::id() as libc::pid_t;
    let theirs = OwnedFd::from(theirs);
    let number = theirs.as_raw_fd();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: between fork and exec only calls that are safe in a signal handler are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            // A session of its own has no controlling terminal, so no read or write of a client's terminal stops it.
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                return Err(io::Error::last_os_error());
            }
            // The supervisor may have ended before that.
            if libc::getppid() != supervisor {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            let passed = match number == CONTROL_FD {
                // The descriptor keeps its number and must survive the exec.
                true => libc::fcntl(number, libc::F_SETFD, 0),
                false => libc::dup2(number, CONTROL_FD),
            };
            match passed < 0 {
                true => Err(io::Error::last_os_error()),
                false => Ok(()),
            }
        });
    }
    let child = command.spawn()?;
    Ok((child, ours.into()))
}

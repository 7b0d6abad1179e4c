//! A new terminal whose user is the test, with a command that runs on it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Starts the command as the leader of a session on a new terminal. Returns the user's side, whose reads do not wait.
pub(crate) fn start(command: &mut Command, size: Option<Winsize>) -> (File, Child) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&user).expect("it is ours");
    unlockpt(&user).expect("it is ours");
    if let Some(size) = size {
        tcsetwinsize(&user, size).expect("it has a size");
    }
    let name = ptsname(&user, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("it is text");
    let end = File::options().read(true).write(true).open(name);
    let end: OwnedFd = end.expect("it can be opened").into();
    let copy = || Stdio::from(end.try_clone().expect("it can be duplicated"));
    command.stdin(copy()).stdout(copy()).stderr(copy());
    // SAFETY: between fork and exec this makes two calls, which are safe in a signal handler.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            let stdin = std::io::stdin();
            Ok(rustix::process::ioctl_tiocsctty(stdin.as_fd())?)
        });
    }
    let child = command.spawn().expect("the command starts");
    let flags = rustix::fs::fcntl_getfl(&user).expect("it has flags");
    let flags = flags | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&user, flags).expect("it can be");
    (File::from(user), child)
}

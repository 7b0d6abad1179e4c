//! The protocol of service managers: sockets that are passed on, and the word that the service is ready.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The first descriptor that a service manager passes on.
const FIRST_FD: i32 = 3;

/// The socket that a service manager has passed to this program, if it has (`LISTEN_PID`, `LISTEN_FDS`).
pub(super) fn passed_socket() -> Option<OwnedFd> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let ours = number("LISTEN_PID") == Some(std::process::id());
    if !ours || number("LISTEN_FDS")? == 0 {
        return None;
    }
    // SAFETY: the service manager has put a socket there for this program, and nothing else in it owns that number.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST_FD) };
    // Children get other descriptors.
    let flags = rustix::io::FdFlags::CLOEXEC;
    rustix::io::fcntl_setfd(socket.as_fd(), flags).ok()?;
    Some(socket)
}

/// Tells the service manager, if there is one, that the service accepts clients (`NOTIFY_SOCKET`).
pub(super) fn tell_ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(b"READY=1", &address)
    });
    // A manager that cannot be told waits for a while and says so itself.
    drop(sent);
}

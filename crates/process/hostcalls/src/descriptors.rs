//! How many files the processes of this host may have open together.

use std::os::fd::RawFd;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::openings::{FIRST, OWN};

/// Raises this program's limit of open files to what the system grants it, and says what it is.
pub fn descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let granted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, granted) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    now.unwrap_or(u64::MAX)
}

/// Has the system make its table of this program's open files large enough for what so many processes open, before
/// there are as many.
///
/// It makes a larger one each time that the number of open files passes a power of two, and where threads share the
/// table it waits for all cores each time, some 16 ms on a virtual machine with 16 of them: a thousand processes that
/// opened a file each waited for 50 to 70 ms until theirs was open, and 0.1 ms where they opened a second one. A thread
/// of its own waits here, once.
pub fn reserve_descriptors(processes: u32) {
    let files = OWN + FIRST * u64::from(processes);
    // Where it fails files are opened all the same, only later.
    let waits = move || grow(files).unwrap_or_default();
    let thread = thread::Builder::new().name("everwarp-files".into());
    drop(thread.spawn(waits));
}

/// Opens the last of so many, or of as many as there may be, and closes it: the table never shrinks.
fn grow(files: u64) -> rustix::io::Result<()> {
    let last = files.min(descriptor_limit()).saturating_sub(1);
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    fcntl_dupfd_cloexec(&root, RawFd::try_from(last).unwrap_or(RawFd::MAX)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_system_grants() {
        let granted = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(descriptor_limit(), granted);
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(now, granted);
    }

    #[test]
    fn the_table_holds_what_was_reserved() {
        let files = descriptor_limit().min(3000);
        grow(files).expect("nothing else has that number");
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let size = status.lines().find_map(|l| l.strip_prefix("FDSize:"));
        let size = size.and_then(|s| s.trim().parse::<u64>().ok());
        assert!(size.is_some_and(|s| s >= files), "{size:?}");
    }
}

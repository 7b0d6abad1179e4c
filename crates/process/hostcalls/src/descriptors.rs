//! The program's own limit of open files.

use std::os::fd::RawFd;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{FIRST_PLACES, OWN_DESCRIPTORS};

/// Raises this program's limit of open files as far as the system allows, and returns the new limit.
pub fn raise_descriptor_limit() -> u64 {
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

/// Makes the system's table of this program's open files large enough for the files of `processes` processes, before
/// they open any.
///
/// The system makes a larger table each time that the number of open files passes a power of two. Where threads share
/// the table, it waits for all cores each time, some 16 ms on a virtual machine with 16 of them: a thousand processes
/// that opened a file each waited 50 to 70 ms until theirs was open, and 0.1 ms when they opened a second one. Here a
/// separate thread waits, once.
pub fn reserve_descriptors(processes: u32) {
    let files = OWN_DESCRIPTORS + FIRST_PLACES * u64::from(processes);
    // If it fails, files can be opened all the same, only later.
    let waits = move || grow(files).unwrap_or_default();
    let thread = thread::Builder::new().name("everwarp-files".into());
    drop(thread.spawn(waits));
}

/// Opens the last of this many descriptors, or of as many as the limit allows, and closes it: the table never shrinks.
fn grow(files: u64) -> rustix::io::Result<()> {
    let last = files.min(raise_descriptor_limit()).saturating_sub(1);
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    fcntl_dupfd_cloexec(&root, RawFd::try_from(last).unwrap_or(RawFd::MAX)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_maximum() {
        let granted = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(raise_descriptor_limit(), granted);
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(now, granted);
    }

    #[test]
    fn the_table_has_room_for_the_reserved_files() {
        let files = raise_descriptor_limit().min(3000);
        grow(files).expect("nothing else has that number");
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let size = status.lines().find_map(|l| l.strip_prefix("FDSize:"));
        let size = size.and_then(|s| s.trim().parse::<u64>().ok());
        assert!(size.is_some_and(|s| s >= files), "{size:?}");
    }
}

//! Starting the service in the background.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use everwarp_service::Folder;

use super::UpError;

/// What a service writes when it accepts clients.
pub(super) const READY: &[u8] = b"ready\n";
/// The number of the pipe's end in the service.
const READY_FD: i32 = 3;

fn system(what: &str) -> impl FnOnce(io::Error) -> UpError {
    move |source| UpError::System {
        what: what.to_owned(),
        source,
    }
}

/// Starts the service with these words, and returns when it accepts clients.
pub(super) fn detach(folder: &Folder, words: &[OsString]) -> Result<(), UpError> {
    folder
        .make()
        .map_err(|error| UpError::Supervisor(error.into()))?;
    let path = folder.log();
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path);
    let log = log.map_err(system(&path.display().to_string()))?;
    let before = log.metadata().map_or(0, |found| found.len());
    let (mut ours, theirs) = io::pipe().map_err(system("a pipe"))?;
    let theirs = OwnedFd::from(theirs);
    let number = theirs.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    command
        .args(words)
        .args(["--ready-fd", &READY_FD.to_string()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: between fork and exec only calls that are safe in a signal handler are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            // A session of its own: the end of this terminal does not end the service.
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            let passed = match number == READY_FD {
                true => libc::fcntl(number, libc::F_SETFD, 0),
                false => libc::dup2(number, READY_FD),
            };
            match passed < 0 {
                true => Err(io::Error::last_os_error()),
                false => Ok(()),
            }
        });
    }
    let mut child = command.spawn().map_err(system("the service's process"))?;
    drop(theirs);
    let mut said = Vec::new();
    ours.read_to_end(&mut said).map_err(system("a pipe"))?;
    if said == READY {
        return Ok(());
    }
    // It has closed the pipe without the word, so it ends.
    let status = child.wait().map_err(system("the service's process"))?;
    let reason = last_line(&path, before).unwrap_or_else(|| status.to_string());
    match reason.contains("a service is up already") {
        true => Err(UpError::Already),
        false => Err(UpError::Detached { reason, log: path }),
    }
}

/// The first line that the service has logged with its error.
fn last_line(log: &Path, after: u64) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    let text = String::from_utf8_lossy(text.get(after as usize..)?).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.map(|line| {
        line.trim_start_matches("Error:")
            .trim_start_matches([' ', '×'])
    });
    let rest = text.lines().map(str::trim).find(|line| line.contains('×'));
    let rest = rest.map(|line| line.trim_start_matches(['×', ' ']));
    rest.or(line).map(str::to_owned)
}

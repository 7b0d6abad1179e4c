//! A compiler as a child process: at low priority, with limits of memory and time, and never longer than its caller wants.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::Cause;

/// What one child process may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    /// Time of the processor.
    pub time: Duration,
    /// How much lower its priority is than the usual one, on Unix: 0 to 19.
    pub nice: i32,
}

impl Default for Limits {
    /// 4 GiB, five minutes, and a priority in the middle. The largest function that was seen in a program, the interpreter of SQLite, becomes 2 MB of PTX and
    /// takes ptxas a minute and 0.8 GB.
    fn default() -> Self {
        Self {
            memory: 4 << 30,
            time: Duration::from_secs(300),
            nice: NICE,
        }
    }
}

impl Limits {
    /// How long a child may live: several times its own time, since it shares the cores with others.
    fn lifetime(&self) -> Duration {
        8 * self.time + Duration::from_secs(1)
    }
}

/// Half of what there is.
const NICE: i32 = 10;
/// The bytes of a child's messages that are kept.
const LOG_MOST: u64 = 8 << 10;
/// How often a waiting thread sees if the child is still wanted.
const LOOK: Duration = Duration::from_millis(10);

/// Why work ends early: a part of it has failed, or the caller does not want it any more.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    failed: AtomicBool,
    unwanted: Option<Arc<AtomicBool>>,
}

impl Stop {
    /// `unwanted` is set when the caller does not want the result any more.
    pub(crate) fn new(unwanted: Option<Arc<AtomicBool>>) -> Self {
        Self {
            failed: AtomicBool::new(false),
            unwanted,
        }
    }
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
    pub(crate) fn is_set(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.failed) || self.unwanted.as_deref().is_some_and(is_set)
    }
}

/// A child process that is killed when it is dropped before it has ended.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program until it ends, and once more if it was killed by another process. `stop` ends it early.
pub(crate) fn run(
    program: &'static str,
    path: &Path,
    arguments: &dyn Fn(&mut Command),
    limits: &Limits,
    stop: &Stop,
) -> Result<(), Cause> {
    match once(program, path, arguments, limits, stop) {
        Err(Cause::Killed { .. }) => once(program, path, arguments, limits, stop),
        other => other,
    }
}

fn once(
    program: &'static str,
    path: &Path,
    arguments: &dyn Fn(&mut Command),
    limits: &Limits,
    stop: &Stop,
) -> Result<(), Cause> {
    let mut command = Command::new(path);
    arguments(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = Killed(run_failed(program, command.spawn())?);
    limit(&child.0, limits);
    let messages = child.0.stderr.take().expect("it is a pipe");
    let (sender, ended) = channel();
    let reader = std::thread::spawn(move || {
        let log = read(messages);
        // The receiver is gone if the child is not wanted any more.
        let _ = sender.send(());
        log
    });
    // A child that ends closes its messages.
    let timed_out = loop {
        match ended.recv_timeout(LOOK) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.is_set() {
            return Err(Cause::Stopped { program });
        }
        if begin.elapsed() > limits.lifetime() {
            break true;
        }
    };
    if timed_out {
        return Err(Cause::Time {
            program,
            limit: limits.lifetime(),
        });
    }
    let status = run_failed(program, child.0.wait())?;
    let log = reader.join().unwrap_or_default();
    judge(program, status, log, limits)
}

fn run_failed<T>(program: &'static str, result: std::io::Result<T>) -> Result<T, Cause> {
    result.map_err(|source| Cause::Run { program, source })
}

/// Reads all messages and keeps the first.
fn read(mut messages: impl Read) -> String {
    let mut kept = Vec::new();
    // A pipe that cannot be read has no more messages.
    let _ = (&mut messages).take(LOG_MOST).read_to_end(&mut kept);
    let _ = std::io::copy(&mut messages, &mut std::io::sink());
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

/// Lowers the child's priority and sets its limits. The child has run for less than a millisecond, so this may as well be
/// done from here. Where the system does not allow it, the child's lifetime is still limited.
#[cfg(target_os = "linux")]
fn limit(child: &Child, limits: &Limits) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
    let pid = Pid::from_child(child);
    let limit = |resource, most: u64, hard: u64| {
        let new = Rlimit {
            current: Some(most),
            maximum: Some(hard),
        };
        let _ = prlimit(Some(pid), resource, new);
    };
    limit(Resource::As, limits.memory, limits.memory);
    let seconds = limits.time.as_secs().max(1);
    limit(Resource::Cpu, seconds, seconds + 2);
    limit(Resource::Core, 0, 0);
    let _ = setpriority_process(Some(pid), limits.nice);
}

#[cfg(all(unix, not(target_os = "linux")))]
fn limit(child: &Child, limits: &Limits) {
    use rustix::process::{Pid, setpriority_process};
    let _ = setpriority_process(Some(Pid::from_child(child)), limits.nice);
}

#[cfg(not(unix))]
fn limit(_: &Child, _: &Limits) {}

/// The signal that ends a process whose time is spent.
#[cfg(unix)]
fn is_out_of_time(signal: i32) -> bool {
    signal == rustix::process::Signal::XCPU.as_raw()
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

#[cfg(not(unix))]
fn is_out_of_time(_: i32) -> bool {
    false
}

fn judge(
    program: &'static str,
    status: ExitStatus,
    log: String,
    limits: &Limits,
) -> Result<(), Cause> {
    if status.success() {
        return Ok(());
    }
    let out_of_memory = ["emory allocation failure", "out of memory", "bad_alloc"];
    if out_of_memory.iter().any(|words| log.contains(words)) {
        let bytes = limits.memory;
        return Err(Cause::Memory { program, bytes });
    }
    match (status.code(), signal(status)) {
        (_, Some(signal)) if is_out_of_time(signal) => Err(Cause::Time {
            program,
            limit: limits.time,
        }),
        (Some(code), _) => Err(Cause::Refused { program, code, log }),
        (None, signal) => Err(Cause::Killed {
            program,
            signal: signal.unwrap_or_default(),
        }),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits, stop: &Stop) -> Result<(), Cause> {
        let arguments = |command: &mut Command| {
            command.args(["-c", script]);
        };
        run("sh", Path::new("/bin/sh"), &arguments, &limits, stop)
    }

    fn of(script: &str) -> Result<(), Cause> {
        shell(script, Limits::default(), &Stop::default())
    }

    #[test]
    fn an_exit_code_carries_the_first_messages() {
        of("exit 0").expect("it succeeds");
        let refused = of("echo first >&2; yes 0123456789 | head -c 1000000 >&2; exit 3");
        let refused = refused.expect_err("it failed").to_string();
        assert!(refused.contains("exit code 3): first"), "{refused}");
        assert!(refused.len() < 10_000, "{} bytes", refused.len());
    }

    #[test]
    fn a_child_that_is_killed_is_started_once_more() {
        let killed = of("kill -9 $$");
        assert!(
            matches!(killed, Err(Cause::Killed { signal: 9, .. })),
            "{killed:?}"
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = folder.path().join("mark").display().to_string();
        of(&format!("test -e {mark} || {{ : > {mark}; kill -9 $$; }}")).expect("the second ends");
    }

    #[test]
    fn time_and_memory_are_limited() {
        let limits = Limits {
            time: Duration::from_secs(1),
            memory: 1 << 30,
            ..Limits::default()
        };
        let stop = Stop::default();
        let spent = shell("while :; do :; done", limits, &stop);
        assert!(matches!(spent, Err(Cause::Time { .. })), "{spent:?}");
        // The limits are set just after the child's start.
        let script =
            "while [ $(ulimit -v) = unlimited ]; do :; done; exec test $(ulimit -v) = 1048576";
        shell(script, limits, &stop).expect("the limit is a gigabyte");
    }

    #[test]
    fn a_child_that_is_not_wanted_any_more_is_ended() {
        let stop = Stop::new(Some(Arc::new(AtomicBool::new(true))));
        let stopped = shell("exec sleep 1000", Limits::default(), &stop);
        assert!(matches!(stopped, Err(Cause::Stopped { .. })), "{stopped:?}");
    }

    #[test]
    fn a_child_that_stands_still_is_ended() {
        let limits = Limits {
            time: Duration::ZERO,
            memory: 1 << 30,
            ..Limits::default()
        };
        let stop = Stop::default();
        let spent = shell("kill -STOP $$", limits, &stop);
        assert!(matches!(spent, Err(Cause::Time { .. })), "{spent:?}");
    }
}

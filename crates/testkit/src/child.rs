//! Child processes with a time limit, whose output is read while they run.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for the rest of the output after the child's exit. The end of a pipe comes only when every
/// process that holds it has exited, and the child may have left processes of its own.
const GRACE: Duration = Duration::from_secs(2);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited by itself, or a signal ended it.
    Exited(ExitStatus),
    /// It was killed because it was still running after this time.
    TimedOut(Duration),
}

/// A child that has ended, and everything that it wrote.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output. After a time-out this is what it wrote before it was killed.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
}

impl Finished {
    /// The standard output of a child that exited with success.
    ///
    /// # Errors
    /// The child failed or took too long: how it ended, then all that it wrote.
    pub fn success(self) -> Result<String, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stdout = text(&self.stdout);
        let ended = match self.outcome {
            Outcome::Exited(status) if status.success() => return Ok(stdout),
            Outcome::Exited(status) => status.to_string(),
            Outcome::TimedOut(limit) => format!("still running after {limit:?}"),
        };
        Err(format!("{ended}\n{}{stdout}", text(&self.stderr)))
    }
}

/// Runs a command, without standard input, and kills it if it is still running after `limit`.
///
/// Both pipes are read while the child runs: a child whose pipe is full would block, seem to hang, and lose its
/// output.
///
/// # Errors
/// The command cannot be started or waited for.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Finished> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = Reader::start(child.stdout.take());
    let stderr = Reader::start(child.stderr.take());
    let outcome = wait(&mut child, limit);
    if outcome.is_err() {
        let _ = child.kill();
    }
    let deadline = Instant::now() + GRACE;
    Ok(Finished {
        outcome: outcome?,
        stdout: stdout.finish(deadline),
        stderr: stderr.finish(deadline),
    })
}

/// Waits for the child, and kills it when it takes too long.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Outcome> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Outcome::Exited(status));
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Outcome::TimedOut(limit));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A thread that reads a pipe to its end.
struct Reader {
    read: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the thread has reached the end.
    done: Receiver<()>,
}

impl Reader {
    fn start(pipe: Option<impl Read + Send + 'static>) -> Self {
        let read = Arc::<Mutex<Vec<u8>>>::default();
        let (reading, done) = channel();
        let target = Arc::clone(&read);
        std::thread::spawn(move || {
            // Dropped at the end, which disconnects the channel.
            let _reading = reading;
            let mut part = [0; 1 << 16];
            let mut pipe = pipe.expect("the command was given a pipe");
            while let Ok(bytes @ 1..) = pipe.read(&mut part) {
                lock(&target).extend_from_slice(&part[..bytes]);
            }
        });
        Self { read, done }
    }
    /// Everything that was read, by the deadline at the latest.
    fn finish(self, deadline: Instant) -> Vec<u8> {
        let left = deadline.saturating_duration_since(Instant::now());
        let end = self.done.recv_timeout(left);
        debug_assert!(matches!(
            end,
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)
        ));
        std::mem::take(&mut *lock(&self.read))
    }
}

/// A panic of another thread leaves the bytes as they were read, so that they can still be shown.
fn lock(bytes: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> Finished {
        run(Command::new("sh").args(["-c", script]), limit).expect("the shell starts")
    }

    /// A pipe holds 64 KiB; this child writes four times as much to each of its two.
    #[test]
    fn a_child_that_fills_its_pipes_exits_and_keeps_its_output() {
        let much = "head -c 262144 /dev/zero | tr '\\0' ";
        let finished = shell(&format!("{much} o; {much} e >&2; exit 3"), LONG);
        assert!(
            matches!(finished.outcome, Outcome::Exited(status) if status.code() == Some(3)),
            "{:?}",
            finished.outcome
        );
        assert_eq!(finished.stdout, [b'o'; 262_144]);
        assert_eq!(finished.stderr, [b'e'; 262_144]);
        let error = finished.success().expect_err("it failed");
        assert!(
            error.starts_with("exit status: 3\neeee"),
            "{}",
            &error[..40]
        );
        assert!(error.ends_with("oooo"));
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_keeps_its_output() {
        let limit = Duration::from_millis(300);
        let finished = shell("echo before; exec sleep 60", limit);
        assert_eq!(finished.outcome, Outcome::TimedOut(limit));
        assert_eq!(finished.stdout, b"before\n");
        let error = finished.success().expect_err("it hung");
        assert_eq!(error, "still running after 300ms\nbefore\n");
    }

    /// A process that the child has left holds the pipe open.
    #[test]
    fn a_process_that_outlives_the_child_does_not_hold_up_the_test() {
        let begin = Instant::now();
        let finished = shell("sleep 20 & echo $!", LONG);
        assert!(
            begin.elapsed() < Duration::from_secs(15),
            "{:?}",
            begin.elapsed()
        );
        let number = finished.success().expect("it exits");
        let killed = run(Command::new("kill").arg(number.trim()), LONG);
        killed
            .expect("kill starts")
            .success()
            .expect("it is killed");
    }

    #[test]
    fn a_command_that_is_missing_is_an_error() {
        let error = run(&mut Command::new("everwarp-no-such-command"), LONG);
        assert_eq!(
            error.expect_err("it is missing").kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn the_output_of_a_success_is_returned() {
        assert_eq!(
            shell("echo fine; echo aside >&2", LONG)
                .success()
                .as_deref(),
            Ok("fine\n")
        );
    }
}

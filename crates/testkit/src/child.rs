//! Child processes with a time limit, whose output is read while they run.

use std::io::{self, Read, Write};
use std::process::{
    Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for the rest of the output after the child's exit. The end of a pipe comes only when every
/// process that holds it has exited, and the child may have left processes of its own.
const GRACE: Duration = Duration::from_secs(2);
/// How long a child of a test may run that names no limit of its own. On a GPU the first start of a module compiles it.
const PATIENCE: Duration = Duration::from_secs(120);

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
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drain(child, limit)
}

/// Reads the pipes that a child has while it waits for it.
fn drain(mut child: Child, limit: Duration) -> io::Result<Finished> {
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

/// The output of a command that exits by itself: [`run`] with a limit of two minutes, for tests.
///
/// # Panics
/// The command cannot be started, or runs longer; the message has everything that it wrote.
pub fn output(command: &mut Command) -> Output {
    output_with_input(command, b"")
}

/// The output of a command that reads `input` from standard input, which it need not read to the end.
///
/// # Panics
/// As [`output`].
pub fn output_with_input(command: &mut Command, input: &[u8]) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // Written while the output is read: a full pipe would stop both.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = running.output();
    // The writer has ended too, unless a process that the command has left still holds the pipe.
    drop(writer);
    output
}

/// A child that a test talks to while it runs. It is killed when it is dropped, and after two minutes, so that a test that
/// waits for its output gets the end of the pipe and fails.
#[derive(Debug)]
pub struct Running {
    /// The pipe to its standard input, if the command has one.
    pub stdin: Option<ChildStdin>,
    /// The pipe from its standard output, if the command has one.
    pub stdout: Option<ChildStdout>,
    /// The pipe from its standard error, if the command has one.
    pub stderr: Option<ChildStderr>,
    child: Arc<Mutex<Child>>,
    /// Dropped when the child is not watched any more.
    watched: Option<Sender<()>>,
}

impl Running {
    /// Starts a command with the streams that it was given. What it writes to a piped standard error is read by
    /// [`output`](Self::output), so it must not be long before that.
    ///
    /// # Panics
    /// The command cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the command starts");
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (watched, end) = channel::<()>();
        let watch = Arc::clone(&child);
        std::thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                drop(lock(&watch).kill());
            }
        });
        Self {
            stdin,
            stdout,
            stderr,
            child,
            watched: Some(watched),
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Kills it, and returns when it is gone.
    ///
    /// # Panics
    /// It has exited already.
    pub fn kill(&mut self) {
        let mut child = lock(&self.child);
        let ended = child.try_wait().expect("it is a child");
        assert_eq!(ended, None, "it should run");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// Waits until it exits by itself. Its pipes are not read meanwhile.
    ///
    /// # Panics
    /// It takes longer than a child may.
    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = lock(&self.child).try_wait().expect("it is a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("still running after {PATIENCE:?}")
    }

    /// Reads what is left in its pipes until it exits by itself.
    ///
    /// # Panics
    /// It takes longer than a child may; the message has what was read.
    pub fn output(mut self) -> Output {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(|pipe| Reader::start(Some(pipe)));
        let stderr = self.stderr.take().map(|pipe| Reader::start(Some(pipe)));
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = lock(&self.child).try_wait().expect("it is a child") {
                break Some(status);
            }
            if begin.elapsed() > PATIENCE {
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let deadline = Instant::now() + GRACE;
        let read = |reader: Option<Reader>| reader.map_or_else(Vec::new, |r| r.finish(deadline));
        let (stdout, stderr) = (read(stdout), read(stderr));
        let Some(status) = status else {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            panic!(
                "still running after {PATIENCE:?}\n{}{}",
                text(&stderr),
                text(&stdout)
            );
        };
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watched.take());
        let mut child = lock(&self.child);
        // It may have exited.
        drop(child.kill());
        drop(child.wait());
    }
}

/// A thread that reads a pipe to its end.
struct Reader {
    read: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the thread has reached the end.
    done: Receiver<()>,
}

impl Reader {
    /// Reads a pipe; the command was given one.
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

/// A panic of another thread leaves the bytes as they were read, so that they can still be shown, and a child can still be
/// killed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn input_is_written_while_output_is_read() {
        let input = vec![b'i'; 1 << 20];
        let output = output_with_input(&mut Command::new("cat"), &input);
        assert!(output.status.success());
        assert_eq!(output.stdout, input);
        // This one reads nothing, and its input is long.
        let output = output_with_input(&mut Command::new("true"), &input);
        assert!(output.status.success());
    }

    #[test]
    fn a_child_that_is_dropped_is_killed() {
        let mut command = Command::new("sh");
        let mut running = Running::start(
            command
                .args(["-c", "echo on; exec sleep 600"])
                .stdout(Stdio::piped()),
        );
        let mut line = [0; 3];
        let mut stdout = running.stdout.take().expect("it is piped");
        stdout.read_exact(&mut line).expect("it writes a line");
        drop(running);
        let mut rest = Vec::new();
        let read = stdout.read_to_end(&mut rest).expect("the pipe ends");
        assert_eq!((&line, read), (b"on\n", 0));
    }

    #[test]
    fn what_a_child_writes_after_a_talk_is_its_output() {
        let mut command = Command::new("sh");
        let mut running = Running::start(
            command
                .args(["-c", "read a; echo $a; echo aside >&2; exit 3"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let stdin = running.stdin.as_mut().expect("it is piped");
        stdin.write_all(b"said\n").expect("it reads");
        let output = running.output();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"said\n"[..], &b"aside\n"[..])
        );
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

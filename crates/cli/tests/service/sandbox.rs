//! A folder with a service of its own.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for the socket and the modules of one test.
pub(crate) struct Sandbox(tempfile::TempDir);

/// A service in the foreground, which is killed when its test ends.
pub(crate) struct Service {
    pub(crate) child: Child,
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until `ready` returns something.
pub(crate) fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A child that ends with this program, even if this program is killed. The system watches the thread that has started
/// the child, so that thread stays.
fn spawn_for_life(mut command: Command) -> Child {
    let (send, receive) = channel();
    let spawn = move || {
        // SAFETY: between fork and exec this makes one call, which is safe in a signal handler.
        unsafe {
            command.pre_exec(|| {
                let signal = Some(rustix::process::Signal::KILL);
                Ok(rustix::process::set_parent_process_death_signal(signal)?)
            });
        }
        send.send(command.spawn()).expect("the test waits");
        loop {
            std::thread::park();
        }
    };
    std::thread::spawn(spawn);
    let child = receive.recv().expect("the thread sends it");
    child.expect("the command starts")
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), mode).expect("it is ours");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("everwarp/service.sock")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .args(args)
            .env("XDG_RUNTIME_DIR", self.path())
            .env("XDG_CONFIG_HOME", self.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        output(self.command(args))
    }

    /// Starts a service with the CPU engine, and waits until it is ready.
    pub(crate) fn up(&self, args: &[&str]) -> Service {
        self.up_on("cpu", args)
    }

    /// Starts a service with one engine, and waits until it is ready.
    pub(crate) fn up_on(&self, engine: &str, args: &[&str]) -> Service {
        let mut command = self.command(&["up", "--engine", engine]);
        let log = std::fs::File::create(self.path().join("log")).expect("the folder is writable");
        command.args(args).stdout(Stdio::null()).stderr(log);
        let child = spawn_for_life(command);
        let service = Service { child };
        wait_for("the service is up", || {
            let status = self.status();
            let ready = status["engines"][0]["state"] == "ready";
            (ready && status["os_pid"] == service.child.id()).then_some(())
        });
        service
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.run(&["status", "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    /// How many clients the service has.
    pub(crate) fn clients(&self) -> u64 {
        let status = self.status();
        status["engines"][0]["clients"].as_u64().expect("a number")
    }

    /// The process id of the engine's child.
    pub(crate) fn engine_pid(&self) -> u32 {
        let pid = self.status()["engines"][0]["os_pid"].as_u64();
        pid.expect("it is ready") as u32
    }

    /// Writes a module, given as text.
    pub(crate) fn module(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let bytes = wat::parse_str(text).expect("the text is right");
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log")).expect("it is text")
    }
}

/// The output of a command, which is killed if it takes too long.
pub(crate) fn output(mut command: Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(child.expect("the command starts"))
}

/// The output of a child, which is killed if it takes too long.
pub(crate) fn finish(mut child: Child) -> Output {
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(pipe.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = child.stdout.take().map(|pipe| read(Box::new(pipe)));
    let stderr = child.stderr.take().map(|pipe| read(Box::new(pipe)));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            drop(child.kill());
            panic!("the command hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let bytes = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.map_or_else(Vec::new, |reader| reader.join().expect("it reads"))
    };
    Output {
        status,
        stdout: bytes(stdout),
        stderr: bytes(stderr),
    }
}

/// Text with its lines joined, without the frame of a report.
pub(crate) fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<_> = text.split_whitespace().filter(|w| *w != "│").collect();
    words.join(" ")
}

/// Whether a process exists and has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The state follows the name, which is in parentheses. A zombie has ended.
    stat.is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}

/// Waits until a pipe without a reader takes no more.
pub(crate) fn wait_until_full(pipe: &impl std::os::fd::AsFd) {
    let mut seen = (0, Instant::now());
    wait_for("the pipe is full", || {
        let waiting = rustix::io::ioctl_fionread(pipe).expect("a pipe knows");
        if waiting != seen.0 {
            seen = (waiting, Instant::now());
        }
        (waiting > 0 && seen.1.elapsed() > Duration::from_millis(200)).then_some(())
    });
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

/// Writes `on` and runs for ever. It waits for no time in between: on a GPU, output of a process that goes on computing is sent
/// when it is much.
pub(crate) const LOOP: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 16) "on\n") (func $nothing)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 3))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (drop (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 192)))
    (loop $forever (call $nothing) (br $forever))))"#;

/// Copies standard input to standard output, 100 bytes at a time.
pub(crate) const CAT: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 100))
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then (return)))
      (if (i32.eqz (i32.load (i32.const 8))) (then (return)))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then (return)))
      (br $more))))"#;

/// Writes the line `on` for ever, and ignores all errors.
pub(crate) const WRITER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 16) "on\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 3))
    (loop $again
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br $again))))"#;

/// Starts a client whose process runs for ever, and waits until it runs.
pub(crate) fn endless(sandbox: &Sandbox, args: &[&str]) -> Child {
    let module = sandbox.module("loop.wasm", LOOP);
    let module = module.to_str().expect("a plain path");
    let mut child = sandbox
        .command(&["run", module])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = [0; 3];
    let stdout = child.stdout.as_mut().expect("it is piped");
    stdout.read_exact(&mut line).expect("the process runs");
    assert_eq!(&line, b"on\n");
    child
}

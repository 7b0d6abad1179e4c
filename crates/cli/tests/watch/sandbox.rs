//! A folder for the sockets and files of one test, and engines that run until the test ends them.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use everwarp_testkit::Running;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a line and loops for ever.
const LOOP: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 16) "on\n") (func $nothing)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 3))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (loop $forever (call $nothing) (br $forever))))"#;

pub(crate) struct Sandbox(tempfile::TempDir);

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .args(args)
            .env("XDG_RUNTIME_DIR", self.0.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        everwarp_testkit::output(&mut self.command(args))
    }

    /// Runs a command that succeeds, and returns what it printed.
    pub(crate) fn printed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// Starts two threads with this many processes, and waits until two of them run.
    pub(crate) fn looping(&self, instances: u32, options: &[&str]) -> Running {
        let module = self.path("loop.wasm");
        let bytes = wat::parse_str(LOOP).expect("the text is right");
        std::fs::write(&module, bytes).expect("the folder is writable");
        let instances = instances.to_string();
        let mut engine = Running::start(
            self.command(&[
                "run",
                "loop.wasm",
                "--engine",
                "cpu",
                "--size",
                "2",
                "--instances",
                &instances,
            ])
            .args(options)
            .current_dir(self.0.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
        );
        let mut lines = [0; 6];
        let stdout = engine.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut lines).expect("two processes run");
        engine
    }
}

/// Waits until something is there.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited for long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The words of a report, which is wrapped to the width of a terminal.
pub(crate) fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().filter(|w| *w != "│");
    words.collect::<Vec<_>>().join(" ")
}

//! Clients on a terminal: job control works as it does without a service.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::pseudo_terminal;
use crate::sandbox::{CAT, Sandbox, Service, signal, wait_for};

/// A terminal whose user is the test.
struct Terminal {
    user: File,
    seen: String,
}

impl Terminal {
    /// Starts a shell on a new terminal.
    fn shell(sandbox: &Sandbox) -> (Self, Child) {
        let mut command = Command::new("sh");
        command
            .args(["-i", "+m"])
            .env("XDG_RUNTIME_DIR", sandbox.path())
            .env("PS1", "$ ")
            .env("ENV", "")
            .env("EW", env!("CARGO_BIN_EXE_everwarp"))
            .current_dir(sandbox.path());
        let (user, shell) = pseudo_terminal::start(&mut command, None);
        let seen = String::new();
        (Self { user, seen }, shell)
    }

    fn type_text(&mut self, text: &str) {
        self.user
            .write_all(text.as_bytes())
            .expect("the terminal takes it");
    }

    /// Waits until the terminal shows a text that it has not shown before.
    fn expect(&mut self, text: &str) {
        wait_for(&format!("the terminal shows {text:?}"), || {
            let mut bytes = [0; 4096];
            if let Ok(count) = self.user.read(&mut bytes) {
                self.seen += &String::from_utf8_lossy(&bytes[..count]);
            }
            let at = self.seen.find(text)?;
            self.seen.drain(..at + text.len());
            Some(())
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal shows: {:?}", self.seen);
        }
    }
}

fn on_terminal() -> (Sandbox, Service, Terminal, Child) {
    let sandbox = Sandbox::new();
    let service = sandbox.up(&[]);
    sandbox.module("cat.wasm", CAT);
    let (mut terminal, shell) = Terminal::shell(&sandbox);
    terminal.type_text("set -m; echo rea''dy\n");
    terminal.expect("ready");
    (sandbox, service, terminal, shell)
}

fn leave(mut terminal: Terminal, mut shell: Child) {
    terminal.type_text("exit\n");
    wait_for("the shell ends", || {
        // What the terminal still shows is read, so that the shell can end.
        let mut bytes = [0; 4096];
        let _ = terminal.user.read(&mut bytes);
        shell.try_wait().expect("it can be asked")
    });
}

#[test]
fn typed_lines_reach_the_process_and_the_end_of_input_ends_it() {
    let (_sandbox, _service, mut terminal, shell) = on_terminal();
    terminal.type_text("$EW run cat.wasm; echo code $?\n");
    terminal.expect("code $?");
    terminal.type_text("first\n");
    // The terminal shows what is typed, and then the process writes it.
    terminal.expect("first\r\nfirst");
    terminal.type_text("\u{4}");
    terminal.expect("code 0");
    leave(terminal, shell);
}

#[test]
fn control_c_ends_the_processes_and_the_code_is_130() {
    let (_sandbox, _service, mut terminal, shell) = on_terminal();
    terminal.type_text("$EW run cat.wasm; echo code $?\n");
    terminal.expect("code $?");
    terminal.type_text("typed\n");
    terminal.expect("typed\r\ntyped");
    terminal.type_text("\u{3}");
    terminal.expect("code 130");
    leave(terminal, shell);
}

#[test]
fn control_z_stops_the_client_and_fg_continues_it() {
    let (sandbox, _service, mut terminal, shell) = on_terminal();
    terminal.type_text("$EW run cat.wasm\n");
    terminal.expect("cat.wasm");
    terminal.type_text("before\n");
    terminal.expect("before\r\nbefore");
    terminal.type_text("\u{1a}");
    terminal.expect("topped");
    terminal.type_text("echo sh''ell\n");
    terminal.expect("shell");
    // The service goes on meanwhile.
    assert_eq!(sandbox.clients(), 1);
    terminal.type_text("fg\n");
    terminal.expect("cat.wasm");
    terminal.type_text("after\n");
    terminal.expect("after\r\nafter");
    terminal.type_text("\u{4}");
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    leave(terminal, shell);
}

/// Without a service, the system stops a program in the background that reads the terminal.
#[test]
fn a_client_in_the_background_that_reads_is_stopped_and_the_service_is_not() {
    let (sandbox, _service, mut terminal, shell) = on_terminal();
    terminal.type_text("$EW run cat.wasm &\n");
    terminal.expect("&");
    wait_for("the client is stopped", || {
        terminal.type_text("jobs; echo lis''ted\n");
        terminal.expect("listed");
        let stopped = std::fs::read_dir("/proc")
            .expect("it is there")
            .any(|entry| {
                let Ok(entry) = entry else { return false };
                let read = |file: &str| std::fs::read_to_string(entry.path().join(file));
                let ours = std::fs::read_link(entry.path().join("cwd"));
                ours.is_ok_and(|cwd| cwd == sandbox.path())
                    && read("cmdline").is_ok_and(|line| line.contains("cat.wasm"))
                    && read("stat").is_ok_and(|stat| stat.contains(") T "))
            });
        stopped.then_some(())
    });
    // Others are served.
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    assert!(
        sandbox
            .run(&["run", module.to_str().expect("a plain path")])
            .status
            .success()
    );
    terminal.type_text("fg\n");
    terminal.expect("cat.wasm");
    terminal.type_text("typed\n");
    terminal.expect("typed\r\ntyped");
    terminal.type_text("\u{4}");
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    leave(terminal, shell);
}

/// `everwarp up &` shares its terminal with the shell.
#[test]
fn a_service_in_the_background_of_a_terminal_is_never_stopped() {
    let sandbox = Sandbox::new();
    sandbox.module("cat.wasm", CAT);
    let (mut terminal, shell) = Terminal::shell(&sandbox);
    terminal.type_text("set -m; stty tostop; $EW up --engine cpu --log debug & echo star''ted\n");
    terminal.expect("started");
    wait_for("it is up", || {
        (sandbox.status()["engines"][0]["state"] == "ready").then_some(())
    });
    terminal.type_text("$EW run cat.wasm\n");
    // The service logs to the same terminal.
    terminal.expect("has connected");
    terminal.type_text("typed\n");
    terminal.expect("typed\r\ntyped");
    terminal.type_text("\u{4}");
    wait_for("the client is gone", || {
        (sandbox.clients() == 0).then_some(())
    });
    let pid = sandbox.status()["os_pid"].as_u64().expect("a number") as u32;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    assert!(!stat.contains(") T "), "{stat}");
    signal(pid, Signal::TERM);
    wait_for("it ends", || (!crate::sandbox::lives(pid)).then_some(()));
    leave(terminal, shell);
}

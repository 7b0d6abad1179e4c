//! Guests that wait for events: timers, connections, and what the user of a terminal does.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use everwarp_testkit::{Running, cases};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::sockets::{ended, engines};
use crate::{Case, Ended, alone, pseudo_terminal};

/// Cases that run no guest on a GPU: a terminal is the command's, whatever the engine.
pub(crate) const HOST: &[(&str, Case)] = cases![
    keys_mouse_size_and_signals_arrive_and_the_terminal_is_given_back,
    ctrl_c_ends_a_program_that_has_not_asked_for_it,
    ctrl_z_gives_the_terminal_back_until_the_command_goes_on,
    a_program_that_traps_gives_the_terminal_back,
    without_a_terminal_the_answer_says_so,
    a_recording_is_played_to_its_end,
    what_is_no_recording_names_the_command_that_makes_one,
    a_program_without_events_says_what_to_do
];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    timers_expire_in_c_as_in_rust,
    one_wait_is_for_a_time_a_timer_and_a_connection
];

/// Bits of what programs watch.
const KEYS: u32 = 1;
const MOUSE: u32 = 2;
const RESIZE: u32 = 4;
const INPUT: u32 = 8;
/// SIGINT, SIGUSR1 and SIGTERM.
const SIGNALS: u64 = 1 << 2 | 1 << 10 | 1 << 15;

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a command whose streams are pipes, in a session without a terminal.
fn start(command: &mut Command) -> Running {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: between fork and exec this makes one call, which is safe in a signal handler.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    Running::start(command)
}

fn timers_expire_in_c_as_in_rust() {
    let mut expected = [
        "timer 3 cancelled: true",
        "timer 4 cancelled: false",
        "request 1 for 5 refused: 28",
        "timer 1 expired 1 time",
        "timer 2 expired ten times",
    ];
    expected.sort_unstable();
    for engine in engines() {
        for guest in ["arrivals", "c/arrivals"] {
            let running = start(&mut alone(engine, guest, &["--events"], &["timers"]));
            let ended = ended(running);
            // A busy machine may take longer for a request than the first timer takes.
            let mut lines: Vec<_> = ended.out.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, expected, "{engine} {guest}");
            assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        }
    }
}

fn one_wait_is_for_a_time_a_timer_and_a_connection() {
    for engine in engines() {
        let options = ["--events", "--listen", "0", "--verbose"];
        let mut running = start(&mut alone(engine, "arrivals", &options, &["mixed"]));
        let mut errors = BufReader::new(running.stderr.take().expect("it is piped"));
        let mut said = [const { String::new() }; 2];
        for line in &mut said {
            errors.read_line(line).expect("it is text");
        }
        let [listens, events] = said.each_ref().map(|line| line.trim_end());
        let (begin, address) = listens.rsplit_once(' ').expect("an address");
        assert_eq!(begin, "everwarp: descriptor 3 listens on");
        assert_eq!(events, "everwarp: descriptor 4 has events");
        let address: SocketAddr = address.parse().expect("an address");
        let mut out = BufReader::new(running.stdout.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            out.read_line(&mut line).expect("it is text");
            line.trim_end().to_owned()
        };
        let ready = |events, connection, time_over| {
            format!("Ready {{ events: {events}, others: [{connection}], time_over: {time_over} }}")
        };
        assert_eq!(line(), ready(false, false, true), "{engine}");
        assert_eq!(line(), ready(true, false, false), "{engine}");
        assert_eq!(line(), "Timer { id: 1, count: 1 }");
        assert_eq!(line(), "ready");
        let mut peer = TcpStream::connect(address).expect("it listens");
        peer.set_read_timeout(Some(PATIENCE)).expect("a limit");
        assert_eq!(line(), ready(false, true, false), "{engine}");
        let mut welcome = [0; 8];
        peer.read_exact(&mut welcome).expect("it is served");
        assert_eq!(&welcome, b"welcome\n");
        drop(peer);
        assert_eq!(line(), "gone");
        assert!(running.wait().success());
    }
}

/// A program on a terminal whose user is the test.
struct AtTerminal {
    user: File,
    child: Child,
    /// What it has printed.
    shown: String,
}

impl AtTerminal {
    fn start(command: &mut Command) -> Self {
        let (user, child) = pseudo_terminal::start(command, Some(size(80, 24)));
        let shown = String::new();
        Self { user, child, shown }
    }

    /// A program that watches these.
    fn watching(sources: u32, signals: u64) -> Self {
        let bits = [sources.to_string(), signals.to_string()];
        let args = ["watch", &bits[0], &bits[1]];
        let mut this = Self::start(&mut alone("cpu", "arrivals", &["--events"], &args));
        this.expect(&format!("watching {sources} {signals}"));
        this
    }

    fn press(&mut self, keys: &str) {
        let pressed = self.user.write_all(keys.as_bytes());
        pressed.expect("the terminal takes it");
    }

    /// Waits until something is true.
    fn until(&mut self, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !is(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}:\n{}", self.shown);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.user.read(&mut bytes) {
            self.shown
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Waits until the program prints this line, and forgets everything up to it.
    fn expect(&mut self, line: &str) {
        self.until(line, |this| {
            this.read();
            // The terminal may have been asked for its mouse just before the line.
            let line = format!("{line}\r\n");
            let Some(at) = this.shown.find(&line) else {
                return false;
            };
            this.shown.drain(..at + line.len());
            true
        });
    }

    /// Whether the terminal echoes and collects lines.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.user).expect("it is a terminal").local_modes;
        let cooked = modes.contains(LocalModes::ECHO | LocalModes::ICANON);
        assert_eq!(
            cooked,
            modes.intersects(LocalModes::ECHO | LocalModes::ICANON)
        );
        assert!(modes.contains(LocalModes::ISIG), "Ctrl-C stays a signal");
        cooked
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end; the terminal must be as before.
    fn end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        self.until("the command ends", |this| {
            this.read();
            status = this.child.try_wait().expect("it can be asked");
            status.is_some()
        });
        self.read();
        assert!(self.is_cooked(), "{}", self.shown);
        (
            status.expect("it has ended"),
            std::mem::take(&mut self.shown),
        )
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        // It may have exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn keys_mouse_size_and_signals_arrive_and_the_terminal_is_given_back() {
    let mut terminal = AtTerminal::watching(KEYS | MOUSE | RESIZE, SIGNALS);
    terminal.expect("size 80 24");
    assert!(!terminal.is_cooked());
    for (pressed, line) in [
        ("a", "key 0x61 0"),
        ("é", "key 0xe9 0"),
        ("\r", "key 0xd 0"),
        ("\x1b[A", "key 0x110001 0"),
        ("\x1b[1;5C", "key 0x110003 4"),
        ("\x1b", "key 0x1b 0"),
        ("\x1bx", "key 0x78 2"),
        ("\x13", "key 0x73 4"),
        ("\x1b[<0;10;5M", "mouse 0 0x100 9 4"),
        ("\x1b[<64;1;1M", "mouse 4 0x100 0 0"),
    ] {
        terminal.press(pressed);
        terminal.expect(line);
    }
    tcsetwinsize(&terminal.user, size(100, 30)).expect("it has a size");
    terminal.expect("size 100 30");
    terminal.signal(Signal::USR1);
    terminal.expect("signal 10 1");
    terminal.press("\x03");
    terminal.expect("signal 2 1");
    terminal.press("q");
    terminal.expect("key 0x71 0");
    let (status, rest) = terminal.end();
    assert!(status.success(), "{status}");
    assert!(rest.contains("\x1b[?1000l"), "the mouse is off: {rest:?}");
}

fn ctrl_c_ends_a_program_that_has_not_asked_for_it() {
    let mut terminal = AtTerminal::watching(KEYS, 1 << 10);
    assert!(!terminal.is_cooked());
    terminal.press("\x03");
    let (status, rest) = terminal.end();
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("SIGINT: the processes end"), "{rest}");
}

fn ctrl_z_gives_the_terminal_back_until_the_command_goes_on() {
    let mut terminal = AtTerminal::watching(KEYS, 0);
    terminal.press("\x1a");
    let stat = format!("/proc/{}/stat", terminal.child.id());
    let is_stopped = || {
        let stat = std::fs::read_to_string(&stat).expect("it runs");
        let (_, rest) = stat.rsplit_once(") ").expect("a state follows the name");
        rest.starts_with('T')
    };
    terminal.until("it stops", |_| is_stopped());
    assert!(terminal.is_cooked());
    terminal.signal(Signal::CONT);
    terminal.until("it has the terminal again", |this| !this.is_cooked());
    terminal.press("q");
    terminal.expect("key 0x71 0");
    assert!(terminal.end().0.success());
}

fn a_program_that_traps_gives_the_terminal_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("traps.wasm");
    // It asks for the keys, waits for the answer, and traps.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read"
            (func $read (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\20\00\00\00\20\00\00\00")
        (data (i32.const 32) "\03")
        (data (i32.const 48) "\01")
        (func (export "_start")
            (drop (call $write (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 8)))
            (drop (call $read (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 8)))
            unreachable))"#;
    let module = wat::parse_str(text).expect("it is right");
    std::fs::write(&path, module).expect("it is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.arg("run").arg(&path);
    command.args(["--engine", "cpu", "--alone", "--events"]);
    let (status, rest) = AtTerminal::start(&mut command).end();
    assert!(!status.success() && rest.contains("unreachable"), "{rest}");
}

fn without_a_terminal_the_answer_says_so() {
    let all = (KEYS | MOUSE | RESIZE | INPUT).to_string();
    let args = ["watch", &all, "0"];
    let running = start(&mut alone("cpu", "arrivals", &["--events"], &args));
    assert_eq!(ended(running), Ended::new(0, "watching 0 0\n", ""));
}

/// An event as the kernel gives it.
fn input_event(micros: u64, kind: u16, code: u16, value: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(micros / 1_000_000).to_le_bytes());
    bytes.extend_from_slice(&(micros % 1_000_000).to_le_bytes());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&code.to_le_bytes());
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes
}

fn a_recording_is_played_to_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("recording");
    let mut bytes = Vec::new();
    // More than the stream of a process holds, with a pause in between.
    for at in 0..20_000_u64 {
        let pause = if at < 10_000 { 0 } else { 20_000 };
        bytes.extend(input_event(1_000_000 + pause, 2, 1, at as i32 - 5));
    }
    std::fs::write(&path, bytes).expect("it is writable");
    let option = format!("--events={}", path.display());
    let expected: String = (0..20_000)
        .map(|at| format!("input 2 1 {}\n", at - 5))
        .collect();
    let expected = format!("watching 8 0\n{expected}end 8 0\n");
    for guest in ["arrivals", "c/arrivals"] {
        let running = start(&mut alone("cpu", guest, &[&option], &["watch", "8", "0"]));
        let ended = ended(running);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        assert!(ended.out == expected, "{}", ended.out.len());
    }
}

fn what_is_no_recording_names_the_command_that_makes_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("text");
    std::fs::write(&path, "this is text").expect("it is writable");
    for (path, says) in [
        (path.clone(), "cat /dev/input/eventN"),
        (folder.path().join("nothing"), "No such file"),
    ] {
        let option = format!("--events={}", path.display());
        let running = start(&mut alone("cpu", "arrivals", &[&option], &["timers"]));
        let ended = ended(running);
        assert_eq!(ended.out, "");
        assert_ne!(ended.code, 0);
        let name = path.display().to_string();
        assert!(
            ended.err.contains(says) && ended.err.contains(&name),
            "{}",
            ended.err
        );
    }
}

fn a_program_without_events_says_what_to_do() {
    for guest in ["arrivals", "c/arrivals"] {
        let ended = ended(start(&mut alone("cpu", guest, &[], &["timers"])));
        assert_eq!((ended.code, ended.out.as_str()), (1, ""));
        assert!(
            ended.err.contains("start the program with --events"),
            "{}",
            ended.err
        );
    }
}

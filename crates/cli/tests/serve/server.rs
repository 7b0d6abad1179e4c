//! A server on a free port, and clients for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use everwarp_testkit::Running;
use rustix::process::{Pid, Signal, kill_process};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that listens.
pub(crate) struct Server {
    running: Running,
    pub(crate) address: SocketAddr,
}

/// The built module of a guest.
pub(crate) fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../guests")
        .join(name)
}

impl Server {
    /// Starts a command that says with `--verbose` where it listens.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command.args(args);
        Self::run(command)
    }

    /// The same with files, and with no more descriptors than these.
    pub(crate) fn with_descriptors(descriptors: u32, folder: &Path) -> Self {
        let files = folder.to_str().expect("the path is text");
        let mut command = Command::new("sh");
        command.arg("-c");
        command.arg(format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""));
        command.arg(env!("CARGO_BIN_EXE_everwarp"));
        command.args(["serve", "--engine", "cpu", "--verbose", "--listen", "0"]);
        command.args(["--files", files]);
        Self::run(command)
    }

    /// Starts a command that says where it listens.
    pub(crate) fn run(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Running::start(&mut command);
        let mut errors = BufReader::new(running.stderr.take().expect("it is piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("it is text");
        let address = line.split(' ').find_map(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{line}"));
        running.stderr = Some(errors.into_inner());
        Self { running, address }
    }

    /// `everwarp serve` with the files of a folder, and these arguments.
    pub(crate) fn with_files(folder: &Path, args: &[&str]) -> Self {
        let files = folder.to_str().expect("the path is text");
        let mut all = vec!["serve", "--engine", "cpu", "--verbose", "--listen", "0"];
        all.extend(["--files", files]);
        all.extend(args);
        Self::start(&all)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let peer = TcpStream::connect(self.address).expect("it listens");
        peer.set_read_timeout(Some(PATIENCE)).expect("a limit");
        peer.set_nodelay(true).expect("a setting");
        peer
    }

    /// Sends bytes on a connection of their own, ends the half, and returns everything that comes back.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> String {
        let mut peer = self.connect();
        let mut writer = peer.try_clone().expect("a descriptor");
        let bytes = bytes.to_vec();
        // Written while the answer is read: a full connection would stop both. A server may refuse before it has read all.
        let writing = std::thread::spawn(move || {
            let written = writer.write_all(&bytes);
            written.and_then(|()| writer.shutdown(Shutdown::Write)).ok()
        });
        let mut answer = Vec::new();
        // A refused peer may see a reset after the answer.
        let _ = peer.read_to_end(&mut answer);
        writing.join().expect("no panic");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The status of the only answer to some bytes.
    pub(crate) fn status(&self, bytes: impl AsRef<[u8]>) -> u16 {
        let answer = self.exchange(bytes.as_ref());
        statuses(&answer)
            .first()
            .copied()
            .unwrap_or_else(|| panic!("no answer: {answer:?}"))
    }

    /// The sockets that the server has open.
    pub(crate) fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.running.id());
        let entries = std::fs::read_dir(folder).expect("the server runs");
        // A descriptor may have been closed since it was listed.
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count()
    }

    /// The server's memory that is not shared with files, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.running.id());
        let status = std::fs::read_to_string(path).expect("the server runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.expect("Linux says") << 10
    }

    /// The time that the server's threads have computed, in the system's ticks of 10 ms.
    pub(crate) fn ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.running.id());
        let stat = std::fs::read_to_string(path).expect("the server runs");
        // The name, in brackets, may have spaces. Then come the state and numbers.
        let (_, numbers) = stat.rsplit_once(") ").expect("it has a name");
        let number = |at| {
            numbers
                .split(' ')
                .nth(at)
                .and_then(|n: &str| n.parse::<u64>().ok())
        };
        number(11)
            .zip(number(12))
            .map(|(user, system)| user + system)
            .expect("Linux says")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.running.id() as i32).expect("it has a number");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for the end.
    pub(crate) fn output(self) -> Output {
        self.running.output()
    }

    /// Ends the server by a signal; it must say how many connections it has served, and exit with 0.
    pub(crate) fn end(self) -> String {
        self.signal(Signal::TERM);
        let output = self.output();
        let text = String::from_utf8(output.stderr).expect("it is text");
        assert_eq!(output.status.code(), Some(0), "{text}");
        text
    }
}

/// The statuses of all answers in a text, in order.
pub(crate) fn statuses(text: &str) -> Vec<u16> {
    let answers = text.split("HTTP/1.1 ").skip(1);
    answers
        .filter_map(|answer| answer.get(..3)?.parse().ok())
        .collect()
}

/// The value of a field of the first answer.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let head = text.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(": ")?;
        field.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The body of the only answer.
pub(crate) fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// A folder with an index, a text, and a larger file.
pub(crate) fn site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("it is writable");
    };
    write("index.html", b"<h1>index</h1>\n");
    write("a.txt", b"0123456789");
    write("empty", b"");
    write("large", &vec![b'x'; 1 << 20]);
    std::fs::create_dir(folder.path().join("sub")).expect("a folder");
    write("sub/index.html", b"sub\n");
    folder
}

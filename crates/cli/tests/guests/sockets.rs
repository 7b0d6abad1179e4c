//! Guests that listen: the same program in Rust and in C, as a guest on either engine and as a program of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use everwarp_testkit::{Running, cases};
use rustix::fd::AsRawFd;

use crate::{Case, Ended, WITH_GPU, data, folder, module};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] = cases![
    a_port_in_use_is_one_clear_error,
    an_address_that_is_none_names_the_form_to_use,
    a_program_without_a_listener_says_what_to_do
];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    c_answers_clients_as_it_does_natively,
    rust_answers_clients_and_prints_the_same,
    listeners_follow_directories,
    a_thousand_processes_wait_for_clients
];

const PATIENCE: Duration = Duration::from_secs(60);
const GREETING: &str = "welcome\n";

/// The engines that a case runs guests on.
pub(crate) fn engines() -> &'static [&'static str] {
    match WITH_GPU.get() {
        true => &["cpu", "cuda"],
        false => &["cpu"],
    }
}

/// A command that listens, and the addresses on which it does.
struct Listening {
    running: Running,
    addresses: Vec<SocketAddr>,
    /// What it has said about its descriptors.
    said: Vec<String>,
}

/// Starts a guest with listeners on free ports.
fn listen(
    engine: &str,
    guest: &str,
    listeners: usize,
    options: &[&str],
    args: &[&str],
) -> Listening {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("run")
        .arg(module(guest))
        .args(["--engine", engine, "--verbose", "--alone"]);
    for _ in 0..listeners {
        command.args(["--listen", "0"]);
    }
    command.args(options).arg("--").args(args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut errors = BufReader::new(running.stderr.take().expect("it is piped"));
    let mut said = Vec::new();
    for _ in 0..listeners {
        let mut line = String::new();
        errors.read_line(&mut line).expect("it is text");
        said.push(line.trim_end().to_owned());
    }
    let address = |line: &String| {
        let (_, address) = line.rsplit_once(' ').expect("an address at the end");
        address.parse().unwrap_or_else(|_| panic!("{line}"))
    };
    let addresses = said.iter().map(address).collect();
    running.stderr = Some(errors.into_inner());
    Listening {
        running,
        addresses,
        said,
    }
}

/// What a client gets that sends these bytes and ends its half.
fn ask(address: SocketAddr, bytes: &[u8]) -> String {
    let mut peer = TcpStream::connect(address).expect("it listens");
    peer.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut writer = peer.try_clone().expect("a descriptor");
    let bytes = bytes.to_vec();
    // Written while the answer is read: a full connection would stop both.
    let writing = std::thread::spawn(move || {
        writer.write_all(&bytes).expect("it reads");
        writer.shutdown(Shutdown::Write).expect("it is connected");
    });
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it answers");
    writing.join().expect("all was written");
    answer
}

/// The requests of a case, and their answers.
fn requests() -> [(Vec<u8>, String); 3] {
    [
        "",
        "a word\n",
        &"a long line of many words; ".repeat(20_000),
    ]
    .map(|text| {
        let answer = format!("{GREETING}{}", text.to_uppercase());
        (text.as_bytes().to_vec(), answer)
    })
}

/// Asks everything; the answers must be right.
fn ask_all(address: SocketAddr) {
    for (request, answer) in requests() {
        assert!(ask(address, &request) == answer, "{} bytes", request.len());
    }
}

/// The folder with the greeting.
fn greeting() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("greeting"), GREETING).expect("it is writable");
    folder
}

pub(crate) fn ended(running: Running) -> Ended {
    let output = running.output();
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    let code = output.status.code().expect("no signal ends it");
    Ended::new(code, &text(output.stdout), &text(output.stderr))
}

fn as_guest(engine: &str, guest: &str) -> Ended {
    let folder = greeting();
    let directory = data(folder.path());
    let options = ["--dir", &directory];
    let listening = listen(engine, guest, 1, &options, &["3", "/data/greeting"]);
    ask_all(listening.addresses[0]);
    ended(listening.running)
}

/// Compiles the C program for this machine.
fn compiled(to: &Path) -> PathBuf {
    let program = to.join("sockets");
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-O1", "-o"])
        .arg(&program)
        .arg(folder().join("c/sockets.c"));
    let output = everwarp_testkit::output(&mut command);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Runs the C program of this machine with a listener that it inherits.
fn natively() -> Ended {
    let folder = greeting();
    let program = compiled(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // A descriptor of the standard library is closed when a program starts.
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).expect("it is open");
    let mut command = Command::new(program);
    command.arg("3").arg(folder.path().join("greeting"));
    command
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDS_FIRST", listener.as_raw_fd().to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = Running::start(&mut command);
    ask_all(address);
    ended(running)
}

fn c_answers_clients_as_it_does_natively() {
    let natively = natively();
    assert_eq!((natively.code, natively.err.as_str()), (0, ""));
    assert!(
        natively
            .out
            .contains("recv on the listener: ENOTCONN\naccept on a client: EINVAL\n")
    );
    for engine in engines() {
        assert_eq!(as_guest(engine, "c/sockets"), natively, "{engine}");
    }
}

fn rust_answers_clients_and_prints_the_same() {
    let bytes = requests().map(|(request, _)| request.len());
    let mut expected = String::new();
    for (number, bytes) in bytes.into_iter().enumerate() {
        expected += &format!("client {number}: {bytes} bytes\n");
    }
    expected += "done\n";
    for engine in engines() {
        let ended = as_guest(engine, "sockets");
        assert_eq!(ended, Ended::new(0, &expected, ""), "{engine}");
    }
}

fn listeners_follow_directories() {
    let folder = greeting();
    let second = format!("{}::/more", folder.path().display());
    let directory = data(folder.path());
    for engine in engines() {
        let options = ["--dir", &directory, "--dir", &second];
        let listening = listen(engine, "sockets", 2, &options, &["1", "/more/greeting"]);
        let numbers = listening
            .said
            .iter()
            .map(|line| line.split(' ').nth(2).expect("a number"));
        assert_eq!(
            numbers.collect::<Vec<_>>(),
            ["5", "6"],
            "{:?}",
            listening.said
        );
        assert_eq!(ask(listening.addresses[0], b"x"), format!("{GREETING}X"));
        assert_eq!(
            ended(listening.running).out,
            "client 0: 1 bytes\ndone\n",
            "{engine}"
        );
    }
}

fn a_thousand_processes_wait_for_clients() {
    const PROCESSES: usize = 1000;
    for engine in engines() {
        let options = ["--instances", "1000"];
        let listening = listen(engine, "sockets", 1, &options, &[]);
        let address = listening.addresses[0];
        let asked = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..PROCESSES / 4 {
                            assert_eq!(ask(address, b"one of many"), "ONE OF MANY");
                        }
                    })
                })
                .collect();
            let asked = clients.into_iter().map(|client| client.join().is_ok());
            asked.collect::<Vec<_>>()
        });
        let ended = ended(listening.running);
        let all = asked.into_iter().all(|answered| answered);
        assert!(all, "{engine}: {:?}: {}", ended.code, ended.err);
        let answered = ended.out.matches("client 0: 11 bytes\n").count();
        assert_eq!(
            (ended.code, answered),
            (0, PROCESSES),
            "{engine}: {}",
            ended.err
        );
    }
}

/// Runs the command, which must refuse, and returns its message in one line.
pub(crate) fn refused(guest: &str, options: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("run")
        .arg(module(guest))
        .args(["--engine", "cpu"])
        .args(options);
    let output = everwarp_testkit::output(&mut command);
    let text = String::from_utf8(output.stderr).expect("it is text");
    let words = text.split_whitespace().filter(|word| *word != "│");
    let code = output.status.code().expect("no signal ends it");
    (code, words.collect::<Vec<_>>().join(" "))
}

fn a_port_in_use_is_one_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let (code, message) = refused("sockets", &["--listen", &port]);
    assert_eq!(code, 1);
    let says = format!("{port}: another program listens there: stop it, or use another port");
    assert!(message.contains(&says), "{message}");
}

fn an_address_that_is_none_names_the_form_to_use() {
    for wrong in ["65536", "somewhere", "127.0.0.1", "http://127.0.0.1:80"] {
        let (code, message) = refused("sockets", &["--listen", wrong]);
        assert_eq!(code, 2, "{message}");
        assert!(
            message.contains("use PORT") && message.contains("ADDRESS:PORT"),
            "{message}"
        );
    }
}

fn a_program_without_a_listener_says_what_to_do() {
    let (code, message) = refused("sockets", &[]);
    assert_eq!(
        (code, message.as_str()),
        (2, "sockets: no listener: run it with --listen PORT")
    );
}

//! The example guests, run and compiled by the command from end to end.

extern crate alloc;

mod agreement;
mod c;
mod channels;
mod dial;
#[path = "../../../../guests/json/src/document/mod.rs"]
mod document;
#[path = "../shared/echo.rs"]
mod echo;
mod events;
mod forth;
mod given;
mod hashes;
mod json;
mod modules;
#[path = "../shared/pseudo_terminal.rs"]
mod pseudo_terminal;
mod sockets;
mod threads;
mod words;

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use everwarp::{Device, Select};
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Trial};

/// The names of the guests, which are also the names of their modules.
const GUESTS: [&str; 9] = [
    "echo", "forth", "hashes", "hello", "json", "kv", "pi", "pipeline", "words",
];

/// The guests with the standard library, which takes more than a page.
const WITH_STD: [&str; 6] = ["arrivals", "dial", "http", "notes", "sockets", "threads"];

/// The folder with their sources.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests")
}

/// The built module of a guest; the names of guests in C begin with `c/`.
fn module(guest: &str) -> PathBuf {
    let (folder, guest) = match guest.strip_prefix("c/") {
        Some(guest) => (folder().join("c"), guest),
        None => (folder(), guest),
    };
    folder.join("built").join(format!("{guest}.wasm"))
}

/// A page and a small table: enough for most guests.
const ONE_PAGE: &str = "68K";

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn new(code: i32, out: &str, err: &str) -> Self {
        let (out, err) = (out.to_owned(), err.to_owned());
        Self { code, out, err }
    }
}

/// A test.
type Case = fn();

/// Cases that run no guest on a GPU.
const HOST: &[&[(&str, Case)]] = &[
    agreement::HOST,
    c::HOST,
    dial::HOST,
    events::HOST,
    given::HOST,
    modules::HOST,
    sockets::HOST,
];
/// Cases that run guests: each once on the CPU engine, and once on both engines, whose results must be the same.
const RUNS: &[&[(&str, Case)]] = &[
    c::ON_BOTH,
    channels::ON_BOTH,
    dial::ON_BOTH,
    events::ON_BOTH,
    forth::ON_BOTH,
    given::ON_BOTH,
    hashes::ON_BOTH,
    json::ON_BOTH,
    sockets::ON_BOTH,
    threads::ON_BOTH,
    words::ON_BOTH,
];

thread_local! {
    /// Whether the case of this thread runs guests on a GPU too.
    static WITH_GPU: Cell<bool> = const { Cell::new(false) };
}

fn main() {
    let gpu = needs_gpu(&Device::open(Select::Cuda));
    let trial = |name: &str, case: Case, with_gpu: bool| {
        let run = move || {
            WITH_GPU.set(with_gpu);
            case();
            Ok(())
        };
        let kind = if with_gpu { "cuda" } else { "cpu" };
        Trial::test(name, run).with_kind(kind)
    };
    let host = HOST.iter().copied().flatten();
    let host = host.map(|&(name, case)| trial(name, case, false));
    let runs =
        RUNS.iter().copied().flatten().flat_map(|&(name, case)| {
            [trial(name, case, false), gpu.trial(trial(name, case, true))]
        });
    libtest_mimic::run(&Arguments::from_args(), host.chain(runs).collect()).exit()
}

/// Runs a guest with options of the command, arguments and standard input: on the CPU engine, and in a case with a GPU
/// there as well, with the same result.
fn run(guest: &str, options: &[&str], args: &[&str], input: &[u8]) -> Ended {
    let ended = run_on("cpu", guest, options, args, input);
    if WITH_GPU.get() {
        let comparable = |ended: &Ended| {
            // Processes that run at once write their lines in any order.
            let mut lines: Vec<_> = ended.out.lines().map(str::to_owned).collect();
            if options.contains(&"--instances") {
                lines.sort();
            }
            // The engines describe a trap, and all processes together, in different words.
            let own = ended.err.contains("ended: trap") || ended.err.contains("processes on");
            let err = if own {
                String::new()
            } else {
                ended.err.clone()
            };
            (ended.code, lines, err)
        };
        let there = run_on("cuda", guest, options, args, input);
        assert_eq!(
            comparable(&there),
            comparable(&ended),
            "{guest} {options:?} {args:?}: a GPU found on the left, a CPU on the right"
        );
    }
    ended
}

/// A command that runs a guest with an engine of its own.
fn alone(engine: &str, guest: &str, options: &[&str], args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("run")
        .arg(module(guest))
        .args(["--engine", engine, "--alone"])
        .args(options)
        .arg("--")
        .args(args);
    command
}

fn run_on(engine: &str, guest: &str, options: &[&str], args: &[&str], input: &[u8]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("run")
        .arg(module(guest))
        .args(["--engine", engine])
        .args(options)
        .arg("--")
        .args(args);
    let output = everwarp_testkit::output_with_input(&mut command, input);
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    Ended {
        code: output.status.code().expect("no signal ends it"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The option that gives a folder to a guest as `/data`.
fn data(folder: &Path) -> String {
    format!("{}::/data", folder.display())
}

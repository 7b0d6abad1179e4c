//! The example guests, run and compiled by the command from end to end.

extern crate alloc;

mod agreement;
mod c;
mod channels;
#[path = "../../../../guests/json/src/document/mod.rs"]
mod document;
mod forth;
mod given;
mod hashes;
mod json;
mod modules;
mod threads;
mod words;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The names of the guests, which are also the names of their modules.
const GUESTS: [&str; 8] = [
    "forth", "hashes", "hello", "json", "kv", "pi", "pipeline", "words",
];

/// The guests with the standard library, which takes more than a page.
const WITH_STD: [&str; 1] = ["threads"];

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

/// Runs a guest with options of the command, arguments and standard input: on the CPU engine, and on a GPU if there is
/// one, with the same result.
fn run(guest: &str, options: &[&str], args: &[&str], input: &[u8]) -> Ended {
    let ended = run_on("cpu", guest, options, args, input);
    if gpu() {
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

/// Whether there is a GPU to compare with. If not, this is printed once.
fn gpu() -> bool {
    static GPU: OnceLock<bool> = OnceLock::new();
    *GPU.get_or_init(|| {
        let there = everwarp::cuda_device_count().is_ok_and(|n| n > 0);
        if !there {
            // The harness hides the output of eprintln! if the test passes.
            writeln!(std::io::stderr(), "skipped: no GPU to run guests on")
                .expect("stderr takes a line");
        }
        there
    })
}

fn run_on(engine: &str, guest: &str, options: &[&str], args: &[&str], input: &[u8]) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_everwarp"))
        .arg("run")
        .arg(module(guest))
        .args(["--engine", engine])
        .args(options)
        .arg("--")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // Written while the output is read, because a full pipe would stop both. A guest need not read its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("writing does not panic");
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

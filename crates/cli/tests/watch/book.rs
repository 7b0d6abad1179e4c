//! The session of `everwarp top` that the book shows: recorded here, and compared with the book.
//!
//! `EVERWARP_WRITE=1` writes it into the book again. What a screen must show holds for the recording as well as for the book;
//! numbers differ from run to run.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;

use everwarp_testkit::Running;

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const BEGIN: &str = "<!-- recorded by crates/cli/tests/watch/book.rs -->";
const END: &str = "<!-- end of the recording -->";

/// What is pressed, what the book says about it, and what the screen shows then.
struct Step {
    keys: &'static str,
    text: &'static str,
    shows: &'static [&'static str],
}

const STEPS: &[Step] = &[
    Step {
        keys: "1",
        text: "A terminal runs `everwarp run fib --n 45 --engine cpu --size 1 --measure`, and another one three processes on two \
               threads with `everwarp run loop.wasm --instances 3 --engine cpu --size 2 --measure`. `everwarp top` begins with \
               the engines. Processes have no engine of tasks; they are counted in the first line.",
        shows: &[
            "2 processes running, 1 waiting",
            "PROGRAM NAME ENGINE HEALTH AGE SIZE TASKS TASKS/S",
            " cpu ok ",
        ],
    },
    Step {
        keys: "3",
        text: "`3` shows the functions. Each task of `fib` forks or returns at once, and the sums wait for them.",
        shows: &[
            "PROGRAM OF FUNCTION CALLS CALLS/S RUN",
            " fib call ",
            " fib sum ",
        ],
    },
    Step {
        keys: "6",
        text: "`6` shows the processes. The third one waits until one of the others has ended.",
        shows: &[
            "PROGRAM MODULE ENGINE PID INSTANCE PARENT FUEL MEMORY STATE",
            " loop.wasm cpu 0.1 0 ",
            " loop.wasm cpu 2.1 2 ",
            "waiting for a place",
        ],
    },
    Step {
        keys: "/waiting\r",
        text: "`/`, a text and Enter keep the rows that contain it.",
        shows: &["rows with `waiting`", " loop.wasm cpu 2.1 2 "],
    },
    Step {
        keys: "\r",
        text: "Enter shows the details of the row, with the times of its module's processes.",
        shows: &[
            "details: any key goes back",
            "pid 2.1",
            "host calls: median",
        ],
    },
    Step {
        keys: " x",
        text: "A key leaves them, and `x` asks before it ends a process.",
        shows: &["end 2.1 of program"],
    },
    Step {
        keys: "y\u{1b}",
        text: "After `y` and Esc, two processes are left.",
        shows: &["2 processes running, 0 waiting", " loop.wasm cpu 1.1 1 "],
    },
];

/// A screen with one space between words, so that widths of columns do not matter.
fn plain(screen: &str) -> String {
    let words = screen.split(|c: char| c.is_whitespace() || "│┌┐└┘─".contains(c));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

fn missing(step: &Step, screen: &str) -> Option<&'static str> {
    let plain = plain(screen);
    let mut shows = step.shows.iter();
    shows.find(|part| !plain.contains(**part)).copied()
}

/// The screen, without the empty lines in its middle and with lines that end where their text ends.
fn block(screen: &str) -> String {
    let mut lines: Vec<_> = screen.lines().map(str::trim_end).collect();
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n")
}

/// A paragraph in lines of the book's length.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if line.len() + word.len() > 120 {
            lines.push(std::mem::take(&mut line));
        }
        let space = if line.is_empty() { "" } else { " " };
        line = format!("{line}{space}{word}");
    }
    lines.push(line);
    lines.join("\n")
}

fn recorded() -> String {
    let sandbox = Sandbox::new();
    let _processes = sandbox.looping(3, &["--measure"]);
    let fib = [
        "run",
        "fib",
        "--n",
        "45",
        "--engine",
        "cpu",
        "--size",
        "1",
        "--measure",
    ];
    let mut fib = sandbox.command(&fib);
    let _fib = Running::start(fib.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut command = sandbox.command(&["top", "--every", "0.2"]);
    let mut terminal = Terminal::start(&mut command, 24, 110);
    let mut text = String::new();
    for step in STEPS {
        terminal.press(step.keys);
        let screen = terminal.expect(step.text, |screen| missing(step, screen).is_none());
        let shown = block(&screen);
        let said = wrapped(step.text);
        writeln!(text, "\n{said}\n\n```text\n{shown}\n```").expect("memory");
    }
    terminal.press("q");
    assert!(terminal.end().success());
    text
}

#[test]
fn book_shows_a_recorded_session() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching.md");
    let book = std::fs::read_to_string(&file).expect("the chapter is there");
    let (before, rest) = book.split_once(BEGIN).expect("the session begins");
    let (session, after) = rest.split_once(END).expect("the session ends");
    let now = recorded();
    if std::env::var_os("EVERWARP_WRITE").is_some() {
        let book = format!("{before}{BEGIN}\n{now}\n{END}{after}");
        return std::fs::write(&file, book).expect("the chapter is writable");
    }
    let blocks: Vec<_> = session.split("```text\n").skip(1).collect();
    assert_eq!(
        blocks.len(),
        STEPS.len(),
        "run it again with EVERWARP_WRITE=1"
    );
    for (step, block) in STEPS.iter().zip(blocks) {
        let (screen, _) = block.split_once("```").expect("the block ends");
        let text = missing(step, screen);
        assert_eq!(
            text, None,
            "the book does not show it: EVERWARP_WRITE=1\n{screen}"
        );
        assert!(
            session.contains(&wrapped(step.text)),
            "EVERWARP_WRITE=1: {}",
            step.text
        );
    }
}

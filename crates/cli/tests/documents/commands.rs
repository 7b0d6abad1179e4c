//! The guide to the commands is what the commands say of themselves.

use std::fmt::Write;
use std::process::Command;

use serde_json::Value;

use crate::{check, writing};

fn help(arguments: &[&str]) -> String {
    let output = everwarp_testkit::output(
        Command::new(env!("CARGO_BIN_EXE_everwarp"))
            .args(arguments)
            .arg("--help"),
    );
    assert!(output.status.success(), "{arguments:?} has no help");
    String::from_utf8(output.stdout).expect("the help is text")
}

/// The subcommands with what each does: the lines between `Commands:` and the next empty one.
fn subcommands(help: &str) -> Vec<&str> {
    let (_, rest) = help
        .split_once("Commands:\n")
        .expect("the help lists commands");
    let lines = rest.lines().take_while(|l| !l.trim().is_empty());
    let names = lines.filter_map(|l| l.split_whitespace().next());
    names.filter(|n| *n != "help").collect()
}

const BEGINNING: &str = "\
<!-- Generated from the command's own help by `EVERWARP_WRITE=1 cargo test -p everwarp-cli --test documents`. Do not edit. -->

# Commands

Exit codes of every command: 0 means success; 1 means that the work failed or that a result is wrong; 2 means that the
command line is wrong. A single process of a WebAssembly module passes its own exit code on (a code above 255 becomes
255), and a command that was ended by a signal exits with 128 and the signal's number.

| variable | meaning |
|---|---|
| `EVERWARP_NVRTC` | the path of `libnvrtc.so`, instead of the usual places |
| `EVERWARP_PTXAS`, `EVERWARP_NVLINK` | the paths of these programs, instead of the usual places; with `driver` for the first, the driver assembles |
| `EVERWARP_IO` | how files are read, as `--io` says: `io_uring` or `threads` |
| `EVERWARP_CACHE_DIR` | the folder of compiled code (`everwarp cache`) |
| `EVERWARP_TELEMETRY` | `on` measures times on the CPU engine and on CUDA, in any program with an engine; wgpu says that it does not ([watching it run](watching.md)) |
| `EVERWARP_CONTROL` | `off` keeps other programs from looking at the engines of a program |
| `XDG_RUNTIME_DIR` | the folder in which the service listens, and each other program with an engine for `ps`, `kill`, `top` and `actors`; without it, the folder for temporary files |

";

#[test]
fn the_guide_to_the_commands_is_the_help_of_the_commands() {
    let _writing = writing();
    let all = help(&[]);
    let mut page = format!("{BEGINNING}```text\n{}```\n", trimmed(&all));
    for name in subcommands(&all) {
        let _ = write!(
            page,
            "\n## everwarp {name}\n\n```text\n{}```\n",
            trimmed(&help(&[name]))
        );
        if name == "run" {
            page += &runs();
        }
    }
    let programs =
        everwarp_testkit::output(Command::new(env!("CARGO_BIN_EXE_everwarp")).arg("programs"));
    let programs = String::from_utf8(programs.stdout).expect("the list is text");
    let _ = write!(
        page,
        "\n## The native programs\n\nWhat `everwarp programs` prints:\n\n```text\n{}```\n",
        trimmed(&programs)
    );
    check("docs/commands.md", &page);
}

/// The help of what `everwarp run` can run: a module, and each program.
fn runs() -> String {
    let listed = everwarp_testkit::output(
        Command::new(env!("CARGO_BIN_EXE_everwarp")).args(["programs", "--json"]),
    );
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("the list is JSON");
    let programs = listed.as_array().expect("it is a list").iter();
    let programs = programs.filter_map(|row| row["name"].as_str());
    let mut page = String::new();
    for name in ["MODULE.wasm"].into_iter().chain(programs) {
        let _ = write!(
            page,
            "\n### everwarp run {name}\n\n```text\n{}```\n",
            trimmed(&help(&["run", name]))
        );
    }
    page
}

/// Without spaces at the ends of lines.
fn trimmed(text: &str) -> String {
    let lines = text.lines().map(|l| format!("{}\n", l.trim_end()));
    lines.collect()
}

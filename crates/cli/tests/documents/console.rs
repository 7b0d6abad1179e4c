//! Terminal sessions in documents: each command is run on the CPU engine, and its output compared.
//!
//! A block of the language `console` has commands after `$ `, each followed by what it prints. Numbers in lines with times
//! may differ. Commands that need a GPU, a build or a network are in blocks of other languages and are not run.

use std::path::Path;
use std::process::Command;

use crate::markdown::with_code;
use crate::{check, documents, top, writing};

/// A command and what it printed, line by line.
struct Step {
    command: String,
    output: Vec<String>,
}

fn steps(code: &str) -> Vec<Step> {
    let mut list: Vec<Step> = Vec::new();
    for line in code.lines() {
        match (line.strip_prefix("$ "), list.last_mut()) {
            (Some(command), _) => list.push(Step {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            (None, Some(step)) => step.output.push(line.to_owned()),
            (None, None) => panic!("output without a command: {line}"),
        }
    }
    list
}

/// Runs a command as a user would type it at the top of the repository, on a machine without a GPU.
fn run(command: &str, scratch: &Path) -> Vec<String> {
    let folder = Path::new(env!("CARGO_BIN_EXE_everwarp")).parent();
    let folder = folder.expect("the command is in a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(top())
        .env("PATH", format!("{folder}:{path}"))
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("XDG_RUNTIME_DIR", scratch)
        .env("TMPDIR", scratch)
        .env("NO_COLOR", "1");
    let output = everwarp_testkit::output(&mut shell);
    let text = String::from_utf8(output.stdout).expect("the output is text");
    text.lines().map(|l| l.trim_end().to_owned()).collect()
}

/// A line without the numbers that differ from run to run and from machine to machine.
fn masked(line: &str) -> String {
    let timed = [
        " s (",
        "processes/s",
        "threads of the CPU engine",
        " ms",
        "host,",
    ];
    if !timed.iter().any(|t| line.contains(t)) {
        return line.to_owned();
    }
    let mut out = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() || c == '.' {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

/// The text of a step with the output of today, or with the documented output where only times differ.
fn played(step: Step, scratch: &Path) -> String {
    let mut output = run(&step.command, scratch);
    let mut pairs = output.iter().zip(&step.output);
    let alike = pairs.all(|(a, b)| masked(a) == masked(b));
    if alike && output.len() == step.output.len() {
        output = step.output;
    }
    let lines = output.iter().map(|line| format!("{line}\n"));
    format!("$ {}\n{}", step.command, lines.collect::<String>())
}

#[test]
fn terminal_sessions_show_what_the_commands_print() {
    let _writing = writing();
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let mut sessions = 0;
    for (document, text) in documents() {
        let wanted = with_code(&text, |block| {
            (block.language == "console").then(|| {
                let steps = steps(block.code);
                sessions += steps.len();
                let steps = steps.into_iter().map(|step| played(step, scratch.path()));
                steps.collect()
            })
        });
        check(&document, &wanted);
    }
    assert!(
        sessions >= 10,
        "only {sessions} commands were found: does the test still read documents right?"
    );
}

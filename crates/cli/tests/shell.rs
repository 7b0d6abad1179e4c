//! Completions and manual pages, read by the programs that they are for. Where one of these is not installed, its test is
//! reported as ignored.

use std::path::Path;
use std::process::{Command, Stdio};

use everwarp_testkit::Needed;
use libtest_mimic::{Arguments, Failed, Trial};

fn everwarp(args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    let output = everwarp_testkit::output(command.args(args));
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Runs a command that must succeed and say nothing.
fn silent(command: &mut Command) -> Result<(), Failed> {
    let output = everwarp_testkit::output(command);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() && told.is_empty() {
        true => Ok(()),
        false => Err(format!("{}: {told}", output.status).into()),
    }
}

/// A shell reads its completions without running them.
fn completions_parse(shell: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("completions");
    std::fs::write(&file, everwarp(&["completions", shell]))?;
    silent(Command::new(shell).arg("-n").arg(&file))
}

/// All pages are typeset.
fn pages_are_typeset(each: impl Fn(&Path) -> Command) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    everwarp(&[
        "man",
        folder.path().to_str().ok_or("a path that is no text")?,
    ]);
    let mut pages = 0;
    for page in std::fs::read_dir(folder.path())? {
        let page = page?.path();
        silent(&mut each(&page)).map_err(|error| {
            let reason = error.message().unwrap_or_default().to_owned();
            Failed::from(format!("{}: {reason}", page.display()))
        })?;
        pages += 1;
    }
    match pages {
        10.. => Ok(()),
        _ => Err(format!("there are {pages} pages").into()),
    }
}

fn pages_have_no_warnings_from_man() -> Result<(), Failed> {
    pages_are_typeset(|page| {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(page)
            .env("MANROFFSEQ", "")
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "80");
        man
    })
}

fn pages_have_no_errors_from_mandoc() -> Result<(), Failed> {
    pages_are_typeset(|page| {
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-Tlint", "-W", "error"]).arg(page);
        mandoc
    })
}

/// Whether a program can be started.
fn needs(program: &str, argument: &str) -> Needed {
    let found = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Needed::look(program, &found)
}

fn main() {
    let shell = |shell: &'static str| {
        let name = format!("{shell}_reads_its_completions");
        let trial = Trial::test(name, move || completions_parse(shell));
        needs(shell, "--version").trial(trial)
    };
    let trials = vec![
        shell("bash"),
        shell("zsh"),
        shell("fish"),
        needs("man", "--version").trial(Trial::test(
            "pages_have_no_warnings_from_man",
            pages_have_no_warnings_from_man,
        )),
        needs("mandoc", "-h").trial(Trial::test(
            "pages_have_no_errors_from_mandoc",
            pages_have_no_errors_from_mandoc,
        )),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

//! The service under a service manager. The tests that need the tools of systemd are reported as `ignored` without them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use everwarp_testkit::Needed;
use libtest_mimic::{Arguments, Failed, Trial};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd")
}

fn run(command: &mut Command) -> Result<Output, Failed> {
    let finished = everwarp_testkit::run(command, PATIENCE)?;
    match finished.outcome {
        everwarp_testkit::Outcome::Exited(status) => Ok(Output {
            status,
            stdout: finished.stdout,
            stderr: finished.stderr,
        }),
        everwarp_testkit::Outcome::TimedOut(limit) => {
            Err(format!("{command:?} still runs after {limit:?}").into())
        }
    }
}

fn unit_files_are_valid() -> Result<(), Failed> {
    let mut verify = Command::new("systemd-analyze");
    verify.args(["--user", "verify"]);
    verify.args(["everwarp.service", "everwarp.socket"].map(|name| units().join(name)));
    // A user's manager has a folder for what runs.
    let folder = tempfile::tempdir()?;
    let output = run(verify.env("XDG_RUNTIME_DIR", folder.path()))?;
    match output.status.success() && output.stderr.is_empty() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// The first client starts the service, which is given the socket and does not remove it.
fn the_first_client_starts_the_service() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let sockets = folder.path().join("everwarp");
    std::fs::create_dir(&sockets)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&sockets, mode)?;
    let socket = sockets.join("service.sock");
    let everwarp = env!("CARGO_BIN_EXE_everwarp");
    let mut activate = Command::new("systemd-socket-activate")
        .arg("--listen")
        .arg(&socket)
        .args([
            "--setenv",
            "XDG_RUNTIME_DIR",
            everwarp,
            "up",
            "--engine",
            "cpu",
        ])
        .args(["--idle-exit", "1s"])
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let begin = Instant::now();
    while !socket.exists() {
        if begin.elapsed() > PATIENCE {
            drop(activate.kill());
            return Err("the tool does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let module = folder.path().join("nothing.wasm");
    std::fs::write(
        &module,
        wat::parse_str(r#"(module (func (export "_start")))"#)?,
    )?;
    let mut client = Command::new(everwarp);
    client.args(["run", "-v"]).arg(&module);
    let output = run(client.env("XDG_RUNTIME_DIR", folder.path()));
    let begin = Instant::now();
    let ended = loop {
        match activate.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() > PATIENCE => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    drop(activate.kill());
    let output = output?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || !told.contains("the service runs this") {
        return Err(told.into());
    }
    match ended {
        Some(status) if status.success() && socket.exists() => Ok(()),
        other => Err(format!("the idle service ended with {other:?}").into()),
    }
}

/// Whether a tool can be started.
fn needs(tool: &str) -> Needed {
    let found = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Needed::look(tool, &found)
}

fn main() {
    let trials = vec![
        needs("systemd-analyze").trial(Trial::test("unit_files_are_valid", unit_files_are_valid)),
        needs("systemd-socket-activate").trial(Trial::test(
            "the_first_client_starts_the_service",
            the_first_client_starts_the_service,
        )),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

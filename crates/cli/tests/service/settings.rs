//! The configuration file, modules that are loaded ahead, completions and manual pages, and what a service manager passes.

use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::sandbox::{LOOP, Sandbox, output, wait_for, words};

#[test]
fn the_configuration_file_holds_and_the_command_line_overrides_it() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("everwarp");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&folder, mode).expect("it is ours");
    let file = folder.join("service.toml");
    std::fs::write(&file, "idle_exit = '2h'\n[quota]\nprocesses = 10\n").expect("it is writable");
    let service = sandbox.up(&[]);
    assert_eq!(sandbox.status()["idle_exit_s"], 7200.0);
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let module = module.to_str().expect("a plain path");
    let few = sandbox.run(&["run", module, "--instances", "10"]);
    assert!(few.status.success(), "{few:?}");
    let many = sandbox.run(&["run", module, "--instances", "11"]);
    assert_eq!(many.status.code(), Some(1));
    let told = words(&many.stderr);
    assert!(
        told.contains("the service allows each client 10 processes"),
        "{told}"
    );
    drop(service);
    let _service = sandbox.up(&["--idle-exit", "1h"]);
    assert_eq!(sandbox.status()["idle_exit_s"], 3600.0);
    std::fs::write(&file, "idle = '2h'\n").expect("it is writable");
    let wrong = sandbox.run(&["up"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        words(&wrong.stderr).contains("unknown field `idle`"),
        "{wrong:?}"
    );
}

#[test]
fn a_process_may_have_as_much_memory_as_the_service_allows() {
    let sandbox = Sandbox::new();
    let config = sandbox.path().join("config.toml");
    std::fs::write(&config, "[quota]\nprocess_memory = 1048576\n").expect("it is writable");
    let _service = sandbox.up(&["--config", config.to_str().expect("a plain path")]);
    let module = sandbox.module(
        "big.wasm",
        r#"(module (memory 17) (func (export "_start")))"#,
    );
    let big = sandbox.run(&["run", module.to_str().expect("a plain path")]);
    assert_eq!(big.status.code(), Some(1));
    assert!(
        words(&big.stderr).contains("the limit is 1048576"),
        "{big:?}"
    );
}

#[test]
fn modules_of_a_folder_are_compiled_ahead() {
    let sandbox = Sandbox::new();
    sandbox.module("loop.wasm", LOOP);
    std::fs::write(sandbox.path().join("bad.wasm"), "no module").expect("it is writable");
    let _service = sandbox.up(&["--modules", sandbox.path().to_str().expect("a plain path")]);
    let log = sandbox.log();
    assert!(log.contains("loop.wasm is compiled"), "{log}");
    assert!(
        log.contains("bad.wasm: this is no WebAssembly module"),
        "{log}"
    );
    let missing = sandbox.run(&["up", "--modules", "nowhere"]);
    assert!(
        words(&missing.stderr).contains("there is no folder of modules"),
        "{missing:?}"
    );
}

#[test]
fn completions_and_manual_pages_know_the_options() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = String::from_utf8(sandbox.run(&["completions", shell]).stdout);
        let text = text.expect("it is text");
        for word in ["stdin-lines", "idle-exit", "generate", "detach"] {
            assert!(text.contains(word), "{shell} does not know {word}");
        }
    }
    // The shell takes them.
    let script = format!(
        "eval \"$('{}' completions bash)\" && complete -p everwarp",
        env!("CARGO_BIN_EXE_everwarp")
    );
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]);
    let defined = output(bash);
    assert!(defined.status.success(), "{defined:?}");
    let pages = sandbox.path().join("man1");
    let pages_text = pages.to_str().expect("a plain path");
    let missing = sandbox.run(&["man", pages_text]);
    assert_eq!(missing.status.code(), Some(1));
    std::fs::create_dir(&pages).expect("the folder is writable");
    assert!(sandbox.run(&["man", pages_text]).status.success());
    let page = std::fs::read_to_string(pages.join("everwarp-up.1")).expect("it is written");
    assert!(page.contains("idle\\-exit"), "{page}");
    assert!(pages.join("everwarp.1").exists() && pages.join("everwarp-run.1").exists());
}

/// What `systemd` does for a service of `Type=notify` with a socket, without its tools.
#[test]
fn a_passed_socket_is_used_and_the_manager_is_notified() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("everwarp");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&folder, mode).expect("it is ours");
    let listener = UnixListener::bind(sandbox.socket()).expect("the folder is writable");
    let notified = sandbox.path().join("notify");
    let manager = UnixDatagram::bind(&notified).expect("the folder is writable");
    manager
        .set_read_timeout(Some(crate::sandbox::PATIENCE))
        .expect("a socket has one");
    // The shell stays the same process when it becomes the service, so its process id is right.
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$EW\" up --engine cpu --idle-exit 1s";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .env("XDG_RUNTIME_DIR", sandbox.path())
        .env("EW", env!("CARGO_BIN_EXE_everwarp"))
        .env("NOTIFY_SOCKET", &notified)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let passed = std::os::fd::OwnedFd::from(listener.try_clone().expect("it can be duplicated"));
    // SAFETY: between fork and exec this makes calls that are safe in a signal handler.
    unsafe {
        command.pre_exec(move || {
            let mut third = std::mem::ManuallyDrop::new(std::os::fd::FromRawFd::from_raw_fd(3));
            match std::os::fd::AsRawFd::as_raw_fd(&passed) {
                3 => rustix::io::fcntl_setfd(&passed, rustix::io::FdFlags::empty())?,
                _ => rustix::io::dup2(&passed, &mut third)?,
            }
            Ok(())
        });
    }
    let mut child = command.spawn().expect("the shell starts");
    let mut word = [0; 32];
    let count = manager.recv(&mut word).expect("the service is ready");
    assert_eq!(&word[..count], b"READY=1");
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let run = sandbox.run(&["run", "-v", module.to_str().expect("a plain path")]);
    assert!(
        words(&run.stderr).contains("the service runs this"),
        "{run:?}"
    );
    let status = wait_for("the idle service ends", || {
        child.try_wait().expect("it can be asked")
    });
    assert!(status.success());
    // The socket belongs to the manager and stays.
    assert!(sandbox.socket().exists());
    drop(listener);
}

//! Peers that break the rules.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::sandbox::{Sandbox, endless, wait_for, words};

/// The version of the protocol that the service speaks.
const VERSION: u32 = 3;

/// The first message of a client: 64 bytes, whose layout never changes.
fn hello(lowest: u32, highest: u32, purpose: u32, engine: u32) -> Vec<u8> {
    let mut bytes = b"everwarp".to_vec();
    for number in [lowest, highest, purpose, engine] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(64, 0);
    bytes
}

/// Sends bytes and returns everything that comes back until the service closes the connection.
fn talk(sandbox: &Sandbox, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(sandbox.socket()).expect("the service listens");
    stream
        .set_read_timeout(Some(crate::sandbox::PATIENCE))
        .expect("a socket has one");
    // The service may close the connection while this is sent.
    drop(stream.write_all(bytes));
    drop(stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

fn code(answer: &[u8]) -> u32 {
    u32::from_le_bytes(answer[12..16].try_into().expect("four bytes"))
}

#[test]
fn an_older_or_newer_client_gets_a_clear_error() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let answer = talk(&sandbox, &hello(0, 0, 0, 0));
    assert_eq!(code(&answer), 1);
    let text = String::from_utf8_lossy(&answer[64..]).into_owned();
    assert!(
        text.contains(&format!("versions {VERSION} to {VERSION}"))
            && text.contains("restart the service"),
        "{text}"
    );
    assert_eq!(
        code(&talk(&sandbox, &hello(VERSION - 1, VERSION - 1, 0, 0))),
        1
    );
    assert_eq!(code(&talk(&sandbox, &hello(VERSION + 1, 9, 0, 0))), 1);
    // A newer client that still speaks the old version is served.
    assert_eq!(code(&talk(&sandbox, &hello(VERSION, 9, 0, 0))), 0);
}

#[test]
fn garbage_ends_its_own_connection_and_nothing_else() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let mut other = endless(&sandbox, &[]);
    let engine = sandbox.engine_pid();
    // Bytes that are the same in each run: a linear congruential generator.
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..300_u32 {
        let mut bytes = match round % 3 {
            0 => Vec::new(),
            // After a right first message.
            _ => hello(VERSION, VERSION, u32::from(round % 6 == 1), 0),
        };
        let length = usize::from(random()) % 120 + 1;
        let mut body: Vec<u8> = (0..length).map(|_| random() % 32).collect();
        if round % 3 == 2 {
            // In a frame with a right header.
            let header = (body.len() as u32).to_le_bytes();
            body = [&header, &[0, 0, 0, 0][..], &body].concat();
        }
        bytes.extend(body);
        talk(&sandbox, &bytes);
    }
    assert_eq!(sandbox.engine_pid(), engine, "the engine has not ended");
    assert!(other.try_wait().expect("it can be asked").is_none());
    wait_for("they are gone", || (sandbox.clients() == 1).then_some(()));
    other.kill().expect("it runs");
    other.wait().expect("it ends");
}

#[test]
fn a_client_that_says_nothing_is_dropped_and_holds_up_no_other() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let silent: Vec<_> = (0..50)
        .map(|_| UnixStream::connect(sandbox.socket()).expect("the service listens"))
        .collect();
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let args = ["run", "-v", module.to_str().expect("a plain path")];
    let output = sandbox.run(&args);
    assert!(
        words(&output.stderr).contains("the service runs this"),
        "{output:?}"
    );
    for mut stream in silent {
        let mut byte = [0];
        let read = stream.read(&mut byte).expect("the service closes it");
        assert_eq!(read, 0);
    }
}

/// Starts a service under a limit that a shell sets, and waits until it is ready.
fn up_with(sandbox: &Sandbox, limit: &str) -> crate::sandbox::Service {
    let script = format!(
        "{limit}; exec {} up --engine cpu",
        env!("CARGO_BIN_EXE_everwarp")
    );
    let mut command = std::process::Command::new("sh");
    let log = std::fs::File::create(sandbox.path().join("log")).expect("the folder is writable");
    command
        .args(["-c", &script])
        .env("XDG_RUNTIME_DIR", sandbox.path())
        .stdout(std::process::Stdio::null())
        .stderr(log);
    let service = crate::sandbox::Service {
        child: command.spawn().expect("the shell starts"),
    };
    wait_for("the service is up", || {
        (sandbox.status()["engines"][0]["state"] == "ready").then_some(())
    });
    service
}

#[test]
fn the_service_has_as_many_descriptors_as_it_may() {
    let sandbox = Sandbox::new();
    let _service = up_with(&sandbox, "ulimit -S -n 64");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", sandbox.engine_pid()));
    let limits = limits.expect("it lives");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut numbers = line.expect("it has one").split_whitespace().skip(3);
    let (soft, hard) = (numbers.next(), numbers.next());
    assert!(
        soft.is_some() && soft == hard && soft != Some("64"),
        "{limits}"
    );
}

#[test]
fn descriptors_that_run_out_are_an_error_of_one_client() {
    let sandbox = Sandbox::new();
    let mut service = up_with(&sandbox, "ulimit -n 64");
    let held: Vec<_> = (0..200)
        .filter_map(|_| {
            let mut stream = UnixStream::connect(sandbox.socket()).ok()?;
            // Some of them are closed at once.
            drop(stream.write_all(&hello(VERSION, VERSION, 0, 0)));
            Some(stream)
        })
        .collect();
    drop(held);
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let module = module.to_str().expect("a plain path");
    wait_for("it serves again", || {
        let output = sandbox.run(&["run", "-v", module]);
        let served = words(&output.stderr).contains("the service runs this");
        (served && output.status.success()).then_some(())
    });
    assert!(service.child.try_wait().expect("it can be asked").is_none());
}

#[test]
fn a_folder_that_others_may_use_is_not_used() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("everwarp");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&folder, open).expect("it is ours");
    for args in [&["up"][..], &["up", "--detach"], &["status"], &["down"]] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            words(&output.stderr).contains("not a folder that only you can use"),
            "{output:?}"
        );
    }
    // A command runs without a service.
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let output = sandbox.run(&["run", module.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_socket_of_another_program_is_an_error_and_no_hang() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("everwarp");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let own = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&folder, own).expect("it is ours");
    let listener = UnixListener::bind(sandbox.socket()).expect("the folder is writable");
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client comes");
        drop(stream.write_all(&[b'x'; 64]));
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    });
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let output = sandbox.run(&["run", module.to_str().expect("a plain path")]);
    assert_eq!(output.status.code(), Some(1));
    let told = words(&output.stderr);
    assert!(
        told.contains("no everwarp service") && told.contains("--alone"),
        "{told}"
    );
    answer.join().expect("it answers");
}

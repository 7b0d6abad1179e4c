//! A process sees the directory that it was given, and nothing outside.

mod common;

use common::{captured, program, run, stdout};
use everwarp_process_cpu::{Config, Directory, Host, Reason, SpawnError};

/// Opens a path beneath descriptor 3 (with these open flags and rights), exits with the error number if that
/// fails, and otherwise does what `then` says with the descriptor at 40.
fn opening(path: &str, flags: u32, then: &str) -> everwarp_process_cpu::Program {
    let length = path.len();
    program(&format!(
        r#"(memory (export "memory") 1) (data (i32.const 500) "{path}") (data (i32.const 900) "written")
        (func (export "_start") (local $error i32)
          (local.set $error (call $path_open (i32.const 3) (i32.const 1) (i32.const 500)
            (i32.const {length}) (i32.const {flags}) (i64.const 0x42) (i64.const 0x42) (i32.const 0)
            (i32.const 40)))
          (if (local.get $error) (then (call $proc_exit (local.get $error))))
          {then})"#
    ))
}

const READ: &str = r#"(i32.store (i32.const 16) (i32.const 2000)) (i32.store (i32.const 20) (i32.const 1000))
  (if (call $fd_read (i32.load (i32.const 40)) (i32.const 16) (i32.const 1) (i32.const 24))
    (then unreachable))
  (drop (call $write (i32.const 1) (i32.const 2000) (i32.load (i32.const 24))))"#;
const WRITE: &str = "(if (call $write (i32.load (i32.const 40)) (i32.const 900) (i32.const 7))
  (then unreachable))";
const CREATE: u32 = 1;
const NOENT: u32 = 44;
const NOTPERM: u32 = 63;

fn given(host: &std::path::Path) -> Config {
    Config {
        directories: vec![Directory {
            host: host.to_owned(),
            guest: "/data".to_owned(),
        }],
        ..captured()
    }
}

#[test]
fn files_beneath_the_directory_are_read_and_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("sub")).expect("it is writable");
    std::fs::write(folder.path().join("sub/in.txt"), "inside").expect("it is writable");
    let exit = run(&opening("sub/in.txt", 0, READ), given(folder.path()));
    assert!(exit.success(), "{}", exit.reason);
    assert_eq!(stdout(&exit), "inside");
    let inner = run(&opening("sub/../sub/in.txt", 0, READ), given(folder.path()));
    assert_eq!(stdout(&inner), "inside");
    let exit = run(&opening("sub/out.txt", CREATE, WRITE), given(folder.path()));
    assert!(exit.success(), "{}", exit.reason);
    let written = std::fs::read_to_string(folder.path().join("sub/out.txt"));
    assert_eq!(written.expect("it was written"), "written");
    let missing = run(&opening("none.txt", 0, READ), given(folder.path()));
    assert_eq!(missing.reason, Reason::Normal(NOENT));
}

#[test]
fn nothing_outside_the_directory_can_be_reached() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).expect("it is writable");
    let secret = folder.path().join("secret.txt");
    std::fs::write(&secret, "secret").expect("it is writable");
    let absolute = secret.to_str().expect("a plain path").to_owned();
    let mut paths = vec!["../secret.txt".to_owned(), "..".to_owned(), absolute];
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../secret.txt", inside.join("link")).expect("it is writable");
        symlink(&secret, inside.join("absolute")).expect("it is writable");
        symlink("..", inside.join("up")).expect("it is writable");
        paths.extend(["link", "absolute", "up/secret.txt"].map(str::to_owned));
    }
    for path in paths {
        for (flags, then) in [(0, READ), (CREATE, WRITE)] {
            let exit = run(&opening(&path, flags, then), given(&inside));
            assert_eq!(exit.reason, Reason::Normal(NOTPERM), "{path}");
            assert_eq!(stdout(&exit), "", "{path}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(&secret).expect("it is there"),
        "secret"
    );
}

#[test]
fn without_a_directory_there_are_no_files_and_a_missing_one_is_an_error() {
    const BADF: u32 = 8;
    let exit = run(&opening("x", 0, READ), captured());
    assert_eq!(exit.reason, Reason::Normal(BADF));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = Host::start(None).expect("a host starts");
    let missing = folder.path().join("none");
    let refused = host.spawn(&opening("x", 0, READ), given(&missing));
    assert!(matches!(refused, Err(SpawnError::Directory { path, .. }) if path == missing));
}

/// Slashes at the end say that it is a directory and no more; `.` is not a name that can be removed.
#[test]
fn a_directory_is_removed_with_and_without_slashes_behind_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sub = folder.path().join("sub");
    std::fs::create_dir(&sub).expect("it is writable");
    std::fs::write(folder.path().join("file"), "").expect("it is writable");
    let remove = |path: &str, length: usize| {
        let program = program(&format!(
            r#"(memory (export "memory") 1) (data (i32.const 65532) "{path}")
            (func (export "_start")
              (call $proc_exit (call $path_remove_directory (i32.const 3) (i32.const 65532)
                (i32.const {length}))))"#
        ));
        run(&program, given(folder.path())).reason
    };
    const INVAL: u32 = 28;
    const NOTDIR: u32 = 54;
    assert_eq!(remove("sub/", 4), Reason::Normal(0));
    assert!(!sub.exists());
    std::fs::create_dir(&sub).expect("it is writable");
    assert_eq!(remove("sub", 3), Reason::Normal(0));
    assert!(!sub.exists());
    assert_eq!(remove("file", 4), Reason::Normal(NOTDIR));
    assert_eq!(remove("./", 2), Reason::Normal(INVAL));
    assert_eq!(remove("//", 2), Reason::Normal(NOTPERM));
    // A path that lies partly outside of memory is no path.
    let outside = remove("sub/", 5);
    assert!(matches!(outside, Reason::Trap { .. }), "{outside}");
}

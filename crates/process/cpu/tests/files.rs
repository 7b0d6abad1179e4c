//! A process reaches the directory that it was given, and nothing outside.

mod common;

use common::{Given, captured, program, run, stdout};
use everwarp_process::{Directory, ExitStatus, Module};

/// Opens a path beneath descriptor 3 (with these open flags and rights), exits with the error number if that
/// fails, and otherwise does what `then` says with the descriptor at 40.
fn opening(path: &str, flags: u32, then: &str) -> Module {
    opening_with(path, flags, "0x42", then)
}

/// The same with these rights.
fn opening_with(path: &str, flags: u32, rights: &str, then: &str) -> Module {
    let length = path.len();
    program(&format!(
        r#"(memory (export "memory") 1) (data (i32.const 500) "{path}") (data (i32.const 900) "written")
        (func (export "_start") (local $error i32)
          (local.set $error (call $path_open (i32.const 3) (i32.const 1) (i32.const 500)
            (i32.const {length}) (i32.const {flags}) (i64.const {rights}) (i64.const {rights}) (i32.const 0)
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

/// A process that is given a directory as `/data`.
fn given(host: &std::path::Path) -> Given {
    let mut given = captured();
    let directory = Directory::open(host, "/data").expect("the directory is there");
    given.grants.directories = vec![directory];
    given
}

#[test]
fn files_beneath_the_directory_can_be_read_and_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("sub")).expect("it is writable");
    std::fs::write(folder.path().join("sub/in.txt"), "inside").expect("it is writable");
    let exit = run(&opening("sub/in.txt", 0, READ), given(folder.path()));
    assert!(exit.success(), "{}", exit.status);
    assert_eq!(stdout(&exit), "inside");
    let inner = run(&opening("sub/../sub/in.txt", 0, READ), given(folder.path()));
    assert_eq!(stdout(&inner), "inside");
    let exit = run(&opening("sub/out.txt", CREATE, WRITE), given(folder.path()));
    assert!(exit.success(), "{}", exit.status);
    let written = std::fs::read_to_string(folder.path().join("sub/out.txt"));
    assert_eq!(written.expect("it was written"), "written");
    let missing = run(&opening("none.txt", 0, READ), given(folder.path()));
    assert_eq!(missing.status, ExitStatus::Exited(NOENT));
}

#[test]
fn paths_outside_the_directory_are_refused() {
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
            assert_eq!(exit.status, ExitStatus::Exited(NOTPERM), "{path}");
            assert_eq!(stdout(&exit), "", "{path}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(&secret).expect("it is there"),
        "secret"
    );
}

#[test]
fn process_without_a_directory_cannot_open_files() {
    const BADF: u32 = 8;
    let exit = run(&opening("x", 0, READ), captured());
    assert_eq!(exit.status, ExitStatus::Exited(BADF));
}

/// The directory that was opened is meant, not its path.
#[cfg(target_os = "linux")]
#[test]
fn renamed_directory_is_still_the_one_that_was_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    std::fs::create_dir(&old).expect("it is writable");
    std::fs::write(old.join("in.txt"), "opened").expect("it is writable");
    let given = given(&old);
    std::fs::rename(&old, &new).expect("it is writable");
    std::fs::create_dir(&old).expect("it is writable");
    std::fs::write(old.join("in.txt"), "another").expect("it is writable");
    assert_eq!(stdout(&run(&opening("in.txt", 0, READ), given)), "opened");
}

#[test]
fn read_only_directory_can_be_read_and_not_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in.txt"), "inside").expect("it is writable");
    let mut given = captured();
    let directory = Directory::open(folder.path(), "/data").expect("the directory is there");
    given.grants.directories = vec![directory.read_only(true)];
    let exit = run(&opening("new.txt", CREATE, WRITE), given.clone());
    assert_eq!(exit.status, ExitStatus::Exited(NOTPERM));
    assert!(!folder.path().join("new.txt").exists());
    let exit = run(&opening_with("in.txt", 0, "2", READ), given);
    assert_eq!(stdout(&exit), "inside", "{}", exit.status);
}

#[test]
fn descriptors_are_limited_to_the_granted_number() {
    const MFILE: u32 = 33;
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in.txt"), "").expect("it is writable");
    // Standard streams and the directory are four.
    for (handles, expected) in [(4, MFILE), (5, 0)] {
        let mut given = given(folder.path());
        given.grants.handles = Some(handles);
        let exit = run(&opening("in.txt", 0, ""), given);
        assert_eq!(exit.status, ExitStatus::Exited(expected), "{handles}");
    }
}

/// Slashes at the end of a path only say that it is a directory; `.` is not a name that can be removed.
#[test]
fn directory_is_removed_with_and_without_slashes_after_its_name() {
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
        run(&program, given(folder.path())).status
    };
    const INVAL: u32 = 28;
    const NOTDIR: u32 = 54;
    assert_eq!(remove("sub/", 4), ExitStatus::Exited(0));
    assert!(!sub.exists());
    std::fs::create_dir(&sub).expect("it is writable");
    assert_eq!(remove("sub", 3), ExitStatus::Exited(0));
    assert!(!sub.exists());
    assert_eq!(remove("file", 4), ExitStatus::Exited(NOTDIR));
    assert_eq!(remove("./", 2), ExitStatus::Exited(INVAL));
    assert_eq!(remove("//", 2), ExitStatus::Exited(NOTPERM));
    const FAULT: u32 = 21;
    assert_eq!(
        remove("sub/", 5),
        ExitStatus::Exited(FAULT),
        "it ends beyond the memory"
    );
}

/// A process reads a regular file on its own thread, until it makes a call that only wasmtime's library has. It must not see
/// any difference.
#[test]
fn a_file_is_the_same_before_and_after_the_library_has_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("in.txt"), "0123456789").expect("it is writable");
    let wasi = |name: &str, parameters: &str| {
        format!(
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {parameters}) (result i32)))"#
        )
    };
    let imports = [
        wasi("fd_advise", "i32 i64 i64 i32"),
        wasi("fd_fdstat_get", "i32 i32"),
        wasi("fd_filestat_get", "i32 i32"),
        wasi("fd_pread", "i32 i32 i32 i64 i32"),
        wasi("fd_prestat_dir_name", "i32 i32 i32"),
        wasi("fd_seek", "i32 i64 i32 i32"),
        wasi("fd_tell", "i32 i32"),
        wasi("path_filestat_get", "i32 i32 i32 i32 i32"),
    ];
    let module = common::module(&format!(
        r#"(module {imports} {shared}
        (memory (export "memory") 1) (data (i32.const 500) "in.txt")
        (func $vector (param $at i32) (param $length i32)
          (i32.store (i32.const 16) (local.get $at)) (i32.store (i32.const 20) (local.get $length)))
        ;; Everything that can be asked of the file, with 200 bytes of answers.
        (func $look (param $fd i32) (param $to i32)
          (i32.store8 offset=180 (local.get $to) (call $fd_fdstat_get (local.get $fd) (local.get $to)))
          (i32.store8 offset=181 (local.get $to)
            (call $fd_filestat_get (local.get $fd) (i32.add (local.get $to) (i32.const 24))))
          (i32.store8 offset=182 (local.get $to)
            (call $fd_seek (local.get $fd) (i64.const 2) (i32.const 0) (i32.add (local.get $to) (i32.const 88))))
          (call $vector (i32.add (local.get $to) (i32.const 96)) (i32.const 3))
          (i32.store8 offset=183 (local.get $to)
            (call $fd_read (local.get $fd) (i32.const 16) (i32.const 1) (i32.add (local.get $to) (i32.const 100))))
          (i32.store8 offset=184 (local.get $to)
            (call $fd_tell (local.get $fd) (i32.add (local.get $to) (i32.const 104))))
          (call $vector (i32.add (local.get $to) (i32.const 112)) (i32.const 8))
          (i32.store8 offset=185 (local.get $to) (call $fd_pread (local.get $fd) (i32.const 16) (i32.const 1)
            (i64.const 6) (i32.add (local.get $to) (i32.const 120))))
          (i32.store8 offset=186 (local.get $to)
            (call $fd_seek (local.get $fd) (i64.const -1) (i32.const 0) (i32.add (local.get $to) (i32.const 128))))
          (i32.store8 offset=187 (local.get $to)
            (call $fd_seek (local.get $fd) (i64.const 0) (i32.const 3) (i32.add (local.get $to) (i32.const 128))))
          (i32.store8 offset=188 (local.get $to)
            (call $fd_seek (local.get $fd) (i64.const 0) (i32.const 2) (i32.add (local.get $to) (i32.const 136))))
          (i32.store8 offset=189 (local.get $to)
            (call $fd_read (local.get $fd) (i32.const 16) (i32.const 1) (i32.add (local.get $to) (i32.const 144))))
          (i32.store8 offset=190 (local.get $to) (call $write (local.get $fd) (i32.const 500) (i32.const 6)))
          (i32.store8 offset=191 (local.get $to)
            (call $fd_prestat_dir_name (local.get $fd) (i32.const 600) (i32.const 9)))
          (i32.store8 offset=192 (local.get $to) (call $path_filestat_get (i32.const 3) (i32.const 1)
            (i32.const 500) (i32.const 6) (i32.const 600)))
          ;; The path leads to the same file.
          (i64.store offset=152 (local.get $to) (i64.load (i32.const 608)))
          (i32.store8 offset=193 (local.get $to) (call $path_filestat_get (local.get $fd) (i32.const 1)
            (i32.const 500) (i32.const 6) (i32.const 600))))
        (func (export "_start") (local $fd i32)
          (if (call $path_open (i32.const 3) (i32.const 1) (i32.const 500) (i32.const 6) (i32.const 0)
              (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 40))
            (then unreachable))
          (local.set $fd (i32.load (i32.const 40)))
          ;; The time of the first access changes with the first read.
          (call $vector (i32.const 600) (i32.const 1))
          (drop (call $fd_read (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24)))
          (call $look (local.get $fd) (i32.const 1000))
          (if (call $fd_seek (local.get $fd) (i64.const 5) (i32.const 0) (i32.const 48)) (then unreachable))
          (if (call $fd_advise (local.get $fd) (i64.const 0) (i64.const 0) (i32.const 0)) (then unreachable))
          (if (call $fd_tell (local.get $fd) (i32.const 1400)) (then unreachable))
          (call $look (local.get $fd) (i32.const 1200))
          (drop (call $write (i32.const 1) (i32.const 1000) (i32.const 408)))))"#,
        imports = imports.concat(),
        shared = common::IMPORTS,
    ));
    let exit = run(&module, given(folder.path()));
    assert!(exit.success(), "{}", exit.status);
    let output = exit.stdout_bytes();
    let (before, after) = (&output[..200], &output[200..400]);
    assert_eq!(before, after, "the answers differ");
    assert_eq!(output[400..408], 5_u64.to_le_bytes(), "its place is kept");
    let word = |at: usize| u64::from_le_bytes(before[at..at + 8].try_into().expect("eight bytes"));
    assert_eq!(before[0], 4, "a regular file");
    assert_eq!((word(24), word(40) & 0xff, word(56)), (1, 4, 10));
    assert_eq!(
        (word(88), &before[96..99], before[100]),
        (2, &b"234"[..], 3)
    );
    assert_eq!(
        (word(104), &before[112..116], before[120]),
        (5, &b"6789"[..], 4)
    );
    assert_eq!((word(136), before[144]), (10, 0));
    assert_eq!(word(152), word(32), "the number of the file");
    assert_eq!(before[180..186], [0; 6]);
    const BADF: u8 = 8;
    const INVAL: u8 = 28;
    const NOTDIR: u8 = 54;
    assert_eq!(before[186..190], [INVAL, INVAL, 0, 0]);
    assert_eq!(before[190], BADF);
    assert_eq!(before[191..193], [NOTDIR, 0]);
}

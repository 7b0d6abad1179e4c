//! Calls on paths.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Config, ServedDirectory};
use everwarp_process::Directory;

use crate::world::{CREATE, DIR, READ, READ_WRITE, World};

const DIRECTORY: u64 = 2;
const EXCLUSIVE: u64 = 4;
const TRUNCATE: u64 = 8;
const FOLLOW: u64 = 1;

#[test]
fn opening_creates_truncates_and_excludes() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    let open = |oflags: u64, rights: u64| [DIR, FOLLOW, oflags, 0, rights, 0];
    let path_open = number::PATH_OPEN;
    process.fails(e::ERRNO_NOENT, path_open, &open(0, READ), "file");
    process.get(path_open, &open(CREATE | EXCLUSIVE, READ_WRITE), "file");
    process.fails(
        e::ERRNO_EXIST,
        path_open,
        &open(CREATE | EXCLUSIVE, READ_WRITE),
        "file",
    );
    fs::write(beneath.join("file"), "text").expect("a file");
    process.get(path_open, &open(0, READ), "file");
    assert_eq!(fs::read(beneath.join("file")).expect("a file"), b"text");
    process.get(path_open, &open(TRUNCATE, READ_WRITE), "file");
    assert_eq!(fs::read(beneath.join("file")).expect("a file"), b"");

    process.fails(e::ERRNO_NOTDIR, path_open, &open(DIRECTORY, READ), "file");
    process.fails(
        e::ERRNO_INVAL,
        path_open,
        &open(DIRECTORY | CREATE, READ),
        "dir",
    );
    process.fails(e::ERRNO_ISDIR, path_open, &open(0, READ_WRITE), ".");
    process.fails(e::ERRNO_INVAL, path_open, &open(16, READ), "file");
    process.fails(e::ERRNO_INVAL, path_open, &open(0, 1 << 40), "file");
    process.fails(e::ERRNO_INVAL, path_open, &[DIR, 2, 0, 0, READ, 0], "file");
    process.fails(
        e::ERRNO_NOTSUP,
        path_open,
        &[DIR, 0, 0, 16, READ, 0],
        "file",
    );
    process.fails(e::ERRNO_NOENT, path_open, &open(0, READ), "");
    process.fails(e::ERRNO_INVAL, path_open, &open(0, READ), "nul\0here");
    process.fails(e::ERRNO_ILSEQ, path_open, &open(0, READ), b"\xff\xfe");
    process.fails(
        e::ERRNO_NAMETOOLONG,
        path_open,
        &open(CREATE, READ_WRITE),
        "x".repeat(300),
    );
    process.fails(e::ERRNO_BADF, path_open, &[1, 0, 0, 0, READ, 0], "file");
    let file = process.create("file");
    process.fails(e::ERRNO_NOTDIR, path_open, &[file, 0, 0, 0, READ, 0], "x");
}

#[test]
fn opening_a_pipe_without_a_reader_does_not_block() {
    let (world, process) = World::with_process();
    let pipe = world.root.path().join("beneath/pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
    let fd = process
        .get(number::PATH_OPEN, &[DIR, 0, 0, 0, READ, 0], "pipe")
        .values[0];
    process.fails(e::ERRNO_SPIPE, number::FD_READ, &[fd, 1], "");
    process.get(number::FD_CLOSE, &[fd], "");
    process.fails(
        e::ERRNO_NXIO,
        number::PATH_OPEN,
        &[DIR, 0, 0, 0, 1 << 6, 0],
        "pipe",
    );
}

#[test]
fn directories_are_created_and_removed() {
    let (world, process) = World::with_process();
    let inner = world.root.path().join("beneath/outer/inner");
    process.get(number::PATH_CREATE_DIRECTORY, &[DIR], "outer");
    process.get(number::PATH_CREATE_DIRECTORY, &[DIR], "outer/inner");
    assert!(inner.is_dir());
    process.fails(
        e::ERRNO_EXIST,
        number::PATH_CREATE_DIRECTORY,
        &[DIR],
        "outer",
    );
    process.fails(
        e::ERRNO_NOENT,
        number::PATH_CREATE_DIRECTORY,
        &[DIR],
        "no/inner",
    );
    process.fails(
        e::ERRNO_NOTEMPTY,
        number::PATH_REMOVE_DIRECTORY,
        &[DIR],
        "outer",
    );
    process.fails(e::ERRNO_ISDIR, number::PATH_UNLINK_FILE, &[DIR], "outer");
    // A descriptor of a directory is a place to begin from, as the given one is.
    let outer = process
        .get(number::PATH_OPEN, &[DIR, 0, DIRECTORY, 0, READ, 0], "outer")
        .values[0];
    process.get(number::PATH_REMOVE_DIRECTORY, &[outer], "inner");
    assert!(!inner.exists());
    process.fails(
        e::ERRNO_NOENT,
        number::PATH_REMOVE_DIRECTORY,
        &[outer],
        "inner",
    );
    process.fails(
        e::ERRNO_PERM,
        number::PATH_CREATE_DIRECTORY,
        &[outer],
        "../outside",
    );
    // Slashes at the end say that it is a directory and no more; `.` is not a name that can be removed.
    let remove = number::PATH_REMOVE_DIRECTORY;
    process.get(number::PATH_CREATE_DIRECTORY, &[outer], "inner");
    process.fails(e::ERRNO_INVAL, remove, &[outer], "inner/.");
    process.fails(e::ERRNO_PERM, remove, &[outer], "//");
    process.get(remove, &[outer], "inner//");
    assert!(!inner.exists());
    process.create("file");
    process.fails(e::ERRNO_NOTDIR, remove, &[DIR], "file");
    process.fails(e::ERRNO_NOTDIR, remove, &[DIR], "file/");
    process.get(number::PATH_UNLINK_FILE, &[DIR], "file");
    process.fails(e::ERRNO_NOENT, number::PATH_UNLINK_FILE, &[DIR], "file");
}

#[test]
fn links_of_both_kinds() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    fs::write(beneath.join("file"), "text").expect("a file");
    process.get(number::PATH_LINK, &[DIR, 0, 4, DIR], "filehard");
    assert_eq!(
        fs::metadata(beneath.join("hard")).expect("a link").nlink(),
        2
    );
    process.get(number::PATH_SYMLINK, &[4, DIR], "filesoft");
    assert_eq!(
        fs::read_link(beneath.join("soft"))
            .expect("a link")
            .as_os_str(),
        "file"
    );
    let read = process.get(number::PATH_READLINK, &[DIR, 100], "soft");
    assert_eq!((read.values[0], &*read.data), (4, &b"file"[..]));
    assert_eq!(
        process.get(number::PATH_READLINK, &[DIR, 2], "soft").data,
        b"fi"
    );

    let kind = |flags: u64| {
        process
            .get(number::PATH_FILESTAT_GET, &[DIR, flags], "soft")
            .data[16]
    };
    assert_eq!((kind(0), kind(FOLLOW)), (7, 4));
    process.fails(
        e::ERRNO_LOOP,
        number::PATH_OPEN,
        &[DIR, 0, 0, 0, READ, 0],
        "soft",
    );
    let fd = process
        .get(number::PATH_OPEN, &[DIR, FOLLOW, 0, 0, READ, 0], "soft")
        .values[0];
    assert_eq!(process.get(number::FD_READ, &[fd, 9], "").data, b"text");

    process.fails(
        e::ERRNO_EXIST,
        number::PATH_LINK,
        &[DIR, 0, 4, DIR],
        "filehard",
    );
    process.fails(
        e::ERRNO_INVAL,
        number::PATH_LINK,
        &[DIR, FOLLOW, 4, DIR],
        "filehard2",
    );
    process.fails(
        e::ERRNO_INVAL,
        number::PATH_LINK,
        &[DIR, 0, 9, DIR],
        "filehard",
    );
    process.fails(
        e::ERRNO_NOENT,
        number::PATH_LINK,
        &[DIR, 0, 2, DIR],
        "nonew",
    );
    process.fails(
        e::ERRNO_BADF,
        number::PATH_LINK,
        &[DIR, 0, 4, 1],
        "filehard3",
    );
    process.fails(e::ERRNO_EXIST, number::PATH_SYMLINK, &[4, DIR], "filesoft");
    process.fails(e::ERRNO_INVAL, number::PATH_READLINK, &[DIR, 9], "file");
    process.fails(e::ERRNO_NOENT, number::PATH_READLINK, &[DIR, 9], "none");
}

#[test]
fn renaming_moves_and_replaces() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    fs::write(beneath.join("old"), "text").expect("a file");
    fs::create_dir(beneath.join("dir")).expect("a directory");
    process.get(number::PATH_RENAME, &[DIR, 3, DIR], "olddir/new");
    assert_eq!(fs::read(beneath.join("dir/new")).expect("a file"), b"text");
    assert!(!beneath.join("old").exists());
    process.fails(
        e::ERRNO_NOENT,
        number::PATH_RENAME,
        &[DIR, 3, DIR],
        "oldnew",
    );
    process.create("file");
    process.fails(
        e::ERRNO_NOTDIR,
        number::PATH_RENAME,
        &[DIR, 3, DIR],
        "dirfile",
    );
    process.fails(e::ERRNO_BADF, number::PATH_RENAME, &[2, 3, DIR], "dirfile");
}

#[test]
fn stat_and_times_of_a_path() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    fs::write(beneath.join("file"), "text").expect("a file");
    symlink("file", beneath.join("soft")).expect("a link");
    let set = |flags: u64| [DIR, flags, 3_000_000_007, 4_000_000_000, 0b101];
    process.get(number::PATH_FILESTAT_SET_TIMES, &set(FOLLOW), "soft");
    let file = fs::metadata(beneath.join("file")).expect("a file");
    assert_eq!((file.atime(), file.atime_nsec(), file.mtime()), (3, 7, 4));
    assert!(
        fs::symlink_metadata(beneath.join("soft"))
            .expect("a link")
            .mtime()
            > 1_000_000
    );
    process.get(number::PATH_FILESTAT_SET_TIMES, &set(0), "soft");
    assert_eq!(
        fs::symlink_metadata(beneath.join("soft"))
            .expect("a link")
            .mtime(),
        4
    );

    let stat = process
        .get(number::PATH_FILESTAT_GET, &[DIR, 0], "file")
        .data;
    assert_eq!(stat[8..16], file.ino().to_le_bytes());
    assert_eq!(stat[32..40], 4_u64.to_le_bytes());
    process.fails(e::ERRNO_NOENT, number::PATH_FILESTAT_GET, &[DIR, 0], "none");
    process.fails(e::ERRNO_INVAL, number::PATH_FILESTAT_GET, &[DIR, 2], "file");
    process.fails(
        e::ERRNO_NOENT,
        number::PATH_FILESTAT_SET_TIMES,
        &set(0),
        "none",
    );
    process.fails(
        e::ERRNO_INVAL,
        number::PATH_FILESTAT_SET_TIMES,
        &[DIR, 0, 0, 0, 0b1100],
        "file",
    );
    process.get(
        number::FD_FILESTAT_SET_TIMES,
        &[DIR, 0, 5_000_000_000, 0b100],
        "",
    );
    assert_eq!(fs::metadata(&beneath).expect("a directory").mtime(), 5);
}

#[test]
fn nothing_beneath_a_read_only_directory_changes() {
    let (world, _) = World::with_process();
    let beneath = world.root.path().join("beneath");
    fs::write(beneath.join("file"), "text").expect("a file");
    let directory = Directory::open(&beneath, "/data").expect("it is there");
    let directory = ServedDirectory::of(&directory.read_only(true));
    let config = Config {
        directories: vec![directory.expect("a descriptor")],
        ..world.config()
    };
    let process = world.open(2, 1, config);
    let open = |oflags: u64, rights: u64| [DIR, FOLLOW, oflags, 0, rights, 0];
    let file = process
        .get(number::PATH_OPEN, &open(0, READ), "file")
        .values[0];
    assert_eq!(process.get(number::FD_READ, &[file, 9], "").data, b"text");
    for (call, args, payload) in [
        (number::PATH_OPEN, &open(0, READ_WRITE)[..], "file"),
        (number::PATH_OPEN, &open(CREATE, READ), "new"),
        (number::PATH_OPEN, &open(TRUNCATE, READ), "file"),
        (number::FD_FILESTAT_SET_SIZE, &[file, 0], ""),
        (number::FD_FILESTAT_SET_TIMES, &[file, 0, 0, 2], ""),
        (number::FD_FILESTAT_SET_TIMES, &[DIR, 0, 0, 2], ""),
        (number::PATH_CREATE_DIRECTORY, &[DIR], "new"),
        (number::PATH_REMOVE_DIRECTORY, &[DIR], "new"),
        (number::PATH_UNLINK_FILE, &[DIR], "file"),
        (number::PATH_FILESTAT_SET_TIMES, &[DIR, 0, 0, 0, 2], "file"),
        (number::PATH_LINK, &[DIR, 0, 4, DIR], "filenew"),
        (number::PATH_RENAME, &[DIR, 4, DIR], "filenew"),
        (number::PATH_SYMLINK, &[4, DIR], "filenew"),
    ] {
        process.fails(e::ERRNO_PERM, call, args, payload);
    }
    assert_eq!(fs::read_dir(&beneath).expect("a directory").count(), 1);
    // What is opened beneath is read-only too.
    let dir = process
        .get(number::PATH_OPEN, &open(DIRECTORY, READ), ".")
        .values[0];
    process.fails(e::ERRNO_PERM, number::PATH_CREATE_DIRECTORY, &[dir], "new");
}

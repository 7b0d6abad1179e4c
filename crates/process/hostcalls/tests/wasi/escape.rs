//! No path leaves its directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;

use crate::world::{CREATE, DIR, Process, READ, READ_WRITE, World};

const FOLLOW: u64 = 1;

/// A world with a secret next to the directory, and ways to it.
fn with_secret() -> (World, Process) {
    let (world, process) = World::with_process();
    let root = world.root.path();
    fs::write(root.join("secret"), "secret").expect("a file");
    fs::create_dir(root.join("beneath/dir")).expect("a directory");
    symlink("../secret", root.join("beneath/up")).expect("a link");
    symlink(root.join("secret"), root.join("beneath/absolute")).expect("a link");
    symlink("..", root.join("beneath/parent")).expect("a link");
    symlink("up", root.join("beneath/twice")).expect("a link");
    symlink("/proc/self/root", root.join("beneath/magic")).expect("a link");
    (world, process)
}

fn ways(world: &World) -> Vec<String> {
    let mut ways: Vec<String> = [
        "../secret",
        "dir/../../secret",
        "./.././secret",
        "dir/../../beneath/../secret",
        "up",
        "absolute",
        "twice",
        "parent/secret",
        "dir/../parent/secret",
        "/etc/passwd",
        "//etc/passwd",
        "magic/etc/passwd",
        "../beneath/../secret",
    ]
    .map(String::from)
    .into();
    ways.push(world.root.path().join("secret").display().to_string());
    ways
}

#[test]
fn no_call_leaves_its_directory() {
    let (world, process) = with_secret();
    process.create("own");
    for way in ways(&world) {
        let both = |first: &str, second: &str| format!("{first}{second}");
        let open = |oflags: u64, rights: u64| [DIR, FOLLOW, oflags, 0, rights, 0];
        process.fails(e::ERRNO_PERM, number::PATH_OPEN, &open(0, READ), &way);
        process.fails(
            e::ERRNO_PERM,
            number::PATH_OPEN,
            &open(CREATE, READ_WRITE),
            &way,
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_FILESTAT_GET,
            &[DIR, FOLLOW],
            &way,
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_FILESTAT_SET_TIMES,
            &[DIR, FOLLOW, 0, 0, 8],
            &way,
        );
        if ["up", "absolute", "twice"].contains(&&*way) {
            // These are links in the directory itself, which calls that do not follow links may change.
            continue;
        }
        process.fails(e::ERRNO_PERM, number::PATH_UNLINK_FILE, &[DIR], &way);
        process.fails(
            e::ERRNO_PERM,
            number::PATH_CREATE_DIRECTORY,
            &[DIR],
            both(&way, "-new"),
        );
        process.fails(e::ERRNO_PERM, number::PATH_REMOVE_DIRECTORY, &[DIR], &way);
        process.fails(e::ERRNO_PERM, number::PATH_READLINK, &[DIR, 100], &way);
        process.fails(e::ERRNO_PERM, number::PATH_FILESTAT_GET, &[DIR, 0], &way);
        let length = way.len() as u64;
        process.fails(
            e::ERRNO_PERM,
            number::PATH_LINK,
            &[DIR, 0, length, DIR],
            both(&way, "mine"),
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_LINK,
            &[DIR, 0, 3, DIR],
            both("own", &way),
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_RENAME,
            &[DIR, length, DIR],
            both(&way, "mine"),
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_RENAME,
            &[DIR, 3, DIR],
            both("own", &way),
        );
        process.fails(
            e::ERRNO_PERM,
            number::PATH_SYMLINK,
            &[3, DIR],
            both("own", &way),
        );
    }
    // A link to an absolute path is refused when it is made, because others would follow it.
    process.fails(e::ERRNO_PERM, number::PATH_SYMLINK, &[4, DIR], "/etclink");
    assert_eq!(
        fs::read(world.root.path().join("secret")).expect("a file"),
        b"secret"
    );
    let mut left: Vec<_> = fs::read_dir(world.root.path())
        .expect("a directory")
        .flatten()
        .collect();
    left.sort_by_key(fs::DirEntry::file_name);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(world.root.path().join("beneath/own").exists());
}

/// Another thread swaps a directory for a link to the outside while a process opens paths through it.
#[test]
fn no_race_leaves_its_directory() {
    let (world, process) = with_secret();
    let root = world.root.path();
    fs::write(root.join("beneath/dir/secret"), "public").expect("a file");
    symlink(root, root.join("beneath/trap")).expect("a link");
    let done = AtomicBool::new(false);
    let read = thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (dir, trap) = (root.join("beneath/dir"), root.join("beneath/trap"));
            while !done.load(Relaxed) {
                renameat_with(CWD, &dir, CWD, &trap, RenameFlags::EXCHANGE)
                    .expect("both are there");
            }
        });
        let mut read = 0;
        for _ in 0..2000 {
            let reply = process.ask(
                number::PATH_OPEN,
                &[DIR, FOLLOW, 0, 0, READ, 0],
                "dir/secret",
            );
            if reply.errno == 0 {
                let fd = reply.values[0];
                assert_eq!(process.get(number::FD_READ, &[fd, 9], "").data, b"public");
                process.get(number::FD_CLOSE, &[fd], "");
                read += 1;
            }
        }
        done.store(true, Relaxed);
        read
    });
    assert!(read > 0, "the directory was never in its place");
}

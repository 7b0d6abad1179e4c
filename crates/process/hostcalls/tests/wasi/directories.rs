//! Listing directories.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;

use crate::world::{DIR, Process, READ, World};

const HEAD: usize = 24;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// One entry: its cookie, inode, type and name.
type Entry = (u64, u64, u8, String);

/// The complete entries in a process's buffer.
fn entries(mut bytes: &[u8]) -> Vec<Entry> {
    let mut all = Vec::new();
    while bytes.len() >= HEAD {
        let length = u32::from_le_bytes(bytes[16..20].try_into().expect("4 bytes")) as usize;
        let Some(name) = bytes.get(HEAD..HEAD + length) else {
            break;
        };
        let name = String::from_utf8(name.to_vec()).expect("tests write text");
        all.push((word(bytes), word(&bytes[8..]), bytes[20], name));
        bytes = &bytes[HEAD + length..];
    }
    all
}

/// The listing that a process gets with a buffer of `size` bytes, which the device fills in pieces of `piece` bytes.
fn list(process: &Process, size: usize, piece: usize) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let mut buffer = Vec::new();
        while buffer.len() < size {
            let asked = piece.min(size - buffer.len());
            let args = [DIR, asked as u64, cookie, buffer.len() as u64];
            let reply = process.get(number::FD_READDIR, &args, "");
            assert_eq!(reply.values[0], reply.data.len() as u64);
            buffer.extend_from_slice(&reply.data);
            if reply.data.len() < asked {
                break;
            }
        }
        let whole = entries(&buffer);
        assert!(
            buffer.len() < size || !whole.is_empty(),
            "an entry is larger than the buffer"
        );
        cookie = whole.last().map_or(cookie, |last| last.0);
        all.extend(whole);
        if buffer.len() < size {
            return all;
        }
    }
}

#[test]
fn every_entry_is_listed_once_with_any_buffer() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    let mut names = BTreeSet::from([".".to_owned(), "..".to_owned()]);
    for index in 0..300 {
        let name = format!("{}-{index}", "n".repeat(index % 40));
        fs::write(beneath.join(&name), "").expect("a file");
        names.insert(name);
    }
    fs::create_dir(beneath.join("dir")).expect("a directory");
    symlink("dir", beneath.join("link")).expect("a link");
    names.extend(["dir".to_owned(), "link".to_owned()]);

    let whole = list(&process, 1 << 16, 8192);
    assert_eq!(whole.len(), 304);
    assert_eq!(
        whole
            .iter()
            .map(|entry| entry.3.clone())
            .collect::<BTreeSet<_>>(),
        names
    );
    for (cookie, entry) in (1..).zip(&whole) {
        assert_eq!(entry.0, cookie);
        let metadata = fs::symlink_metadata(beneath.join(&entry.3)).expect("an entry");
        let kind = match &*entry.3 {
            "." | ".." | "dir" => 3,
            "link" => 7,
            _ => 4,
        };
        assert_eq!(entry.2, kind, "{}", entry.3);
        if entry.3 != ".." {
            assert_eq!(
                entry.1,
                std::os::unix::fs::MetadataExt::ino(&metadata),
                "{}",
                entry.3
            );
        }
    }
    assert_eq!((&*whole[0].3, &*whole[1].3), (".", ".."));
    for (size, piece) in [(100, 8192), (1000, 7), (20_000, 8192), (70, 64)] {
        assert_eq!(
            list(&process, size, piece),
            whole,
            "a buffer of {size} in pieces of {piece}"
        );
    }
}

#[test]
fn a_listing_does_not_change_until_it_is_taken_anew() {
    let (world, process) = World::with_process();
    let beneath = world.root.path().join("beneath");
    for name in ["one", "two"] {
        fs::write(beneath.join(name), "").expect("a file");
    }
    let first = process.get(number::FD_READDIR, &[DIR, 30, 0, 0], "").data;
    assert_eq!(first.len(), 30);
    fs::remove_file(beneath.join("one")).expect("it is there");
    fs::write(beneath.join("three"), "").expect("a file");
    let rest = process.get(number::FD_READDIR, &[DIR, 8192, 2, 0], "").data;
    let names: BTreeSet<_> = entries(&rest).into_iter().map(|entry| entry.3).collect();
    assert_eq!(names, BTreeSet::from(["one".into(), "two".into()]));
    let again = process.get(number::FD_READDIR, &[DIR, 8192, 0, 0], "").data;
    let names: BTreeSet<_> = entries(&again).into_iter().map(|entry| entry.3).collect();
    assert_eq!(
        names,
        BTreeSet::from([".".into(), "..".into(), "two".into(), "three".into()])
    );

    for cookie in [4, 5, u64::MAX] {
        assert_eq!(
            process
                .get(number::FD_READDIR, &[DIR, 8192, cookie, 0], "")
                .data,
            b""
        );
    }
    assert_eq!(
        process
            .get(number::FD_READDIR, &[DIR, 8192, 0, u64::MAX], "")
            .data,
        b""
    );
    let file = process.create("file");
    process.fails(e::ERRNO_BADF, number::FD_READDIR, &[file, 100, 0, 0], "");
    process.fails(e::ERRNO_BADF, number::FD_READDIR, &[1, 100, 0, 0], "");
    process.get(number::PATH_OPEN, &[DIR, 0, 2, 0, READ, 0], ".");
}

/// Seventeen descriptors list a directory, and sixteen listings are kept.
#[test]
fn the_oldest_of_many_listings_is_taken_anew() {
    let (world, process) = World::with_process();
    let open = [DIR, 0, 2, 0, READ, 0];
    let opened: Vec<u64> = (0..17)
        .map(|_| process.get(number::PATH_OPEN, &open, ".").values[0])
        .collect();
    let names = |fd: u64, cookie: u64| {
        let listed = process
            .get(number::FD_READDIR, &[fd, 8192, cookie, 0], "")
            .data;
        entries(&listed).len()
    };
    for fd in &opened {
        assert_eq!(names(*fd, 0), 2);
    }
    fs::write(world.root.path().join("beneath/new"), "").expect("a file");
    assert_eq!(names(opened[1], 1), 1, "the second oldest listing is kept");
    assert_eq!(
        names(opened[0], 1),
        2,
        "the oldest listing has been dropped"
    );
    assert_eq!(
        names(opened[1], 1),
        2,
        "it was taken anew, and the second was dropped for it"
    );
    assert_eq!(names(opened[16], 1), 1);
}

//! Calls on descriptors in general.

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Config, OpenError};
use everwarp_process::Pid;

use crate::world::{DIR, READ, World};

#[test]
fn a_given_directory_has_its_name() {
    let (_world, process) = World::with_process();
    assert_eq!(
        process.get(number::FD_PRESTAT_GET, &[DIR], "").values[0],
        5 << 32
    );
    assert_eq!(
        process.get(number::FD_PRESTAT_DIR_NAME, &[DIR, 5], "").data,
        b"/data"
    );
    process.fails(
        e::ERRNO_NAMETOOLONG,
        number::FD_PRESTAT_DIR_NAME,
        &[DIR, 4],
        "",
    );
    process.fails(e::ERRNO_NOTDIR, number::FD_PRESTAT_DIR_NAME, &[1, 9], "");
    process.fails(e::ERRNO_BADF, number::FD_PRESTAT_GET, &[1], "");
    process.fails(e::ERRNO_BADF, number::FD_PRESTAT_GET, &[4], "");
}

#[test]
fn fdstat_reports_type_flags_and_rights() {
    let (_world, process) = World::with_process();
    let fdstat = |fd: u64| process.get(number::FD_FDSTAT_GET, &[fd], "").values;
    // In these tests standard output counts as a terminal, and the other streams do not.
    assert_eq!(fdstat(0), [0, READ, READ]);
    assert_eq!(fdstat(1), [2, 1 << 6, 1 << 6]);
    assert_eq!(fdstat(2), [0, 1 << 6, 1 << 6]);
    let [kind, base, inheriting] = fdstat(DIR);
    assert_eq!((kind, base & READ, inheriting & READ), (3, 0, READ));
    process.create("file");
    let open = [DIR, 0, 0, 1 | 4, READ, 0];
    let file = process.get(number::PATH_OPEN, &open, "file").values[0];
    let [kind, base, inheriting] = fdstat(file);
    assert_eq!((kind, base & (READ | 1 << 6)), (4 | 5 << 16, READ));
    assert_eq!(base, inheriting);
    let dir = process
        .get(number::PATH_OPEN, &[DIR, 0, 2, 0, READ, 0], ".")
        .values[0];
    let [kind, base, _] = fdstat(dir);
    assert_eq!((kind, base & (1 << 2 | 1 << 6 | 1 << 14)), (3, 1 << 14));
    process.fails(e::ERRNO_BADF, number::FD_FDSTAT_GET, &[77], "");
    process.fails(e::ERRNO_INVAL, number::FD_FDSTAT_GET, &[1 << 40], "");
    process.fails(
        e::ERRNO_NOTSUP,
        number::FD_FDSTAT_SET_RIGHTS,
        &[file, 0, 0],
        "",
    );
    process.fails(e::ERRNO_BADF, number::FD_FDSTAT_SET_RIGHTS, &[1, 0, 0], "");
}

#[test]
fn filestat_of_a_stream_has_only_its_type() {
    let (_world, process) = World::with_process();
    for (fd, kind) in [(0, 0), (1, 2), (2, 0)] {
        let mut stat = process.get(number::FD_FILESTAT_GET, &[fd], "").data;
        assert_eq!((stat.len(), stat[16]), (64, kind));
        stat[16] = 0;
        assert_eq!(stat, [0; 64]);
    }
    assert_eq!(process.get(number::FD_FILESTAT_GET, &[DIR], "").data[16], 3);
}

#[test]
fn closing_and_renumbering() {
    let (_world, process) = World::with_process();
    let (first, second) = (process.create("first"), process.create("second"));
    process.get(number::FD_WRITE, &[second], "text");
    process.get(number::FD_RENUMBER, &[second, first], "");
    assert_eq!(
        process.get(number::FD_PREAD, &[first, 9, 0], "").data,
        b"text"
    );
    process.fails(e::ERRNO_BADF, number::FD_TELL, &[second], "");
    process.fails(e::ERRNO_BADF, number::FD_RENUMBER, &[second, first], "");
    process.fails(e::ERRNO_BADF, number::FD_RENUMBER, &[first, 50], "");
    process.get(number::FD_RENUMBER, &[first, first], "");
    process.get(number::FD_CLOSE, &[first], "");
    process.fails(e::ERRNO_BADF, number::FD_CLOSE, &[first], "");
    process.get(number::FD_CLOSE, &[1], "");
    process.fails(e::ERRNO_BADF, number::FD_WRITE, &[1], "x");
    assert_eq!(process.create("third"), 1);
}

#[test]
fn a_process_cannot_open_more_than_its_limit() {
    let (world, _) = World::with_process();
    let config = Config {
        handles: 5,
        ..world.config()
    };
    let process = world.open(2, 1, config.clone());
    let fd = process.create("one");
    let open = [DIR, 0, 1, 0, READ, 0];
    process.fails(e::ERRNO_MFILE, number::PATH_OPEN, &open, "never");
    assert!(!world.root.path().join("beneath/never").exists());
    process.get(number::FD_CLOSE, &[fd], "");
    assert_eq!(process.get(number::PATH_OPEN, &open, "two").values[0], fd);

    let few = Config {
        handles: 3,
        ..config
    };
    let refused = OpenError::TooFewHandles {
        handles: 3,
        given: 1,
    };
    let open = |slot, generation, config| world.service.open(Pid::new(slot, generation), config);
    assert_eq!(open(3, 1, few), Err(refused));
    let in_use = OpenError::InUse {
        process: Pid::new(2, 1),
    };
    assert_eq!(open(2, 2, world.config()), Err(in_use));
    let nowhere = OpenError::NoSuchSlot {
        slot: 4096,
        slots: 4096,
    };
    assert_eq!(open(4096, 1, world.config()), Err(nowhere));
}

#[test]
fn socket_calls_fail_on_every_descriptor() {
    let (_world, process) = World::with_process();
    for sock in number::SOCK_ACCEPT..=number::SOCK_SHUTDOWN {
        process.fails(e::ERRNO_NOTSOCK, sock, &[1], "");
        process.fails(e::ERRNO_NOTSOCK, sock, &[DIR], "");
        process.fails(e::ERRNO_BADF, sock, &[30], "");
    }
}

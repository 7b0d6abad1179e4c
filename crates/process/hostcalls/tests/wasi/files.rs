//! Calls on open files.

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::DATA_BYTES;

use crate::world::{CREATE, DIR, READ, READ_WRITE, World};

const APPEND: u64 = 1;

#[test]
fn written_bytes_are_read_and_offsets_move() {
    let (world, process) = World::with_process();
    let fd = process.create("file");
    assert_eq!(fd, 4);
    assert_eq!(
        process.get(number::FD_WRITE, &[fd], "hello world").values[0],
        11
    );
    assert_eq!(process.get(number::FD_TELL, &[fd], "").values[0], 11);
    assert_eq!(process.get(number::FD_SEEK, &[fd, 6, 0], "").values[0], 6);
    let read = process.get(number::FD_READ, &[fd, 3], "");
    assert_eq!((read.values[0], &*read.data), (3, &b"wor"[..]));
    assert_eq!(
        process
            .get(number::FD_SEEK, &[fd, (-1_i64).cast_unsigned(), 1], "")
            .values[0],
        8
    );
    assert_eq!(
        process
            .get(number::FD_SEEK, &[fd, (-4_i64).cast_unsigned(), 2], "")
            .values[0],
        7
    );
    assert_eq!(process.get(number::FD_READ, &[fd, 100], "").data, b"orld");
    assert_eq!(process.get(number::FD_READ, &[fd, 100], "").values[0], 0);
    assert_eq!(process.get(number::FD_PWRITE, &[fd, 2], "LL").values[0], 2);
    assert_eq!(process.get(number::FD_PREAD, &[fd, 4, 1], "").data, b"eLLo");
    assert_eq!(process.get(number::FD_TELL, &[fd], "").values[0], 11);
    let text = std::fs::read(world.root.path().join("beneath/file")).expect("it was created");
    assert_eq!(text, b"heLLo world");

    process.fails(
        e::ERRNO_INVAL,
        number::FD_SEEK,
        &[fd, (-1_i64).cast_unsigned(), 0],
        "",
    );
    process.fails(e::ERRNO_INVAL, number::FD_SEEK, &[fd, 0, 3], "");
    process.fails(e::ERRNO_INVAL, number::FD_READ, &[fd, 1 << 32], "");
    process.fails(e::ERRNO_INVAL, number::FD_PREAD, &[fd, 1, u64::MAX], "");
    process.fails(e::ERRNO_SPIPE, number::FD_SEEK, &[1, 0, 0], "");
    process.fails(e::ERRNO_SPIPE, number::FD_TELL, &[0], "");
    process.fails(e::ERRNO_SPIPE, number::FD_PREAD, &[0, 1, 0], "");
    process.fails(e::ERRNO_SPIPE, number::FD_PWRITE, &[1, 0], "x");
    process.fails(e::ERRNO_BADF, number::FD_READ, &[DIR, 1], "");
    process.fails(e::ERRNO_BADF, number::FD_WRITE, &[DIR], "x");
    process.fails(e::ERRNO_BADF, number::FD_WRITE, &[0], "x");
    process.fails(e::ERRNO_BADF, number::FD_READ, &[99, 1], "");
    process.fails(e::ERRNO_BADF, number::FD_TELL, &[DIR], "");
}

#[test]
fn reads_and_writes_beyond_an_area_are_short() {
    let (_world, process) = World::with_process();
    let fd = process.create("large");
    let bytes: Vec<u8> = (0..DATA_BYTES).map(|byte| byte as u8).collect();
    for round in 0..3_u64 {
        assert_eq!(
            process.get(number::FD_WRITE, &[fd], &bytes).values[0],
            8192,
            "round {round}"
        );
    }
    let read = process.get(number::FD_PREAD, &[fd, 20_000, 8192], "");
    assert_eq!(read.data, bytes);
}

#[test]
fn a_descriptor_allows_only_its_open_mode() {
    let (_world, process) = World::with_process();
    process.create("file");
    let open = |rights: u64| {
        process
            .get(number::PATH_OPEN, &[DIR, 0, 0, 0, rights, 0], "file")
            .values[0]
    };
    let (reader, writer) = (open(READ), open(1 << 6));
    process.fails(e::ERRNO_BADF, number::FD_WRITE, &[reader], "x");
    process.fails(e::ERRNO_BADF, number::FD_READ, &[writer, 1], "");
    process.fails(
        e::ERRNO_INVAL,
        number::FD_FILESTAT_SET_SIZE,
        &[reader, 1],
        "",
    );
}

#[test]
fn appended_bytes_come_after_the_end() {
    let (_world, process) = World::with_process();
    let fd = process.create("log");
    process.get(number::FD_WRITE, &[fd], "one ");
    let open = [DIR, 0, CREATE, APPEND, READ_WRITE, 0];
    let log = process.get(number::PATH_OPEN, &open, "log").values[0];
    process.get(number::FD_WRITE, &[log], "two ");
    process.get(number::FD_WRITE, &[fd], "TWO ");
    process.get(number::FD_PWRITE, &[log, 0], "three");
    assert_eq!(
        process.get(number::FD_PREAD, &[fd, 100, 0], "").data,
        b"one TWO three"
    );
    assert_eq!(process.get(number::FD_TELL, &[log], "").values[0], 8);

    // Without the flag the file is written at its offset again.
    process.get(number::FD_FDSTAT_SET_FLAGS, &[log, 0], "");
    process.get(number::FD_WRITE, &[log], "THREE");
    assert_eq!(
        process.get(number::FD_PREAD, &[fd, 100, 0], "").data,
        b"one TWO THREE"
    );
    process.fails(e::ERRNO_INVAL, number::FD_FDSTAT_SET_FLAGS, &[log, 16], "");
    process.fails(e::ERRNO_INVAL, number::FD_FDSTAT_SET_FLAGS, &[log, 32], "");
    process.fails(e::ERRNO_BADF, number::FD_FDSTAT_SET_FLAGS, &[1, 0], "");
}

#[test]
fn sizes_times_and_advice() {
    let (world, process) = World::with_process();
    let fd = process.create("file");
    process.get(number::FD_FILESTAT_SET_SIZE, &[fd, 5000], "");
    process.get(
        number::FD_FILESTAT_SET_TIMES,
        &[fd, 1_500_000_001, 2_000_000_000, 0b101],
        "",
    );
    let stat = process.get(number::FD_FILESTAT_GET, &[fd], "").data;
    let word =
        |index: usize| u64::from_le_bytes(stat[index * 8..][..8].try_into().expect("8 bytes"));
    assert_eq!(stat.len(), 64);
    assert_eq!((word(2), word(3), word(4)), (4, 1, 5000));
    assert_eq!((word(5), word(6)), (1_500_000_001, 2_000_000_000));
    let host = std::fs::metadata(world.root.path().join("beneath/file")).expect("it was created");
    assert_eq!(word(1), std::os::unix::fs::MetadataExt::ino(&host));

    // Only the time of modification is set, to now.
    process.get(number::FD_FILESTAT_SET_TIMES, &[fd, 7, 7, 0b1000], "");
    let stat = process.get(number::FD_FILESTAT_GET, &[fd], "").data;
    let word =
        |index: usize| u64::from_le_bytes(stat[index * 8..][..8].try_into().expect("8 bytes"));
    assert_eq!(word(5), 1_500_000_001);
    assert!(word(6) > 1_700_000_000_000_000_000);

    process.get(number::FD_ADVISE, &[fd, 0, 4096, 3], "");
    process.get(number::FD_SYNC, &[fd], "");
    process.get(number::FD_DATASYNC, &[fd], "");
    process.fails(e::ERRNO_INVAL, number::FD_ADVISE, &[fd, 0, 1, 6], "");
    process.fails(e::ERRNO_BADF, number::FD_ADVISE, &[DIR, 0, 1, 0], "");
    process.fails(e::ERRNO_BADF, number::FD_SYNC, &[DIR], "");
    process.fails(e::ERRNO_BADF, number::FD_DATASYNC, &[1], "");
    process.fails(e::ERRNO_NOTSUP, number::FD_ALLOCATE, &[fd, 0, 1], "");
    process.fails(e::ERRNO_BADF, number::FD_ALLOCATE, &[DIR, 0, 1], "");
    process.fails(
        e::ERRNO_INVAL,
        number::FD_FILESTAT_SET_TIMES,
        &[fd, 0, 0, 0b11],
        "",
    );
    process.fails(
        e::ERRNO_BADF,
        number::FD_FILESTAT_SET_TIMES,
        &[1, 0, 0, 0b10],
        "",
    );
    process.fails(
        e::ERRNO_INVAL,
        number::FD_FILESTAT_SET_SIZE,
        &[fd, u64::MAX],
        "",
    );
    process.fails(e::ERRNO_BADF, number::FD_FILESTAT_GET, &[9], "");
}

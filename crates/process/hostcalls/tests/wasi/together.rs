//! Reads and writes of many processes at once. A worker may do the reads together.

use std::io;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::Reads;

use crate::world::{DIR, READ, READ_WRITE, World};

const PROCESSES: u64 = 40;
const BYTES: usize = 4096;

/// The bytes that process `n` writes in round `round`.
fn page(n: u64, round: u64) -> Vec<u8> {
    let seed = n * 31 + round * 7;
    (0..BYTES as u64).map(|at| (seed + at * 3) as u8).collect()
}

#[test]
fn every_process_reads_what_it_wrote() {
    let world = World::new(64, 128, io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let processes: Vec<_> = (0..PROCESSES)
        .map(|n| world.open(n as u32, 1, world.config()))
        .collect();
    let open: Vec<_> = (0..PROCESSES)
        .map(|n| processes[n as usize].create(&format!("file{n}")))
        .collect();
    // All of them send before the first is answered, so that workers get many at a time.
    let all = |call: u32, args: &dyn Fn(u64) -> Vec<u64>, payload: &dyn Fn(u64) -> Vec<u8>| {
        let sent: Vec<_> = (0..PROCESSES)
            .map(|n| {
                let payload = payload(n);
                let process = &processes[n as usize];
                world
                    .device
                    .send(&process.request(call, &args(n), &payload))
            })
            .collect();
        let replies = sent.into_iter().map(|sent| world.device.receive(sent));
        replies.collect::<Vec<_>>()
    };
    let nothing = |_| Vec::new();
    for round in 0..20 {
        let written = all(number::FD_WRITE, &|n| vec![open[n as usize]], &|n| {
            page(n, round)
        });
        assert!(
            written
                .iter()
                .all(|r| (r.errno, r.values[0]) == (0, BYTES as u64))
        );
        let again = |n| page(n, round + 1);
        let at = (round + 1) * BYTES as u64;
        let written = all(number::FD_PWRITE, &|n| vec![open[n as usize], at], &again);
        assert!(
            written
                .iter()
                .all(|r| (r.errno, r.values[0]) == (0, BYTES as u64))
        );
        let there = |n| vec![open[n as usize], BYTES as u64, at];
        for (n, read) in all(number::FD_PREAD, &there, &nothing).iter().enumerate() {
            assert_eq!((read.errno, read.values[0]), (0, BYTES as u64));
            assert_eq!(read.data, page(n as u64, round + 1));
        }
        // The offset is after the bytes that were written with it; a read at the end of the file is short.
        let here = |n| vec![open[n as usize], BYTES as u64];
        for (n, read) in all(number::FD_READ, &here, &nothing).iter().enumerate() {
            assert_eq!((read.errno, &read.data), (0, &page(n as u64, round + 1)));
        }
        for read in all(number::FD_READ, &here, &nothing) {
            assert_eq!((read.errno, read.values[0], read.data.len()), (0, 0, 0));
        }
        let back = |n: u64| vec![open[n as usize], at, 0];
        assert!(
            all(number::FD_SEEK, &back, &nothing)
                .iter()
                .all(|r| r.values[0] == at)
        );
    }
    let closed = all(number::FD_CLOSE, &|n| vec![open[n as usize]], &nothing);
    assert!(closed.iter().all(|r| r.errno == 0));
    let gone = all(
        number::FD_PREAD,
        &|n| vec![open[n as usize], 1, 0],
        &nothing,
    );
    assert!(gone.iter().all(|r| r.errno == e::ERRNO_BADF));
}

/// One wrong request among many right ones gets its own error, and does not affect the others.
#[test]
fn wrong_requests_among_many_get_their_own_errors() {
    let world = World::new(64, 128, io::empty());
    let beneath = world.root.path().join("beneath");
    std::fs::create_dir(&beneath).expect("an empty directory");
    std::fs::write(beneath.join("file"), page(1, 1)).expect("it is writable");
    let processes: Vec<_> = (0..PROCESSES)
        .map(|n| world.open(n as u32, 1, world.config()))
        .collect();
    let open = |rights: u64| {
        let args = [DIR, 1, 0, 0, rights, 0];
        let open = |p: &crate::world::Process| p.get(number::PATH_OPEN, &args, "file");
        processes
            .iter()
            .map(|p| open(p).values[0])
            .collect::<Vec<_>>()
    };
    let (reading, writing) = (open(READ), open(READ_WRITE));
    for _ in 0..20 {
        let ask = |n: usize| match n % 5 {
            0 => (number::FD_PREAD, [reading[n], 100, 8], e::ERRNO_SUCCESS),
            1 => (
                number::FD_PREAD,
                [reading[n], 100, u64::MAX],
                e::ERRNO_INVAL,
            ),
            2 => (number::FD_PREAD, [77, 100, 8], e::ERRNO_BADF),
            3 => (number::FD_PWRITE, [reading[n], 0, 0], e::ERRNO_BADF),
            _ => (number::FD_PREAD, [writing[n], 100, 8], e::ERRNO_SUCCESS),
        };
        let sent: Vec<_> = (0..PROCESSES as usize)
            .map(|n| {
                let (call, args, _) = ask(n);
                let payload: &[u8] = if n % 5 == 3 { b"no" } else { b"" };
                world
                    .device
                    .send(&processes[n].request(call, &args, payload))
            })
            .collect();
        for (n, sent) in sent.into_iter().enumerate() {
            let reply = world.device.receive(sent);
            assert_eq!(reply.errno, ask(n).2, "request {n}");
            let right = reply.errno == 0 && n % 5 != 3;
            let expected = if right { &page(1, 1)[8..108] } else { &[] };
            assert_eq!(reply.data, expected, "request {n}");
        }
    }
}

#[test]
fn an_io_uring_is_used_if_the_system_gives_one() {
    let world = World::new(16, 32, io::empty());
    let server = world.server.as_ref().expect("it serves");
    let there = io_uring::IoUring::new(8).is_ok();
    assert_eq!(
        server.reads(),
        if there { crate::READS } else { Reads::Plain }
    );
}

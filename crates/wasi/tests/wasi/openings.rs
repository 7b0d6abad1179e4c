//! Processes that open more together than the system lets the program have open.

use std::time::{Duration, Instant};

use everwarp_contract::errno as e;
use everwarp_contract::hostcall as call;

use crate::device::Sent;
use crate::world::{CREATE, DIR, Process, READ_WRITE, World};

const OPEN: [u64; 6] = [DIR, 1, CREATE, 0, READ_WRITE, 0];

fn worlds(files: u64, count: u32) -> (World, Vec<Process>) {
    let (world, first) = World::with_process();
    world.service.limit_files(files);
    let others = 2..=count;
    let processes = others.map(|slot| world.open(slot, 1, world.config()));
    let processes = [first].into_iter().chain(processes).collect();
    (world, processes)
}

fn begin(world: &World, process: &Process) -> Sent {
    let ask = process.request(call::HOSTCALL_PATH_OPEN, &OPEN, b"file");
    world.device.send(&ask)
}

/// Waits until so many requests have been found to have to wait.
fn until_waiting(world: &World, count: u64) {
    let begun = Instant::now();
    while world.service.counts().waited < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits");
        std::thread::yield_now();
    }
}

#[test]
fn who_has_nothing_open_waits_until_others_close() {
    let (world, processes) = worlds(2, 3);
    let [first, second, third] = &processes[..] else {
        panic!("there are three");
    };
    let file = first.create("file");
    let second = begin(&world, second);
    until_waiting(&world, 1);
    let third = begin(&world, third);
    until_waiting(&world, 2);
    // The second place was kept, and there is none beyond.
    let other = first.create("other");
    first.fails(e::ERRNO_NFILE, call::HOSTCALL_PATH_OPEN, &OPEN, "third");
    first.get(call::HOSTCALL_FD_CLOSE, &[other], "");
    assert!(!world.device.is_answered(&second));
    first.get(call::HOSTCALL_FD_CLOSE, &[file], "");
    let reply = world.device.receive(second);
    assert_eq!((reply.errno, reply.values[0]), (0, DIR + 1));
    assert!(!world.device.is_answered(&third));
    // An end closes everything.
    processes[1].get(call::HOSTCALL_EXIT, &[0, 0], "");
    assert_eq!(world.device.receive(third).errno, 0);
}

#[test]
fn what_fails_makes_room_again() {
    let (world, processes) = worlds(2, 4);
    let file = processes[0].create("file");
    let missing = [DIR, 1, 0, 0, READ_WRITE, 0];
    let sent: Vec<_> = processes[1..]
        .iter()
        .map(|p| p.request(call::HOSTCALL_PATH_OPEN, &missing, b"missing"))
        .map(|ask| world.device.send(&ask))
        .collect();
    until_waiting(&world, 3);
    processes[0].get(call::HOSTCALL_FD_CLOSE, &[file], "");
    for sent in sent {
        assert_eq!(world.device.receive(sent).errno, e::ERRNO_NOENT);
    }
}

#[test]
fn who_is_ended_waits_no_longer() {
    let (world, processes) = worlds(2, 3);
    let _file = processes[0].create("file");
    let second = begin(&world, &processes[1]);
    let third = begin(&world, &processes[2]);
    until_waiting(&world, 2);
    world.service.interrupt(processes[1].slot, 1);
    assert_eq!(world.device.receive(second).errno, e::ERRNO_CANCELED);
    assert!(!world.device.is_answered(&third));
    world.service.cancel_waits();
    assert_eq!(world.device.receive(third).errno, e::ERRNO_CANCELED);
}

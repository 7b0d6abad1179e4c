//! Processes that together open more files than the system lets the program have open.

use std::time::{Duration, Instant};

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{self as call, number};
use everwarp_process::Pid;

use crate::device::Sent;
use crate::world::{CREATE, DIR, Process, READ_WRITE, World};

/// An opening that waits until there is room.
const PATIENT: u32 = number::PATH_OPEN | call::HOSTCALL_WAKE | call::HOSTCALL_PATIENT;
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
    let ask = process.request(PATIENT, &OPEN, b"file");
    world.device.send(&ask)
}

/// Waits until the service has found that `count` requests have to wait.
fn until_waiting(world: &World, count: u64) {
    let start = Instant::now();
    while world.service.counts().waited < count {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no request waits"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_process_without_open_files_waits_until_others_close() {
    let (world, processes) = worlds(2, 3);
    let [first, second, third] = &processes[..] else {
        panic!("there are three");
    };
    let file = first.create("file");
    let second = begin(&world, second);
    until_waiting(&world, 1);
    let third = begin(&world, third);
    until_waiting(&world, 2);
    // The second place was kept, and there is no third.
    let other = first.create("other");
    first.fails(e::ERRNO_NFILE, number::PATH_OPEN, &OPEN, "third");
    first.get(number::FD_CLOSE, &[other], "");
    assert!(!world.device.is_answered(&second));
    first.get(number::FD_CLOSE, &[file], "");
    let reply = world.device.receive(second);
    assert_eq!((reply.errno, reply.values[0]), (0, DIR + 1));
    assert!(!world.device.is_answered(&third));
    // An exit closes everything.
    processes[1].get(number::EXIT, &[0, 0], "");
    assert_eq!(world.device.receive(third).errno, 0);
}

#[test]
fn waiting_neighbours_are_served_together() {
    let world = World::new(64, 64, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    world.service.limit_files(2);
    let [first, far, near, next_to_far] =
        [0, 40, 2, 41].map(|slot| world.open(slot, 1, world.config()));
    let file = first.create("file");
    let sent = [&far, &near, &next_to_far];
    let [far_sent, near_sent, next_to_far_sent] = std::array::from_fn(|n| {
        let sent = begin(&world, sent[n]);
        until_waiting(&world, n as u64 + 1);
        sent
    });
    first.get(number::FD_CLOSE, &[file], "");
    let file = world.device.receive(far_sent).values[0];
    assert!(!world.device.is_answered(&next_to_far_sent));
    far.get(number::FD_CLOSE, &[file], "");
    let file = world.device.receive(next_to_far_sent).values[0];
    assert!(!world.device.is_answered(&near_sent));
    next_to_far.get(number::FD_CLOSE, &[file], "");
    assert_eq!(world.device.receive(near_sent).errno, 0);
}

/// A caller that is not patient may hold up the processes that would make room: while it waits on the spot, or, if it is
/// to be woken, because its neighbours go on together with it.
#[test]
fn an_opening_that_holds_up_others_must_come_again() {
    let (_world, processes) = worlds(2, 2);
    let file = processes[0].create("file");
    let open = |call| processes[1].ask(call, &OPEN, b"file").errno;
    assert_eq!(open(number::PATH_OPEN), call::HOSTCALL_LATER);
    let woken = number::PATH_OPEN | call::HOSTCALL_WAKE;
    assert_eq!(open(woken), call::HOSTCALL_LATER);
    processes[0].get(number::FD_CLOSE, &[file], "");
    assert_eq!(open(number::PATH_OPEN), 0);
}

#[test]
fn a_failed_opening_gives_its_place_back() {
    let (world, processes) = worlds(2, 4);
    let file = processes[0].create("file");
    let missing = [DIR, 1, 0, 0, READ_WRITE, 0];
    let sent: Vec<_> = processes[1..]
        .iter()
        .map(|p| p.request(PATIENT, &missing, b"missing"))
        .map(|ask| world.device.send(&ask))
        .collect();
    until_waiting(&world, 3);
    processes[0].get(number::FD_CLOSE, &[file], "");
    for sent in sent {
        assert_eq!(world.device.receive(sent).errno, e::ERRNO_NOENT);
    }
}

#[test]
fn a_process_that_ends_waits_no_longer() {
    let (world, processes) = worlds(2, 3);
    let _file = processes[0].create("file");
    let second = begin(&world, &processes[1]);
    let third = begin(&world, &processes[2]);
    until_waiting(&world, 2);
    world.service.interrupt(Pid::new(processes[1].slot, 1));
    assert_eq!(world.device.receive(second).errno, e::ERRNO_CANCELED);
    assert!(!world.device.is_answered(&third));
    world.service.cancel_waits();
    assert_eq!(world.device.receive(third).errno, e::ERRNO_CANCELED);
}

/// Many processes open a file each and exit, and few files may be open together.
#[test]
fn many_short_processes_all_open_their_files() {
    const THREADS: u32 = 32;
    const EACH: u32 = 40;
    let world = World::new(64, 64, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    std::fs::write(world.root.path().join("beneath/file"), "content").expect("a file");
    world.service.limit_files(6);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                for generation in 1..=EACH {
                    let process = world.open(thread, generation, world.config());
                    let file = process.get(PATIENT, &[DIR, 1, 0, 0, 2, 0], b"file");
                    let file = file.values[0];
                    let read = process.get(number::FD_READ, &[file, 100], b"");
                    assert_eq!(read.data, b"content");
                    process.get(number::FD_CLOSE, &[file], "");
                    process.get(number::EXIT, &[0, 0], "");
                    // The slot is free as soon as the exit has been answered.
                }
            });
        }
    });
    assert_eq!(
        world.told.exits((THREADS * EACH) as usize).len(),
        (THREADS * EACH) as usize
    );
}

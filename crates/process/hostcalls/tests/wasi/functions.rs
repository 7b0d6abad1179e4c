//! Processes that ask for functions which their image lacks.

use std::time::{Duration, Instant};

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{HOSTCALL_PATIENT, HOSTCALL_WAKE, number};
use everwarp_hostcalls::FunctionState::{self, Awaited, Present, Unavailable};
use everwarp_process::Pid;

use crate::device::Sent;
use crate::world::{Process, World};

const ASK: u32 = number::NEED_FUNCTION | HOSTCALL_WAKE | HOSTCALL_PATIENT;

fn worlds(count: u32) -> (World, Vec<Process>) {
    let world = World::new(4096, 8192, std::io::empty());
    std::fs::create_dir(world.root.path().join("beneath")).expect("an empty directory");
    let processes = (0..count).map(|slot| world.open(slot, 1, world.config()));
    let processes = processes.collect();
    (world, processes)
}

fn set(world: &World, function: u32, states: &[FunctionState]) {
    let mut functions = world.told.functions.lock().expect("no test panics there");
    functions.insert(function, states.to_vec());
}

fn ask(world: &World, process: &Process, function: u64) -> Sent {
    world.device.send(&process.request(ASK, &[function], b""))
}

/// Waits until the service has found that `count` requests have to wait.
fn until_waiting(world: &World, count: u64) {
    let start = Instant::now();
    while world.service.counts().waited < count {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "too few requests wait"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_thousand_processes_wait_for_functions_until_they_come() {
    let (world, processes) = worlds(1000);
    set(&world, 5, &[Awaited]);
    set(&world, 6, &[Awaited]);
    let of = |slot: usize| 5 + slot as u64 % 2;
    let sent = processes.iter().enumerate();
    let sent: Vec<_> = sent
        .map(|(slot, process)| ask(&world, process, of(slot)))
        .collect();
    until_waiting(&world, 1000);
    set(&world, 5, &[Present]);
    world.service.functions_changed();
    let (first, second): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .enumerate()
        .partition(|(slot, _)| of(*slot) == 5);
    for (_, sent) in first {
        assert_eq!(world.device.receive(sent).errno, 0);
    }
    assert!(
        second
            .iter()
            .all(|(_, sent)| !world.device.is_answered(sent))
    );
    set(&world, 6, &[Unavailable]);
    world.service.functions_changed();
    for (_, sent) in second {
        assert_eq!(world.device.receive(sent).errno, e::ERRNO_NOSYS);
    }
}

#[test]
fn a_function_that_comes_before_the_request_waits_is_noticed() {
    let (world, processes) = worlds(1);
    // The second look finds it, and no change is reported afterwards.
    set(&world, 5, &[Awaited, Present]);
    let sent = ask(&world, &processes[0], 5);
    assert_eq!(world.device.receive(sent).errno, 0);
}

#[test]
fn a_killed_process_does_not_wait_for_a_function() {
    let (world, processes) = worlds(2);
    set(&world, 5, &[Awaited]);
    let [killed, other] = [0, 1].map(|process| ask(&world, &processes[process], 5));
    until_waiting(&world, 2);
    world.service.interrupt(Pid::new(0, 1));
    assert_eq!(world.device.receive(killed).errno, e::ERRNO_CANCELED);
    assert!(!world.device.is_answered(&other));
    // From now on it waits for nothing, so that it ends whatever it asks for.
    let again = ask(&world, &processes[0], 5);
    assert_eq!(world.device.receive(again).errno, e::ERRNO_CANCELED);
    set(&world, 5, &[Present]);
    world.service.functions_changed();
    assert_eq!(world.device.receive(other).errno, 0);
}

#[test]
fn functions_that_no_host_knows_are_refused() {
    let (world, processes) = worlds(1);
    let sent = ask(&world, &processes[0], 9);
    assert_eq!(world.device.receive(sent).errno, e::ERRNO_NOSYS);
}

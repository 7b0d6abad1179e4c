//! Processes that other processes have spawned on the device.

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Captured, Config, Output};

use crate::world::World;

/// A subscription to the monotonic clock, an hour from now.
fn an_hour() -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[16..20].copy_from_slice(&1_u32.to_le_bytes());
    bytes[24..32].copy_from_slice(&3_600_000_000_000_u64.to_le_bytes());
    bytes
}

#[test]
fn a_child_has_its_ancestors_output_and_directories() {
    let (world, _) = World::with_process();
    let config = Config {
        stdout: Output::Capture { limit: 100 },
        ..world.config()
    };
    let ancestor = world.open(2, 7, config);
    let child = world.child(3, 5);
    child.fails(e::ERRNO_SRCH, number::FD_WRITE, &[1], "unknown");
    child.fails(e::ERRNO_SRCH, number::ADOPT, &[2, 8], "");
    child.fails(e::ERRNO_INVAL, number::ADOPT, &[1 << 32, 7], "");
    child.get(number::ADOPT, &[2, 7], "");
    child.fails(e::ERRNO_EXIST, number::ADOPT, &[2, 7], "");
    child.create("a file");
    child.get(number::FD_WRITE, &[1], "child, ");
    assert_eq!(child.get(number::FD_READ, &[0, 10], "").data, b"");
    child.get(number::EXIT, &[0, 0], "");
    // Its slot is used again.
    world.child(3, 6).get(number::ADOPT, &[2, 7], "");
    ancestor.get(number::EXIT, &[0, 0], "ancestor");
    let told = world.told.exits(2);
    let captured = Captured {
        bytes: b"child, ancestor".to_vec(),
        refused: false,
    };
    assert_eq!((told[0].0.slot(), &told[0].1.stdout), (3, &None));
    assert_eq!((told[1].0.slot(), &told[1].1.stdout), (2, &Some(captured)));
}

#[test]
fn a_process_that_is_to_end_does_not_wait() {
    let (world, parent) = World::with_process();
    let poll = number::POLL_ONEOFF;
    parent.fails(e::ERRNO_SRCH, number::INTERRUPT, &[4096, 1], "");
    // Before the host knows the child, and afterwards.
    for (generation, early) in [(1, true), (2, false)] {
        let child = world.child(3, generation);
        let named = [3, u64::from(generation)];
        if early {
            parent.get(number::INTERRUPT, &named, "");
        }
        child.get(number::ADOPT, &[1, 1], "");
        if !early {
            parent.get(number::INTERRUPT, &named, "");
        }
        child.fails(e::ERRNO_CANCELED, poll, &[1, 0, 0], an_hour());
        child.get(number::EXIT, &[2, 0], "");
    }
    // An interrupt of an older process does not affect the next one of the slot.
    parent.get(number::INTERRUPT, &[3, 3], "");
    let next = world.child(3, 4);
    next.get(number::ADOPT, &[1, 1], "");
    let mut now = an_hour();
    now[24..32].fill(0);
    assert_eq!(next.get(poll, &[1, 0, 0], now).values[0], 1);
    next.get(number::EXIT, &[0, 0], "");
    // A request from outside may be late, and must not hide the interrupt of a later process.
    for (last, earlier) in [(6, 5), (1, 0x7fff_ffff)] {
        for generation in [last, earlier] {
            let named = [3, u64::from(generation)];
            parent.get(number::INTERRUPT, &named, "");
        }
        let child = world.child(3, last);
        child.get(number::ADOPT, &[1, 1], "");
        child.fails(e::ERRNO_CANCELED, poll, &[1, 0, 0], an_hour());
        child.get(number::EXIT, &[2, 0], "");
    }
}

#[test]
fn call_off_cancels_only_the_wait_of_its_slot() {
    let (world, process) = World::with_process();
    let send = || {
        let hour = an_hour();
        let poll = process.request(number::POLL_ONEOFF, &[1, 0, 0], &hour);
        world.device.send(&poll)
    };
    let (first, second) = (send(), send());
    // Neither a slot that does not wait nor a slot of another process.
    process.get(number::CALL_OFF, &[0], "");
    let stranger = world.open(2, 1, Config::default());
    stranger.get(number::CALL_OFF, &[u64::from(second.slot)], "");
    process.get(number::CALL_OFF, &[u64::from(second.slot)], "");
    assert_eq!(world.device.receive(second).errno, e::ERRNO_CANCELED);
    assert!(!world.device.is_answered(&first));
    // The process goes on.
    process.get(number::FD_WRITE, &[1], "");
    process.get(number::CALL_OFF, &[u64::from(first.slot)], "");
    assert_eq!(world.device.receive(first).errno, e::ERRNO_CANCELED);
}

//! The ring itself.

use std::io;
use std::ptr::NonNull;
use std::thread;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::{self as call, EntryFields, number};
use everwarp_hostcalls::{Config, Ring, RingError, RingMemory, Woken};
use everwarp_process::Pid;

use crate::device::Ask;
use crate::world::World;

/// Few slots, few entries, many laps, and several threads that compete for both.
#[test]
fn every_request_gets_its_own_answer_over_many_laps() {
    for (slots, entries) in [(4, 4), (2, 8), (1, 1)] {
        let world = World::new(slots, entries, io::empty());
        let processes: Vec<_> = (0..3)
            .map(|slot| world.open(slot, 7, Config::default()))
            .collect();
        const ROUNDS: u64 = 4000;
        thread::scope(|scope| {
            for process in &processes {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let args = [round, u64::from(process.slot), !round];
                        let payload = vec![round as u8; (round * 37 % 200) as usize];
                        let reply = process.get(number::NOP, &args, &payload);
                        assert_eq!((reply.values, reply.data), (args, payload));
                    }
                });
            }
        });
        let counts = world.service.counts();
        assert_eq!(counts.calls[number::NOP as usize], 3 * ROUNDS);
        assert_eq!(
            (counts.bad_entries, counts.refused, counts.failed),
            (0, 0, 0)
        );
        assert_eq!(counts.bytes_in, counts.bytes_out);
    }
}

#[test]
fn a_parked_process_is_woken_after_its_answer() {
    let (world, process) = World::with_process();
    for call in [number::NOP, number::FD_TELL] {
        world
            .told
            .woken
            .lock()
            .expect("no test panics there")
            .clear();
        let sent = world
            .device
            .send(&process.request(call | call::HOSTCALL_WAKE, &[0], b""));
        let expected = Woken {
            process: Pid::new(1, 1),
            slot: sent.slot,
            sequence: sent.sequence,
        };
        while world
            .told
            .woken
            .lock()
            .expect("no test panics there")
            .is_empty()
        {
            thread::yield_now();
        }
        assert!(world.device.is_answered(&sent), "it was woken too early");
        assert_eq!(
            *world.told.woken.lock().expect("no test panics there"),
            [expected]
        );
        world.device.receive(sent);
    }
    // A process that polls is not woken.
    process.get(number::NOP, &[], "");
    assert_eq!(
        world.told.woken.lock().expect("no test panics there").len(),
        1
    );
}

#[test]
fn a_second_entry_for_a_busy_slot_is_bad() {
    let (reader, _writer) = io::pipe().expect("a pipe");
    let world = World::new(4, 8, reader);
    let stdin = everwarp_hostcalls::Input::Inherit;
    let process = world.open(
        0,
        1,
        Config {
            stdin,
            ..Config::default()
        },
    );
    let read = process.request(number::FD_READ, &[0, 1], b"");
    let sent = world.device.send(&read);
    while world.service.counts().waited == 0 {
        thread::yield_now();
    }
    // A second entry for the same slot, and entries for slots that do not exist.
    for slot in [sent.slot, 4, call::HOSTCALL_SLOTS_MOST - 1] {
        world.device.submit(&EntryFields {
            slot,
            ..EntryFields::default()
        });
    }
    process.get(number::NOP, &[], "");
    assert_eq!(world.service.counts().bad_entries, 3);
    assert!(!world.device.is_answered(&sent));
}

#[test]
fn unknown_processes_calls_and_sizes_are_refused_and_answered() {
    let (world, process) = World::with_process();
    let nop = process.request(number::NOP, &[], b"");
    for (ask, errno) in [
        (Ask { process: 2, ..nop }, e::ERRNO_SRCH),
        (
            Ask {
                process: u32::MAX,
                ..nop
            },
            e::ERRNO_SRCH,
        ),
        (
            Ask {
                generation: 2,
                ..nop
            },
            e::ERRNO_SRCH,
        ),
        (Ask { call: 0, ..nop }, e::ERRNO_NOSYS),
        (Ask { call: 63, ..nop }, e::ERRNO_NOSYS),
        (Ask { call: 0x7f, ..nop }, e::ERRNO_NOSYS),
        (
            Ask {
                data_bytes: 193,
                ..nop
            },
            e::ERRNO_INVAL,
        ),
        (
            Ask {
                data_bytes: 8193,
                payload: &[9; 200],
                ..nop
            },
            e::ERRNO_INVAL,
        ),
        (
            Ask {
                data_bytes: 0x3fff,
                ..nop
            },
            e::ERRNO_INVAL,
        ),
    ] {
        let reply = world.device.ask(&ask);
        assert_eq!((reply.errno, reply.data.len()), (errno, 0), "{ask:?}");
    }
    let counts = world.service.counts();
    assert_eq!((counts.refused, counts.failed), (9, 9));
    assert_eq!(
        process
            .get(number::NOP, &[1, 2, 3], vec![9; 8192])
            .data
            .len(),
        8192
    );
}

/// Such a request gets an answer, and its slot belongs to the device again.
#[test]
fn areas_that_do_not_exist_are_refused() {
    let (world, process) = World::with_process();
    for area in [17, call::HOSTCALL_AREAS_MOST] {
        for data_bytes in [0, 8] {
            let sent = world.device.send_in(
                &Ask {
                    data_bytes,
                    ..process.request(number::NOP, &[], b"")
                },
                area,
            );
            assert_eq!(world.device.receive(sent).errno, e::ERRNO_INVAL);
        }
    }
    assert_eq!(world.service.counts().refused, 4);
    process.get(number::NOP, &[1], "");
}

#[test]
fn wrong_counts_and_alignments_are_refused() {
    let memory = RingMemory {
        slots: NonNull::dangling(),
        areas: NonNull::<u64>::dangling().cast(),
        entries: NonNull::dangling(),
        slot_count: 4,
        area_count: 4,
        entry_count: 4,
    };
    let new = |memory: RingMemory| {
        // SAFETY: all of these are refused before anything is touched.
        unsafe { Ring::new(memory) }.err()
    };
    let counts = [
        (4, 3, 4),
        (5, 4, 4),
        (0, 4, 4),
        (4, 0, 4),
        (1, 1 << 31, 4),
        ((1 << 20) + 1, 1 << 21, 4),
        (4, 4, 1 << 17),
    ];
    for (slots, entries, areas) in counts {
        let refused = RingError::Counts {
            slots,
            entries,
            areas,
        };
        let found = new(RingMemory {
            slot_count: slots,
            entry_count: entries,
            area_count: areas,
            ..memory
        });
        assert_eq!(found, Some(refused));
    }
    // SAFETY: 8 and 1 are not null.
    let odd = unsafe { memory.areas.add(1) };
    let found = new(RingMemory {
        areas: odd,
        ..memory
    });
    assert_eq!(found, Some(RingError::Alignment));
}

//! A device that writes arbitrary requests.

use std::io;

use everwarp_contract::hostcall::{self as call, EntryFields, number};
use everwarp_hostcalls::DATA_BYTES;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::device::Ask;
use crate::world::World;

/// Mostly numbers that mean something, so that requests get far before they are refused.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..8_u64,
        1 => 0..9000_u64,
        1 => any::<u64>(),
        1 => any::<u32>().prop_map(u64::from),
        1 => Just(u64::MAX),
        1 => Just(i64::MAX.cast_unsigned()),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let component = prop_oneof![
        Just(".."),
        Just("."),
        Just("/"),
        Just("dir"),
        Just("file"),
        Just("link"),
        Just("\0")
    ];
    prop_oneof![
        2 => vec(component, 0..6).prop_map(|parts| parts.join("/").into_bytes()),
        1 => vec(any::<u8>(), 0..200),
        1 => vec(0..4_u8, 0..DATA_BYTES),
    ]
}

/// A request: process, generation, call, bytes, arguments, payload, and whether its length is true.
fn request() -> impl Strategy<Value = (u32, u32, u32, u32, Vec<u64>, Vec<u8>, bool)> {
    // `POLL_ONEOFF` is tested separately below, because its times may never come.
    let kind = prop_oneof![20 => 0..47_u32, 2 => 48..70_u32, 1 => any::<u32>()];
    let kind = kind.prop_filter("it may wait", |kind| {
        kind % call::HOSTCALL_PATIENT != number::POLL_ONEOFF
    });
    (
        prop_oneof![9 => 0..2_u32, 1 => any::<u32>()],
        prop_oneof![9 => Just(1_u32), 1 => any::<u32>()],
        kind,
        number().prop_map(|bytes| bytes as u32),
        vec(number(), 6),
        payload(),
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every request in a good entry is answered, bad entries are counted, nothing outside the directory changes, and
    /// afterwards an honest process is served as usual.
    #[test]
    fn arbitrary_requests_do_no_harm(
        requests in vec(request(), 1..60),
        entries in vec((4..call::HOSTCALL_SLOTS_MOST, any::<u32>()), 0..20),
        polls in vec(vec(any::<u8>(), 0..400), 0..4),
    ) {
        let world = World::new(4, 8, io::empty());
        let root = world.root.path();
        std::fs::create_dir_all(root.join("beneath/dir")).expect("directories");
        std::fs::write(root.join("file"), "outside").expect("a file");
        std::os::unix::fs::symlink("../file", root.join("beneath/link")).expect("a link");
        world.open(0, 1, world.config());
        world.open(1, 1, world.config());
        let honest = world.open(9, 1, world.config());
        for (index, (process, generation, call, lie, args, payload, truly)) in requests.iter().enumerate() {
            let ask = Ask {
                process: *process,
                generation: *generation,
                call: *call,
                data_bytes: if *truly { payload.len() as u32 } else { *lie },
                args: std::array::from_fn(|at| args[at]),
                payload,
            };
            let reply = world.device.ask(&ask);
            assert!(reply.errno < 77);
            if let Some((slot, any)) = entries.get(index) {
                let (slot, args) = (*slot, [u64::from(*any); 6]);
                world.device.submit(&EntryFields { process: *any, slot, area: *any, args, ..EntryFields::default() });
            }
        }
        // A poll that is refused or due is answered; the others are cancelled.
        for poll in &polls {
            let count = poll.len() as u64 / 48;
            let sent = world.device.send(&honest.request(number::POLL_ONEOFF, &[count], poll));
            while !world.device.is_answered(&sent) {
                world.service.cancel_waits();
            }
            world.device.receive(sent);
        }
        let reply = honest.get(number::NOP, &[1, 2, 3], "still there");
        assert_eq!(reply.data, b"still there");
        assert_eq!(honest.get(number::FD_READ, &[0, 9], "").data, b"typed");
        let bad = requests.len().min(entries.len()) as u64;
        assert_eq!(world.service.counts().bad_entries, bad);
        assert_eq!(std::fs::read(root.join("file")).expect("a file"), b"outside");
        assert_eq!(std::fs::read_dir(root).expect("a directory").count(), 2);
    }
}

//! Payloads: values whose ownership moves with messages. On a GPU handlers reach the elements of buffers, and the host ends what no
//! message has any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use everwarp::actor::{
    ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, DeadReason, Kind,
};
use everwarp::{Buffer, Device, Engine, Select};
use everwarp_programs::actor_broker::{
    BLOCKS, BROKERS, CARRIER, DevCarrier, FAIL, FORWARD, FORWARD_AND_FAIL, FRAME, NEXT, STEADY,
    TWICE, WARPS,
};

use crate::support::{Case, in_each_shape, launch, tell};

pub(crate) const ALL: &[Case] = in_each_shape![BROKERS, WARPS, BLOCKS;
    buffer_moves_from_actor_to_actor_and_back_to_the_host,
    payload_is_dropped_with_its_message,
    payload_that_was_passed_on_is_not_dropped,
    undone_handler_has_passed_nothing_on,
    payloads_of_dead_letters_are_dropped,
    payload_that_is_not_sent_comes_back,
    payloads_are_dropped_with_their_system,
];

const LONG: Duration = Duration::from_secs(60);
/// The kind of the actors of the host.
const HOST: u32 = STEADY + 1;

fn start(select: Select, program: &ActorProgram) -> (Engine, ActorSystem) {
    let program = program.with_kinds([Kind::host("host")]);
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program());
    let engine = engine.watchdog(LONG).start().expect("the engine starts");
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, &program, config).expect("it starts");
    (engine, system)
}
fn state(system: &ActorSystem, actor: ActorId) -> DevCarrier {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}
/// Waits until as many were dropped.
fn wait_for_drops(system: &ActorSystem, drops: &AtomicUsize, count: usize) {
    let begin = Instant::now();
    while drops.load(Ordering::Acquire) < count {
        system.settle().expect("it settles");
        assert!(begin.elapsed() < LONG, "{drops:?} of {count} were dropped");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(drops.load(Ordering::Acquire), count);
}

/// A payload whose drop is counted.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// An actor of the host that passes what it opens to a receiver.
fn opener<P: Send + 'static>(system: &ActorSystem) -> (ActorId, mpsc::Receiver<(u64, P)>) {
    let (sender, receiver) = mpsc::channel();
    let actor = system.launch_host(HOST, move |actor, message| {
        let payload = actor.open::<P>().expect("it has a payload of this type");
        // The case may be over.
        drop(sender.send((message.word(0), payload)));
    });
    (actor.expect("there is room"), receiver)
}

fn buffer_moves_from_actor_to_actor_and_back_to_the_host(select: Select, program: &ActorProgram) {
    const STAGES: u64 = 5;
    let (engine, system) = start(select, program);
    for kind in [CARRIER, STEADY] {
        let (last, results) = opener::<Buffer<u32>>(&system);
        let stages: [ActorId; STAGES as usize] = launch(&system, kind);
        let next = stages.iter().skip(1).chain([&last]);
        for (stage, next) in stages.iter().zip(next) {
            tell(&system, *stage, NEXT, &[next.bits()]);
        }
        for frame in 0..20_u32 {
            let elements: Vec<u32> = (0..50).map(|i| 100 * frame + i).collect();
            let buffer = engine.buffer(elements.len()).expect("there is memory");
            buffer.write(&elements).expect("it has that length");
            let sent = system.tell_buffer(stages[0], FRAME, &[0], buffer);
            sent.expect("it lives");
        }
        for frame in 0..20_u32 {
            let (hops, buffer) = results.recv_timeout(LONG).expect("it comes");
            assert_eq!(hops, STAGES);
            let got = buffer.read().expect("the engine runs");
            let expected: Vec<u32> = (0..50).map(|i| 100 * frame + i + STAGES as u32).collect();
            assert_eq!(got, expected);
        }
        let first: u64 = (0..20)
            .flat_map(|f| (0..50).map(move |i| 100 * f + i))
            .sum();
        for (number, stage) in (0..).zip(stages) {
            let state = state(&system, stage);
            assert_eq!((state.count, state.elements, state.plain), (20, 1000, 0));
            assert_eq!(state.sum, first + 1000 * number);
        }
    }
}

fn payload_is_dropped_with_its_message(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let drops = Arc::new(AtomicUsize::new(0));
    for (kind, count) in [(CARRIER, 30), (STEADY, 60)] {
        let [actor] = launch(&system, kind);
        for _ in 0..30 {
            let sent = system.tell_with(actor, 0, &[7], Counted(drops.clone()));
            sent.expect("it lives");
        }
        wait_for_drops(&system, &drops, count);
        let state = state(&system, actor);
        assert_eq!((state.count, state.plain), (30, 0));
    }
    // A handler that fails, for the last time.
    let [actor] = launch(&system, STEADY);
    let sent = system.tell_with(actor, FAIL, &[], Counted(drops.clone()));
    sent.expect("it lives");
    wait_for_drops(&system, &drops, 61);
}

fn payload_that_was_passed_on_is_not_dropped(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let drops = Arc::new(AtomicUsize::new(0));
    for tag in [FORWARD, FORWARD_AND_FAIL] {
        let (last, results) = opener::<Counted>(&system);
        let [actor] = launch(&system, CARRIER);
        tell(&system, actor, NEXT, &[last.bits()]);
        let sent = system.tell_with(actor, tag, &[9], Counted(drops.clone()));
        sent.expect("it lives");
        let (word, payload) = results.recv_timeout(LONG).expect("it comes");
        assert_eq!((word, drops.load(Ordering::Acquire)), (9, 0));
        std::mem::forget(payload);
    }
    // Once, however often its message is passed on.
    let [actor, next] = launch(&system, CARRIER);
    tell(&system, actor, NEXT, &[next.bits()]);
    let sent = system.tell_with(actor, TWICE, &[], Counted(drops.clone()));
    sent.expect("it lives");
    // The next one passes both on to an actor that does not live.
    wait_for_drops(&system, &drops, 1);
    let state = state(&system, next);
    assert_eq!((state.count, state.plain), (2, 1));
}

fn undone_handler_has_passed_nothing_on(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let drops = Arc::new(AtomicUsize::new(0));
    let [actor, next] = launch(&system, STEADY);
    tell(&system, actor, NEXT, &[next.bits()]);
    for _ in 0..10 {
        let sent = system.tell_with(actor, FORWARD_AND_FAIL, &[], Counted(drops.clone()));
        sent.expect("it lives");
    }
    wait_for_drops(&system, &drops, 10);
    assert_eq!(state(&system, next).count, 0);
}

fn payloads_of_dead_letters_are_dropped(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let drops = Arc::new(AtomicUsize::new(0));
    let letters = system.dead_letters(100).expect("it has services");
    let [actor, other] = launch(&system, CARRIER);
    system.deactivate(&[actor]).expect("it runs");
    for _ in 0..8 {
        let sent = system.tell_with(actor, FRAME, &[5], Counted(drops.clone()));
        sent.expect("there is room");
    }
    system.kill(&[actor]).expect("it runs");
    wait_for_drops(&system, &drops, 8);
    // One that is passed on to an actor that does not live.
    tell(&system, other, NEXT, &[actor.bits()]);
    let sent = system.tell_with(other, FORWARD, &[6], Counted(drops.clone()));
    sent.expect("it lives");
    wait_for_drops(&system, &drops, 9);
    let got: Vec<_> = letters.drain().collect();
    let ended = got.iter().filter(|l| l.reason == DeadReason::Ended);
    assert_eq!(ended.count(), 8);
    let gone: Vec<_> = got
        .iter()
        .filter(|l| l.reason == DeadReason::Gone)
        .collect();
    assert_eq!((gone.len(), gone[0].message.word(0)), (1, 6));
    drop(letters);
    // Also when no one looks.
    let sent = system.tell_with(other, FORWARD, &[], Counted(drops.clone()));
    sent.expect("it lives");
    wait_for_drops(&system, &drops, 10);
}

fn payload_that_is_not_sent_comes_back(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [actor] = launch(&system, CARRIER);
    system.kill(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    let refused = system.tell_with(actor, FRAME, &[], vec![1, 2, 3]);
    let refused = refused.expect_err("it does not live");
    assert!(
        matches!(refused.error, ActorError::Gone { .. }),
        "{refused}"
    );
    assert_eq!(refused.payload, Some(vec![1, 2, 3]));
    // A buffer of another engine, here: a GPU runs one at a time.
    let device = Device::open(Select::Cpu).expect("the device opens");
    let other = device.engine().start().expect("the engine starts");
    let [actor] = launch(&system, CARRIER);
    let buffer = other.buffer::<u32>(8).expect("there is memory");
    let refused = system.tell_buffer(actor, FRAME, &[], buffer);
    let refused = refused.expect_err("it is of another engine");
    assert!(
        matches!(refused.error, ActorError::OtherEngine),
        "{refused}"
    );
    assert_eq!(refused.payload.map(|buffer| buffer.len()), Some(8));
    assert_eq!(state(&system, actor).count, 0);
}

fn payloads_are_dropped_with_their_system(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let drops = Arc::new(AtomicUsize::new(0));
    let [actor] = launch(&system, CARRIER);
    system.deactivate(&[actor]).expect("it runs");
    for _ in 0..10 {
        let sent = system.tell_with(actor, FRAME, &[], Counted(drops.clone()));
        sent.expect("there is room");
    }
    assert_eq!(drops.load(Ordering::Acquire), 0);
    drop(system);
    assert_eq!(drops.load(Ordering::Acquire), 10);
}

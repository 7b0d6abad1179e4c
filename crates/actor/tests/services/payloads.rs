//! Payloads, whose ownership moves with their message.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use everwarp_actor::{ActorConfig, ActorError, ActorId, ActorSystem, Kind};
use everwarp_runtime::{Buffer, Engine};

use crate::support::{ADD, HOUR, LONG, counters, system, system_with};

const KEEP: u8 = 1;
const OPEN: u8 = 2;
const PASS: u8 = 3;
const FORWARD: u8 = 4;
const FAIL: u8 = 5;

/// A payload that is counted while it lives.
type Counted = Arc<()>;

/// Leaves the payload, opens it, sends it to word 0 in another message, forwards it there, or sends it there and fails.
fn mover(name: &'static str) -> Kind {
    let kind = Kind::closure(name, 8, |actor, message| {
        let to = ActorId::from_bits(message.word(0));
        match message.tag() {
            KEEP => assert!(message.has_payload()),
            OPEN => drop(actor.open::<Counted>().expect("it is there")),
            // The receiver opens it.
            FORWARD if actor.sender() == ActorId::NONE && to != actor.id() => actor.forward(to),
            FORWARD => drop(actor.open::<Counted>().expect("it is there")),
            PASS | FAIL => {
                let payload = actor.open::<Counted>();
                if let Ok(payload) = payload {
                    actor.tell_with(to, OPEN, &[], payload);
                }
                if message.tag() == FAIL {
                    actor.fail();
                }
            }
            _ => unreachable!("no such message"),
        }
    });
    kind.sends(2)
}
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}
fn launch<const N: usize>(system: &ActorSystem, kind: u32) -> [ActorId; N] {
    [(); N].map(|()| system.launch(kind).expect("there is room"))
}

/// An actor with two buffers: the first is of its engine, and the second of another one.
#[test]
fn buffer_of_another_engine_fails_the_actor_that_sends_it() {
    let buffers = Arc::new(Mutex::new(Vec::<Buffer<u32>>::new()));
    let given = buffers.clone();
    let sender = Kind::closure("sender", 8, move |actor, message| {
        let buffer = given.lock().expect("no panic").remove(0);
        actor.tell_buffer(ActorId::from_bits(message.word(0)), ADD, &[], buffer);
    });
    let (done, results) = mpsc::channel();
    let done = Mutex::new(done);
    let receiver = Kind::closure("receiver", 8, move |actor, _| {
        let buffer: Buffer<u32> = actor.open().expect("it is there");
        let done = done.lock().expect("no panic");
        done.send(buffer.len()).expect("the test waits");
    });
    let (engine, system) = system(vec![sender.sends(1), receiver]);
    let (other, _) = self::system(vec![mover("other")]);
    let of = |engine: &Engine, length| engine.buffer(length).expect("there is memory");
    *buffers.lock().expect("no panic") = vec![of(&engine, 8), of(&other, 9)];
    let [one, two] = launch(&system, 0);
    let to = system.launch(1).expect("there is room");
    for from in [one, two] {
        system.tell(from, PASS, &[to.bits()]).expect("it lives");
        system.settle().expect("it settles");
    }
    assert_eq!(results.try_iter().collect::<Vec<_>>(), [8]);
    let (failures, count) = system.failures();
    assert_eq!((failures[0].actor, count), (two, 1));
    assert_eq!(failures[0].reason, ActorError::OtherEngine.to_string());
}

/// The same memory, from the host through three actors and back.
#[test]
fn payload_moves_without_a_copy() {
    let (done, results) = mpsc::channel();
    let done = Mutex::new(done);
    let kind = Kind::closure("stage", 8, move |actor, message| {
        let mut data: Vec<u64> = actor.open().expect("it is there");
        data.iter_mut().for_each(|n| *n += 1);
        match message.words() {
            [] => done
                .lock()
                .expect("no panic")
                .send(data)
                .expect("the test waits"),
            [next, rest @ ..] => actor.tell_with(ActorId::from_bits(*next), ADD, rest, data),
        }
    });
    let (_engine, system) = system(vec![kind.sends(1)]);
    let [a, b, c] = launch(&system, 0);
    let data: Vec<u64> = (0..1_000_000).collect();
    let address = data.as_ptr();
    system
        .tell_with(a, ADD, &[b.bits(), c.bits()], data)
        .expect("it lives");
    let data = results.recv_timeout(LONG).expect("it comes");
    assert_eq!(data.as_ptr(), address);
    assert!(data.into_iter().eq(3..1_000_003));
}

#[test]
fn payload_is_dropped_with_its_message() {
    let payload = Counted::default();
    let alive = || Arc::strong_count(&payload) - 1;
    let kinds = vec![
        mover("mover").mailbox(4),
        mover("latest").mailbox(2).keep_latest(),
    ];
    let (engine, system) = system(kinds);
    let [one, other] = launch(&system, 0);
    // Left in its message, opened, forwarded, and sent on.
    for tag in [KEEP, OPEN, FORWARD, PASS] {
        let words = [other.bits()];
        let words = &words[..usize::from(tag > OPEN)];
        let told = system.tell_with(one, tag, words, payload.clone());
        told.expect("it lives");
        system.settle().expect("it settles");
    }
    wait_until("a payload is left", || alive() == 0);
    // Dead letters: of an actor that is killed, of one that is gone, and those that later ones have replaced.
    system.deactivate(&[one]).expect("it runs");
    for _ in 0..4 {
        system
            .tell_with(one, KEEP, &[], payload.clone())
            .expect("there is room");
    }
    assert_eq!(alive(), 4);
    system.kill(&[one]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(alive(), 0);
    system
        .tell_with(other, PASS, &[one.bits()], payload.clone())
        .expect("it lives");
    system.settle().expect("it settles");
    assert_eq!(alive(), 0);
    let [latest] = launch(&system, 1);
    system.deactivate(&[latest]).expect("it runs");
    for _ in 0..10 {
        system
            .tell_with(latest, KEEP, &[], payload.clone())
            .expect("there is room");
    }
    system.activate(&[latest]).expect("it runs");
    let stats = system.settle().expect("it settles");
    assert_eq!((alive(), stats.dead[4]), (0, 8));
    // With the system.
    system.deactivate(&[other]).expect("it runs");
    system
        .tell_with(other, KEEP, &[], payload.clone())
        .expect("there is room");
    drop(system);
    wait_until("a payload is left", || alive() == 0);
    drop(engine);
}

#[test]
fn refused_message_gives_its_payload_back() {
    let config = ActorConfig {
        patience: std::time::Duration::from_millis(20),
        ..ActorConfig::default()
    };
    let (_engine, system) = system_with(vec![mover("mover").mailbox(1)], config);
    let [one] = launch(&system, 0);
    system.deactivate(&[one]).expect("it runs");
    system
        .tell_with(one, KEEP, &[], Counted::default())
        .expect("there is room");
    let full = system.tell_with(one, KEEP, &[], vec![1, 2, 3]);
    let full = full.expect_err("it is full");
    assert!(matches!(full.error, ActorError::Full { actor } if actor == one));
    assert_eq!(full.payload, Some(vec![1, 2, 3]));
    system.kill(&[one]).expect("it runs");
    system.settle().expect("it settles");
    let gone = system.tell_with(one, KEEP, &[], vec![4]);
    let gone = gone.expect_err("it has ended");
    assert!(matches!(gone.error, ActorError::Gone { actor } if actor == one));
    assert_eq!(gone.payload, Some(vec![4]));
}

#[test]
fn payload_of_another_type_stays_in_its_message() {
    let (done, results) = mpsc::channel();
    let done = Mutex::new(done);
    let kind = Kind::closure("opens", 8, move |actor, _| {
        let wrong = actor.open::<String>().map(drop).map_err(|e| e.to_string());
        let right = actor.open::<Vec<u8>>().map_err(|e| e.to_string());
        let again = actor.open::<Vec<u8>>().map(drop).map_err(|e| e.to_string());
        let all = (wrong, right, again);
        done.lock()
            .expect("no panic")
            .send(all)
            .expect("the test waits");
    });
    let (_engine, system) = system(vec![kind]);
    let [one] = launch(&system, 0);
    system.tell_with(one, 0, &[], vec![7_u8]).expect("it lives");
    let (wrong, right, again) = results.recv_timeout(LONG).expect("it ran");
    let wrong = wrong.expect_err("it is no string");
    assert!(
        wrong.contains("Vec<u8>") && wrong.contains("String"),
        "{wrong}"
    );
    assert_eq!(right, Ok(vec![7]));
    assert!(
        again
            .expect_err("it was taken out")
            .contains("open it once")
    );
    system.tell(one, 0, &[1, 2, 3, 4, 5]).expect("it lives");
    let (none, ..) = results.recv_timeout(LONG).expect("it ran");
    assert!(none.expect_err("there is none").contains("tell_with"));
}

/// A handler that fails: its message is handled again without the payload, and what an atomic kind has sent is undone.
#[test]
fn payload_of_a_failed_handler_is_dropped_once() {
    let payload = Counted::default();
    let kinds = vec![
        mover("restarts").restarts(100, HOUR).retries(2),
        mover("undoes").restarts(100, HOUR).retries(2).atomic(),
        mover("receiver"),
    ];
    let (_engine, system) = system(kinds);
    let [restarts] = launch(&system, 0);
    let [undoes] = launch(&system, 1);
    let [receiver] = launch(&system, 2);
    for actor in [restarts, undoes] {
        for _ in 0..20 {
            let words = [receiver.bits()];
            system
                .tell_with(actor, FAIL, &words, payload.clone())
                .expect("it lives");
        }
    }
    system.settle().expect("it settles");
    assert_eq!(Arc::strong_count(&payload), 1);
}

/// Actors pass payloads on at random and are killed at any moment: none is left, and none is dropped twice.
#[test]
fn no_payload_is_lost_while_actors_are_killed() {
    let payload = Counted::default();
    let config = ActorConfig {
        actors: 1 << 12,
        ..ActorConfig::default()
    };
    let kinds = vec![mover("mover").mailbox(2), counters("counter")];
    let (_engine, system) = system_with(kinds, config);
    for _ in 0..50 {
        let actors = system.launch_all(0, 16).expect("there is room");
        for i in 0..64 {
            let (to, next) = (actors[i % 16], actors[(i * 7 + 3) % 16]);
            let tag = if i % 2 == 0 { PASS } else { KEEP };
            system
                .tell_with(to, tag, &[next.bits()], payload.clone())
                .expect("they live");
        }
        system.kill(&actors).expect("it runs");
    }
    system.settle().expect("it settles");
    assert_eq!(Arc::strong_count(&payload), 1);
}

//! Actors of warp and block shape: one call handles up to 32 messages.

use everwarp::actor::{ActorError, ActorId, ActorSystem, DeadReason, Tell};
use everwarp::{Buffer, Device, Engine, Select};
use everwarp_programs::actor_shapes::{
    self, ADD, ASK, ATOMIC, BLOCK, BURST, DevShape, FAIL_UP_TO, FORWARD, FOUR, GET, KILL, LATEST,
    LAUNCH, LINK, NARROW, PASS, PATIENT, SENDER, SENDERS, SHAPES, STOP, STUBBORN, WARP,
};
use everwarp_testkit::cases;

use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    hundred_senders_to_one_actor_keep_their_order_and_lose_nothing,
    messages_of_the_host_are_handled_up_to_32_at_a_time,
    asks_of_a_call_end_each_with_its_own_reply,
    what_calls_send_to_one_actor_arrives_in_the_order_of_their_messages,
    messages_that_are_passed_on_keep_their_sender,
    call_that_fails_fails_all_its_messages_and_no_other,
    atomic_call_that_fails_is_undone_as_a_whole,
    call_is_handled_again_as_often_as_its_kind_says,
    kind_that_keeps_the_latest_messages_drops_the_oldest_of_many,
    killed_actor_handles_nothing_more_and_its_asks_end,
    actor_that_stops_itself_handles_no_further_call,
    handler_launches_and_kills_other_actors,
    call_that_sends_too_much_is_named,
];

/// Places that count calls.
const PLACES: usize = 16;

fn start(select: Select) -> (Engine, ActorSystem, Buffer<u64>) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(SHAPES.program()).start();
    let engine = engine.expect("the engine starts");
    let (system, calls) = actor_shapes::start(&engine, PLACES).expect("the system starts");
    (engine, system, calls)
}
fn launch(system: &ActorSystem, kind: u32) -> ActorId {
    system.launch(kind).expect("there is room")
}
fn link(system: &ActorSystem, one: ActorId, other: ActorId) {
    system.tell(one, LINK, &[other.bits()]).expect("it lives");
    system.settle().expect("it settles");
}
fn state(system: &ActorSystem, actor: ActorId) -> DevShape {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}
/// Sends messages that are all there before the actor handles one.
fn tell_together(system: &ActorSystem, actor: ActorId, tells: &[Tell]) {
    system.deactivate(&[actor]).expect("the engine runs");
    system.tell_all(tells).expect("it lives");
    system.activate(&[actor]).expect("the engine runs");
}

fn hundred_senders_to_one_actor_keep_their_order_and_lose_nothing(select: Select) {
    const EACH: u64 = 300;
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK, NARROW] {
        let receiver = launch(&system, kind);
        let senders = system.launch_all(SENDER, SENDERS).expect("there is room");
        let links = senders
            .iter()
            .map(|&s| Tell::new(s, LINK, &[receiver.bits()]));
        system
            .tell_all(&links.collect::<Vec<_>>())
            .expect("all live");
        let bursts = (0..).zip(&senders);
        let bursts = bursts.map(|(i, &s)| Tell::new(s, BURST, &[i, 0, EACH]));
        system
            .tell_all(&bursts.collect::<Vec<_>>())
            .expect("all live");
        let stats = system.settle().expect("it settles");
        let received = state(&system, receiver);
        let all = SENDERS as u64 * EACH;
        assert_eq!((received.errors, received.count), (0, all), "kind {kind}");
        assert!(received.expected.iter().all(|next| *next == EACH));
        // Each warp of a block has seen all of them.
        let warps = if kind == BLOCK { 8 } else { 1 };
        let mut seen = [0; 8];
        seen[..warps].fill(all);
        assert_eq!(received.seen, seen, "kind {kind}");
        assert!(received.most <= 32);
        let lost = [DeadReason::Gone, DeadReason::Ended, DeadReason::Failed];
        assert!(lost.into_iter().all(|reason| stats.dead(reason) == 0));
        system.kill(&senders).expect("the engine runs");
    }
}

fn messages_of_the_host_are_handled_up_to_32_at_a_time(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK] {
        let actor = launch(&system, kind);
        let tells: Vec<_> = (1..=1000).map(|i| Tell::new(actor, ADD, &[i])).collect();
        tell_together(&system, actor, &tells);
        let done = state(&system, actor);
        assert_eq!((done.sum, done.count, done.most), (500_500, 1000, 32));
        // More than its mailbox holds.
        let tells: Vec<_> = (0..10_000).map(|_| Tell::new(actor, ADD, &[1])).collect();
        system.tell_all(&tells).expect("it lives");
        let reply = system.ask(actor, GET, &[]).expect("it replies");
        assert_eq!(reply.words(), [510_500, 11_001, 0, 0]);
    }
}

fn asks_of_a_call_end_each_with_its_own_reply(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK, NARROW] {
        let actor = launch(&system, kind);
        let askers = system.launch_all(SENDER, 200).expect("there is room");
        let links = askers.iter().map(|&a| Tell::new(a, LINK, &[actor.bits()]));
        system
            .tell_all(&links.collect::<Vec<_>>())
            .expect("all live");
        // Those with an odd place get no reply.
        let asks = (0..).zip(&askers).map(|(i, &a)| {
            let tag = if i % 2 == 0 { GET } else { ADD };
            Tell::new(a, ASK, &[tag.into()])
        });
        let before = system.settle().expect("it settles");
        system
            .tell_all(&asks.collect::<Vec<_>>())
            .expect("all live");
        let after = system.settle().expect("it settles");
        for (i, &asker) in askers.iter().enumerate() {
            let replies = state(&system, asker).replies;
            assert_eq!(replies, if i % 2 == 0 { 1 } else { 1000 }, "asker {i}");
        }
        let none = after.dead(DeadReason::NoReply) - before.dead(DeadReason::NoReply);
        assert_eq!(none, 100);
        // Word 0 of each ask with `ADD` is 7.
        let reply = system.ask(actor, GET, &[]).expect("it replies");
        assert_eq!(reply.words(), [700, 201, 0, 0]);
        // Of the host, which sees its own number come back.
        for number in 0..50 {
            let reply = system.ask(actor, FORWARD, &[number]).expect("it replies");
            assert_eq!(reply.words(), [number]);
        }
    }
}

fn what_calls_send_to_one_actor_arrives_in_the_order_of_their_messages(select: Select) {
    let (_engine, system, _calls) = start(select);
    for (kind, to) in [(WARP, NARROW), (BLOCK, SENDER), (ATOMIC, NARROW)] {
        let [one, other] = [kind, to].map(|kind| launch(&system, kind));
        link(&system, one, other);
        // Three senders whose messages alternate.
        let tells: Vec<_> = (0..1500)
            .map(|i| Tell::new(one, PASS, &[i % 3, i / 3]))
            .collect();
        tell_together(&system, one, &tells);
        let received = state(&system, other);
        assert_eq!((received.errors, received.count), (0, 1500), "kind {kind}");
        // Eight messages a call may send four each.
        let tells: Vec<_> = (0..8).map(|i| Tell::new(one, FOUR, &[10 + i, 0])).collect();
        tell_together(&system, one, &tells);
        let received = state(&system, other);
        assert_eq!((received.errors, received.count), (0, 1532), "kind {kind}");
    }
}

fn messages_that_are_passed_on_keep_their_sender(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK, ATOMIC] {
        let [one, other] = [kind, NARROW].map(|kind| launch(&system, kind));
        link(&system, one, other);
        for number in 0..20 {
            let reply = system.ask(one, FORWARD, &[number]).expect("it replies");
            assert_eq!(reply.words(), [number]);
        }
        let askers = system.launch_all(SENDER, 100).expect("there is room");
        let links = askers.iter().map(|&a| Tell::new(a, LINK, &[one.bits()]));
        system
            .tell_all(&links.collect::<Vec<_>>())
            .expect("all live");
        let asks = askers.iter().map(|&a| Tell::new(a, ASK, &[FORWARD.into()]));
        system
            .tell_all(&asks.collect::<Vec<_>>())
            .expect("all live");
        for &asker in &askers {
            assert_eq!(state(&system, asker).replies, 1);
        }
    }
}

fn call_that_fails_fails_all_its_messages_and_no_other(select: Select) {
    let (_engine, system, calls) = start(select);
    for (place, kind) in [(0, WARP), (1, BLOCK)] {
        let before = system.settle().expect("it settles");
        let actor = launch(&system, kind);
        let tells: Vec<_> = (0..50_u64)
            .map(|i| match i {
                40 => Tell::new(actor, FAIL_UP_TO, &[1, place, 1]),
                _ => Tell::new(actor, ADD, &[i]),
            })
            .collect();
        tell_together(&system, actor, &tells);
        let after = system.settle().expect("it settles");
        let failed = after.dead(DeadReason::Failed) - before.dead(DeadReason::Failed);
        assert_eq!((failed, after.restarts), (18, 0), "kind {kind}");
        assert_eq!(calls.read().expect("it is there")[place as usize], 1);
        let gone = system.ask(actor, GET, &[]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

fn atomic_call_that_fails_is_undone_as_a_whole(select: Select) {
    let (_engine, system, _calls) = start(select);
    let [one, other] = [ATOMIC, SENDER].map(|kind| launch(&system, kind));
    link(&system, one, other);
    // The second of four calls fails.
    let tells: Vec<_> = (0..128_u64)
        .map(|i| match i {
            40 => Tell::new(one, FAIL_UP_TO, &[1, 0, 1]),
            0..32 => Tell::new(one, PASS, &[0, i]),
            32..64 => Tell::new(one, PASS, &[1, i]),
            _ => Tell::new(one, ADD, &[1]),
        })
        .collect();
    tell_together(&system, one, &tells);
    let stats = system.settle().expect("it settles");
    assert_eq!((stats.restarts, stats.dead(DeadReason::Failed)), (1, 32));
    let [done, received] = [one, other].map(|actor| state(&system, actor));
    // Its state knows the other actor still. `LINK` is a message, too.
    assert_eq!((done.sum, done.count), (64, 1 + 96));
    assert_eq!((received.count, received.errors), (32, 0));
    let failed = system.ask(one, FAIL_UP_TO, &[1, 1, 1]);
    let reason = DeadReason::Failed;
    assert!(
        matches!(&failed, Err(ActorError::NoReply { reason: r }) if *r == reason),
        "{failed:?}"
    );
}

fn call_is_handled_again_as_often_as_its_kind_says(select: Select) {
    let (_engine, system, calls) = start(select);
    for (place, kind, up_to) in [
        (0, STUBBORN, 2),
        (1, PATIENT, 2),
        (2, STUBBORN, 3),
        (3, PATIENT, 3),
    ] {
        let before = system.settle().expect("it settles");
        let [one, other] = [kind, SENDER].map(|kind| launch(&system, kind));
        link(&system, one, other);
        let mut tells: Vec<_> = (0..8).map(|i| Tell::new(one, PASS, &[1, i])).collect();
        tells.push(Tell::new(one, FAIL_UP_TO, &[5, place, up_to]));
        tell_together(&system, one, &tells);
        let after = system.settle().expect("it settles");
        assert_eq!(calls.read().expect("it is there")[place as usize], 3);
        let done = up_to == 2;
        let failed = after.dead(DeadReason::Failed) - before.dead(DeadReason::Failed);
        assert_eq!(failed, if done { 0 } else { 9 }, "place {place}");
        assert_eq!(after.restarts - before.restarts, up_to, "place {place}");
        let [one, other] = [one, other].map(|actor| state(&system, actor));
        assert_eq!(one.sum, if done { 8 + 5 } else { 0 }, "place {place}");
        // What the first call of the other kind has sent is sent; a new state knows no other actor.
        let sent = if kind == STUBBORN || done { 8 } else { 0 };
        assert_eq!((other.count, other.errors), (sent, 0), "place {place}");
    }
    // An ask that is handled again is the same ask.
    let one = launch(&system, PATIENT);
    let reply = system.ask(one, FORWARD, &[99]).expect("it replies");
    assert_eq!(reply.words(), [99]);
}

fn kind_that_keeps_the_latest_messages_drops_the_oldest_of_many(select: Select) {
    let (_engine, system, _calls) = start(select);
    let actor = launch(&system, LATEST);
    let tells: Vec<_> = (0..100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    tell_together(&system, actor, &tells);
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead(DeadReason::Dropped), 94);
    let done = state(&system, actor);
    assert_eq!((done.sum, done.count), ((94..100).sum(), 6));
}

fn killed_actor_handles_nothing_more_and_its_asks_end(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK] {
        let before = system.settle().expect("it settles");
        let actor = launch(&system, kind);
        let askers = system.launch_all(SENDER, 50).expect("there is room");
        let links = askers.iter().map(|&a| Tell::new(a, LINK, &[actor.bits()]));
        system
            .tell_all(&links.collect::<Vec<_>>())
            .expect("all live");
        system.settle().expect("it settles");
        system.deactivate(&[actor]).expect("the engine runs");
        let tells: Vec<_> = (0..70).map(|i| Tell::new(actor, ADD, &[i])).collect();
        system.tell_all(&tells).expect("it lives");
        let asks = askers.iter().map(|&a| Tell::new(a, ASK, &[GET.into()]));
        system
            .tell_all(&asks.collect::<Vec<_>>())
            .expect("all live");
        system.settle().expect("it settles");
        system.kill(&[actor]).expect("the engine runs");
        let after = system.settle().expect("it settles");
        let ended = after.dead(DeadReason::Ended) - before.dead(DeadReason::Ended);
        assert_eq!(ended, 120, "kind {kind}");
        for &asker in &askers {
            assert_eq!(state(&system, asker).replies, 1000);
        }
        let gone = system.tell(actor, ADD, &[1]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

fn actor_that_stops_itself_handles_no_further_call(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK] {
        let before = system.settle().expect("it settles");
        let [one, other] = [kind, SENDER].map(|kind| launch(&system, kind));
        link(&system, one, other);
        let tells: Vec<_> = (0..64)
            .map(|i| match i {
                10 => Tell::new(one, STOP, &[]),
                _ => Tell::new(one, PASS, &[1, i - u64::from(i > 10)]),
            })
            .collect();
        tell_together(&system, one, &tells);
        let after = system.settle().expect("it settles");
        // The call in which it stops is handled, and sends; the other one is not.
        let received = state(&system, other);
        assert_eq!((received.count, received.errors), (31, 0), "kind {kind}");
        let ended = after.dead(DeadReason::Ended) - before.dead(DeadReason::Ended);
        assert_eq!(ended, 32, "kind {kind}");
    }
}

fn handler_launches_and_kills_other_actors(select: Select) {
    let (_engine, system, _calls) = start(select);
    for kind in [WARP, BLOCK, ATOMIC] {
        let one = launch(&system, kind);
        system.tell(one, LAUNCH, &[17]).expect("it lives");
        let child = ActorId::from_bits(state(&system, one).other);
        assert_eq!(state(&system, child).sum, 17);
        system.tell(one, KILL, &[]).expect("it lives");
        system.settle().expect("it settles");
        let gone = system.ask(child, GET, &[]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

fn call_that_sends_too_much_is_named(select: Select) {
    let (_engine, system, _calls) = start(select);
    let [one, other] = [WARP, SENDER].map(|kind| launch(&system, kind));
    link(&system, one, other);
    system.deactivate(&[one]).expect("the engine runs");
    let tells: Vec<_> = (0..9).map(|i| Tell::new(one, FOUR, &[i, 0])).collect();
    system.tell_all(&tells).expect("it lives");
    let error = system
        .activate(&[one])
        .and_then(|_| system.settle().map(drop))
        .expect_err("it sends 36");
    let text = error.to_string();
    assert!(
        matches!(&error, ActorError::TooManySends { sends: 32, .. }) && text.contains("`warp`"),
        "{text}"
    );
}

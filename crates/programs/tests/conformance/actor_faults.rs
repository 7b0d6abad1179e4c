//! Actors that fail: restarts, handlers that are undone, messages that are handled again, and kinds that keep the latest.

use everwarp::actor::{ActorError, ActorId, ActorSystem, DeadReason, Tell};
use everwarp::{Buffer, Engine, Select};
use everwarp_programs::actor_faults::{
    self, ADD, ASK, ATOMIC, CAREFUL, DevFaulty, ENDS, FAIL_ASK, FAIL_FORWARD, FAIL_LATE, FAIL_ONCE,
    FAIL_UP_TO, GET, LATEST, LINK, PASS, PATIENT, STUBBORN,
};
use everwarp_testkit::cases;

use crate::actors;
use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    failed_actor_is_restarted_with_its_id_and_its_mailbox,
    actor_that_fails_too_often_ends,
    failed_handler_of_an_atomic_kind_leaves_no_trace,
    ask_to_an_atomic_actor_that_fails_ends_once,
    message_is_handled_again_as_often_as_its_kind_says,
    undone_handler_leaves_no_trace_when_its_message_is_handled_again,
    kind_that_keeps_the_latest_messages_drops_the_oldest,
    ask_that_is_dropped_ends,
    restarted_actors_survive_epochs,
];

/// Places that count calls.
const PLACES: usize = 1000;

fn start_with_calls(select: Select) -> (Engine, ActorSystem, Buffer<u64>) {
    let engine = actors::engine(select);
    let (system, calls) = actor_faults::start(&engine, PLACES).expect("it starts");
    (engine, system, calls)
}
fn start(select: Select) -> (Engine, ActorSystem) {
    let (engine, system, _) = start_with_calls(select);
    (engine, system)
}

fn pair(system: &ActorSystem, kind: u32) -> [ActorId; 2] {
    let [one, other] = [kind, ENDS].map(|kind| system.launch(kind).expect("there is room"));
    system.tell(one, LINK, &[other.bits()]).expect("it lives");
    [one, other]
}
fn state(system: &ActorSystem, actor: ActorId) -> DevFaulty {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}
fn reason(outcome: Result<everwarp::actor::Message, ActorError>) -> DeadReason {
    match outcome {
        Err(ActorError::NoReply { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Messages that are in the mailbox when the handler fails are handled by the same actor, from a new state.
fn failed_actor_is_restarted_with_its_id_and_its_mailbox(select: Select) {
    let (_engine, system) = start(select);
    let [actor, other] = pair(&system, CAREFUL);
    system.deactivate(&[actor]).expect("the engine runs");
    let mut tells = vec![
        Tell::new(actor, ADD, &[100]),
        Tell::new(actor, FAIL_ASK, &[1]),
    ];
    tells.extend((0..50).map(|i| Tell::new(actor, ADD, &[i])));
    system.tell_all(&tells).expect("it lives");
    system.activate(&[actor]).expect("it lives");
    let stats = system.settle().expect("it settles");
    assert_eq!((stats.restarts, stats.dead(DeadReason::Failed)), (1, 1));
    let reply = system.ask(actor, GET, &[]).expect("it lives");
    // The ask that it sent before it failed is sent, and its reply came to the new state.
    assert_eq!(reply.words(), [49 * 50 / 2, 1]);
    assert_eq!(state(&system, other).sum, 0);
    assert_eq!(stats.dead(DeadReason::Ended), 0);
}

fn actor_that_fails_too_often_ends(select: Select) {
    let (_engine, system) = start(select);
    let [actor, other] = pair(&system, CAREFUL);
    for round in 0..4 {
        assert_eq!(
            reason(system.ask(actor, FAIL_ASK, &[1])),
            DeadReason::Failed,
            "{round}"
        );
        let stats = system.settle().expect("it settles");
        assert_eq!(stats.restarts, 3.min(round + 1));
    }
    let gone = system.ask(actor, GET, &[]);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    // One without restarts ends at once.
    assert_eq!(
        reason(system.ask(other, FAIL_ASK, &[1])),
        DeadReason::Failed
    );
    system.settle().expect("it settles");
    let gone = system.ask(other, GET, &[]);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
}

fn failed_handler_of_an_atomic_kind_leaves_no_trace(select: Select) {
    let (_engine, system) = start(select);
    let actors: Vec<_> = (0..200).map(|_| pair(&system, ATOMIC)).collect();
    let tells: Vec<_> = (0..40_u64)
        .flat_map(|round| {
            let tag = [PASS, FAIL_LATE, ADD, FAIL_FORWARD, FAIL_ASK][round as usize % 5];
            let tell = move |pair: &[ActorId; 2]| Tell::new(pair[0], tag, &[1 << (round % 5)]);
            actors.iter().map(tell)
        })
        .collect();
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.restarts, 200 * 24);
    assert_eq!(
        stats.dead(DeadReason::Gone) + stats.dead(DeadReason::Ended),
        0
    );
    for [actor, other] in actors {
        let [one, two] = [actor, other].map(|a| state(&system, a));
        // Of five messages, the first and the third are done.
        assert_eq!((one.sum, one.replies), (8 * (1 + 4), 0));
        assert_eq!((two.sum, two.replies), (8, 0));
    }
}

fn ask_to_an_atomic_actor_that_fails_ends_once(select: Select) {
    let (_engine, system) = start(select);
    let [actor, other] = pair(&system, ATOMIC);
    for tag in [FAIL_LATE, FAIL_FORWARD, FAIL_ASK] {
        assert_eq!(reason(system.ask(actor, tag, &[5])), DeadReason::Failed);
    }
    assert_eq!(
        system.ask(actor, PASS, &[2]).expect("it replies").words(),
        [1]
    );
    assert_eq!(state(&system, other).sum, 2);
    // Asked by an actor.
    let asker = system.launch(ENDS).expect("there is room");
    system.tell(asker, LINK, &[actor.bits()]).expect("it lives");
    for tag in [FAIL_LATE, FAIL_FORWARD, FAIL_ASK, PASS] {
        system.tell(asker, ASK, &[tag.into()]).expect("it lives");
    }
    assert_eq!(state(&system, asker).replies, 3001);
    assert_eq!(state(&system, actor).sum, 9);
}

fn message_is_handled_again_as_often_as_its_kind_says(select: Select) {
    let (_engine, system, calls) = start_with_calls(select);
    for kind in [STUBBORN, PATIENT] {
        let pairs: Vec<_> = (0..100).map(|_| pair(&system, kind)).collect();
        let place = |i: usize| u64::from(kind) * 100 + i as u64;
        let before = system.settle().expect("it settles");
        let tells: Vec<_> = (0..)
            .zip(&pairs)
            .map(|(i, pair)| Tell::new(pair[0], FAIL_UP_TO, &[5, place(i), i as u64 % 5]))
            .collect();
        system.tell_all(&tells).expect("all live");
        let after = system.settle().expect("it settles");
        let calls = calls.read().expect("it is there");
        for (i, [one, other]) in pairs.iter().enumerate() {
            // It fails in the first, in the first two and so on, and after three it is not called again.
            let failures = (i as u64 % 5).min(3);
            assert_eq!(calls[place(i) as usize], (failures + 1).min(3), "{i}");
            let [one, other] =
                [one, other].map(|a| system.state::<DevFaulty>(*a).expect("it is there"));
            let done = u64::from(failures < 3);
            assert_eq!(one.sum, 5 * done, "{i}");
            // The first handler has sent its message, also if it failed; a new state knows no other actor. Of an atomic
            // kind it has not, and the state stays.
            assert_eq!(other.sum, if kind == PATIENT { done } else { 1 }, "{i}");
            assert_eq!(one.other == 0, kind == STUBBORN && failures != 0, "{i}");
        }
        assert_eq!(after.restarts - before.restarts, 20 * (1 + 2 + 3 + 3));
        let failed = |stats: &everwarp::actor::ActorStats| stats.dead(DeadReason::Failed);
        assert_eq!(failed(&after) - failed(&before), 40);
    }
}

fn undone_handler_leaves_no_trace_when_its_message_is_handled_again(select: Select) {
    let (_engine, system, calls) = start_with_calls(select);
    let [actor, other] = pair(&system, PATIENT);
    // The reply is that of the third time.
    let reply = system.ask(actor, FAIL_UP_TO, &[5, 0, 2]);
    assert_eq!(reply.expect("it replies").words(), [3]);
    assert_eq!(
        reason(system.ask(actor, FAIL_UP_TO, &[5, 1, 3])),
        DeadReason::Failed
    );
    assert_eq!(state(&system, other).sum, 1);
    assert_eq!(state(&system, actor).sum, 5);
    // The failed handler has replied, and the next one passes on what was asked.
    let reply = system.ask(actor, FAIL_ONCE, &[2, 1234]);
    assert_eq!(reply.expect("it replies").words(), [1234]);
    assert_eq!(calls.read().expect("it is there")[..3], [3, 3, 2]);
}

fn kind_that_keeps_the_latest_messages_drops_the_oldest(select: Select) {
    let (_engine, system) = start(select);
    let actors = system.launch_all(LATEST, 50).expect("there is room");
    system.deactivate(&actors).expect("the engine runs");
    let tells: Vec<_> = (0..200)
        .flat_map(|i| actors.iter().map(move |&a| Tell::new(a, ADD, &[i])))
        .collect();
    system.tell_all(&tells).expect("no sender waits");
    system.activate(&actors).expect("the engine runs");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0, 0, 0, 0, 50 * 196]);
    let states: Vec<DevFaulty> = system.states(&actors).expect("they are there");
    assert!(states.iter().all(|s| s.sum == 196 + 197 + 198 + 199));
}

/// More asks are dropped than one turn can end.
fn ask_that_is_dropped_ends(select: Select) {
    let (_engine, system) = start(select);
    let latest = system.launch(LATEST).expect("there is room");
    system.deactivate(&[latest]).expect("the engine runs");
    let askers = system.launch_all(ENDS, 300).expect("there is room");
    let tells = askers.iter().flat_map(|&asker| {
        let link = Tell::new(asker, LINK, &[latest.bits()]);
        [link, Tell::new(asker, ASK, &[GET.into()])]
    });
    let tells: Vec<_> = tells.collect();
    system.tell_all(&tells).expect("all live");
    system.settle().expect("it settles");
    system.activate(&[latest]).expect("it lives");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead(DeadReason::Dropped), 296);
    let states: Vec<DevFaulty> = system.states(&askers).expect("they are there");
    let of = |replies| states.iter().filter(|s| s.replies == replies).count();
    assert_eq!((of(1000), of(1)), (296, 4));
}

fn restarted_actors_survive_epochs(select: Select) {
    let (engine, system) = start(select);
    let pairs: Vec<_> = (0..100).map(|_| pair(&system, ATOMIC)).collect();
    for round in 0..10 {
        let tag = if round % 2 == 0 { PASS } else { FAIL_LATE };
        let tells: Vec<_> = pairs
            .iter()
            .map(|pair| Tell::new(pair[0], tag, &[1]))
            .collect();
        system.tell_all(&tells).expect("all live");
        engine.park().expect("it parks");
        engine.resume().expect("it resumes");
    }
    let stats = system.settle().expect("it settles");
    assert_eq!((stats.restarts, stats.dead(DeadReason::Failed)), (500, 500));
    for pair in pairs {
        let sums = pair.map(|a| system.state::<DevFaulty>(a).expect("it is there").sum);
        assert_eq!(sums, [5, 5]);
    }
}

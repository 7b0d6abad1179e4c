//! Actors that fail: restarts, and handlers that are undone.

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, DeadReason, Tell};
use everwarp::{Device, Engine, Select};
use everwarp_programs::actor_faults::{
    ADD, ASK, ATOMIC, CAREFUL, DevFaulty, ENDS, FAIL_ASK, FAIL_FORWARD, FAIL_LATE, FAULTS, GET,
    LINK, PASS,
};
use everwarp_testkit::cases;

use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    failed_actor_is_restarted_with_its_id_and_its_mailbox,
    actor_that_fails_too_often_ends,
    failed_handler_of_an_atomic_kind_leaves_no_trace,
    ask_to_an_atomic_actor_that_fails_ends_once,
];

fn start(select: Select) -> (Engine, ActorSystem) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(FAULTS.program());
    let engine = engine.start().expect("the engine starts");
    let system = ActorSystem::start(&engine, &FAULTS, ActorConfig::default()).expect("it starts");
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

//! Actors: the promises of `docs/actors.md`, one case for each.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use everwarp::actor::{
    ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, Column, DeadReason, Tell,
};
use everwarp::telemetry::{self, ProgramView};
use everwarp::{Device, Engine, EngineKind, Select};
use everwarp_programs::actor_faults::FAULTS;
use everwarp_programs::actor_probe::{
    ADD, ASK, BURST, DevProbeNode, FAIL, FORWARD, GET, KILL, LAUNCH, LINK, NARROW, NUMBER, PASS,
    PROBE, QUIET, STOP, STOP_LATER, TOO_MANY, TRY, WIDE, ring, start,
};
use everwarp_programs::actor_services::SERVICES;
use everwarp_testkit::cases;

use crate::support::{Case, random};

pub(crate) const ALL: &[Case] = cases![
    actor_handles_each_message_once,
    messages_of_one_sender_to_one_actor_keep_their_order,
    messages_of_the_host_in_runs_of_any_length_keep_their_order,
    sender_to_a_full_mailbox_is_muted_and_loses_nothing,
    ring_of_full_actors_keeps_moving,
    every_ask_of_the_host_ends,
    asks_of_several_threads_have_their_own_replies,
    asks_of_one_call_have_their_own_replies,
    every_ask_of_an_actor_ends,
    deactivated_actor_keeps_its_messages,
    deactivated_sender_waits_without_turns,
    stopped_actor_handles_what_it_has_accepted,
    killed_actor_leaves_dead_letters,
    actors_that_end_amid_messages_lose_none_uncounted,
    id_never_names_another_actor,
    actors_launch_actors_until_there_is_no_slot,
    exhausted_pool_of_messages_names_the_longest_mailboxes,
    handler_that_sends_too_much_is_named,
    actors_survive_epochs,
    wrong_use_of_actors_is_an_error,
    system_that_is_dropped_ends_its_actors,
    lengths_of_mailboxes_are_seen_while_actors_wait,
    times_of_handlers_stand_for_messages_and_not_for_turns,
];
pub(crate) const ONLY_WGPU: &[Case] = cases![
    what_actors_on_wgpu_do_not_have_is_named,
    messages_go_on_within_a_dispatch,
];

/// With the programs of all cases of actors, so that a driver in software compiles one image.
pub(crate) fn engine(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(PROBE.program());
    let builder = builder.program(FAULTS.program());
    builder.start().expect("the engine starts")
}

fn system(select: Select) -> (Engine, ActorSystem) {
    let engine = engine(select);
    let system = start(&engine, 1 << 14, 1 << 16).expect("the system starts");
    (engine, system)
}

fn state(system: &ActorSystem, actor: ActorId) -> DevProbeNode {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}

fn link(system: &ActorSystem, from: ActorId, to: ActorId) {
    system.tell(from, LINK, &[to.bits()]).expect("it lives");
}

fn actor_handles_each_message_once(select: Select) {
    let (_engine, system) = system(select);
    let actors = system.launch_all(WIDE, 10_000).expect("there is room");
    assert_eq!(actors.iter().collect::<BTreeSet<_>>().len(), actors.len());
    let mut seed = 0x1234_5678_9abc_def1;
    let mut expected = vec![(0, 0); actors.len()];
    let tells: Vec<_> = (0..60_000)
        .map(|i| {
            let to = random(&mut seed) as usize % actors.len();
            expected[to] = (expected[to].0 + i, expected[to].1 + 1);
            Tell::new(actors[to], ADD, &[i])
        })
        .collect();
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0; 5]);
    let states: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
    let got: Vec<_> = states.iter().map(|s| (s.sum, s.count)).collect();
    assert_eq!(got, expected);
    // Passed on at random times, so that messages meet in mailboxes.
    ring(&system, &actors).expect("all live");
    let tells: Vec<_> = actors
        .iter()
        .map(|&actor| Tell::new(actor, PASS, &[1, random(&mut seed) % 60]))
        .collect();
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0; 5]);
    let after: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
    let passed = after.iter().zip(&states).map(|(a, b)| a.sum - b.sum);
    assert_eq!(passed.sum::<u64>(), actors.len() as u64);
}

/// Four senders, each with 3,000 numbered messages, into a mailbox of 4; and the host, which sends on in several calls.
fn messages_of_one_sender_to_one_actor_keep_their_order(select: Select) {
    let (_engine, system) = system(select);
    let receiver = system.launch(NARROW).expect("there is room");
    let senders = system.launch_all(NARROW, 3).expect("there is room");
    for (number, &sender) in (1..).zip(&senders) {
        link(&system, sender, receiver);
        system
            .tell(sender, BURST, &[number, 0, 3000])
            .expect("it lives");
    }
    for part in 0..10 {
        let tells: Vec<_> = (100 * part..100 * (part + 1))
            .map(|i| Tell::new(receiver, NUMBER, &[0, i]))
            .collect();
        system.tell_all(&tells).expect("it lives");
    }
    let state = state(&system, receiver);
    assert_eq!((state.errors, state.count), (0, 3 * 3000 + 1000));
    assert_eq!(state.expected, [1000, 3000, 3000, 3000]);
}

/// A GPU delivers a warp of them at a time: runs end before a warp and after it, and before and after the part of a task. Some find
/// their mailbox full, which has room for four, and some their actor gone.
fn messages_of_the_host_in_runs_of_any_length_keep_their_order(select: Select) {
    let (_engine, system) = system(select);
    let mut actors = system.launch_all(WIDE, 24).expect("there is room");
    actors.extend(system.launch_all(NARROW, 8).expect("there is room"));
    actors.sort_unstable();
    let gone = system.launch(WIDE).expect("there is room");
    system.kill(&[gone]).expect("the engine runs");
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut sent = vec![0; actors.len()];
    for round in 0..6 {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for place in 0..actors.len() {
            let lengths = [1, 2, 31, 32, 33, 63, 64, 65, 128, 3, 1, 1];
            let length = match random(&mut seed) % 16 {
                12 => 700,
                13.. => 1 + random(&mut seed) as usize % 40,
                known => lengths[known as usize],
            };
            runs.push((place, length));
        }
        // In the order of ids, in another one, or one after the other in turns.
        if round % 3 == 1 {
            runs.reverse();
        }
        let mut places: Vec<usize> = (runs.iter())
            .flat_map(|&(place, length)| std::iter::repeat_n(place, length))
            .collect();
        if round % 3 == 2 {
            for last in (1..places.len()).rev() {
                places.swap(last, random(&mut seed) as usize % (last + 1));
            }
        }
        let mut numbers = Vec::new();
        for &place in &places {
            numbers.push(sent[place]);
            sent[place] += 1;
        }
        let mut to: Vec<_> = places.iter().map(|&place| actors[place]).collect();
        let lost = round == 4;
        if lost {
            // Among the others.
            let at = to.len() / 2;
            to.splice(at..at, [gone; 40]);
            numbers.splice(at..at, [0; 40]);
        }
        let told = system.tell_columns(&to, NUMBER, &[Column::All(0), Column::Each(&numbers)]);
        match told {
            Ok(()) => assert!(!lost),
            Err(ActorError::Gone { actor }) => assert!(lost && actor == gone),
            Err(other) => panic!("{other}"),
        }
    }
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0; 5]);
    let states: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
    for (state, sent) in states.iter().zip(&sent) {
        assert_eq!((state.errors, state.count), (0, *sent));
        assert_eq!(state.expected[0], *sent);
    }
}

fn sender_to_a_full_mailbox_is_muted_and_loses_nothing(select: Select) {
    let (_engine, system) = system(select);
    let receiver = system.launch(NARROW).expect("there is room");
    system.deactivate(&[receiver]).expect("the engine runs");
    let senders = system.launch_all(WIDE, 100).expect("there is room");
    let mut tells = Vec::new();
    for &sender in &senders {
        tells.push(Tell::new(sender, LINK, &[receiver.bits()]));
        tells.extend((0..20).map(|i| Tell::new(sender, PASS, &[i, 1])));
    }
    system.tell_all(&tells).expect("all live");
    let stats = system
        .settle()
        .expect("it settles: the receiver is deactivated, and the senders are muted");
    assert!(stats.mutes >= 99, "{stats:?}");
    let waiting: DevProbeNode = system.state(receiver).expect("it is there");
    assert_eq!(waiting.count, 0);
    system.activate(&[receiver]).expect("the engine runs");
    let state = state(&system, receiver);
    assert_eq!((state.count, state.sum), (2000, 100 * 190));
}

/// More messages than fit into all mailboxes of a ring: no actor may wait for one that waits for it.
fn ring_of_full_actors_keeps_moving(select: Select) {
    let (_engine, system) = system(select);
    for size in [1, 2, 3, 50] {
        let actors = system.launch_all(NARROW, size).expect("there is room");
        ring(&system, &actors).expect("all live");
        let tokens = 12 * size as u64;
        let tells: Vec<_> = (0..tokens)
            .map(|i| Tell::new(actors[i as usize % size], PASS, &[1, 500]))
            .collect();
        system.tell_all(&tells).expect("all live");
        let stats = system.settle().expect("it settles");
        let states: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
        let arrived: u64 = states.iter().map(|s| s.count).sum();
        assert_eq!((arrived, stats.dead), (tokens, [0; 5]), "ring of {size}");
        system.kill(&actors).expect("the engine runs");
    }
}

fn no_reply(outcome: Result<everwarp::actor::Message, ActorError>) -> DeadReason {
    match outcome {
        Err(ActorError::NoReply { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

fn every_ask_of_the_host_ends(select: Select) {
    let (_engine, system) = system(select);
    let [one, other, third] = [(); 3].map(|()| system.launch(NARROW).expect("there is room"));
    system.tell(one, ADD, &[41]).expect("it lives");
    system.tell(one, ADD, &[1]).expect("it lives");
    let reply = system.ask(one, GET, &[]).expect("it replies");
    assert_eq!((reply.tag(), reply.words()), (GET, &[42, 2, 0][..]));
    // Forwarded twice, with its words.
    link(&system, third, other);
    link(&system, other, one);
    let forwarded = system
        .ask(third, FORWARD, &[9, 9])
        .expect("the last one replies");
    assert_eq!(forwarded.word(0), 42);
    assert_eq!(no_reply(system.ask(one, QUIET, &[])), DeadReason::NoReply);
    assert_eq!(no_reply(system.ask(one, FAIL, &[])), DeadReason::Failed);
    system.settle().expect("it settles");
    let gone = system.ask(one, GET, &[]);
    assert!(
        matches!(gone, Err(ActorError::Gone { actor }) if actor == one),
        "{gone:?}"
    );
    // It is forwarded to an actor that does not live any more.
    assert_eq!(no_reply(system.ask(third, FORWARD, &[])), DeadReason::Gone);
    // An ask that waits in the mailbox of an actor that is killed.
    system.deactivate(&[other]).expect("the engine runs");
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| no_reply(system.ask(other, GET, &[])));
        let waits = || system.try_tell(other, ADD, &[1]).is_ok();
        // The mailbox holds four: the ask and three others, or four others and then the ask waits for room.
        while waits() {}
        system.kill(&[other]).expect("the engine runs");
        let ended = asks.join();
        // The ask came too late, if the scheduler was slow.
        assert!(matches!(ended, Ok(DeadReason::Ended)) || ended.is_err());
    });
}

/// Many at a time, so that asks and replies meet in mailboxes.
fn every_ask_of_an_actor_ends(select: Select) {
    let (_engine, system) = system(select);
    let actors = system.launch_all(NARROW, 1000).expect("there is room");
    ring(&system, &actors).expect("all live");
    let adds: Vec<_> = actors.iter().map(|&a| Tell::new(a, ADD, &[1])).collect();
    system.tell_all(&adds).expect("all live");
    system.settle().expect("it settles");
    let asks: Vec<_> = actors.iter().map(|&a| Tell::new(a, ASK, &[])).collect();
    system.tell_all(&asks).expect("all live");
    system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
    assert!(states.iter().all(|s| s.sum >= 2 && s.errors == 0));
    // Every tenth one ends. Those that ask them learn it at once.
    let (ended, live): (Vec<_>, Vec<_>) = (0..).zip(&actors).partition(|(i, _)| i % 10 == 0);
    let ids = |list: &[(i32, &ActorId)]| list.iter().map(|(_, id)| **id).collect::<Vec<_>>();
    let (ended, live) = (ids(&ended), ids(&live));
    system.kill(&ended).expect("the engine runs");
    system.settle().expect("it settles");
    let asks: Vec<_> = live.iter().map(|&a| Tell::new(a, ASK, &[])).collect();
    system.tell_all(&asks).expect("all live");
    let stats = system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system.states(&live).expect("they are there");
    let failed = states
        .iter()
        .filter(|s| s.errors == 1000 + DeadReason::Gone as u64);
    assert_eq!(failed.count(), ended.len());
    assert_eq!(stats.dead(DeadReason::Gone), ended.len() as u64);
}

fn deactivated_actor_keeps_its_messages(select: Select) {
    let (_engine, system) = system(select);
    let actor = system.launch(NARROW).expect("there is room");
    assert_eq!(system.deactivate(&[actor]).expect("the engine runs"), 0);
    for _ in 0..4 {
        system
            .try_tell(actor, ADD, &[5])
            .expect("there is room for four");
    }
    let full = system.try_tell(actor, ADD, &[5]);
    assert!(
        matches!(full, Err(ActorError::Full { actor: a }) if a == actor),
        "{full:?}"
    );
    assert_eq!(state(&system, actor).count, 0);
    // An actor that only tries keeps nothing back.
    let other = system.launch(NARROW).expect("there is room");
    link(&system, other, actor);
    system.tell(other, TRY, &[5]).expect("it lives");
    assert_eq!(state(&system, other).errors, 1);
    system.activate(&[actor]).expect("the engine runs");
    let state = state(&system, actor);
    assert_eq!((state.count, state.sum), (4, 20));
}

/// The sender in the middle is full, deactivated and waited for, and waits itself: it has nothing to do until it is activated.
fn deactivated_sender_waits_without_turns(select: Select) {
    let (_engine, system) = system(select);
    let [first, middle, last] = [(); 3].map(|()| system.launch(NARROW).expect("there is room"));
    link(&system, first, middle);
    link(&system, middle, last);
    system.deactivate(&[last]).expect("the engine runs");
    for _ in 0..4 {
        system.try_tell(last, ADD, &[1]).expect("there is room");
    }
    system.tell(middle, PASS, &[10, 1]).expect("it lives");
    system.settle().expect("it settles: the sender is muted");
    system.deactivate(&[middle]).expect("the engine runs");
    for _ in 0..4 {
        let sent = system.try_tell(middle, PASS, &[10, 1]);
        sent.expect("there is room");
    }
    system.tell(first, PASS, &[10, 2]).expect("it lives");
    system.settle().expect("it settles: no one can go on");
    let rest = system.activate(&[middle, last]).expect("the engine runs");
    assert_eq!(rest, 0);
    let state = state(&system, last);
    assert_eq!((state.count, state.sum), (10, 64));
}

fn stopped_actor_handles_what_it_has_accepted(select: Select) {
    let (_engine, system) = system(select);
    let [actor, other] = [(); 2].map(|()| system.launch(WIDE).expect("there is room"));
    system.deactivate(&[actor]).expect("the engine runs");
    let adds: Vec<_> = (0..100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    system.tell_all(&adds).expect("it lives");
    link(&system, other, actor);
    system.tell(other, STOP_LATER, &[]).expect("it lives");
    system.settle().expect("it settles");
    let refused = system.try_tell(actor, ADD, &[1]);
    assert!(
        matches!(refused, Err(ActorError::Gone { .. })),
        "{refused:?}"
    );
    system.activate(&[actor]).expect("it still lives");
    let stats = system.settle().expect("it settles");
    let state: DevProbeNode = system.state(actor).expect("the slot is not used again");
    assert_eq!((state.sum, stats.dead), (4950, [0; 5]));
    assert_eq!(
        system.stop(&[actor, other]).expect("the engine runs"),
        1,
        "one has ended"
    );
    // A handler that stops its actor ends it at once.
    let third = system.launch(WIDE).expect("there is room");
    system
        .tell_all(&[Tell::new(third, STOP, &[]), Tell::new(third, ADD, &[1])])
        .or_else(|error| match error {
            ActorError::Gone { .. } => Ok(()),
            other => Err(other),
        })
        .expect("the second message is refused, or a dead letter");
    system.settle().expect("it settles");
    assert!(matches!(
        system.ask(third, GET, &[]),
        Err(ActorError::Gone { .. })
    ));
}

fn killed_actor_leaves_dead_letters(select: Select) {
    let (_engine, system) = system(select);
    let actors = system.launch_all(WIDE, 500).expect("there is room");
    system.deactivate(&actors).expect("the engine runs");
    let tells: Vec<_> = (0..20)
        .flat_map(|i| actors.iter().map(move |&a| Tell::new(a, ADD, &[i])))
        .collect();
    system.tell_all(&tells).expect("all live");
    let killer = system.launch(NARROW).expect("there is room");
    link(&system, killer, actors[0]);
    system.tell(killer, KILL, &[]).expect("it lives");
    system.settle().expect("it settles");
    assert_eq!(
        system.kill(&actors).expect("the engine runs"),
        1,
        "one was killed by an actor"
    );
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead(DeadReason::Ended), 20 * 500);
    // Its slot is free again, and its messages are no one else's.
    let next = system.launch_all(WIDE, 500).expect("there is room");
    system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system.states(&next).expect("they are there");
    assert!(states.iter().all(|s| s.count == 0 && s.sum == 0));
}

fn id_never_names_another_actor(select: Select) {
    let engine = engine(select);
    let system = start(&engine, 8, 1000).expect("the system starts");
    let mut seen = BTreeSet::new();
    let sender = system.launch(WIDE).expect("there is room");
    for round in 0..30 {
        let actors = system
            .launch_all(WIDE, 7)
            .expect("all slots are free again");
        link(&system, sender, actors[3]);
        system.kill(&actors).expect("the engine runs");
        system.settle().expect("it settles");
        assert_eq!(system.kill(&actors).expect("the engine runs"), 7);
        for actor in actors {
            assert!(seen.insert(actor), "{actor:?} in round {round}");
        }
        // To the actor that was in that slot.
        system.tell(sender, PASS, &[1, 1]).expect("it lives");
        let stats = system.settle().expect("it settles");
        assert_eq!(stats.dead(DeadReason::Gone), round + 1);
    }
}

fn actors_launch_actors_until_there_is_no_slot(select: Select) {
    let engine = engine(select);
    let system = start(&engine, 64, 1000).expect("the system starts");
    let parents = system.launch_all(WIDE, 40).expect("there is room");
    let tells: Vec<_> = parents
        .iter()
        .map(|&p| Tell::new(p, LAUNCH, &[NARROW.into(), 7]))
        .collect();
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    // 24 have a slot; the messages to the others are dead letters.
    assert_eq!(
        (stats.launch_refusals, stats.dead(DeadReason::Gone)),
        (16, 16)
    );
    let states: Vec<DevProbeNode> = system.states(&parents).expect("they are there");
    let children: Vec<_> = states
        .iter()
        .map(|s| ActorId::from_bits(s.next))
        .filter(|c| !c.is_none())
        .collect();
    let states: Vec<DevProbeNode> = system.states(&children).expect("they are there");
    assert_eq!(
        (children.len(), states.iter().map(|s| s.sum).sum()),
        (24, 24 * 7)
    );
    let more = system.launch(WIDE);
    assert!(
        matches!(more, Err(ActorError::TooManyActors { limit: 64 })),
        "{more:?}"
    );
}

fn exhausted_pool_of_messages_names_the_longest_mailboxes(select: Select) {
    let engine = engine(select);
    let system = start(&engine, 64, 100).expect("the system starts");
    let actors = system.launch_all(WIDE, 3).expect("there is room");
    system.deactivate(&actors).expect("the engine runs");
    let to = |actor, n: u64| (0..n).map(move |i| Tell::new(actor, ADD, &[i]));
    let tells: Vec<_> = to(actors[0], 10)
        .chain(to(actors[1], 60))
        .chain(to(actors[2], 25))
        .collect();
    system.tell_all(&tells).expect("there is room");
    let error = system
        .tell_all(&to(actors[2], 20).collect::<Vec<_>>())
        .expect_err("there is no room");
    let ActorError::OutOfMessages {
        limit: 100,
        mailboxes,
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((mailboxes[0].actor, mailboxes[0].waiting), (actors[1], 60));
    assert_eq!(mailboxes[1].actor, actors[2]);
    let text = error.to_string();
    assert!(
        text.contains("60 `wide`") && text.contains("ActorConfig::messages"),
        "{text}"
    );
}

fn handler_that_sends_too_much_is_named(select: Select) {
    let (_engine, system) = system(select);
    let [one, two] = [(); 2].map(|()| system.launch(NARROW).expect("there is room"));
    link(&system, one, two);
    let error = system
        .tell(one, TOO_MANY, &[])
        .and_then(|()| system.settle().map(drop))
        .expect_err("it sends five");
    let text = error.to_string();
    assert!(
        matches!(&error, ActorError::TooManySends { sends: 4, .. }) && text.contains("`narrow`"),
        "{text}"
    );
    // Each call gets the reason, not only the first.
    let error = system.settle().map(drop).expect_err("it has ended");
    let again = matches!(&error, ActorError::TooManySends { sends: 4, .. });
    assert!(again, "{error}");
}

fn actors_survive_epochs(select: Select) {
    let (engine, system) = system(select);
    let actors = system.launch_all(NARROW, 3000).expect("there is room");
    ring(&system, &actors).expect("all live");
    let tells: Vec<_> = actors
        .iter()
        .map(|&a| Tell::new(a, PASS, &[1, 3000]))
        .collect();
    system.tell_all(&tells).expect("all live");
    for _ in 0..10 {
        engine.park().expect("it parks");
        engine.resume().expect("it resumes");
        engine.swap(None).expect("it swaps");
    }
    let stats = system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system.states(&actors).expect("they are there");
    assert_eq!(states.iter().map(|s| s.count).sum::<u64>(), 3000);
    assert_eq!(stats.dead, [0; 5]);
}

fn wrong_use_of_actors_is_an_error(select: Select) {
    let (engine, system) = system(select);
    let names = |error: ActorError, parts: &[&str]| {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    names(
        system.launch(9).expect_err("there is no such kind"),
        &["2 kinds", "9"],
    );
    let actor = system.launch(NARROW).expect("there is room");
    names(
        system
            .tell(ActorId::NONE, ADD, &[])
            .expect_err("it is no actor"),
        &["none"],
    );
    let foreign = ActorId::from_bits(actor.bits() + (1 << 60));
    names(
        system
            .tell(foreign, ADD, &[])
            .expect_err("it is of another node"),
        &["does not live"],
    );
    for config in [
        ActorConfig {
            actors: 0,
            ..ActorConfig::default()
        },
        ActorConfig {
            actors: u32::MAX,
            ..ActorConfig::default()
        },
        ActorConfig {
            messages: 1 << 28,
            ..ActorConfig::default()
        },
        ActorConfig {
            asks: 0,
            ..ActorConfig::default()
        },
    ] {
        let error = ActorSystem::start(&engine, &PROBE, config).expect_err("a limit cannot work");
        names(error, &["ActorConfig::", "must be"]);
    }
    let impatient = ActorConfig {
        patience: Duration::from_millis(200),
        ..ActorConfig::default()
    };
    let system = ActorSystem::start(&engine, &PROBE, impatient).expect("the system starts");
    let actor = system.launch(WIDE).expect("there is room");
    system.deactivate(&[actor]).expect("the engine runs");
    names(
        system.ask(actor, GET, &[]).expect_err("it handles nothing"),
        &["no reply within"],
    );
    // The late reply is dropped; the next ask has its own.
    system.activate(&[actor]).expect("the engine runs");
    system.tell(actor, ADD, &[3]).expect("it lives");
    assert_eq!(system.ask(actor, GET, &[]).expect("it replies").word(0), 3);
}

fn system_that_is_dropped_ends_its_actors(select: Select) {
    let engine = engine(select);
    // More systems, one after the other, than an engine has instances; each with messages under way for ever.
    for _ in 0..300 {
        let system = start(&engine, 64, 1000).expect("the last one has ended");
        let actors = system.launch_all(NARROW, 8).expect("there is room");
        ring(&system, &actors).expect("all live");
        system
            .tell(actors[0], PASS, &[1, u64::MAX])
            .expect("it lives");
    }
}

fn what_actors_on_wgpu_do_not_have_is_named(select: Select) {
    let (engine, system) = system(select);
    let mut kinds = PROBE.kinds.to_vec();
    kinds[1] = kinds[1].clone().services();
    let program = ActorProgram::new(
        PROBE.name.clone(),
        kinds.into(),
        PROBE.device_source.clone(),
        PROBE.wgsl_source.clone(),
        PROBE.params.clone(),
    );
    let error = ActorSystem::start(&engine, &program, ActorConfig::default());
    let refused = error.expect_err("it is refused");
    let text = refused.to_string();
    assert!(matches!(refused, ActorError::NotOnEngine { .. }), "{text}");
    let parts = ["`wgpu`", ".services()", "--engine cpu"];
    assert!(parts.into_iter().all(|part| text.contains(part)), "{text}");
    let actor = system.launch(NARROW).expect("there is room");
    assert!(matches!(
        system.lookup("one"),
        Err(ActorError::NotOnEngine { .. })
    ));
    // Nothing has happened to it.
    system.tell(actor, ADD, &[2]).expect("it lives");
    assert_eq!(state(&system, actor).sum, 2);
    let device = Device::open(select).expect("the device opens");
    let error = device.engine().program(SERVICES.program()).start();
    let text = error.expect_err("it has no WGSL").to_string();
    assert!(
        text.contains("`actor_services`") && text.contains("wgpu"),
        "{text}"
    );
}

/// A dispatch runs many turns of actors that only one workgroup has touched.
fn messages_go_on_within_a_dispatch(select: Select) {
    const HOPS: u64 = 20_000;
    let (engine, system) = system(select);
    let actors = system.launch_all(NARROW, 10).expect("there is room");
    ring(&system, &actors).expect("all live");
    system.settle().expect("it settles");
    let dispatches = || {
        let stats = engine.stats().expect("there are counters");
        stats.dispatches.expect("it is wgpu").count
    };
    let before = dispatches();
    system.tell(actors[0], PASS, &[1, HOPS]).expect("it lives");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0; 5]);
    let needed = dispatches() - before;
    assert!(needed < HOPS / 20, "{needed} dispatches for {HOPS} hops");
    let last = system.state::<DevProbeNode>(actors[HOPS as usize % 10]);
    assert_eq!(last.expect("it is there").sum, 1);
}

fn asks_of_several_threads_have_their_own_replies(select: Select) {
    let (_engine, system) = system(select);
    let actors = system.launch_all(WIDE, 200).expect("there is room");
    let adds = (0..).zip(&actors).map(|(i, &a)| Tell::new(a, ADD, &[i]));
    system
        .tell_all(&adds.collect::<Vec<_>>())
        .expect("all live");
    std::thread::scope(|scope| {
        for part in actors.chunks(50) {
            let (system, first) = (&system, actors.iter().position(|a| *a == part[0]));
            scope.spawn(move || {
                for (i, &actor) in (first.expect("it is one") as u64..).zip(part) {
                    let reply = system.ask(actor, GET, &[]).expect("it replies");
                    assert_eq!(reply.words(), [i, 1, 0]);
                }
            });
        }
    });
}

fn asks_of_one_call_have_their_own_replies(select: Select) {
    let (_engine, system) = system(select);
    let actors = system.launch_all(WIDE, 200).expect("there is room");
    let numbers: Vec<u64> = (0..200).collect();
    system
        .tell_columns(&actors, ADD, &[Column::Each(&numbers)])
        .expect("all live");
    // More than are under way together, and each actor more than once.
    let long = Duration::from_secs(60);
    let many: Vec<ActorId> = actors.iter().copied().cycle().take(3000).collect();
    let replies = system
        .ask_columns(&many, GET, &[], long)
        .expect("all reply");
    assert_eq!(replies.len(), many.len());
    for ((number, reply), actor) in numbers.iter().cycle().zip(&replies).zip(&many) {
        assert_eq!(
            (reply.words(), reply.from()),
            (&[*number, 1, 0][..], *actor)
        );
    }
    // The first that does not live is named, and the others were asked.
    system.kill(&actors[7..8]).expect("it runs");
    system.settle().expect("it settles");
    let asked = system.ask_columns(&actors[..20], GET, &[], long);
    assert!(
        matches!(asked, Err((7, ActorError::Gone { actor })) if actor == actors[7]),
        "{asked:?}"
    );
}

fn actors_that_end_amid_messages_lose_none_uncounted(select: Select) {
    let (_engine, system) = system(select);
    let receivers = system.launch_all(WIDE, 300).expect("there is room");
    let enders = system.launch_all(NARROW, 300).expect("there is room");
    // Every actor ends while messages arrive: each was handled, was refused, or is a dead letter.
    let mut tells = Vec::new();
    for (place, (&receiver, &ender)) in receivers.iter().zip(&enders).enumerate() {
        tells.push(Tell::new(ender, LINK, &[receiver.bits()]));
        tells.extend((0..4).map(|_| Tell::new(ender, PASS, &[1, 1])));
        let how = if place % 2 == 0 { KILL } else { STOP_LATER };
        tells.push(Tell::new(ender, how, &[]));
        tells.extend((0..4).map(|_| Tell::new(ender, PASS, &[1, 1])));
    }
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system
        .states(&receivers)
        .expect("the slots are not used again");
    let handled: u64 = states.iter().map(|s| s.count).sum();
    let dead = stats.dead(DeadReason::Gone) + stats.dead(DeadReason::Ended);
    assert_eq!(handled + dead, 8 * 300, "{stats:?}");
    assert_eq!(stats.dead.iter().sum::<u64>(), dead);
    // What was accepted before the stop is handled.
    let stopped = states.iter().skip(1).step_by(2);
    assert!(stopped.into_iter().all(|s| s.count >= 4), "{stats:?}");
    assert_eq!(system.stop(&receivers).expect("the engine runs"), 300);
    // Their slots are free again, and their messages are no one else's.
    let next = system.launch_all(WIDE, 300).expect("there is room");
    system.settle().expect("it settles");
    let states: Vec<DevProbeNode> = system.states(&next).expect("they are there");
    assert!(states.iter().all(|s| s.count == 0 && s.sum == 0));
    // A handler that stops its actor ends it at once.
    let last = system.launch(WIDE).expect("there is room");
    system.tell(last, STOP, &[]).expect("it lives");
    system.settle().expect("it settles");
    let gone = system.ask(last, GET, &[]);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
}

/// As `everwarp top`, `everwarp actors` and metrics see them.
fn lengths_of_mailboxes_are_seen_while_actors_wait(select: Select) {
    // No other system of this program has as many slots.
    const SLOTS: u32 = 4_321;
    let engine = engine(select);
    let system = start(&engine, SLOTS, 1 << 16).expect("the system starts");
    let actors = system.launch_all(WIDE, 3).expect("there is room");
    system.deactivate(&actors).expect("the engine runs");
    let counts = actors.iter().zip([5, 0, 9]);
    let tells: Vec<_> = counts
        .flat_map(|(&actor, count)| (0..count).map(move |i| Tell::new(actor, ADD, &[i])))
        .collect();
    system.tell_all(&tells).expect("all live");
    let name = engine.kind().to_string();
    let seen = || {
        let mut systems = telemetry::view(2).systems.into_iter();
        let own = systems.find(|system| system.limit == SLOTS && system.engine == name);
        let own = own.expect("the system is shown");
        let wide = own.kinds.iter().find(|kind| kind.kind == "wide").cloned();
        let wide = wide.expect("the kind is shown");
        let metrics = telemetry::openmetrics(&[ProgramView {
            systems: vec![own.clone()],
            ..ProgramView::default()
        }]);
        let longest = metrics.lines().find(|line| {
            line.starts_with("everwarp_actor_mailbox_longest{") && line.contains("kind=\"wide\"")
        });
        let longest = longest.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert_eq!(longest, Some(f64::from(wide.longest)), "{metrics}");
        (own.actors, wide)
    };
    let (rows, wide) = seen();
    assert_eq!((wide.live, wide.deactivated, wide.bound), (3, 3, 4000));
    assert_eq!((wide.waiting, wide.longest, wide.handled), (14, 9, 0));
    let waiting: Vec<_> = rows.iter().map(|row| (row.waiting, &*row.state)).collect();
    assert_eq!(waiting, [(9, "deactivated"), (5, "deactivated")]);
    system.activate(&actors).expect("the engine runs");
    system.settle().expect("it settles");
    let (rows, wide) = seen();
    assert_eq!((wide.waiting, wide.longest, wide.handled), (0, 0, 14));
    let handled: Vec<_> = rows.iter().map(|row| (row.waiting, row.handled)).collect();
    assert_eq!(handled, [(0, 9), (0, 5)]);
}

/// One message for each turn, so that what a sample stands for is no more than all batches.
fn times_of_handlers_stand_for_messages_and_not_for_turns(select: Select) {
    // A warp of a GPU measures the handlers of one of some hundred batches.
    const MESSAGES: u64 = 10_000;
    let begin = Instant::now();
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(PROBE.program()).measure(true);
    let engine = builder.start().expect("the engine starts");
    let system = start(&engine, 16, 1 << 10).expect("the system starts");
    let actor = system.launch(WIDE).expect("there is room");
    for i in 0..MESSAGES {
        system.tell(actor, ADD, &[i]).expect("it lives");
        system.settle().expect("it settles");
    }
    assert_eq!(state(&system, actor).count, MESSAGES);
    let wall = begin.elapsed().as_nanos() as u64;
    let times = |kind: &str| engine.function_times("actor_probe", &format!("{kind}_turn"));
    if engine.kind() == EngineKind::Wgpu {
        return assert!(times("wide").is_none(), "it measures no times");
    }
    let [run, _, handling] = times("wide").expect("it measures");
    let [.., of_others] = times("narrow").expect("it measures");
    assert_eq!(of_others.count, 0, "no actor of that kind has a message");
    engine.park().expect("it parks");
    let turns = engine.function_calls("actor_probe", "wide_turn");
    assert!(turns >= Some(MESSAGES), "{turns:?}");
    let ran = engine.stats().expect("there are counters").executed;
    // A sample of the CPU engine stands for up to some thousand messages that are to come.
    let most = ran + 8_192 * u64::from(engine.size());
    assert!((1..=most).contains(&handling.count), "{ran}: {handling:?}");
    assert!(run.count <= most, "{ran}: {run:?}");
    assert!(0 < handling.most && handling.most <= wall, "{handling:?}");
    engine.resume().expect("it resumes");
}

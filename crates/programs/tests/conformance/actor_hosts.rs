//! Actors of the host, and what is made of them: streams, topics, and channels. A GPU lends such actors to the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, DeadReason, Slow, Tell};
use everwarp::{Device, Engine, Select};
use everwarp_programs::actor_services::{
    ADD, AGENT, DevAgent, GET, HOST, LINK_TO, PARTS, PASS, STOP, TICK, hosts,
};
use everwarp_testkit::cases;

use crate::support::{Case, tell};

pub(crate) const ALL: &[Case] = cases![
    closure_of_the_host_is_an_actor,
    program_of_host_actors_alone_runs,
    host_actor_is_handled_in_order_and_never_twice_at_once,
    settling_waits_for_closures,
    host_actor_waits_for_a_full_mailbox_and_keeps_its_order,
    host_actor_fails_is_restarted_and_ends,
    host_actor_uses_timers_monitors_and_deadlines,
    host_actor_keeps_asks,
    stream_to_the_host_loses_nothing_and_mutes_its_senders,
    stream_from_the_host_arrives_in_order_and_is_bounded_by_credits,
    dropped_stream_from_the_host_still_delivers_what_was_sent,
    topic_waits_for_slow_subscribers_or_says_how_many_they_missed,
    channel_joins_the_host_and_its_actors,
    system_ends_while_closures_run,
];

const LONG: Duration = Duration::from_secs(60);

fn start(select: Select) -> (Engine, ActorSystem) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(PARTS.program());
    let engine = engine.watchdog(LONG).start().expect("the engine starts");
    let system = ActorSystem::start(&engine, &PARTS, ActorConfig::default());
    (engine, system.expect("the system starts"))
}
fn agent(system: &ActorSystem) -> ActorId {
    system.launch(AGENT).expect("there is room")
}
fn state(system: &ActorSystem, actor: ActorId) -> DevAgent {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}
/// Waits until something holds in the end.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn closure_of_the_host_is_an_actor(select: Select) {
    let (_engine, system) = start(select);
    let to = agent(&system);
    let seen = Arc::new(AtomicU64::new(0));
    let own = seen.clone();
    let actor = system.launch_host(HOST, move |actor, message| {
        own.fetch_add(message.word(0), Ordering::Relaxed);
        actor.tell(to, ADD, &[2 * message.word(0)]);
        actor.reply(GET, &[9, actor.id().bits()]);
    });
    let actor = actor.expect("there is room");
    let tells: Vec<_> = (1..=100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    system.tell_all(&tells).expect("it lives");
    let reply = system.ask(actor, GET, &[]).expect("it replies");
    assert_eq!(reply.words(), [9, actor.bits()]);
    assert_eq!(state(&system, to).sum, 10_100);
    assert_eq!(seen.load(Ordering::Relaxed), 5050);
    // The closure goes with the actor.
    system.kill(&[actor]).expect("it runs");
    wait_until("the closure is dropped", || Arc::strong_count(&seen) == 1);
    let wrong = system.launch_host(AGENT, |_, _| {});
    let wrong = wrong.expect_err("it is another kind");
    assert!(wrong.to_string().contains("Kind::host"), "{wrong}");
    // One that was launched without a closure says so.
    let empty = system.launch(HOST).expect("there is room");
    tell(&system, empty, ADD, &[]);
    system.settle().expect("it settles");
    let (failures, count) = system.failures();
    assert_eq!((count, failures[0].actor), (1, empty));
    assert!(failures[0].reason.contains("launch_host"), "{failures:?}");
}

fn program_of_host_actors_alone_runs(select: Select) {
    let program = hosts();
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &program, ActorConfig::default());
    let system = system.expect("the system starts");
    let doubles = system.launch_host(0, |actor, message| {
        actor.reply(1, &[2 * message.word(0)]);
    });
    let doubles = doubles.expect("there is room");
    for number in 0..50 {
        let reply = system.ask(doubles, 1, &[number]).expect("it replies");
        assert_eq!(reply.word(0), 2 * number);
    }
}

fn host_actor_is_handled_in_order_and_never_twice_at_once(select: Select) {
    let (_engine, system) = start(select);
    let log = Arc::new(Mutex::new(Vec::new()));
    let actors: Vec<_> = (0..8)
        .map(|number| {
            let (own, runs) = (log.clone(), AtomicU64::new(0));
            let actor = system.launch_host(HOST, move |_, message| {
                assert_eq!(runs.fetch_add(1, Ordering::SeqCst), 0, "it runs already");
                std::thread::yield_now();
                let mut all = own.lock().expect("no panic");
                all.push((number, message.word(0)));
                drop(all);
                runs.fetch_sub(1, Ordering::SeqCst);
            });
            actor.expect("there is room")
        })
        .collect();
    let tells: Vec<_> = (0..500)
        .flat_map(|i| actors.iter().map(move |to| Tell::new(*to, ADD, &[i])))
        .collect();
    system.tell_all(&tells).expect("they live");
    system.settle().expect("it settles");
    let all = log.lock().expect("no panic");
    for number in 0..8 {
        let of = all.iter().filter(|entry| entry.0 == number);
        assert!(of.map(|entry| entry.1).eq(0..500), "actor {number}");
    }
}

fn settling_waits_for_closures(select: Select) {
    let (_engine, system) = start(select);
    let to = agent(&system);
    let slow = system.launch_host(HOST, move |actor, message| {
        // It works for a while.
        std::thread::sleep(Duration::from_millis(20));
        actor.tell(to, ADD, &[message.word(0)]);
    });
    let slow = slow.expect("there is room");
    for number in 1..=5 {
        tell(&system, slow, ADD, &[number]);
    }
    assert_eq!(state(&system, to).sum, 15);
    // A stopped one handles what it has accepted.
    tell(&system, slow, ADD, &[100]);
    system.stop(&[slow]).expect("it runs");
    assert_eq!(state(&system, to).sum, 115);
    let gone = system.tell(slow, ADD, &[1]);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
}

fn host_actor_waits_for_a_full_mailbox_and_keeps_its_order(select: Select) {
    let (_engine, system) = start(select);
    let to = agent(&system);
    system.deactivate(&[to]).expect("it runs");
    let mut number = 0;
    let sender = system.launch_host(HOST, move |actor, _| {
        for _ in 0..30 {
            number += 1;
            actor.tell(to, TICK, &[number]);
        }
    });
    let sender = sender.expect("there is room");
    for _ in 0..20 {
        tell(&system, sender, ADD, &[]);
    }
    let stats = system.settle().expect("it settles: the sender is muted");
    assert!(stats.mutes > 0);
    system.activate(&[to]).expect("it runs");
    let end = state(&system, to);
    assert_eq!((end.ticks, end.last, end.disorder), (600, 600, 0));
}

fn host_actor_fails_is_restarted_and_ends(select: Select) {
    let (_engine, system) = start(select);
    let (stops, fails) = (1, 2);
    let actors: Vec<_> = (0..3)
        .map(|_| {
            let actor = system.launch_host(HOST, move |actor, message| match message.tag() {
                tag if tag == stops => actor.stop(),
                tag if tag == fails => actor.fail(),
                _ => {}
            });
            actor.expect("there is room")
        })
        .collect();
    let monitors: Vec<_> = actors
        .iter()
        .map(|id| system.monitor(*id).expect("it can"))
        .collect();
    tell(&system, actors[0], stops, &[]);
    let failed = system.ask(actors[1], fails, &[]);
    assert!(
        matches!(
            failed,
            Err(ActorError::NoReply {
                reason: DeadReason::Failed
            })
        ),
        "{failed:?}"
    );
    system.kill(&actors[2..]).expect("it runs");
    use everwarp::actor::Ending::{Failed, Killed, Stopped};
    for (monitor, ending) in monitors.iter().zip([Stopped, Failed, Killed]) {
        assert_eq!(monitor.ended_within(LONG), Some(ending));
    }
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead(DeadReason::Failed), 1);
}

fn host_actor_uses_timers_monitors_and_deadlines(select: Select) {
    let (_engine, system) = start(select);
    let other = agent(&system);
    let log = Arc::new(Mutex::new(Vec::new()));
    let own = log.clone();
    let actor = system.launch_host(HOST, move |actor, message| {
        let mut log = own.lock().expect("no panic");
        if message.timer().is_some() {
            log.push(("timer", u64::from(message.tag())));
        } else if let Some(ending) = message.down() {
            log.push(("down", ending as u64));
        } else if let Some(reason) = message.failure() {
            assert_eq!(reason, DeadReason::Timeout);
            log.push(("timeout", message.ask()));
        } else if message.is_reply() {
            log.push(("reply", message.ask()));
        } else {
            match message.tag() {
                1 => {
                    actor.after(Duration::from_millis(5), 7, &[]);
                    let cancelled = actor.after(Duration::from_secs(3600), 8, &[]);
                    assert!(actor.cancel(cancelled));
                }
                2 => actor.monitor(other, 4),
                _ => actor.ask_within(other, GET, &[], message.word(0), Duration::from_millis(50)),
            }
        }
    });
    let actor = actor.expect("there is room");
    let has = |entry| {
        let log = log.clone();
        move || log.lock().expect("no panic").contains(&entry)
    };
    tell(&system, actor, 1, &[]);
    wait_until("the timer", has(("timer", 7)));
    tell(&system, actor, 3, &[11]);
    wait_until("the reply", has(("reply", 11)));
    system.deactivate(&[other]).expect("it runs");
    tell(&system, actor, 3, &[12]);
    wait_until("the deadline", has(("timeout", 12)));
    tell(&system, actor, 2, &[]);
    system.settle().expect("it settles");
    system.activate(&[other]).expect("it runs");
    tell(&system, other, STOP, &[]);
    wait_until("the end", has(("down", 0)));
}

fn host_actor_keeps_asks(select: Select) {
    let (_engine, system) = start(select);
    let mut kept = Vec::new();
    let actor = system.launch_host(HOST, move |actor, message| match message.is_ask() {
        true => kept.push(actor.keep()),
        false => kept.drain(..).for_each(|ask| {
            assert!(actor.reply_kept(ask, GET, &[message.word(0)]));
        }),
    });
    let actor = actor.expect("there is room");
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| system.ask(actor, GET, &[])))
            .collect();
        let answered = AtomicU64::new(0);
        // Until all have been kept and replied to.
        let done = || asks.iter().all(std::thread::ScopedJoinHandle::is_finished);
        wait_until("the replies", || {
            let number = answered.fetch_add(1, Ordering::Relaxed);
            tell(&system, actor, ADD, &[number]);
            done()
        });
        for ask in asks {
            ask.join().expect("no panic").expect("it is replied to");
        }
        // One that is kept ends with its actor.
        let last = scope.spawn(|| system.ask(actor, GET, &[]));
        std::thread::sleep(Duration::from_millis(20));
        system.kill(&[actor]).expect("it runs");
        let ended = last.join().expect("no panic");
        let reasons = [DeadReason::Ended, DeadReason::Gone];
        assert!(
            matches!(ended, Err(ActorError::NoReply { reason }) if reasons.contains(&reason))
                || matches!(ended, Err(ActorError::Gone { .. })),
            "{ended:?}"
        );
    });
}

/// An actor of the GPU sends, and the host takes slowly: no more wait than there are credits.
fn stream_to_the_host_loses_nothing_and_mutes_its_senders(select: Select) {
    const MESSAGES: u64 = 400;
    let (_engine, system) = start(select);
    let outlet = system.outlet(HOST, 16).expect("there is room");
    let sender = agent(&system);
    tell(&system, sender, LINK_TO, &[outlet.id().bits()]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MESSAGES {
                tell(&system, sender, PASS, &[number]);
            }
        });
        for number in 0..MESSAGES {
            let message = outlet.next_within(LONG).expect("it comes");
            assert_eq!((message.word(0), message.from()), (number, sender));
        }
    });
    assert_eq!(outlet.next_within(Duration::from_millis(5)), None);
    // The host takes none: the sender waits at last.
    for number in 0..120 {
        tell(&system, sender, PASS, &[number]);
    }
    let stats = system.settle().expect("it settles: the sender is muted");
    assert!(stats.mutes > 0);
    drop(outlet);
    wait_until("the stream's actor has ended", || {
        let stats = system.settle().expect("it settles");
        stats.dead(DeadReason::Gone) + stats.dead(DeadReason::Ended) > 0
    });
}

fn stream_from_the_host_arrives_in_order_and_is_bounded_by_credits(select: Select) {
    let (_engine, system) = start(select);
    let to = agent(&system);
    let inlet = system.inlet(HOST, to, 10).expect("there is room");
    for number in 1..=3000 {
        inlet.send(TICK, &[number]).expect("there is a credit");
    }
    assert!(inlet.flush_within(LONG));
    let end = state(&system, to);
    assert_eq!((end.ticks, end.last, end.disorder), (3000, 3000, 0));
    // Without a receiver that handles messages the credits are used up at last.
    system.deactivate(&[to]).expect("it runs");
    let mut sent = 3000;
    let full = loop {
        match inlet.send_within(TICK, &[sent + 1], Duration::from_millis(300)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 4000, "nothing bounds it");
    };
    assert!(
        matches!(full, ActorError::Full { actor } if actor == to),
        "{full}"
    );
    system.activate(&[to]).expect("it runs");
    assert!(inlet.flush_within(LONG));
    let end = state(&system, to);
    assert_eq!((end.ticks, end.disorder), (sent, 0));
    // It learns that the receiver has ended.
    system.kill(&[to]).expect("it runs");
    wait_until("the stream knows", || {
        matches!(inlet.send(ADD, &[0]), Err(ActorError::Gone { .. }))
    });
}

fn dropped_stream_from_the_host_still_delivers_what_was_sent(select: Select) {
    let (_engine, system) = start(select);
    let to = agent(&system);
    let inlet = system.inlet(HOST, to, 1000).expect("there is room");
    for _ in 0..500 {
        inlet.send(ADD, &[1]).expect("there is a credit");
    }
    drop(inlet);
    assert_eq!(state(&system, to).sum, 500);
}

fn topic_waits_for_slow_subscribers_or_says_how_many_they_missed(select: Select) {
    let (_engine, system) = start(select);
    // More than one step of the topic.
    let waits = system.launch_all(AGENT, 100).expect("there is room");
    let got = Arc::new(Mutex::new(Vec::new()));
    let own = got.clone();
    let misses = system.launch_host(HOST, move |_, message| {
        let mut got = own.lock().expect("no panic");
        got.push((message.missed(), message.word(0)));
    });
    let misses = misses.expect("there is room");
    let topic = system.topic(HOST).expect("there is room");
    topic.subscribe_all(&waits, Slow::Waits);
    topic.subscribe(misses, Slow::Misses);
    system.deactivate(&[misses]).expect("it runs");
    for number in 1..=80 {
        tell(&system, topic.id(), TICK, &[number]);
    }
    system.settle().expect("it settles");
    for state in system.states::<DevAgent>(&waits).expect("they are there") {
        assert_eq!((state.ticks, state.last, state.disorder), (80, 80, 0));
    }
    // As many as its mailbox has room for; the others were missed, and that is said before the next one that fits.
    system.activate(&[misses]).expect("it runs");
    system.settle().expect("it settles");
    tell(&system, topic.id(), TICK, &[81]);
    system.settle().expect("it settles");
    let mut seen = got.lock().expect("no panic").clone();
    seen.sort_by_key(|m| m.0.is_some());
    let fit: Vec<_> = (1..=64).chain([81]).map(|i| (None, i)).collect();
    assert_eq!(seen[..65], fit);
    assert_eq!(seen[65..], [(Some(16), 16)]);
    // Those that end leave it, without dead letters.
    system.kill(&waits[1..]).expect("it runs");
    system.settle().expect("it settles");
    tell(&system, topic.id(), TICK, &[82]);
    let stats = system.settle().expect("it settles");
    assert_eq!((topic.subscribers(), stats.dead), (2, [0; 5]));
}

fn channel_joins_the_host_and_its_actors(select: Select) {
    let (_engine, system) = start(select);
    let (numbers, doubles) = (
        system.channel::<u64>(4).expect("it can"),
        system.channel::<u64>(1).expect("it can"),
    );
    let (from, to) = (numbers.id(), doubles.id());
    let actor = system.launch_host(HOST, move |actor, message| {
        if message.is_reply() && message.ask() == 1 {
            match message.failure() {
                None => drop(actor.send_on(to, &(2 * message.value::<u64>()), 2)),
                Some(_) => actor.stop(),
            }
        } else {
            actor.receive_on::<u64>(from, 1);
        }
    });
    let actor = actor.expect("there is room");
    let monitor = system.monitor(actor).expect("it lives");
    tell(&system, actor, ADD, &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..100 {
                numbers.send(&number).expect("there is room in time");
            }
        });
        for number in 0..100 {
            assert_eq!(doubles.receive().expect("it comes"), 2 * number);
        }
    });
    numbers.close().expect("it can");
    let ended = monitor.ended_within(LONG);
    assert_eq!(ended, Some(everwarp::actor::Ending::Stopped));
}

/// Nothing hangs, and each closure is dropped.
fn system_ends_while_closures_run(select: Select) {
    let (engine, system) = start(select);
    let alive = Arc::new(());
    for _ in 0..6 {
        let own = alive.clone();
        let actor = system.launch_host(HOST, move |actor, message| {
            let _own = &own;
            std::thread::yield_now();
            let id = actor.id();
            actor.tell(id, ADD, message.words());
        });
        tell(&system, actor.expect("there is room"), ADD, &[1]);
    }
    drop(system);
    wait_until("closures are dropped", || Arc::strong_count(&alive) == 1);
    let system = ActorSystem::start(&engine, &PARTS, ActorConfig::default());
    let system = system.expect("it starts");
    let to = agent(&system);
    tell(&system, to, ADD, &[4]);
    assert_eq!(state(&system, to).sum, 4);
}

//! Actors of the host, streams and topics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everwarp_actor::{ActorError, ActorId, DeadReason, Kind, Slow, Tell};

use crate::support::{ADD, GET, LONG, Log, counters, sum, system};

fn host() -> Kind {
    Kind::host("host")
}

#[test]
fn closure_of_the_host_is_an_actor() {
    let (_engine, system) = system(vec![counters("counter"), host()]);
    let to = system.launch(0).expect("there is room");
    let seen = Arc::new(AtomicU64::new(0));
    let own = seen.clone();
    let actor = system.launch_host(1, move |actor, message| {
        own.fetch_add(message.word(0), Ordering::Relaxed);
        actor.tell(to, ADD, &[2 * message.word(0)]);
        actor.reply(GET, &[9]);
    });
    let actor = actor.expect("there is room");
    let tells: Vec<_> = (1..=100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    system.tell_all(&tells).expect("it lives");
    assert_eq!(system.ask(actor, GET, &[]).expect("it replies").word(0), 9);
    system.settle().expect("it settles");
    assert_eq!(
        (seen.load(Ordering::Relaxed), sum(&system, to)),
        (5050, 10_100)
    );
    // The closure goes with the actor.
    system.kill(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(Arc::strong_count(&seen), 1);
    let wrong = system
        .launch_host(0, |_, _| {})
        .expect_err("it is another kind");
    assert!(wrong.to_string().contains("Kind::host"), "{wrong}");
    // One that was launched without a closure says so.
    let empty = system.launch(1).expect("there is room");
    system.tell(empty, ADD, &[]).expect("it lives");
    system.settle().expect("it settles");
    let (failures, _) = system.failures();
    assert!(failures[0].reason.contains("launch_host"), "{failures:?}");
}

/// A sender of 5,000 numbers, and a host that takes them slowly: no more wait than there are credits.
#[test]
fn stream_to_the_host_loses_nothing_and_mutes_its_senders() {
    const SEND: u8 = 60;
    let sender = Kind::closure("sender", 8, |actor, message| {
        let (to, next, end) = (message.word(0), message.word(1), message.word(2));
        if next < end {
            actor.tell(ActorId::from_bits(to), ADD, &[next]);
            let own = actor.id();
            actor.tell(own, SEND, &[to, next + 1, end]);
        }
    });
    let (_engine, system) = system(vec![sender.sends(2), host()]);
    let outlet = system.outlet(1, 16).expect("there is room");
    let sender = system.launch(0).expect("there is room");
    let words = [outlet.id().bits(), 0, 5000];
    system.tell(sender, SEND, &words).expect("it lives");
    let stats = system.settle().expect("it settles: the sender is muted");
    assert_eq!(stats.mutes, 1);
    for i in 0..5000 {
        let message = outlet.next_within(LONG).expect("it comes");
        assert_eq!((message.word(0), message.from()), (i, sender));
    }
    assert_eq!(outlet.next_within(Duration::from_millis(5)), None);
    drop(outlet);
    system.settle().expect("it settles");
    let gone = system.tell(sender, SEND, &words);
    let stats = gone
        .and_then(|()| system.settle())
        .expect("the sender lives");
    assert!(stats.dead(DeadReason::Gone) >= 4900, "{stats:?}");
}

#[test]
fn stream_from_the_host_arrives_in_order_and_is_bounded_by_credits() {
    let log = Log::default();
    let own = log.clone();
    let kind = Kind::closure("log", 8, move |actor, message| own.add(actor, message));
    let (_engine, system) = system(vec![kind.mailbox(4), host()]);
    let to = system.launch(0).expect("there is room");
    let inlet = system.inlet(1, to, 10).expect("there is room");
    for i in 0..3000 {
        inlet.send(ADD, &[i]).expect("there is a credit in time");
    }
    let all = log.wait_for(3000);
    assert!(all.iter().map(|(_, m)| m.word(0)).eq(0..3000));
    // Without a receiver that handles messages the credits are used up at last.
    system.deactivate(&[to]).expect("it runs");
    let mut sent = 0;
    let full = loop {
        match inlet.try_send(ADD, &[sent]) {
            Ok(()) => sent += 1,
            Err(error) => {
                // The stream's own actor may still be about to take some.
                system.settle().expect("it settles: it is muted");
                if inlet.try_send(ADD, &[sent]).is_err() {
                    break error;
                }
                sent += 1;
            }
        }
        assert!(sent < 1000, "nothing bounds it");
    };
    assert!(
        matches!(full, ActorError::Full { actor } if actor == to),
        "{full}"
    );
    system.activate(&[to]).expect("it runs");
    log.wait_for(3000 + sent as usize);
    assert!(inlet.flush_within(LONG));
    // It learns that the receiver has ended.
    system.kill(&[to]).expect("it runs");
    system.settle().expect("it settles");
    let gone = inlet.send(ADD, &[0]).expect_err("it has ended");
    assert!(
        matches!(gone, ActorError::Gone { actor } if actor == to),
        "{gone}"
    );
}

#[test]
fn dropped_stream_from_the_host_still_delivers_what_was_sent() {
    let (_engine, system) = system(vec![counters("counter").mailbox(2), host()]);
    let to = system.launch(0).expect("there is room");
    let inlet = system.inlet(1, to, 1000).expect("there is room");
    (0..500).for_each(|_| inlet.send(ADD, &[1]).expect("there is a credit"));
    drop(inlet);
    system.settle().expect("it settles");
    assert_eq!(sum(&system, to), 500);
}

#[test]
fn topic_waits_for_slow_subscribers_or_says_how_many_they_missed() {
    let got = Arc::new(Mutex::new(Vec::new()));
    let own = got.clone();
    let kind = Kind::closure("subscriber", 8, move |actor, message| {
        let missed = message.missed();
        own.lock()
            .expect("no panic")
            .push((actor.id(), missed, message.word(0)));
    });
    let (_engine, system) = system(vec![kind.mailbox(4), host()]);
    // More than one step of the topic.
    let waits = system.launch_all(0, 150).expect("there is room");
    let misses = system.launch(0).expect("there is room");
    let topic = system.topic(1).expect("there is room");
    for actor in &waits {
        topic.subscribe(*actor, Slow::Waits);
    }
    topic.subscribe(misses, Slow::Misses);
    system.deactivate(&[misses]).expect("it runs");
    for i in 0..20 {
        system.tell(topic.id(), ADD, &[i]).expect("it lives");
    }
    system.settle().expect("it settles");
    let of = |actor: ActorId| -> Vec<(Option<u64>, u64)> {
        let all = got.lock().expect("no panic");
        all.iter()
            .filter(|g| g.0 == actor)
            .map(|g| (g.1, g.2))
            .collect()
    };
    let every: Vec<_> = (0..20).map(|i| (None, i)).collect();
    assert!(waits.iter().all(|a| of(*a) == every));
    // Four fit; the others were missed, and that is said before the next one that fits.
    system.activate(&[misses]).expect("it runs");
    system.settle().expect("it settles");
    system.tell(topic.id(), ADD, &[20]).expect("it lives");
    system.settle().expect("it settles");
    let mut seen = of(misses);
    seen.sort_by_key(|m| m.0.is_some());
    let expected: Vec<_> = [0, 1, 2, 3, 20].map(|i| (None, i)).into();
    assert_eq!(seen[..5], expected);
    assert_eq!(seen[5..], [(Some(16), 16)]);
    // A subscriber that is slow and waited for keeps the topic back; the others go on when it does.
    system.deactivate(&waits[..1]).expect("it runs");
    for i in 0..10 {
        system.tell(topic.id(), ADD, &[100 + i]).expect("it lives");
    }
    system.settle().expect("it settles: the topic is muted");
    assert!(of(waits[149]).len() < 21 + 10);
    system.activate(&waits[..1]).expect("it runs");
    system.settle().expect("it settles");
    assert!(waits.iter().all(|a| of(*a).len() == 21 + 10));
    // Those that end leave it, without dead letters.
    system.kill(&waits[1..]).expect("it runs");
    system.settle().expect("it settles");
    system.tell(topic.id(), ADD, &[1]).expect("it lives");
    let stats = system.settle().expect("it settles");
    assert_eq!((topic.subscribers(), stats.dead), (2, [0; 5]));
    assert!(topic.unsubscribe(misses) && !topic.unsubscribe(misses));
}

//! Streams between actors and the host: the turns of an actor and a thread of the host share the credits.

// Not the one of loom, which cannot be dropped when a model has found a deadlock.
use std::sync::Arc;
use std::time::Duration;

use loom::sync::Notify;

use super::*;
use crate::credits::Offered;

/// Longer than any model runs: loom's time does not pass.
const LONG: Duration = Duration::from_secs(1 << 20);

fn message(word: u64) -> Message {
    Message::new(ActorId::NONE, 0, &[word], MAX_WORDS)
}

/// One credit and two messages: the actor is paused, and the host lets it go on.
#[test]
fn paused_actor_of_a_stream_goes_on() {
    holds_and_notices(Mutant::PausesLate, || {
        let mut world = World::new(1, 4, |_, _| None);
        world.outlet = Some(Credits::new(1));
        let actor = world.launch(4);
        let world = Arc::new(world);
        assert_eq!(world.tell(actor, 1), Sent::Activate);
        assert_eq!(world.tell(actor, 2), Sent::Delivered);
        let other = world.clone();
        let turn = thread::spawn(move || {
            other.step();
        });
        let outlet = world.outlet.as_ref().expect("it was set");
        let next = || {
            let (message, goes_on) = outlet.take(LONG);
            if goes_on {
                world.signal(actor, Signal::Resume);
            }
            message.map(|message| message.words[0])
        };
        assert_eq!(next(), Some(1));
        turn.join().unwrap();
        world.settle();
        assert_eq!(next(), Some(2));
        world.settle();
        assert_eq!(world.handled(), 2);
        assert!(!outlet.is_over());
    });
}

/// The actor of a stream from the host, which runs whenever it has news.
fn drains(credits: &Credits, news: &Notify, count: usize) -> Vec<u64> {
    let mut all = Vec::new();
    while all.len() < count {
        news.wait();
        loop {
            let drained = credits.drain(1, false);
            assert!(!drained.ends);
            all.extend(drained.messages.iter().map(|message| message.words[0]));
            if !drained.more {
                break;
            }
        }
    }
    all
}

/// Two messages with this many credits.
fn host_sends(most: usize) {
    let stream = Arc::new((Credits::new(most), Notify::new()));
    let other = stream.clone();
    let actor = thread::spawn(move || drains(&other.0, &other.1, 2));
    for word in 1..=2 {
        match stream.0.offer(message(word), LONG) {
            Offered::Announce => stream.1.notify(),
            other => assert_eq!(other, Offered::Taken),
        }
    }
    assert_eq!(actor.join().unwrap(), [1, 2]);
    assert!(stream.0.flush(LONG));
}

#[test]
fn message_of_the_host_is_seen_by_the_turn_or_announced() {
    holds_and_notices(Mutant::CreditUnseen, || host_sends(2));
}

#[test]
fn host_that_waits_for_a_credit_gets_it() {
    holds_and_notices(Mutant::CreditUnheard, || host_sends(1));
}

#[test]
fn end_of_the_actor_ends_the_wait_of_the_host() {
    holds_and_notices(Mutant::CloseUnheard, || {
        let stream = Arc::new(Credits::new(1));
        let other = stream.clone();
        let actor = thread::spawn(move || other.close());
        let (message, goes_on) = stream.take(LONG);
        assert!(message.is_none() && !goes_on);
        actor.join().unwrap();
        assert!(stream.is_over());
    });
}

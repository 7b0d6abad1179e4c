//! Channels between actors, tasks and threads of the host: what a thread, an actor and a continuation do while others send,
//! receive, close and end. The code is that of `side`; a thread that is never woken is a deadlock, which loom finds.

use std::any::TypeId;
// Not the one of loom, which cannot be dropped when a model has found a deadlock.
use std::sync::Arc;

use super::*;
use crate::side::{Receiving, Sending, TypeNumber, ValueType, Words};
use crate::sync::Condvar;

const TYPE: ValueType = ValueType {
    id: Some(TypeId::of::<u64>()),
    number: TypeNumber::Is(1),
    name: "u64",
    words: 1,
};
/// Number and condition variable of a channel.
type Open = (u64, Arc<Condvar>);

fn value(word: u64) -> Words {
    [word, 0, 0, 0]
}

/// A side with a channel.
fn open(capacity: usize) -> (Arc<Side>, Open) {
    let side = Side::new(Clock::Real(Instant::now()));
    let channel = side.open_channel(TYPE, capacity);
    (Arc::new(side), channel)
}
fn sends(side: &Side, channel: &Open, word: u64) -> Sending {
    side.send_until((channel.0, TYPE), value(word), &channel.1, None, || {})
}
fn receives(side: &Side, channel: &Open) -> Receiving {
    side.receive_until((channel.0, TYPE), &channel.1, None, || {})
}
/// The same for a thread whose time is over as soon as it would wait.
fn sends_at_once(side: &Side, channel: &Open, word: u64) -> Sending {
    let now = Some(Instant::now());
    side.send_until((channel.0, TYPE), value(word), &channel.1, now, || {})
}
fn receives_at_once(side: &Side, channel: &Open) -> Receiving {
    let now = Some(Instant::now());
    side.receive_until((channel.0, TYPE), &channel.1, now, || {})
}

#[test]
fn waiting_receiver_gets_the_value() {
    holds_and_notices(Mutant::SeatUnseen, || {
        let (side, channel) = open(1);
        let other = side.clone();
        let number = channel.0;
        let sender = thread::spawn(move || other.try_send((number, TYPE), value(7)));
        assert_eq!(receives(&side, &channel), Receiving::Value(value(7)));
        assert_eq!(sender.join().unwrap(), Sending::Sent);
        assert_eq!(side.channel_length(number), 0);
    });
}

/// Three values, and room for one: the sender waits, and so may the receiver.
#[test]
fn values_of_a_sender_that_waits_keep_their_order() {
    holds_and_notices(Mutant::SeatUnseen, || {
        let (side, channel) = open(1);
        let (other, own) = (side.clone(), channel.clone());
        let sender = thread::spawn(move || {
            for word in 1..=3 {
                assert_eq!(sends(&other, &own, word), Sending::Sent);
            }
        });
        for word in 1..=3 {
            assert_eq!(receives(&side, &channel), Receiving::Value(value(word)));
        }
        sender.join().unwrap();
        assert_eq!(side.channel_length(channel.0), 0);
    });
}

#[test]
fn receiver_whose_time_is_over_takes_no_value_with_it() {
    holds_and_notices(Mutant::LeavesLate, || {
        let (side, channel) = open(1);
        let (other, number) = (side.clone(), channel.0);
        let sender = thread::spawn(move || other.try_send((number, TYPE), value(7)));
        let received = match receives_at_once(&side, &channel) {
            Receiving::Value(_) => 1,
            other => {
                assert_eq!(other, Receiving::Empty);
                0
            }
        };
        assert_eq!(sender.join().unwrap(), Sending::Sent);
        assert_eq!(received + side.channel_length(number), 1);
    });
}

#[test]
fn sender_whose_time_is_over_has_sent_or_not() {
    holds_and_notices(Mutant::LeavesLate, || {
        let (side, channel) = open(1);
        assert_eq!(sends_at_once(&side, &channel, 1), Sending::Sent);
        let (other, number) = (side.clone(), channel.0);
        let receiver = thread::spawn(move || other.try_receive((number, TYPE)));
        let sent = match sends_at_once(&side, &channel, 2) {
            Sending::Sent => 1,
            other => {
                assert_eq!(other, Sending::Full);
                0
            }
        };
        assert_eq!(receiver.join().unwrap(), Receiving::Value(value(1)));
        assert_eq!(side.channel_length(number), sent);
    });
}

/// A native task that is submitted by a value, or a process of the host.
#[test]
fn continuation_runs_once_with_the_value() {
    holds_and_notices(Mutant::JoinsLate, || {
        let (side, channel) = open(1);
        let (other, number) = (side.clone(), channel.0);
        let sender = thread::spawn(move || other.try_send((number, TYPE), value(7)));
        let runs = Arc::new(Mutex::new(Vec::new()));
        let own = runs.clone();
        let call = Box::new(move |words: Option<Words>| own.lock().unwrap().push(words));
        assert_eq!(side.receive_then((number, TYPE), call), Ok(()));
        assert_eq!(sender.join().unwrap(), Sending::Sent);
        assert_eq!(*runs.lock().unwrap(), [Some(value(7))]);
        assert_eq!(side.channel_length(number), 0);
    });
}

/// What a channel holds is received after it was closed, and each receiver that waits ends.
#[test]
fn closed_channel_ends_its_receivers_after_its_values() {
    holds_and_notices(Mutant::SeatUnseen, || {
        let (side, channel) = open(1);
        let (other, number) = (side.clone(), channel.0);
        let sender = thread::spawn(move || {
            assert_eq!(other.try_send((number, TYPE), value(7)), Sending::Sent);
            other.close_channel(number);
        });
        assert_eq!(receives(&side, &channel), Receiving::Value(value(7)));
        assert_eq!(receives(&side, &channel), Receiving::Closed);
        sender.join().unwrap();
        let refused = side.try_send((number, TYPE), value(8));
        assert_eq!(refused, Sending::Closed);
    });
}

#[test]
fn end_of_the_system_ends_those_that_wait() {
    holds_and_notices(Mutant::SystemEndUnseen, || {
        let (side, channel) = open(1);
        let other = side.clone();
        let closer = thread::spawn(move || other.close());
        assert_eq!(receives(&side, &channel), Receiving::Closed);
        closer.join().unwrap();
    });
}

#[test]
fn end_of_the_system_ends_a_continuation_once() {
    holds_and_notices(Mutant::AbandonsSilently, || {
        let (side, channel) = open(1);
        let other = side.clone();
        let closer = thread::spawn(move || other.close());
        let runs = Arc::new(Mutex::new(Vec::new()));
        let own = runs.clone();
        let call = Box::new(move |words: Option<Words>| own.lock().unwrap().push(words));
        assert_eq!(side.receive_then((channel.0, TYPE), call), Ok(()));
        closer.join().unwrap();
        assert_eq!(*runs.lock().unwrap(), [None]);
    });
}

/// An actor waits for a value and ends: the value is handled, or still in the channel.
fn actor_that_ends(how: Signal) {
    let mut world = World::new(1, 4, |_, _| None);
    let side = Side::new(Clock::Real(Instant::now()));
    let number = side.open_channel(TYPE, 1).0;
    world.side = Some(side);
    let actor = world.launch(4);
    let world = Arc::new(world);
    let table = world.table();
    let own = world.side.as_ref().expect("it was set");
    let waits = own.receive_of((number, TYPE), actor, 1, |id| table.know(id));
    assert_eq!(waits, Receiving::Waits);
    let other = world.clone();
    let sender = thread::spawn(move || {
        let own = other.side.as_ref().expect("it was set");
        assert_eq!(own.try_send((number, TYPE), value(7)), Sending::Sent);
        other.carry();
    });
    world.signal(actor, how);
    world.settle();
    sender.join().unwrap();
    world.settle();
    assert_eq!(world.ended.lock().unwrap().len(), 1);
    let left = own.channel_length(number);
    assert_eq!(world.handled() + left, 1, "the value is lost");
}

#[test]
fn value_for_an_actor_that_is_killed_is_not_lost() {
    holds_and_notices(Mutant::ValuesForgotten, || actor_that_ends(Signal::Kill));
}

#[test]
fn value_for_an_actor_that_stops_is_handled_or_comes_back() {
    holds_and_notices(Mutant::ValuesForgotten, || actor_that_ends(Signal::Stop));
}

/// Two threads each want something to be done. A thread that finds no courier becomes the courier.
#[test]
fn courier_leaves_nothing_undone() {
    holds_and_notices(Mutant::CourierUnseen, || {
        let (side, _) = open(1);
        let done = Arc::new(Mutex::new(0));
        let wants = |side: &Side, done: &Mutex<u32>| {
            side.request(ActorId::new(0, 1), Op::News);
            if side.wants_courier() {
                while side.next_op().is_some() {
                    *done.lock().unwrap() += 1;
                }
            }
        };
        let (other, own) = (side.clone(), done.clone());
        let thread = thread::spawn(move || wants(&other, &own));
        wants(&side, &done);
        thread.join().unwrap();
        assert!(!side.has_ops());
        assert_eq!(*done.lock().unwrap(), 2);
    });
}

/// A task that must not wait lets another thread do what follows from its value.
#[test]
fn kick_is_not_lost() {
    holds_and_notices(Mutant::KickUnseen, || {
        let (side, _) = open(1);
        let other = side.clone();
        let clock = thread::spawn(move || {
            assert!(other.wait_until_due());
            assert!(other.next_op().is_some());
        });
        side.request(ActorId::new(0, 1), Op::News);
        side.kick();
        clock.join().unwrap();
    });
}

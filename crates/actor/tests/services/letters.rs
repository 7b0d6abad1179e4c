use everwarp_actor::{DeadReason, Kind, Tell};

use crate::support::{ADD, FAIL, GET, HOUR, LONG, Log, counters, sum, system};

#[test]
fn dead_letter_has_reason_sender_receiver_and_message() {
    let forward = Kind::closure("forward", 8, |actor, message| {
        let to = everwarp_actor::ActorId::from_bits(message.word(0));
        actor.tell(to, 9, &[message.word(1)]);
    });
    let (_engine, system) = system(vec![counters("counter"), forward.sends(1)]);
    let letters = system.dead_letters(100).expect("the CPU engine has them");
    let [dead, fails, killed] = [(); 3].map(|()| system.launch(0).expect("there is room"));
    let sender = system.launch(1).expect("there is room");
    system.kill(&[dead]).expect("it runs");
    system.settle().expect("it settles");
    system
        .tell(sender, 0, &[dead.bits(), 77])
        .expect("it lives");
    system.settle().expect("it settles");
    let letter = letters.next_within(LONG).expect("there is one");
    assert_eq!((letter.reason, letter.to), (DeadReason::Gone, dead));
    let message = letter.message;
    assert_eq!(
        (message.from(), message.tag(), message.words()),
        (sender, 9, &[77][..])
    );

    system.tell(fails, FAIL, &[5]).expect("it lives");
    system.settle().expect("it settles");
    let letter = letters.next_within(LONG).expect("there is one");
    assert_eq!((letter.reason, letter.to), (DeadReason::Failed, fails));
    assert_eq!(
        (letter.message.tag(), letter.message.words()),
        (FAIL, &[5][..])
    );

    system.deactivate(&[killed]).expect("it runs");
    let tells: Vec<_> = (0..10).map(|i| Tell::new(killed, ADD, &[i])).collect();
    system.tell_all(&tells).expect("it lives");
    system.kill(&[killed]).expect("it runs");
    let stats = system.settle().expect("it settles");
    let ended: Vec<_> = letters.drain().collect();
    assert!(
        ended
            .iter()
            .all(|l| (l.reason, l.to) == (DeadReason::Ended, killed))
    );
    let words: Vec<_> = ended.iter().map(|l| l.message.word(0)).collect();
    assert_eq!(words, (0..10).collect::<Vec<_>>());
    assert_eq!((stats.dead(DeadReason::Ended), letters.lost()), (10, 0));
}

#[test]
fn full_subscription_counts_what_it_loses() {
    let (_engine, system) = system(vec![counters("counter")]);
    let few = system.dead_letters(3).expect("the CPU engine has them");
    let gone = system.dead_letters(3).expect("the CPU engine has them");
    drop(gone);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    for i in 0..10 {
        system.tell(actor, ADD, &[i]).expect("it lives");
    }
    system.kill(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!((few.drain().count(), few.lost()), (3, 7));
}

#[test]
fn kind_that_keeps_its_latest_messages_drops_and_counts_the_others() {
    let log = Log::default();
    let own = log.clone();
    let latest = Kind::closure("latest", 8, move |actor, message| {
        own.add(actor, message);
        if actor.is_asked() {
            actor.reply(GET, &[1]);
        }
    });
    let (_engine, system) = system(vec![latest.mailbox(3).keep_latest()]);
    let letters = system.dead_letters(100).expect("the CPU engine has them");
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    let tells: Vec<_> = (0..100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    system.tell_all(&tells).expect("no sender waits");
    system.activate(&[actor]).expect("it runs");
    let stats = system.settle().expect("it settles");
    let words: Vec<_> = log.all().iter().map(|(_, m)| m.word(0)).collect();
    assert_eq!(words, [97, 98, 99]);
    assert_eq!(stats.dead(DeadReason::Dropped), 97);
    let first = letters.next_within(LONG).expect("there is one");
    assert_eq!(
        (first.reason, first.message.word(0)),
        (DeadReason::Dropped, 0)
    );
    // It is empty again, and an ask is a message like others.
    assert_eq!(system.ask(actor, GET, &[]).expect("it replies").word(0), 1);
}

#[test]
fn message_is_handled_again_as_often_as_the_kind_says() {
    let log = Log::default();
    let own = log.clone();
    // Fails until it has been called `word 0` times for the message.
    let calls = std::sync::atomic::AtomicU64::new(0);
    let retried = Kind::closure("retried", 8, move |actor, message| {
        own.add(actor, message);
        actor.state_bytes()[0] += 1;
        assert_eq!(actor.state_bytes()[0], 1, "the state is new each time");
        let call = 1 + calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if call < message.word(0) {
            actor.fail();
        } else {
            calls.store(0, std::sync::atomic::Ordering::Relaxed);
            actor.state_bytes()[0] = 0;
            actor.reply(GET, &[call]);
        }
    });
    let (_engine, system) = system(vec![retried.retries(2).restarts(u32::MAX, HOUR)]);
    let actor = system.launch(0).expect("there is room");
    let asked = |n| system.ask(actor, GET, &[n]);
    assert_eq!(asked(1).expect("at once").word(0), 1);
    assert_eq!(asked(3).expect("the third time").word(0), 3);
    assert_eq!(log.all().len(), 4);
    let failed = asked(9).expect_err("three times are not enough");
    assert!(failed.to_string().contains("failed"), "{failed}");
    let stats = system.settle().expect("it settles");
    assert_eq!((log.all().len(), stats.dead(DeadReason::Failed)), (7, 1));
    assert_eq!(stats.restarts, 2 + 3);
}

#[test]
fn message_that_is_not_retried_to_an_actor_without_restarts_ends_it() {
    let (_engine, system) = system(vec![counters("counter").retries(5)]);
    let actor = system.launch(0).expect("there is room");
    system.tell(actor, ADD, &[1]).expect("it lives");
    assert_eq!(sum(&system, actor), 1);
    system.tell(actor, FAIL, &[]).expect("it lives");
    system.settle().expect("it settles");
    let gone = system.tell(actor, ADD, &[1]).expect_err("it has ended");
    assert!(gone.to_string().contains("does not live"), "{gone}");
}

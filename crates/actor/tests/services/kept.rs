use std::sync::{Arc, Mutex};
use std::time::Duration;

use everwarp_actor::{ActorConfig, ActorId, ActorSystem, Asked, DeadReason, KeptAsk, Kind};

use crate::support::{LONG, Log, counters, sum, system, system_with};

/// Wants the reply later.
const TAKE: u8 = 20;
/// Replies to what was kept, with word 0.
const GIVE: u8 = 21;
/// Keeps the ask, and fails.
const DROP: u8 = 22;
/// Replies to what was kept, and fails.
const BREAK: u8 = 23;
/// Fails.
const FAIL: u8 = 24;
/// Asks word 0, within word 1 milliseconds if that is not 0.
const ASK: u8 = 25;
/// How many asks it keeps.
const COUNT: u8 = 26;

/// Keeps asks in the order in which they came. Its list is not in its state, so that a test sees what the engine forgets.
fn keeper() -> Kind {
    let list: Arc<Mutex<Vec<KeptAsk>>> = Arc::default();
    Kind::closure("keeper", 8, move |actor, message| {
        let mut list = list.lock().expect("no panic");
        match message.tag() {
            TAKE | DROP => {
                let kept = actor.keep();
                assert_eq!(kept == KeptAsk::NONE, !message.is_ask());
                assert!(!actor.is_asked() && !actor.reply(TAKE, &[0]));
                assert_eq!(actor.keep(), KeptAsk::NONE);
                if kept != KeptAsk::NONE {
                    assert_eq!(actor.kept_tag(kept), Some(message.tag()));
                    list.push(kept);
                }
                if message.tag() == DROP {
                    list.pop();
                    actor.fail();
                }
            }
            GIVE | BREAK => {
                let sent = list.first().copied().is_some_and(|kept| {
                    actor.reply_kept(kept, TAKE, &[message.word(0), kept.bits()])
                });
                if message.tag() == BREAK {
                    actor.fail();
                } else if sent {
                    let kept = list.remove(0);
                    assert!(!actor.reply_kept(kept, TAKE, &[9]), "it has its reply");
                    assert_eq!(actor.kept_tag(kept), None);
                }
                actor.reply(GIVE, &[sent.into()]);
            }
            COUNT => drop(actor.reply(COUNT, &[actor.kept() as u64])),
            FAIL => {
                list.clear();
                actor.fail();
            }
            _ => unreachable!("no such message"),
        }
    })
    .sends(2)
}

fn asker(log: &Log) -> Kind {
    let log = log.clone();
    let kind = Kind::closure("asker", 8, move |actor, message| {
        if message.tag() == ASK && !message.is_reply() {
            let (to, within) = (ActorId::from_bits(message.word(0)), message.word(1));
            match within {
                0 => actor.ask(to, TAKE, &[], message.word(2)),
                _ => {
                    let within = Duration::from_millis(within);
                    actor.ask_within(to, TAKE, &[], message.word(2), within);
                }
            }
        } else {
            log.add(actor, message);
        }
    });
    kind.sends(1)
}

fn give(system: &ActorSystem, keeper: ActorId, value: u64) -> bool {
    let given = system.ask(keeper, GIVE, &[value]);
    given.expect("it replies").word(0) == 1
}
fn count(system: &ActorSystem, keeper: ActorId) -> u64 {
    system.ask(keeper, COUNT, &[]).expect("it replies").word(0)
}
/// Asks, and waits until the ask is kept.
fn take(system: &ActorSystem, keeper: ActorId) -> Asked {
    let before = count(system, keeper);
    let asked = system.ask_later(keeper, TAKE, &[]).expect("it is sent");
    while count(system, keeper) == before {
        std::thread::yield_now();
    }
    asked
}
/// What an ask of the host ends with.
fn end(mut asked: Asked) -> Result<u64, DeadReason> {
    let begin = std::time::Instant::now();
    loop {
        match asked.try_reply() {
            Some(Ok(reply)) => return Ok(reply.word(0)),
            Some(Err(everwarp_actor::ActorError::NoReply { reason })) => return Err(reason),
            Some(Err(error)) => panic!("{error}"),
            None => assert!(begin.elapsed() < LONG, "it has no end"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn kept_asks_get_their_replies_from_later_handlers() {
    let log = Log::default();
    let (_engine, system) = system(vec![keeper(), asker(&log)]);
    let keeper = system.launch(0).expect("there is room");
    let asker = system.launch(1).expect("there is room");
    let (one, two) = (take(&system, keeper), take(&system, keeper));
    system
        .tell(asker, ASK, &[keeper.bits(), 0, 7])
        .expect("it lives");
    system.tell(keeper, TAKE, &[]).expect("it lives"); // no ask: nothing is kept
    system.settle().expect("it settles");
    assert_eq!(count(&system, keeper), 3);
    for value in [5, 6, 8] {
        assert!(give(&system, keeper, value));
    }
    assert!(!give(&system, keeper, 9), "nothing is kept any more");
    assert_eq!((end(one), end(two)), (Ok(5), Ok(6)));
    let (_, reply) = log.wait_for(1)[0];
    assert_eq!((reply.ask(), reply.word(0), reply.is_reply()), (7, 8, true));
    assert_eq!(count(&system, keeper), 0);
}

#[test]
fn kept_asks_end_with_the_actor_that_keeps_them() {
    let log = Log::default();
    let (_engine, system) = system(vec![keeper(), asker(&log)]);
    let asker = system.launch(1).expect("there is room");
    let letters = system.dead_letters(16).expect("it runs");
    for kill in [true, false] {
        let keeper = system.launch(0).expect("there is room");
        let asks = [(); 3].map(|()| take(&system, keeper));
        system
            .tell(asker, ASK, &[keeper.bits(), 3_600_000, 11])
            .expect("it lives");
        system.settle().expect("it settles");
        match kill {
            true => system.kill(&[keeper]),
            false => system.stop(&[keeper]),
        }
        .expect("it runs");
        for asked in asks {
            assert_eq!(end(asked), Err(DeadReason::Ended));
        }
        for _ in 0..4 {
            let letter = letters.next_within(LONG).expect("each is a dead letter");
            assert_eq!((letter.reason, letter.to), (DeadReason::Ended, keeper));
            assert_eq!(letter.message.tag(), TAKE);
        }
    }
    let ended = log.wait_for(2);
    for (_, message) in ended {
        assert_eq!(
            (message.ask(), message.failure()),
            (11, Some(DeadReason::Ended))
        );
    }
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead(DeadReason::Ended), 8);
}

#[test]
fn actor_that_begins_anew_has_lost_the_asks_that_it_kept() {
    let (_engine, system) = system(vec![keeper().restarts(9, Duration::from_secs(3600))]);
    let keeper = system.launch(0).expect("there is room");
    let asked = take(&system, keeper);
    system.tell(keeper, FAIL, &[]).expect("it lives");
    assert_eq!(end(asked), Err(DeadReason::Failed));
    // An ask that is kept by a handler that fails ends once, with that failure.
    let dropped = system.ask_later(keeper, DROP, &[]).expect("it is sent");
    assert_eq!(end(dropped), Err(DeadReason::Failed));
    assert_eq!(count(&system, keeper), 0);
    let kept = take(&system, keeper);
    assert!(give(&system, keeper, 3));
    assert_eq!(end(kept), Ok(3));
    let stats = system.settle().expect("it settles");
    // The message that failed, the ask that it has lost, and the one that was not kept.
    assert_eq!(stats.dead(DeadReason::Failed), 3);
}

#[test]
fn undone_handler_keeps_nothing_and_replies_to_nothing() {
    let (_engine, system) = system(vec![
        keeper()
            .atomic()
            .retries(1)
            .restarts(99, Duration::from_secs(3600)),
    ]);
    let keeper = system.launch(0).expect("there is room");
    let asked = take(&system, keeper);
    for _ in 0..3 {
        // Its reply is undone, twice: the ask is still kept.
        system.tell(keeper, BREAK, &[1]).expect("it lives");
        system.settle().expect("it settles");
        assert_eq!(count(&system, keeper), 1);
    }
    let dropped = system.ask_later(keeper, DROP, &[]).expect("it is sent");
    assert_eq!(end(dropped), Err(DeadReason::Failed));
    assert_eq!(count(&system, keeper), 1);
    assert!(give(&system, keeper, 2));
    assert_eq!(end(asked), Ok(2));
}

#[test]
fn deadline_ends_a_kept_ask_once() {
    let log = Log::default();
    let (_engine, system) = system(vec![keeper(), asker(&log)]);
    let keeper = system.launch(0).expect("there is room");
    let asker = system.launch(1).expect("there is room");
    system
        .tell(asker, ASK, &[keeper.bits(), 20, 5])
        .expect("it lives");
    let (_, message) = log.wait_for(1)[0];
    assert_eq!(
        (message.ask(), message.failure()),
        (5, Some(DeadReason::Timeout))
    );
    assert!(give(&system, keeper, 1), "the actor still keeps it");
    let stats = system.settle().expect("it settles");
    assert_eq!((stats.late, log.all().len()), (1, 1));
    // A late end is none either.
    system
        .tell(asker, ASK, &[keeper.bits(), 20, 6])
        .expect("it lives");
    log.wait_for(2);
    system.kill(&[keeper]).expect("it runs");
    let stats = system.settle().expect("it settles");
    assert_eq!((stats.late, log.all().len()), (2, 2));
}

#[test]
fn other_actors_cannot_reply_to_a_kept_ask() {
    let (_engine, system) = system(vec![keeper(), counters("counter")]);
    let [one, other] = [(); 2].map(|()| system.launch(0).expect("there is room"));
    let asked = take(&system, one);
    // Both have one list; the ask in it is kept by the first actor.
    assert!(!give(&system, other, 1));
    assert!(give(&system, one, 2));
    assert_eq!(end(asked), Ok(2));
    let counter = system.launch(1).expect("there is room");
    assert_eq!(sum(&system, counter), 0);
}

#[test]
fn system_with_kept_asks_ends() {
    let config = ActorConfig {
        actors: 8,
        messages: 64,
        ..ActorConfig::default()
    };
    for _ in 0..20 {
        let (engine, system) = system_with(vec![keeper()], config);
        let keeper = system.launch(0).expect("there is room");
        let asked = take(&system, keeper);
        drop(system);
        drop(engine);
        drop(asked);
    }
}

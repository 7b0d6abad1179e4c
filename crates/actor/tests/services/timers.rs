use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_actor::{Kind, TimerId};

use crate::support::{LONG, Log, counters, system};

const TICK: u8 = 50;
const START: u8 = 51;
const CANCEL: u8 = 52;

#[test]
fn timer_never_fires_early_and_fires_once() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let own = times.clone();
    let kind = Kind::closure("timed", 8, move |actor, message| match message.tag() {
        START => {
            for ms in [30, 10, 20] {
                let due = Instant::now() + Duration::from_millis(ms);
                actor.after(Duration::from_millis(ms), TICK, &[ms]);
                own.lock().expect("no panic").push((ms, due, None));
            }
        }
        _ => {
            let mut times = own.lock().expect("no panic");
            let timer = times
                .iter_mut()
                .find(|t| t.0 == message.word(0))
                .expect("it is set");
            assert!(timer.2.replace(Instant::now()).is_none(), "twice");
            assert!(message.timer().is_some() && message.from() == actor.id());
        }
    });
    let (_engine, system) = system(vec![kind]);
    let actor = system.launch(0).expect("there is room");
    system.tell(actor, START, &[]).expect("it lives");
    let begin = Instant::now();
    let all = || {
        times
            .lock()
            .expect("no panic")
            .iter()
            .filter(|t| t.2.is_some())
            .count()
            == 3
    };
    while !all() {
        assert!(begin.elapsed() < LONG, "they do not fire");
        std::thread::sleep(Duration::from_millis(1));
    }
    for (ms, due, fired) in times.lock().expect("no panic").iter() {
        assert!(fired.expect("it has fired") >= *due, "{ms} ms: too early");
    }
}

#[test]
fn cancelled_timer_does_not_fire_and_a_period_ends_with_its_actor() {
    let log = Log::default();
    let own = log.clone();
    let kind = Kind::closure("timed", 8, move |actor, message| match message.tag() {
        START => {
            let timer = actor.every(Duration::from_millis(1), TICK, &[]);
            let never = actor.after(Duration::from_secs(3600), TICK, &[9]);
            assert!(actor.cancel(never) && !actor.cancel(never));
            assert_ne!(timer, TimerId::NONE);
        }
        CANCEL => panic!("it is cancelled"),
        _ => own.add(actor, message),
    });
    let (_engine, system) = system(vec![kind, counters("counter")]);
    let actor = system.launch(0).expect("there is room");
    // It is due, but the actor handles nothing: it can still be cancelled.
    system.deactivate(&[actor]).expect("it runs");
    let due = system
        .after(actor, Duration::ZERO, CANCEL, &[])
        .expect("it lives");
    std::thread::sleep(Duration::from_millis(20));
    assert!(system.cancel(due).expect("there are timers"));
    system.activate(&[actor]).expect("it runs");
    system.tell(actor, START, &[]).expect("it lives");
    log.wait_for(5);
    system.kill(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    let ticks = log.all().len();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(log.all().len(), ticks);
    let gone = system
        .after(actor, Duration::ZERO, TICK, &[])
        .expect_err("it has ended");
    assert!(gone.to_string().contains("does not live"), "{gone}");
}

/// The messages of an idle actor wait in the mailbox; the timer's comes first.
#[test]
fn message_of_a_timer_overtakes_the_mailbox() {
    let log = Log::default();
    let own = log.clone();
    let kind = Kind::closure("timed", 8, move |actor, message| own.add(actor, message));
    let (_engine, system) = system(vec![kind]);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    for tag in 1..4 {
        system.tell(actor, tag, &[]).expect("it lives");
    }
    system
        .after(actor, Duration::ZERO, TICK, &[])
        .expect("it lives");
    std::thread::sleep(Duration::from_millis(20));
    system.activate(&[actor]).expect("it runs");
    log.wait_for(4);
    assert_eq!(log.tags(), [TICK, 1, 2, 3]);
}

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use everwarp_actor::{ActorError, ActorId, DeadReason, Kind};

use crate::support::{ADD, GET, LONG, Log, counters, sum, system};

/// Asks word 0 within word 1 milliseconds.
const ASK: u8 = 10;

fn asker(log: &Log) -> Kind {
    let log = log.clone();
    let kind = Kind::closure("asker", 8, move |actor, message| {
        if message.tag() == ASK && !message.is_reply() {
            let (to, within) = (ActorId::from_bits(message.word(0)), message.word(1));
            actor.ask_within(to, GET, &[], message.word(2), Duration::from_millis(within));
        } else {
            log.add(actor, message);
        }
    });
    kind.sends(1)
}

#[test]
fn ask_of_an_actor_ends_with_its_reply_or_at_its_deadline_and_once() {
    let log = Log::default();
    let (_engine, system) = system(vec![counters("counter"), asker(&log)]);
    let [quick, slow, dead] = [(); 3].map(|()| system.launch(0).expect("there is room"));
    let asker = system.launch(1).expect("there is room");
    system.kill(&[dead]).expect("it runs");
    system.settle().expect("it settles");
    let ask = |to: ActorId, within, number| {
        let words = [to.bits(), within, number];
        system.tell(asker, ASK, &words).expect("it lives");
    };
    ask(quick, 3_600_000, 1);
    ask(dead, 3_600_000, 2);
    let mut ended = log.wait_for(2);
    ended.sort_by_key(|(_, m)| m.ask());
    let of = |i: usize| {
        (
            ended[i].1.ask(),
            ended[i].1.failure(),
            ended[i].1.is_reply(),
        )
    };
    assert_eq!(of(0), (1, None, true));
    assert_eq!(of(1), (2, Some(DeadReason::Gone), true));
    // It handles nothing until the deadline has passed.
    system.deactivate(&[slow]).expect("it runs");
    let begin = Instant::now();
    ask(slow, 30, 3);
    let (_, message) = log.wait_for(3)[2];
    assert!(begin.elapsed() >= Duration::from_millis(30), "too early");
    assert_eq!(
        (message.ask(), message.failure()),
        (3, Some(DeadReason::Timeout))
    );
    // The late reply reaches no actor.
    system.activate(&[slow]).expect("it runs");
    sum(&system, slow);
    let stats = system.settle().expect("it settles");
    assert_eq!(
        (log.all().len(), stats.late, stats.dead),
        (3, 1, [1, 0, 0, 0, 0])
    );
}

#[test]
fn ask_of_the_host_ends_at_its_deadline() {
    let (_engine, system) = system(vec![counters("counter")]);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    let begin = Instant::now();
    let late = system.ask_within(actor, GET, &[], Duration::from_millis(20));
    assert!(
        matches!(late, Err(ActorError::Timeout { after }) if after.as_millis() == 20),
        "{late:?}"
    );
    assert!(begin.elapsed() >= Duration::from_millis(20) && begin.elapsed() < LONG);
    system.activate(&[actor]).expect("it runs");
    assert_eq!(
        system
            .ask_within(actor, GET, &[], LONG)
            .expect("it replies")
            .word(0),
        0
    );
}

/// The failed handler has asked, which was undone: neither a reply nor a timeout comes.
#[test]
fn undone_ask_has_no_deadline() {
    let log = Log::default();
    let own = log.clone();
    let atomic = Kind::closure("atomic", 8, move |actor, message| match message.tag() {
        ASK if !message.is_reply() => {
            let to = ActorId::from_bits(message.word(0));
            actor.ask_within(to, GET, &[], 1, Duration::from_millis(1));
            actor.fail();
        }
        _ => own.add(actor, message),
    });
    let atomic = atomic.sends(1).atomic().restarts(9, Duration::from_secs(9));
    let (_engine, system) = system(vec![counters("counter"), atomic]);
    let [to, asker] = [0, 1].map(|kind| system.launch(kind).expect("there is room"));
    system.tell(asker, ASK, &[to.bits()]).expect("it lives");
    system.settle().expect("it settles");
    system
        .after(asker, Duration::from_millis(20), 9, &[])
        .expect("it lives");
    assert_eq!(log.wait_for(1)[0].1.tag(), 9);
}

struct Unpark(Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn asks_that_are_waited_for_later_each_have_their_own_reply() {
    let (_engine, system) = system(vec![counters("counter")]);
    let actors = system.launch_all(0, 100).expect("there is room");
    for (n, actor) in (1..).zip(&actors) {
        system.tell(*actor, ADD, &[n]).expect("it lives");
    }
    let ask = |actor: &ActorId| system.ask_later(*actor, GET, &[]).expect("it is sent");
    let mut asked: Vec<_> = actors.iter().map(ask).collect();
    // Every third is dropped, every third is polled, and the others are futures.
    let mut replies = Vec::new();
    while let Some(mut one) = asked.pop() {
        match asked.len() % 3 {
            0 => drop(one),
            1 => replies.push(block_on(one).expect("it replies").word(0)),
            _ => loop {
                if let Some(reply) = one.try_reply() {
                    replies.push(reply.expect("it replies").word(0));
                    assert!(one.try_reply().is_none(), "once");
                    break;
                }
                std::thread::yield_now();
            },
        }
    }
    replies.reverse();
    let expected: Vec<u64> = (1..=100).filter(|n| n % 3 != 1).collect();
    assert_eq!(replies, expected);
    let dead = actors[0];
    system.kill(&[dead]).expect("it runs");
    system.settle().expect("it settles");
    let reply = block_on(ask(&dead));
    assert!(matches!(reply, Err(ActorError::Gone { actor }) if actor == dead));
}

#[test]
fn dropped_asks_give_their_records_back() {
    let (_engine, system) = system(vec![counters("counter")]);
    let actor = system.launch(0).expect("there is room");
    // Three times as many as may wait at a time.
    for _ in 0..3 {
        let all: Vec<_> = (0..1024)
            .map_while(|_| system.ask_later(actor, GET, &[]).ok())
            .collect();
        assert!(!all.is_empty(), "records are free again");
        drop(all);
        system.settle().expect("it settles");
    }
}

//! Kinds of warp and block shape: one call handles up to 32 messages.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_actor::{
    ActorConfig, ActorCx, ActorError, ActorId, ActorProgram, ActorSystem, Asked, DeadReason, Kind,
    Message, Simulation, Tell, actors,
};
use everwarp_contract::dev_struct;
use everwarp_runtime::{Device, Select};

use crate::support::{ADD, FAIL, GET, HOUR, LONG, Log, STOP, counters, sum, system};

/// The words 0 of each call.
type Calls = Arc<Mutex<Vec<Vec<u64>>>>;

/// Records its calls. Asks of tag `GET` are replied to with their word 0, and asks of tag `FAIL` fail the call.
fn recorder(calls: &Calls) -> Kind {
    let calls = calls.clone();
    Kind::batch_closure("recorder", 8, move |actor, messages| {
        let words = messages.iter().map(|m| m.word(0)).collect();
        calls.lock().expect("no panic").push(words);
        for (place, message) in messages.iter().enumerate() {
            match message.tag() {
                GET => assert!(actor.reply_to(place, GET, &[message.word(0)])),
                FAIL => actor.fail(),
                STOP => actor.stop(),
                _ => {}
            }
        }
    })
}

/// Sends an ask, and returns when it is in the mailbox.
fn ask(system: &ActorSystem, actor: ActorId, tag: u8, words: &[u64]) -> Asked {
    let asked = system.ask_later(actor, tag, words);
    system.settle().expect("it settles");
    asked.expect("there is room")
}

/// What an ask has ended with.
fn end_of(asked: &mut Asked) -> Result<Message, ActorError> {
    let begin = Instant::now();
    loop {
        if let Some(end) = asked.try_reply() {
            return end;
        }
        assert!(begin.elapsed() < LONG, "an ask does not end");
        std::thread::yield_now();
    }
}

fn sizes(calls: &Calls) -> Vec<usize> {
    let calls = calls.lock().expect("no panic");
    calls.iter().map(Vec::len).collect()
}

#[test]
fn one_call_handles_up_to_32_messages_in_their_order_and_each_once() {
    let calls = Calls::default();
    let (_engine, system) = system(vec![recorder(&calls).mailbox(1000)]);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    let tells: Vec<_> = (0..100).map(|i| Tell::new(actor, ADD, &[i])).collect();
    system.tell_all(&tells).expect("it lives");
    system.activate(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(sizes(&calls), [32, 32, 32, 4]);
    let all = calls.lock().expect("no panic").concat();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn each_ask_of_a_call_ends_with_its_own_reply_or_the_reason_why_there_is_none() {
    let calls = Calls::default();
    let (_engine, system) = system(vec![recorder(&calls)]);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    let mut asked: Vec<_> = (0..20)
        .map(|i| (i, ask(&system, actor, [GET, ADD][i as usize % 2], &[i])))
        .collect();
    system.tell(actor, ADD, &[99]).expect("it lives");
    system.activate(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(sizes(&calls), [21]);
    for (i, asked) in &mut asked {
        match (*i % 2, end_of(asked)) {
            (0, Ok(reply)) => assert_eq!(reply.word(0), *i),
            (1, Err(ActorError::NoReply { reason })) => assert_eq!(reason, DeadReason::NoReply),
            (_, other) => panic!("ask {i}: {other:?}"),
        }
    }
}

#[test]
fn call_that_fails_fails_all_its_messages_and_no_other() {
    for restarts in [0, 1] {
        let calls = Calls::default();
        let kind = recorder(&calls).mailbox(1000).restarts(restarts, HOUR);
        let (_engine, system) = system(vec![kind]);
        let letters = system.dead_letters(1000).expect("the CPU engine has them");
        let actor = system.launch(0).expect("there is room");
        system.deactivate(&[actor]).expect("it runs");
        let tells: Vec<_> = (0..50)
            .map(|i| Tell::new(actor, if i == 40 { FAIL } else { ADD }, &[i]))
            .collect();
        system.tell_all(&tells[..45]).expect("it lives");
        let mut asked = ask(&system, actor, ADD, &[45]);
        system.tell_all(&tells[46..]).expect("it lives");
        system.activate(&[actor]).expect("it runs");
        let stats = system.settle().expect("it settles");
        assert_eq!(sizes(&calls), [32, 18]);
        assert_eq!(stats.dead(DeadReason::Failed), 18);
        let mut failed: Vec<_> = letters
            .drain()
            .map(|l| (l.message.word(0), l.reason))
            .collect();
        failed.sort_unstable_by_key(|(word, _)| *word);
        let expected: Vec<_> = (32..50).map(|i| (i, DeadReason::Failed)).collect();
        assert_eq!(failed, expected);
        let ended = end_of(&mut asked);
        assert!(
            matches!(
                ended,
                Err(ActorError::NoReply {
                    reason: DeadReason::Failed
                })
            ),
            "{ended:?}"
        );
        let lives = system.tell(actor, ADD, &[0]).is_ok();
        assert_eq!((lives, stats.restarts), (restarts == 1, restarts.into()));
    }
}

/// Adds words 0 to the state, tells each of them to `to`, and replies; the first `failures` calls fail in the end.
fn adder(failures: usize, to: &Arc<Mutex<ActorId>>) -> Kind {
    let (to, left) = (to.clone(), Mutex::new(failures));
    let kind = Kind::batch_closure("adder", 8, move |actor, messages| {
        let to = *to.lock().expect("no panic");
        for (place, message) in messages.iter().enumerate() {
            let state = actor.state_bytes();
            let old = u64::from_ne_bytes(*state.first_chunk().expect("8 bytes"));
            state[..8].copy_from_slice(&(old + message.word(0)).to_ne_bytes());
            actor.tell(to, ADD, &[message.word(0)]);
            actor.reply_to(place, GET, &[old]);
        }
        let mut left = left.lock().expect("no panic");
        if *left > 0 {
            *left -= 1;
            actor.fail();
        }
    });
    kind.sends(10).mailbox(10).atomic().restarts(100, HOUR)
}

#[test]
fn atomic_call_that_fails_is_undone_and_retried_as_a_whole() {
    for (retries, done) in [(1, false), (2, true)] {
        let to = Arc::default();
        let kinds = vec![counters("counter"), adder(2, &to).retries(retries)];
        let (_engine, system) = system(kinds);
        let counter = system.launch(0).expect("there is room");
        *to.lock().expect("no panic") = counter;
        let adder = system.launch(1).expect("there is room");
        system.deactivate(&[adder]).expect("it runs");
        let mut asked: Vec<_> = (1..=5).map(|i| ask(&system, adder, ADD, &[i])).collect();
        system.tell(adder, ADD, &[0]).expect("it lives");
        system.activate(&[adder]).expect("it runs");
        let stats = system.settle().expect("it settles");
        let replies: Vec<_> = asked
            .iter_mut()
            .map(|a| end_of(a).ok().map(|m| m.word(0)))
            .collect();
        let (expected, total, failed) = match done {
            true => ([0, 1, 3, 6, 10].map(Some), 15, 0),
            false => ([None; 5], 0, 6),
        };
        assert_eq!(replies, expected);
        assert_eq!(sum(&system, counter), total);
        assert_eq!(stats.dead(DeadReason::Failed), failed);
    }
}

/// What a handler of an atomic kind sends waits until it has returned, and keeps its order, replies included.
#[test]
fn atomic_handler_sends_messages_and_replies_in_their_order() {
    let log = Log::default();
    let own = log.clone();
    let asker = Kind::closure("asker", 8, move |actor, message| match message.tag() {
        ADD if !message.is_reply() && message.from().is_none() => {
            actor.ask(ActorId::from_bits(message.word(0)), GET, &[], 7);
        }
        _ => own.add(actor, message),
    });
    let between = Kind::closure("between", 8, |actor, message| {
        let to = message.from();
        actor.tell(to, 20, &[]);
        actor.reply(21, &[]);
        actor.tell(to, 22, &[]);
    });
    let kinds = vec![asker.sends(1), between.sends(2).atomic()];
    let (_engine, system) = system(kinds);
    let [asker, between] = [0, 1].map(|kind| system.launch(kind).expect("there is room"));
    system
        .tell(asker, ADD, &[between.bits()])
        .expect("it lives");
    log.wait_for(3);
    assert_eq!(log.tags(), [20, 21, 22]);
}

#[test]
fn news_are_a_call_of_their_own_and_overtake_the_mailbox() {
    let calls = Calls::default();
    let (_engine, system) = system(vec![recorder(&calls)]);
    let actor = system.launch(0).expect("there is room");
    system.deactivate(&[actor]).expect("it runs");
    for i in 0..3 {
        system.tell(actor, ADD, &[i]).expect("it lives");
    }
    system
        .after(actor, Duration::ZERO, ADD, &[50])
        .expect("it lives");
    // The timer has fired when a later one of another actor has.
    let other = system.launch(0).expect("there is room");
    system
        .after(other, Duration::from_millis(1), ADD, &[60])
        .expect("it lives");
    let begin = Instant::now();
    while calls.lock().expect("no panic").is_empty() {
        assert!(begin.elapsed() < LONG, "no timer fires");
        std::thread::sleep(Duration::from_millis(1));
    }
    system.activate(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    let calls = calls.lock().expect("no panic");
    assert_eq!(*calls, [vec![60], vec![50], vec![0, 1, 2]]);
}

#[test]
fn several_messages_are_passed_on_each_with_its_sender() {
    let log = Log::default();
    let own = log.clone();
    let last = Kind::closure("last", 8, move |actor, message| {
        own.add(actor, message);
        actor.reply(GET, &[message.word(1)]);
    });
    let between = Kind::batch_closure("between", 8, |actor, messages| {
        for (place, message) in messages.iter().enumerate() {
            actor.forward_at(place, ActorId::from_bits(message.word(0)));
        }
    });
    let (_engine, system) = system(vec![last, between.sends(32)]);
    let [last, between] = [0, 1].map(|kind| system.launch(kind).expect("there is room"));
    system.deactivate(&[between]).expect("it runs");
    let words = |i: u64| [last.bits(), i];
    let mut asked: Vec<_> = (0..5)
        .map(|i| ask(&system, between, ADD, &words(i)))
        .collect();
    system.tell(between, ADD, &words(5)).expect("it lives");
    system.activate(&[between]).expect("it runs");
    system.settle().expect("it settles");
    for (i, asked) in (0..).zip(&mut asked) {
        let reply = end_of(asked).expect("it replies");
        assert_eq!(reply.word(0), i);
    }
    let numbers: Vec<_> = log.all().iter().map(|(_, m)| m.word(1)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn simulated_calls_lose_nothing_in_any_schedule() {
    for seed in 0..50 {
        let calls = Calls::default();
        let to = Arc::new(Mutex::new(ActorId::NONE));
        let receiver = to.clone();
        // Sends its own number ten times, a call each.
        let sender = Kind::closure("sender", 8, move |actor, message| {
            let (number, left) = (message.word(0), message.word(1));
            let to = *receiver.lock().expect("no panic");
            actor.tell(to, ADD, &[100 * number + 10 - left]);
            if left > 1 {
                actor.tell(actor.id(), ADD, &[number, left - 1]);
            }
        });
        let kinds = vec![recorder(&calls).mailbox(8), sender.sends(2)];
        let program = ActorProgram::closures("simulated", kinds);
        let world = Simulation::new(&program, seed, ActorConfig::default());
        let mut world = world.expect("the limits can work");
        *to.lock().expect("no panic") = world.launch(0).expect("there is room");
        for number in 0..10 {
            let sender = world.launch(1).expect("there is room");
            world.tell(sender, ADD, &[number, 10]).expect("it lives");
        }
        world.run().expect("nothing fails");
        let all = calls.lock().expect("no panic").concat();
        for number in 0..10 {
            let own: Vec<_> = all.iter().filter(|w| *w / 100 == number).collect();
            let expected: Vec<_> = (0..10).map(|i| 100 * number + i).collect();
            assert_eq!(own, expected.iter().collect::<Vec<_>>(), "seed {seed}");
        }
        assert_eq!(all.len(), 100);
        assert!(sizes(&calls).iter().all(|size| *size <= 8));
    }
}

dev_struct! {
    /// A sum.
    pub struct DevTotal: align 8, size 8 {
        /// The sum so far.
        pub sum: u64,
    }
}

actors! {
    /// One kind of each shape.
    static SHAPES: shapes() {
        WARP: warp(warp_total: DevTotal).mailbox(4095),
        BLOCK: block(block_total: DevTotal).mailbox(4095),
    }
}

fn warp_total(actor: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    actor.state::<DevTotal>().sum += messages.iter().map(|m| m.word(0)).sum::<u64>();
    for place in 0..messages.len() {
        let sum = actor.state::<DevTotal>().sum;
        actor.reply_to(place, GET, &[sum]);
    }
}
fn block_total(actor: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    warp_total(actor, messages);
}

#[test]
fn kinds_are_declared_with_a_shape() {
    let device = Device::open(Select::Cpu).expect("the device opens");
    let engine = device.engine().program(SHAPES.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &SHAPES, ActorConfig::default());
    let system = system.expect("the system starts");
    for kind in [WARP, BLOCK] {
        let actor = system.launch(kind).expect("there is room");
        let tells: Vec<_> = (1..=10_000).map(|i| Tell::new(actor, ADD, &[i])).collect();
        system.tell_all(&tells).expect("it lives");
        let total = system.ask(actor, GET, &[]).expect("it replies");
        assert_eq!(total.word(0), 10_000 * 10_001 / 2);
    }
}

#[test]
#[should_panic(expected = "sends 93 messages: send them in several steps, up to 92 at a time")]
fn call_that_would_send_too_much_is_refused() {
    let kind = Kind::batch_closure("many", 8, |_, _| {}).sends(93);
    ActorProgram::closures("many", vec![kind]).program();
}

#[test]
fn gpus_refuse_a_kind_of_warp_shape_that_keeps_asks_or_has_no_source_by_name() {
    let program = |kind: &Kind, source: &'static str| {
        let kinds = vec![kind.clone()].into();
        let (name, params) = (SHAPES.name.clone(), SHAPES.params.clone());
        ActorProgram::new(name, kinds, source.into(), "".into(), params).not_on_cuda()
    };
    for (kind, name) in SHAPES.kinds.iter().zip(["warp_total", "block_total"]) {
        assert_eq!(program(kind, "with source"), None);
        let (refused, why) = program(kind, "").expect("it has no source");
        assert_eq!(
            (&*refused, &*why),
            (name, "its program has no device source")
        );
        assert_eq!(program(&kind.clone().services(), "with source"), None);
        let keeps = kind.clone().keeps();
        let (refused, why) = program(&keeps, "with source").expect("it keeps asks");
        assert!(refused == name && why.contains(".keeps()"), "{why}");
    }
    let closure = Kind::batch_closure("closure", 8, |_, _| {});
    let (_, why) = program(&closure, "with source").expect("it is a closure");
    assert_eq!(why, "its handler is a closure");
}

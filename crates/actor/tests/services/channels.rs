//! Typed channels between actors, native tasks and the host.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_actor::{ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, ChannelId};
use everwarp_actor::{DeadReason, Kind};
use everwarp_contract::dev_struct;
use everwarp_runtime::{
    DevNone, Device, Function, Params, Program, ProgramRef, Select, Shape, Twin,
};

use crate::support::{LONG, Log, system};

dev_struct! {
    /// A reading of a sensor.
    pub struct DevReading: align 8, size 24 {
        /// The sensor.
        pub sensor: u64,
        /// Its number.
        pub number: u64,
        /// What it read.
        pub value: f64,
    }
}

const RECEIVE: u8 = 1;
const SEND: u8 = 2;
const CLOSE: u8 = 3;
const WRONG: u8 = 4;

/// Receives word 1 values from the channel in word 0, sends a value to it, or closes it. What ends comes into the log.
fn party(name: &'static str, log: &Log) -> Kind {
    let log = log.clone();
    Kind::closure(name, 16, move |actor, message| {
        let channel = ChannelId::from_bits(message.word(0));
        match message.tag() {
            _ if message.is_reply() => log.add(actor, message),
            RECEIVE => (0..message.word(1)).for_each(|i| actor.receive_on::<u64>(channel, 100 + i)),
            SEND if actor.send_on(channel, &message.word(1), message.word(2)) => {}
            SEND => log.add(actor, message),
            CLOSE => actor.close_channel(channel),
            WRONG => actor.receive_on::<f64>(channel, 0),
            _ => unreachable!("no such message"),
        }
    })
}

#[test]
fn values_of_a_sender_arrive_in_order_and_each_once() {
    let (_engine, system) = system(vec![Kind::closure("idle", 8, |_, _| {})]);
    let channel = system.channel::<DevReading>(4).expect("the CPU engine");
    let senders = 3;
    std::thread::scope(|scope| {
        for sensor in 0..senders {
            let channel = channel.clone();
            scope.spawn(move || {
                for number in 0..500 {
                    let value = number as f64 / 2.0;
                    let reading = DevReading {
                        sensor,
                        number,
                        value,
                    };
                    channel.send_within(&reading, LONG).expect("it is received");
                }
            });
        }
        let mut next = [0; 3];
        for _ in 0..senders * 500 {
            let got = channel.receive_within(LONG).expect("it is sent");
            assert_eq!(got.number, next[got.sensor as usize]);
            assert_eq!(got.value, got.number as f64 / 2.0);
            next[got.sensor as usize] += 1;
            assert!(channel.len() <= channel.capacity());
        }
    });
    let none = channel.try_receive().expect_err("all were received");
    assert!(matches!(none, ActorError::ChannelEmpty { .. }), "{none}");
}

#[test]
fn full_channel_makes_its_senders_wait() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let channel = system.channel::<u64>(2).expect("the CPU engine");
    let words = |n: u64| [channel.id().bits(), n, 1000 + n];
    let [one, other] = [(); 2].map(|()| system.launch(0).expect("there is room"));
    for n in 0..3 {
        system.tell(one, SEND, &words(n)).expect("it lives");
    }
    system.settle().expect("it settles: no handler waits");
    assert_eq!(log.wait_for(2).len(), 2, "the third value waits");
    // No more than one of an actor waits.
    system.tell(one, SEND, &words(9)).expect("it lives");
    log.wait_for(3);
    assert_eq!(log.all()[2].1.tag(), SEND, "it was refused");
    // Others wait after it, and so does the host, whose value does not come later.
    system.tell(other, SEND, &words(3)).expect("it lives");
    system.settle().expect("it settles");
    let full = channel.try_send(&4).expect_err("it is full");
    assert!(matches!(full, ActorError::ChannelFull { .. }), "{full}");
    let full = channel.send_within(&5, Duration::from_millis(20));
    let full = full.expect_err("no value is received");
    assert!(matches!(full, ActorError::ChannelFull { .. }), "{full}");
    for n in 0..4 {
        assert_eq!(channel.receive().expect("it is there"), n);
    }
    assert!(channel.is_empty());
    let all = log.wait_for(5);
    let numbers: Vec<_> = all.iter().filter(|(_, m)| m.is_reply()).collect();
    let numbers: Vec<_> = numbers.iter().map(|(id, m)| (*id, m.ask())).collect();
    let expected = [(one, 1000), (one, 1001), (one, 1002), (other, 1003)];
    assert_eq!(numbers, expected);
}

#[test]
fn receivers_get_their_values_in_the_order_in_which_they_came() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let channel = system.channel::<u64>(1).expect("the CPU engine");
    let actors = system.launch_all(0, 3).expect("there is room");
    for actor in &actors {
        let words = [channel.id().bits(), 2];
        system.tell(*actor, RECEIVE, &words).expect("it lives");
        system.settle().expect("it settles");
    }
    for value in 0..6 {
        channel.try_send(&value).expect("a receiver waits");
    }
    let all = log.wait_for(6);
    for (place, actor) in actors.iter().enumerate() {
        let own = all.iter().filter(|(id, _)| id == actor);
        let own: Vec<_> = own.map(|(_, m)| (m.value::<u64>(), m.ask())).collect();
        let first = 2 * place as u64;
        assert_eq!(own, [(first, 100), (first + 1, 101)]);
    }
}

#[test]
fn closed_channel_still_gives_what_it_holds() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let actor = system.launch(0).expect("there is room");
    let channel = system.channel::<u64>(2).expect("the CPU engine");
    let id = channel.id().bits();
    for n in [7, 8, 9] {
        system.tell(actor, SEND, &[id, n, n]).expect("it lives");
    }
    log.wait_for(2);
    system.tell(actor, CLOSE, &[id]).expect("it lives");
    // The value that waited is not sent.
    let ended = log.wait_for(3)[2].1;
    assert_eq!((ended.ask(), ended.failure()), (9, Some(DeadReason::Ended)));
    let closed = channel.send(&1).expect_err("it is closed");
    assert!(
        matches!(closed, ActorError::ChannelClosed { .. }),
        "{closed}"
    );
    assert_eq!(channel.receive().expect("it is there"), 7);
    system.tell(actor, RECEIVE, &[id, 2]).expect("it lives");
    let all = log.wait_for(5);
    assert_eq!((all[3].1.value::<u64>(), all[3].1.failure()), (8, None));
    assert_eq!(all[4].1.failure(), Some(DeadReason::Ended));
    let closed = channel.receive().expect_err("it is closed and empty");
    assert!(
        matches!(closed, ActorError::ChannelClosed { .. }),
        "{closed}"
    );
    // The last handle closes, too, and what waits learns of it.
    let channel = system.channel::<u64>(1).expect("the CPU engine");
    let words = [channel.id().bits(), 1];
    system.tell(actor, RECEIVE, &words).expect("it lives");
    system.settle().expect("it settles");
    let other = channel.clone();
    drop(channel);
    assert_eq!(log.all().len(), 5);
    drop(other);
    assert_eq!(log.wait_for(6)[5].1.failure(), Some(DeadReason::Ended));
}

/// Values on their way to an actor that rests, and is killed then.
#[test]
fn values_for_an_actor_that_ends_go_back_to_the_channel() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let channel = system.channel::<u64>(8).expect("the CPU engine");
    let [one, other] = [(); 2].map(|()| system.launch(0).expect("there is room"));
    let words = [channel.id().bits(), 3];
    system.tell(one, RECEIVE, &words).expect("it lives");
    system.settle().expect("it settles");
    system.deactivate(&[one]).expect("it runs");
    for value in 0..5 {
        channel.send(&value).expect("there is room");
    }
    assert_eq!(channel.len(), 2, "three are on their way");
    system.kill(&[one]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!((channel.len(), log.all().len()), (5, 0));
    assert_eq!(channel.receive().expect("it is there"), 0);
    system.tell(other, RECEIVE, &words).expect("it lives");
    let all = log.wait_for(3);
    assert!(all.iter().map(|(_, m)| m.value::<u64>()).eq(1..4));
    // Of one that waits, nothing is left; another one waits after it.
    let words = [channel.id().bits(), 2];
    system.tell(other, RECEIVE, &words).expect("it lives");
    log.wait_for(4);
    system.kill(&[other]).expect("it runs");
    system.settle().expect("it settles");
    channel.send(&6).expect("there is room");
    assert_eq!(channel.try_receive().expect("no actor has it"), 6);
}

/// Receivers are killed at any moment: each value is handled once all the same, or received by the host.
#[test]
fn no_value_is_lost_while_receivers_are_killed() {
    const VALUES: u64 = 3000;
    let got = Arc::new(Mutex::new(Vec::new()));
    let own = got.clone();
    let kind = Kind::closure("receiver", 8, move |actor, message| {
        let state: &mut [u8; 8] = (&mut actor.state_bytes()[..8]).try_into().expect("8 bytes");
        let channel = match message.is_reply() {
            true => ChannelId::from_bits(u64::from_ne_bytes(*state)),
            false => ChannelId::from_bits(message.word(0)),
        };
        *state = channel.bits().to_ne_bytes();
        if message.is_reply() {
            if message.failure().is_some() {
                return;
            }
            own.lock().expect("no panic").push(message.value::<u64>());
        }
        actor.receive_on::<u64>(channel, 0);
    });
    let (_engine, system) = system(vec![kind]);
    let channel = system.channel::<u64>(16).expect("the CPU engine");
    std::thread::scope(|scope| {
        let sender = channel.clone();
        let sends = scope.spawn(move || {
            for value in 0..VALUES {
                sender.send_within(&value, LONG).expect("a receiver lives");
            }
        });
        while !sends.is_finished() {
            let actors = system.launch_all(0, 4).expect("there is room");
            for actor in &actors {
                let words = [channel.id().bits()];
                system.tell(*actor, RECEIVE, &words).expect("it lives");
            }
            system.kill(&actors[..3]).expect("it runs");
        }
        sends.join().expect("no panic");
    });
    let begin = Instant::now();
    loop {
        let mut all = got.lock().expect("no panic").clone();
        if all.len() as u64 >= VALUES {
            all.sort_unstable();
            assert!(all.into_iter().eq(0..VALUES));
            return;
        }
        assert!(begin.elapsed() < LONG, "{} values", all.len());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn value_that_waits_is_sent_when_its_sender_has_ended() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let channel = system.channel::<u64>(1).expect("the CPU engine");
    let actor = system.launch(0).expect("there is room");
    for n in [1, 2] {
        let words = [channel.id().bits(), n, n];
        system.tell(actor, SEND, &words).expect("it lives");
    }
    log.wait_for(1);
    system.settle().expect("it settles");
    system.kill(&[actor]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(channel.receive().expect("it is there"), 1);
    assert_eq!(channel.receive().expect("it is there"), 2);
}

#[test]
fn wrong_type_fails_the_actor_and_names_both() {
    let log = Log::default();
    let (_engine, system) = system(vec![party("party", &log)]);
    let channel = system.channel::<u64>(1).expect("the CPU engine");
    let actor = system.launch(0).expect("there is room");
    let words = [channel.id().bits()];
    system.tell(actor, WRONG, &words).expect("it lives");
    system.settle().expect("it settles");
    let (failures, _) = system.failures();
    let reason = &failures[0].reason;
    assert!(reason.contains("`u64`, not `f64`"), "{reason}");
}

#[test]
fn handler_must_not_wait_for_a_channel() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let own = log.clone();
    let shared = Arc::new(Mutex::new(None::<everwarp_actor::Channel<u64>>));
    let held = shared.clone();
    let kind = Kind::closure("waits", 8, move |_, _| {
        let held = held.lock().expect("no panic");
        let channel = held.as_ref().expect("it is there");
        let errors = [channel.send(&1).map(drop), channel.receive().map(drop)];
        own.lock().expect("no panic").extend(errors);
    });
    let (_engine, system) = system(vec![kind]);
    *shared.lock().expect("no panic") = Some(system.channel(1).expect("the CPU engine"));
    let actor = system.launch(0).expect("there is room");
    system.tell(actor, 0, &[]).expect("it lives");
    system.settle().expect("it settles");
    let errors = log.lock().expect("no panic");
    assert_eq!(errors.len(), 2);
    for error in errors.iter() {
        assert!(
            matches!(error, Err(ActorError::InHandler { .. })),
            "{error:?}"
        );
    }
    drop(errors);
    // A host that waits learns that the system has ended.
    let channel = shared
        .lock()
        .expect("no panic")
        .take()
        .expect("it is there");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| channel.receive_within(LONG));
        drop(system);
        let ended = waits.join().expect("no panic");
        let ended = ended.expect_err("no value comes");
        assert!(matches!(ended, ActorError::ChannelClosed { .. }), "{ended}");
    });
}

/// Native tasks send, and are submitted when there is a value.
#[test]
fn native_tasks_send_and_are_continuations() {
    type Shared = Arc<Mutex<Option<everwarp_actor::Channel<u64>>>>;
    let shared = Shared::default();
    let (sends, own) = (shared.clone(), Log::default());
    let send = Twin::new(move |task| {
        let shared = sends.lock().expect("no panic");
        let channel = shared.as_ref().expect("it is there");
        channel.try_send(&task.arg()).expect("there is room");
    });
    let square = Twin::new(|task| task.report_add(task.arg() * task.arg()));
    let lane = |name: &'static str, twin| Function::shaped(Shape::Lane, name.into(), twin);
    let tasks = ProgramRef::from(Program {
        name: "tasks".into(),
        functions: vec![lane("send", send), lane("square", square)].into(),
        device_source: "".into(),
        wgsl_source: "".into(),
        params: Params::of::<DevNone>(),
    });
    let actors = ActorProgram::closures("test", vec![party("party", &own)]);
    let device = Device::open(Select::Cpu).expect("the device opens");
    let engine = device
        .engine()
        .program(actors.program())
        .program(tasks.clone());
    let engine = engine.start().expect("the engine starts");
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, &actors, config).expect("the system starts");
    let channel = system.channel::<u64>(100).expect("the CPU engine");
    *shared.lock().expect("no panic") = Some(channel.clone());
    let instance = engine.plain_instance(tasks).expect("the engine has it");
    let instance = Arc::new(instance);
    // From tasks to an actor.
    let actor: ActorId = system.launch(0).expect("there is room");
    let words = [channel.id().bits(), 10];
    system.tell(actor, RECEIVE, &words).expect("it lives");
    system.settle().expect("it settles");
    for n in 0..10 {
        engine.run(instance.task(0).arg(n)).expect("it runs");
    }
    let all = own.wait_for(10);
    let mut values: Vec<_> = all.iter().map(|(_, m)| m.value::<u64>()).collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..10));
    // From an actor to a task.
    let (done, results) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let (engine, instance, done) = (engine.clone(), instance.clone(), done.clone());
        let then = move |value: Option<u64>| {
            let pending = value.map(|n| engine.submit(instance.task(1).arg(n)).expect("it runs"));
            done.send(pending).expect("the test waits");
        };
        channel.receive_then(then).expect("it waits");
    }
    for n in [5, 6] {
        let words = [channel.id().bits(), n, n];
        system.tell(actor, SEND, &words).expect("it lives");
    }
    for square in [25, 36] {
        let pending = results.recv_timeout(LONG).expect("a value came");
        let completion = pending.expect("it was a value").wait().expect("it runs");
        assert_eq!(completion.value, square);
    }
    channel.close().expect("it runs");
    let none = results.recv_timeout(LONG).expect("it learns of the end");
    assert!(none.is_none());
}

//! The test kit: schedules drawn from seeds, virtual time, and injected faults.

use std::time::Duration;

use everwarp_actor::{
    ActorConfig, ActorId, ActorProgram, DeadReason, Ending, Faults, Kind, Member, Policy,
    Simulation, Strategy, Supervision,
};

use crate::support::{ADD, GET, HOUR, Log, counters};

const CONFIG: ActorConfig = ActorConfig {
    actors: 256,
    messages: 4096,
    host_messages: 64,
    asks: 16,
    patience: Duration::from_secs(1),
};

fn simulation(kinds: Vec<Kind>, seed: u64) -> Simulation {
    let program = ActorProgram::closures("simulated", kinds);
    Simulation::new(&program, seed, CONFIG).expect("the limits work")
}

fn number(state: &[u8]) -> u64 {
    u64::from_ne_bytes(state[..8].try_into().expect("8 bytes"))
}

/// Passes a number on to the actor in its state while it is above 0.
fn relay(log: &Log) -> Kind {
    let log = log.clone();
    let kind = Kind::closure("relay", 8, move |actor, message| match message.tag() {
        ADD => actor.state_bytes()[..8].copy_from_slice(&message.word(0).to_ne_bytes()),
        _ => {
            log.add(actor, message);
            if message.word(0) > 0 {
                let next = ActorId::from_bits(number(actor.state_bytes()));
                actor.tell(next, GET, &[message.word(0) - 1, message.word(1)]);
            }
        }
    });
    kind.sends(1).mailbox(2)
}

/// What is handled, in order, for this seed.
fn run_relays(seed: u64) -> Vec<(ActorId, [u64; 2])> {
    let log = Log::default();
    let mut world = simulation(vec![relay(&log)], seed);
    let ring: Vec<_> = (0..5)
        .map(|_| world.launch(0).expect("there is room"))
        .collect();
    for (i, actor) in ring.iter().enumerate() {
        world
            .tell(*actor, ADD, &[ring[(i + 1) % 5].bits()])
            .expect("it lives");
    }
    world.run().expect("it goes on");
    for (token, actor) in (0..10).zip(ring.iter().cycle()) {
        world
            .tell(*actor, GET, &[20, token])
            .expect("there is room");
    }
    world.run().expect("it goes on");
    let stats = world.stats();
    assert_eq!(
        (log.all().len(), stats.dead),
        (10 * 21, [0; 5]),
        "seed {seed}"
    );
    let words = |m: &everwarp_actor::Message| [m.word(0), m.word(1)];
    log.all()
        .iter()
        .map(|(actor, m)| (*actor, words(m)))
        .collect()
}

#[test]
fn seed_replays_its_schedule_and_other_seeds_draw_others() {
    let first = run_relays(1);
    assert_eq!(run_relays(1), first);
    let others = (2..40).filter(|seed| run_relays(*seed) != first).count();
    assert!(others >= 37, "{others}");
}

#[test]
fn virtual_time_fires_timers_in_order_and_at_their_times() {
    let log = Log::default();
    let own = log.clone();
    let kind = Kind::closure("timed", 8, move |actor, message| {
        own.add(actor, message);
        if message.tag() == GET {
            actor.every(Duration::from_secs(3600), ADD, &[]);
        }
    });
    let mut world = simulation(vec![kind], 3);
    let actor = world.launch(0).expect("there is room");
    world.after(actor, 2 * HOUR, 9, &[]).expect("it lives");
    world.tell(actor, GET, &[]).expect("it lives");
    world
        .advance(HOUR - Duration::from_nanos(1))
        .expect("it goes on");
    assert_eq!(log.tags(), [GET]);
    world.advance(Duration::from_nanos(1)).expect("it goes on");
    assert_eq!(log.tags(), [GET, ADD]);
    world.advance(24 * HOUR).expect("it goes on");
    assert_eq!((log.all().len(), world.now()), (2 + 1 + 24, 25 * HOUR));
    assert_eq!(log.tags()[2], 9, "it was set first");
}

/// An ask whose reply and whose deadline come in any order ends once, for every seed.
#[test]
fn ask_with_a_deadline_ends_once_in_every_schedule() {
    const ASK: u8 = 10;
    let (mut late, mut replied) = (0, 0);
    for seed in 0..300 {
        let log = Log::default();
        let own = log.clone();
        let asker = Kind::closure("asker", 8, move |actor, message| match message.tag() {
            ASK if !message.is_reply() => {
                let to = ActorId::from_bits(message.word(0));
                actor.ask_within(to, GET, &[], 5, Duration::ZERO);
            }
            _ => own.add(actor, message),
        });
        let mut world = simulation(vec![counters("counter"), asker.sends(1)], seed);
        let [to, asker] = [0, 1].map(|kind| world.launch(kind).expect("there is room"));
        world.tell(asker, ASK, &[to.bits()]).expect("it lives");
        // The deadline passes after some of the turns.
        for _ in 0..1 + seed % 3 {
            world.step();
        }
        if seed % 7 == 0 {
            world.kill(to);
        }
        world.advance(Duration::ZERO).expect("it goes on");
        let all = log.all();
        assert_eq!((all.len(), all[0].1.ask()), (1, 5), "seed {seed}");
        late += u64::from(all[0].1.failure() == Some(DeadReason::Timeout));
        replied += u64::from(all[0].1.failure().is_none());
    }
    assert!(late > 30 && replied > 30, "{late} late, {replied} in time");
}

/// Handlers fail and actors are killed at random. Each monitored end is reported once, members keep their ids, and every
/// ask ends.
#[test]
fn promises_hold_while_handlers_fail_and_actors_are_killed() {
    let mut restarts = 0;
    for seed in 0..150 {
        let log = Log::default();
        let own = log.clone();
        let watcher = Kind::closure("watcher", 8, move |actor, message| match message.tag() {
            _ if message.down().is_some() => own.add(actor, message),
            _ => actor.monitor(ActorId::from_bits(message.word(0)), 0),
        });
        let mut world = simulation(vec![counters("counter"), watcher], seed);
        let letters = world.dead_letters(1 << 16);
        let watcher = world.launch(1).expect("there is room");
        let plain: Vec<_> = (0..8)
            .map(|_| world.launch(0).expect("there is room"))
            .collect();
        let group: Vec<_> = (0..4)
            .map(|_| world.launch(0).expect("there is room"))
            .collect();
        for actor in plain.iter().chain(&group) {
            world.tell(watcher, ADD, &[actor.bits()]).expect("it lives");
        }
        world.run().expect("it goes on");
        let supervision = Supervision::new(Strategy::RestForOne, 10_000, HOUR);
        let members: Vec<_> = group
            .iter()
            .map(|a| Member::Actor(*a, Policy::Permanent))
            .collect();
        let id = world
            .supervise(supervision, &members)
            .expect("they are free");
        world.inject(Faults {
            fails: 100,
            killed: 50,
        });
        let (mut sent, mut refused, mut asks) = (0, 0, Vec::new());
        for round in 0..60 {
            for actor in plain.iter().chain(&group) {
                match world.tell(*actor, ADD, &[round]) {
                    Ok(()) => sent += 1,
                    Err(_) => refused += 1,
                }
            }
            let to = group[round as usize % 4];
            asks.extend(world.ask(to, GET, &[]).ok());
            for _ in 0..5 {
                world.step();
            }
            if asks.len() == 16 {
                world.run().expect("it goes on");
                for ask in asks.drain(..) {
                    assert!(
                        world.reply(ask).is_some(),
                        "seed {seed}: an ask has not ended"
                    );
                }
            }
        }
        // The watcher's own turns may fail, too, from here on only without harm.
        world.inject(Faults::default());
        world.run().expect("it goes on");
        let ended: Vec<_> = plain.iter().filter(|a| !world.lives(**a)).collect();
        if world.lives(watcher) {
            let mut reported: Vec<_> = log.all().iter().map(|(_, m)| m.from()).collect();
            reported.sort();
            let mut expected: Vec<_> = ended.iter().map(|a| **a).collect();
            expected.sort();
            assert_eq!(reported, expected, "seed {seed}");
            let abnormal = |m: &everwarp_actor::Message| m.down() != Some(Ending::Stopped);
            assert!(log.all().iter().all(|(_, m)| abnormal(m)));
        }
        assert!(group.iter().all(|a| world.lives(*a)), "seed {seed}");
        assert_eq!(letters.lost(), 0);
        let dead = letters.drain().filter(|l| l.message.tag() == ADD).count();
        assert!(dead <= sent && sent + refused == 60 * 12, "seed {seed}");
        restarts += world.group(id).expect("it exists").restarts;
    }
    assert!(restarts > 1000, "{restarts}");
}

#[test]
fn simulation_refuses_what_a_system_refuses() {
    let mut world = simulation(vec![counters("counter").mailbox(2)], 1);
    let actor = world.launch(0).expect("there is room");
    assert!(
        world
            .launch(1)
            .expect_err("no such kind")
            .to_string()
            .contains("1 kinds")
    );
    for _ in 0..2 {
        world.tell(actor, ADD, &[1]).expect("there is room");
    }
    assert!(
        world
            .tell(actor, ADD, &[1])
            .expect_err("it is full")
            .to_string()
            .contains("full")
    );
    world.run().expect("it goes on");
    let ask = world.ask(actor, GET, &[]).expect("there is room");
    assert!(world.reply(ask).is_none());
    world.run().expect("it goes on");
    let reply = world.reply(ask).expect("it has ended").expect("it replies");
    assert_eq!(reply.word(0), 2);
    world.kill(actor);
    world.run().expect("it goes on");
    let gone = world.tell(actor, ADD, &[1]).expect_err("it has ended");
    assert!(gone.to_string().contains("does not live"), "{gone}");
    let program = ActorProgram::closures("simulated", vec![counters("counter")]);
    let none = ActorConfig {
        actors: 0,
        ..CONFIG
    };
    let refused = Simulation::new(&program, 1, none)
        .expect_err("no actors")
        .to_string();
    assert!(refused.contains("ActorConfig::actors"), "{refused}");
}

//! What actors have next to messages: deadlines, timers, monitors, links, names, keys and dead letters. On a GPU events and
//! news carry it; on the CPU engine turns do it by themselves.

use std::time::{Duration, Instant};

use everwarp::actor::{
    ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, DeadReason, Ending, Tell, TimerId,
};
use everwarp::{Device, Engine, Select};
use everwarp_programs::actor_services::{
    ADD, AFTER, AGENT, ASK_WITHIN, BLOCKS, CANCEL, CAREFUL, DEMONITOR, DevAgent, EVERY, FAIL, GET,
    LINK, LINK_TO, MONITOR, PASS, SERVICES, STOP, TICK, UNLINK, WARPS,
};

use crate::support::{Case, in_each_shape, launch, tell, wait_for_end, wait_for_state};

pub(crate) const ALL: &[Case] = in_each_shape![SERVICES, WARPS, BLOCKS;
    ask_with_a_deadline_ends_once,
    timers_fire_in_order_and_never_early,
    periodic_timer_waits_until_its_message_is_handled,
    cancelled_timer_sends_nothing_more,
    monitors_are_notified_once_with_the_reason,
    linked_actor_is_killed_when_the_other_one_fails,
    name_is_one_actors_until_it_ends,
    key_is_one_actors_until_it_ends,
    each_dead_letter_reaches_its_subscriber,
    undone_handler_wants_nothing_from_the_host,
    many_events_wait_for_the_host_and_none_is_lost,
    services_survive_while_the_system_settles,
    system_with_timers_and_events_ends,
    engine_whose_actors_idle_is_not_stuck,
];

const LONG: Duration = Duration::from_secs(60);
const HOUR_NS: u64 = 3_600_000_000_000;

fn start(select: Select, program: &ActorProgram) -> (Engine, ActorSystem) {
    start_watched(select, program, LONG)
}
fn start_watched(
    select: Select,
    program: &ActorProgram,
    watchdog: Duration,
) -> (Engine, ActorSystem) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program());
    let engine = engine.watchdog(watchdog).start();
    let engine = engine.expect("the engine starts");
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, program, config).expect("it starts");
    (engine, system)
}
fn state(system: &ActorSystem, actor: ActorId) -> DevAgent {
    system.settle().expect("it settles");
    system.state(actor).expect("it is there")
}
fn wait_for(system: &ActorSystem, actor: ActorId, holds: impl Fn(&DevAgent) -> bool) -> DevAgent {
    wait_for_state(system, actor, holds)
}

fn ask_with_a_deadline_ends_once(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [asker, other] = launch(&system, AGENT);
    tell(&system, asker, LINK_TO, &[other.bits()]);
    tell(&system, asker, ASK_WITHIN, &[1, HOUR_NS]);
    let state = wait_for(&system, asker, |s| s.replies + s.timeouts + s.failures > 0);
    assert_eq!((state.replies, state.last), (1, 1));
    // It does not handle the ask until its time has passed.
    system.deactivate(&[other]).expect("it runs");
    let begin = Instant::now();
    tell(&system, asker, ASK_WITHIN, &[2, 20_000_000]);
    let state = wait_for(&system, asker, |s| s.timeouts > 0);
    assert!(begin.elapsed() >= Duration::from_millis(20), "too early");
    assert_eq!((state.replies, state.timeouts, state.last), (1, 1, 2));
    // The reply comes late, and reaches no actor.
    system.activate(&[other]).expect("it runs");
    let begin = Instant::now();
    while system.settle().expect("it settles").late == 0 {
        assert!(begin.elapsed() < LONG, "no late reply");
    }
    let end: DevAgent = system.state(asker).expect("it is there");
    assert_eq!((end.replies, end.timeouts, end.failures), (1, 1, 0));
    // An actor that has ended.
    system.kill(&[other]).expect("it runs");
    tell(&system, asker, ASK_WITHIN, &[3, HOUR_NS]);
    let state = wait_for(&system, asker, |s| s.failures > 0);
    assert_eq!((state.timeouts, state.failures, state.last), (1, 1, 3));
}

fn timers_fire_in_order_and_never_early(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [actor] = launch(&system, AGENT);
    let begin = Instant::now();
    // The later ones first, and so far apart that a machine with much else to do does not start the next one too late.
    for number in (1..=20).rev() {
        tell(&system, actor, AFTER, &[number * 20_000_000, number]);
    }
    let state = wait_for(&system, actor, |s| s.ticks == 20);
    assert!(begin.elapsed() >= Duration::from_millis(400), "too early");
    assert_eq!(state.last, 20);
    // The host's own.
    let begin = Instant::now();
    let timer = system.after(actor, Duration::from_millis(5), TICK, &[30]);
    assert!(timer.expect("it lives") != TimerId::NONE);
    let state = wait_for(&system, actor, |s| s.ticks == 21);
    assert!(begin.elapsed() >= Duration::from_millis(5), "too early");
    assert_eq!(state.last, 30);
}

fn periodic_timer_waits_until_its_message_is_handled(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [actor] = launch(&system, AGENT);
    tell(&system, actor, EVERY, &[1_000_000, 1]);
    wait_for(&system, actor, |s| s.ticks >= 5);
    system.deactivate(&[actor]).expect("it runs");
    let before = state(&system, actor).ticks;
    std::thread::sleep(Duration::from_millis(50));
    // The tick that waits is handled before the message that stops the timer.
    tell(&system, actor, CANCEL, &[]);
    system.activate(&[actor]).expect("it runs");
    let after = state(&system, actor).ticks;
    assert!(after - before <= 5, "{} ticks have waited", after - before);
}

fn cancelled_timer_sends_nothing_more(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [actor] = launch(&system, AGENT);
    tell(&system, actor, AFTER, &[50_000_000, 1]);
    tell(&system, actor, CANCEL, &[]);
    let timer = system.after(actor, Duration::from_secs(3600), TICK, &[9]);
    assert!(system.cancel(timer.expect("it lives")).expect("it can"));
    // One that comes later.
    tell(&system, actor, AFTER, &[60_000_000, 2]);
    let state = wait_for(&system, actor, |s| s.ticks > 0);
    assert_eq!((state.ticks, state.last), (1, 2));
}

fn monitors_are_notified_once_with_the_reason(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [watcher, stops, fails, dies, gone] = launch(&system, AGENT);
    system.kill(&[gone]).expect("it runs");
    wait_for_end(&system, gone, ADD, &[0]);
    let monitors = [stops, fails, dies, gone].map(|id| system.monitor(id).expect("it can"));
    for (number, id) in (1..).zip([stops, fails, dies, gone]) {
        tell(&system, watcher, MONITOR, &[id.bits(), number]);
    }
    // That of the one that does not live.
    wait_for(&system, watcher, |s| s.downs % 1000 == 1);
    tell(&system, stops, STOP, &[]);
    tell(&system, fails, FAIL, &[]);
    system.kill(&[dies]).expect("it runs");
    let state = wait_for(&system, watcher, |s| s.downs % 1000 == 4);
    let endings = [
        Ending::Stopped,
        Ending::Failed,
        Ending::Killed,
        Ending::Unknown,
    ];
    let sum: u64 = endings.iter().map(|e| *e as u64).sum();
    assert_eq!(state.downs, 4 + 1000 * sum);
    for (monitor, ending) in monitors.into_iter().zip(endings) {
        assert_eq!(monitor.ended_within(LONG), Some(ending));
    }
    // One that was taken back.
    let [other] = launch(&system, AGENT);
    tell(&system, watcher, MONITOR, &[other.bits(), 9]);
    tell(&system, watcher, DEMONITOR, &[other.bits()]);
    let [last] = launch(&system, AGENT);
    tell(&system, watcher, MONITOR, &[last.bits(), 10]);
    state_after(&system, watcher);
    system.kill(&[other, last]).expect("it runs");
    let state = wait_for(&system, watcher, |s| s.last == 10);
    assert_eq!(state.downs % 1000, 5);
}

/// What an actor has wanted from the host is done when a later wish of it is.
fn state_after(system: &ActorSystem, actor: ActorId) {
    let ticks = state(system, actor).ticks;
    tell(system, actor, AFTER, &[1, 0]);
    wait_for(system, actor, |s| s.ticks > ticks);
}

fn linked_actor_is_killed_when_the_other_one_fails(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [one, other, stops, lives, unlinked] = launch(&system, AGENT);
    tell(&system, one, LINK, &[other.bits()]);
    tell(&system, stops, LINK, &[lives.bits()]);
    tell(&system, one, LINK, &[unlinked.bits()]);
    tell(&system, one, UNLINK, &[unlinked.bits()]);
    state_after(&system, one);
    state_after(&system, stops);
    tell(&system, one, FAIL, &[]);
    wait_for_end(&system, other, ADD, &[0]);
    tell(&system, stops, STOP, &[]);
    wait_for_end(&system, stops, ADD, &[0]);
    // The host's links.
    let [a, b] = launch(&system, AGENT);
    system.link(a, b).expect("both live");
    system.kill(&[a]).expect("it runs");
    wait_for_end(&system, b, ADD, &[0]);
    for id in [lives, unlinked] {
        assert_eq!(system.ask(id, GET, &[]).expect("it lives").word(0), 0);
    }
    let refused = system.link(lives, other);
    assert!(
        matches!(refused, Err(ActorError::Gone { .. })),
        "{refused:?}"
    );
}

fn name_is_one_actors_until_it_ends(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [ada, bob] = launch(&system, AGENT);
    system.register("ada", ada).expect("the name is free");
    let taken = system.register("ada", bob);
    assert!(
        matches!(taken, Err(ActorError::NameTaken { holder, .. }) if holder == ada),
        "{taken:?}"
    );
    assert_eq!(system.lookup("ada").expect("it can"), ada);
    system.kill(&[ada]).expect("it runs");
    let begin = Instant::now();
    while system.lookup("ada").expect("it can") == ada {
        assert!(begin.elapsed() < LONG, "the name is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    system.register("ada", bob).expect("the name is free");
    assert_eq!(system.unregister("ada").expect("it can"), bob);
    let gone = system.register("gone", ada);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
}

fn key_is_one_actors_until_it_ends(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let seven = system.at(AGENT, 7).expect("there is room");
    assert_eq!(system.at(AGENT, 7).expect("it lives"), seven);
    assert_ne!(system.at(CAREFUL, 7).expect("there is room"), seven);
    system.tell_at(AGENT, 7, ADD, &[5]).expect("it lives");
    assert_eq!(system.ask(seven, GET, &[]).expect("it lives").word(0), 5);
    system.kill(&[seven]).expect("it runs");
    let next = system.tell_at(AGENT, 7, ADD, &[6]).expect("it is launched");
    assert_ne!(next, seven);
    assert_eq!(system.ask(next, GET, &[]).expect("it lives").word(0), 6);
}

fn each_dead_letter_reaches_its_subscriber(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let letters = system.dead_letters(10_000).expect("it can");
    let [actor, other, gone] = launch(&system, AGENT);
    tell(&system, actor, LINK_TO, &[gone.bits()]);
    system.settle().expect("it settles");
    system.kill(&[gone]).expect("it runs");
    wait_for_end(&system, gone, ADD, &[0]);
    tell(&system, actor, PASS, &[77]);
    system.deactivate(&[other]).expect("it runs");
    let tells: Vec<_> = (0..50).map(|i| Tell::new(other, ADD, &[i])).collect();
    system.tell_all(&tells).expect("it lives");
    system.kill(&[other]).expect("it runs");
    let mut got = Vec::new();
    while got.len() < 51 {
        let letter = letters.next_within(LONG).expect("there is one");
        got.push((
            letter.reason,
            letter.to,
            letter.message.from(),
            letter.message.word(0),
        ));
    }
    let passed = (DeadReason::Gone, gone, actor, 77);
    assert!(got.contains(&passed), "{got:?}");
    got.retain(|letter| *letter != passed);
    let ended: Vec<_> = (0..50)
        .map(|i| (DeadReason::Ended, other, ActorId::NONE, i))
        .collect();
    assert_eq!(got, ended);
    assert_eq!((letters.drain().count(), letters.lost()), (0, 0));
}

fn undone_handler_wants_nothing_from_the_host(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [careful] = launch(&system, CAREFUL);
    let [other] = launch(&system, AGENT);
    tell(&system, careful, LINK_TO, &[other.bits()]);
    // A call of several messages is undone as a whole.
    system.settle().expect("it settles");
    for _ in 0..10 {
        tell(&system, careful, FAIL, &[]);
    }
    system.settle().expect("it settles");
    tell(&system, careful, PASS, &[3]);
    state_after(&system, careful);
    assert_eq!(state(&system, other).sum, 3);
    system.kill(&[other]).expect("it runs");
    // The CPU engine does not undo monitors.
    if select == Select::Cpu {
        wait_for(&system, careful, |s| s.downs % 1000 == 12);
    } else {
        wait_for(&system, careful, |s| s.downs % 1000 == 2);
        state_after(&system, careful);
        assert_eq!(state(&system, careful).downs % 1000, 2);
    }
}

/// Many times as many events as their ring has places for.
fn many_events_wait_for_the_host_and_none_is_lost(select: Select, program: &ActorProgram) {
    const ACTORS: usize = 1000;
    // With the link, no more than one call may send.
    const EACH: u64 = 28;
    let (_engine, system) = start(select, program);
    let actors = system.launch_all(AGENT, ACTORS).expect("there is room");
    let [target] = launch(&system, AGENT);
    let link = |to: &ActorId| Tell::new(*to, LINK_TO, &[target.bits()]);
    let mut tells: Vec<_> = actors.iter().map(link).collect();
    for _ in 0..EACH {
        tells.extend(actors.iter().map(|to| Tell::new(*to, PASS, &[1])));
    }
    system.tell_all(&tells).expect("they live");
    assert_eq!(state(&system, target).sum, ACTORS as u64 * EACH);
    for actor in [actors[0], actors[ACTORS - 1]] {
        state_after(&system, actor);
    }
    system.kill(&[target]).expect("it runs");
    for actor in &actors {
        let state = wait_for(&system, *actor, |s| s.downs % 1000 == 2 * EACH);
        assert_eq!(state.sum, 0);
    }
}

fn services_survive_while_the_system_settles(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [actor, other] = launch(&system, AGENT);
    tell(&system, actor, LINK_TO, &[other.bits()]);
    tell(&system, actor, EVERY, &[100_000, 1]);
    for _ in 0..200 {
        tell(&system, actor, ASK_WITHIN, &[1, HOUR_NS]);
        system.settle().expect("it settles");
    }
    let state = wait_for(&system, actor, |s| s.replies == 200 && s.ticks > 10);
    assert_eq!((state.timeouts, state.failures), (0, 0));
}

/// Nothing hangs when a system ends while timers run and events come.
fn system_with_timers_and_events_ends(select: Select, program: &ActorProgram) {
    let (engine, system) = start(select, program);
    let actors = system.launch_all(AGENT, 500).expect("there is room");
    let tells: Vec<_> = actors
        .iter()
        .flat_map(|to| {
            [
                Tell::new(*to, LINK_TO, &[actors[0].bits()]),
                Tell::new(*to, EVERY, &[50_000, 1]),
                Tell::new(*to, PASS, &[1]),
            ]
        })
        .collect();
    system.tell_all(&tells).expect("they live");
    drop(system);
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, program, config).expect("it starts");
    let [actor] = launch(&system, AGENT);
    tell(&system, actor, ADD, &[4]);
    assert_eq!(state(&system, actor).sum, 4);
}

/// Nothing runs for longer than the watchdog waits, and then a timer is due.
fn engine_whose_actors_idle_is_not_stuck(select: Select, program: &ActorProgram) {
    let (_engine, system) = start_watched(select, program, Duration::from_secs(1));
    let [actor] = launch(&system, AGENT);
    let monitor = system.monitor(actor).expect("it can");
    let timer = system.after(actor, Duration::from_secs(3), STOP, &[]);
    timer.expect("it lives");
    assert_eq!(monitor.ended_within(LONG), Some(Ending::Stopped));
}

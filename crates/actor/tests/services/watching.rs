use everwarp_actor::{ActorId, ActorSystem, Ending, Kind};

use crate::support::{FAIL, HOUR, LONG, Log, STOP, counters, system};

const MONITOR: u8 = 20;
const DEMONITOR: u8 = 21;
const LINK: u8 = 22;
const UNLINK: u8 = 23;

fn watcher(log: &Log) -> Kind {
    let log = log.clone();
    Kind::closure("watcher", 8, move |actor, message| {
        let other = ActorId::from_bits(message.word(0));
        match message.tag() {
            _ if message.down().is_some() => log.add(actor, message),
            MONITOR => actor.monitor(other, message.word(1)),
            DEMONITOR => drop(actor.demonitor(other)),
            LINK => drop(actor.link(other)),
            UNLINK => actor.unlink(other),
            _ => actor.fail(),
        }
    })
}

fn downs(log: &Log) -> Vec<(ActorId, Ending, u64)> {
    let all = log.all();
    let down = |(_, m): &(ActorId, everwarp_actor::Message)| {
        (m.from(), m.down().expect("it is one"), m.word(0))
    };
    let mut all: Vec<_> = all.iter().map(down).collect();
    all.sort_by_key(|d| d.2);
    all
}

fn start(log: &Log) -> (everwarp_runtime::Engine, ActorSystem) {
    let careful = counters("careful").restarts(2, HOUR);
    system(vec![counters("counter"), watcher(log), careful])
}

#[test]
fn monitor_is_notified_once_of_each_ending() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let [stopped, failed, killed, gone] =
        [(); 4].map(|()| system.launch(0).expect("there is room"));
    let watcher = system.launch(1).expect("there is room");
    system.kill(&[gone]).expect("it runs");
    system.settle().expect("it settles");
    for (number, actor) in (1..).zip([stopped, failed, killed, gone]) {
        let words = [actor.bits(), number];
        system.tell(watcher, MONITOR, &words).expect("it lives");
    }
    system.settle().expect("it settles");
    assert_eq!(downs(&log), [(gone, Ending::Unknown, 4)]);
    system.tell(stopped, STOP, &[]).expect("it lives");
    system.tell(failed, FAIL, &[]).expect("it lives");
    system.kill(&[killed]).expect("it runs");
    system.settle().expect("it settles");
    let expected = [
        (stopped, Ending::Stopped, 1),
        (failed, Ending::Failed, 2),
        (killed, Ending::Killed, 3),
        (gone, Ending::Unknown, 4),
    ];
    assert_eq!(downs(&log), expected);
    // Slots are used again, and nothing more comes.
    let next = system.launch_all(0, 10).expect("there is room");
    system.kill(&next).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(downs(&log).len(), 4);
}

#[test]
fn restart_is_no_ending_and_monitors_survive_it() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let careful = system.launch(2).expect("there is room");
    let watcher = system.launch(1).expect("there is room");
    system
        .tell(watcher, MONITOR, &[careful.bits(), 7])
        .expect("it lives");
    for round in 0..3 {
        system.settle().expect("it settles");
        assert_eq!(log.all().len(), 0, "{round}");
        system.tell(careful, FAIL, &[]).expect("it lives");
    }
    system.settle().expect("it settles");
    assert_eq!(downs(&log), [(careful, Ending::Failed, 7)]);
}

#[test]
fn ended_monitor_is_not_notified() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let actors = system.launch_all(0, 3).expect("there is room");
    let watcher = system.launch(1).expect("there is room");
    for actor in &actors {
        system
            .tell(watcher, MONITOR, &[actor.bits(), actor.bits()])
            .expect("it lives");
    }
    system
        .tell(watcher, DEMONITOR, &[actors[1].bits()])
        .expect("it lives");
    system.settle().expect("it settles");
    system.kill(&actors).expect("it runs");
    system.settle().expect("it settles");
    let ended: Vec<_> = downs(&log).iter().map(|d| d.0).collect();
    assert_eq!(ended, [actors[0], actors[2]]);
}

#[test]
fn host_monitors_an_actor() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let actor = system.launch(0).expect("there is room");
    let monitor = system.monitor(actor).expect("the CPU engine has them");
    assert_eq!(monitor.ended_within(std::time::Duration::ZERO), None);
    system.stop(&[actor]).expect("it runs");
    assert_eq!(monitor.ended_within(LONG), Some(Ending::Stopped));
    assert_eq!(monitor.ended_within(LONG), None, "once");
    let again = system.monitor(actor).expect("the CPU engine has them");
    assert_eq!(again.ended_within(LONG), Some(Ending::Unknown));
}

/// More monitors than a turn has room for.
#[test]
fn many_monitors_of_one_actor_are_all_notified() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let actor = system.launch(0).expect("there is room");
    let watchers = system.launch_all(1, 3000).expect("there is room");
    for (number, &watcher) in (0..).zip(&watchers) {
        let words = [actor.bits(), number];
        system.tell(watcher, MONITOR, &words).expect("it lives");
    }
    system.settle().expect("it settles");
    system.tell(actor, FAIL, &[]).expect("it lives");
    system.settle().expect("it settles");
    let all = downs(&log);
    let expected = (0..3000).map(|number| (actor, Ending::Failed, number));
    assert!(all.into_iter().eq(expected));
}

#[test]
fn linked_actors_end_together_unless_one_stops() {
    let log = Log::default();
    let (_engine, system) = start(&log);
    let chain = system.launch_all(1, 5).expect("there is room");
    let monitors: Vec<_> = chain
        .iter()
        .map(|a| system.monitor(*a).expect("they are there"))
        .collect();
    for pair in chain.windows(2) {
        system
            .tell(pair[0], LINK, &[pair[1].bits()])
            .expect("it lives");
    }
    system.settle().expect("it settles");
    // A link that has ended, and an actor that stops, end no other.
    system
        .tell(chain[3], UNLINK, &[chain[4].bits()])
        .expect("it lives");
    system.settle().expect("it settles");
    system.stop(&chain[..1]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(monitors[0].ended_within(LONG), Some(Ending::Stopped));
    system.tell(chain[2], FAIL, &[]).expect("it lives");
    system.settle().expect("it settles");
    let ended: Vec<_> = monitors[1..]
        .iter()
        .map(|m| m.ended_within(std::time::Duration::ZERO))
        .collect();
    let killed = Some(Ending::Killed);
    assert_eq!(ended, [killed, Some(Ending::Failed), killed, None]);
    let dead = system.link(chain[4], chain[1]).expect_err("one has ended");
    assert!(dead.to_string().contains("does not live"), "{dead}");
}

use everwarp_actor::{
    ActorError, ActorId, ActorSystem, Ending, GroupId, GroupStats, Member, Policy, Strategy,
    Supervision,
};

use crate::support::{ADD, FAIL, HOUR, LONG, STOP, counters, sum, system};

/// Actors that have been told their numbers: 10, 11, 12 and so on.
fn members(system: &ActorSystem, n: usize) -> Vec<ActorId> {
    let all = system.launch_all(0, n).expect("there is room");
    for (number, actor) in (10..).zip(&all) {
        system.tell(*actor, ADD, &[number]).expect("it lives");
    }
    all
}
fn group(system: &ActorSystem, strategy: Strategy, most: u32, members: &[Member]) -> GroupId {
    let supervision = Supervision::new(strategy, most, HOUR);
    system
        .supervise(supervision, members)
        .expect("they are free")
}
fn permanent(actors: &[ActorId]) -> Vec<Member> {
    let member = |a: &ActorId| Member::Actor(*a, Policy::Permanent);
    actors.iter().map(member).collect()
}
fn fail(system: &ActorSystem, actor: ActorId) {
    system.tell(actor, FAIL, &[]).expect("it lives");
    system.settle().expect("it settles");
}
fn sums(system: &ActorSystem, actors: &[ActorId]) -> Vec<u64> {
    actors.iter().map(|a| sum(system, *a)).collect()
}
fn stats(system: &ActorSystem, group: GroupId) -> GroupStats {
    system.group(group).expect("it exists")
}

#[test]
fn strategy_says_which_members_begin_anew() {
    for (strategy, left) in [
        (Strategy::OneForOne, [10, 0, 12, 13]),
        (Strategy::OneForAll, [0, 0, 0, 0]),
        (Strategy::RestForOne, [10, 0, 0, 0]),
    ] {
        let (_engine, system) = system(vec![counters("counter")]);
        let all = members(&system, 4);
        let group = group(&system, strategy, 5, &permanent(&all));
        fail(&system, all[1]);
        assert_eq!(sums(&system, &all), left, "{strategy:?}");
        assert_eq!(stats(&system, group).restarts, 1);
    }
}

#[test]
fn policy_says_which_endings_are_followed_by_a_restart() {
    for (policy, lives) in [
        (Policy::Permanent, [true, true, true]),
        (Policy::Transient, [true, true, false]),
        (Policy::Temporary, [false, false, false]),
    ] {
        let (_engine, system) = system(vec![counters("counter")]);
        let all = members(&system, 3);
        let list: Vec<_> = all.iter().map(|a| Member::Actor(*a, policy)).collect();
        let group = group(&system, Strategy::OneForOne, 5, &list);
        let monitors: Vec<_> = all
            .iter()
            .map(|a| system.monitor(*a).expect("they are there"))
            .collect();
        fail(&system, all[0]);
        system.kill(&[all[1]]).expect("it runs");
        system.tell(all[2], STOP, &[]).expect("it lives");
        system.settle().expect("it settles");
        let endings = [Ending::Failed, Ending::Killed, Ending::Stopped];
        for i in 0..3 {
            let ended = monitors[i].ended_within(std::time::Duration::ZERO);
            assert_eq!(ended, (!lives[i]).then_some(endings[i]), "{policy:?} {i}");
            let told = system.tell(all[i], ADD, &[1]);
            assert_eq!(told.is_ok(), lives[i], "{policy:?} {i}: {told:?}");
            if lives[i] {
                assert_eq!(sum(&system, all[i]), 1, "it keeps its id and begins anew");
            }
        }
        let alive = lives.iter().filter(|l| **l).count();
        let stats = stats(&system, group);
        assert_eq!((stats.members, stats.restarts), (alive, alive as u64));
    }
}

#[test]
fn mailbox_survives_a_restart_by_the_group() {
    let (_engine, system) = system(vec![counters("counter")]);
    let all = members(&system, 2);
    group(&system, Strategy::OneForAll, 5, &permanent(&all));
    system.settle().expect("it settles");
    system.deactivate(&all).expect("it runs");
    for actor in &all {
        system.tell(*actor, ADD, &[100]).expect("it lives");
    }
    system.tell(all[0], FAIL, &[]).expect("it lives");
    for actor in &all {
        system.tell(*actor, ADD, &[7]).expect("it lives");
    }
    system.activate(&all[..1]).expect("it runs");
    system.settle().expect("it settles");
    system.activate(&all[1..]).expect("it runs");
    // The second one begins anew before it handles what waits.
    assert_eq!(sums(&system, &all), [7, 107]);
}

#[test]
fn group_that_restarts_too_often_ends() {
    let (_engine, system) = system(vec![counters("counter")]);
    let all = members(&system, 3);
    let group = group(&system, Strategy::OneForOne, 2, &permanent(&all));
    let monitors: Vec<_> = all
        .iter()
        .map(|a| system.monitor(*a).expect("they are there"))
        .collect();
    fail(&system, all[0]);
    fail(&system, all[2]);
    assert!(!stats(&system, group).ended);
    fail(&system, all[0]);
    let ended: Vec<_> = monitors.iter().map(|m| m.ended_within(LONG)).collect();
    let killed = Some(Ending::Killed);
    assert_eq!(ended, [Some(Ending::Failed), killed, killed]);
    let expected = GroupStats {
        restarts: 2,
        members: 0,
        ended: true,
    };
    assert_eq!(stats(&system, group), expected);
}

#[test]
fn outer_group_restarts_an_inner_one_as_a_whole() {
    let (_engine, system) = system(vec![counters("counter")]);
    let (inner, outer) = (members(&system, 2), members(&system, 1));
    let child = group(&system, Strategy::OneForOne, 1, &permanent(&inner));
    let list = [Member::Group(child), permanent(&outer)[0]];
    let parent = group(&system, Strategy::OneForOne, 1, &list);
    fail(&system, inner[0]);
    assert_eq!(sums(&system, &inner), [0, 11]);
    // Its restarts are used up, so that all of it begins anew, with new restarts.
    fail(&system, inner[0]);
    assert_eq!(
        (sums(&system, &inner), sum(&system, outer[0])),
        (vec![0, 0], 10)
    );
    assert_eq!(stats(&system, parent).restarts, 1);
    fail(&system, inner[1]);
    assert!(!stats(&system, child).ended);
    // The parent's are used up, too.
    fail(&system, inner[1]);
    assert!(stats(&system, child).ended && stats(&system, parent).ended);
    for actor in inner.iter().chain(&outer) {
        let gone = system.tell(*actor, ADD, &[1]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

#[test]
fn group_is_ended_by_the_host() {
    let (_engine, system) = system(vec![counters("counter")]);
    let all = members(&system, 50);
    let group = group(&system, Strategy::OneForAll, 5, &permanent(&all));
    system.end_group(group).expect("it exists");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.restarts, 0);
    assert_eq!(system.kill(&all).expect("it runs"), 50, "all have ended");
}

#[test]
fn wrong_members_are_refused() {
    let (_engine, system) = system(vec![counters("counter")]);
    let all = members(&system, 3);
    let first = group(&system, Strategy::OneForOne, 1, &permanent(&all[..1]));
    let supervision = Supervision::new(Strategy::OneForOne, 1, HOUR);
    let refused = |list: &[Member]| {
        let error = system
            .supervise(supervision, list)
            .expect_err("it is refused");
        error.to_string()
    };
    let twice = refused(&permanent(&[all[1], all[1]]));
    assert!(
        twice.contains("is a member of a supervised group already"),
        "{twice}"
    );
    let other = refused(&permanent(&all[..2]));
    assert!(
        other.contains("is a member of a supervised group already"),
        "{other}"
    );
    group(&system, Strategy::OneForOne, 1, &[Member::Group(first)]);
    let group = refused(&[Member::Group(first)]);
    assert!(group.contains("member of another group"), "{group}");
    system.kill(&[all[2]]).expect("it runs");
    system.settle().expect("it settles");
    let gone = refused(&permanent(&all[2..]));
    assert!(gone.contains("does not live"), "{gone}");
    // What was refused has left no trace.
    let supervised = system.supervise(supervision, &permanent(&all[1..2]));
    supervised.expect("it is free");
}

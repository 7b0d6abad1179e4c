//! Supervised groups. On the CPU engine turns decide by themselves; a GPU holds the actor until the host has decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everwarp::actor::{
    ActorError, ActorId, ActorProgram, ActorSystem, DeadReason, Ending, GroupId, GroupStats, Kind,
    Member, Policy, Strategy, Supervision, Tell,
};
use everwarp::{Buffer, Device, Engine, Select};
use everwarp_programs::actor_groups::{
    self, ADD, BLOCKS, CAREFUL, DevMember, FAIL, FAIL_AND_STOP, FAIL_UP_TO, GET, GROUPS, LINK_TO,
    MEMBER, MONITOR, PATIENT, STOP, STUBBORN, WARPS,
};
use everwarp_runtime::Shape;

use crate::support::{Case, in_each_shape};

pub(crate) const ALL: &[Case] = in_each_shape![GROUPS, WARPS, BLOCKS;
    strategy_says_which_members_begin_anew,
    policy_says_which_endings_are_followed_by_a_restart,
    mailbox_and_monitors_survive_a_restart_by_the_group,
    group_that_restarts_too_often_ends,
    outer_group_restarts_an_inner_one_as_a_whole,
    group_is_ended_by_the_host_and_wrong_members_are_refused,
    kinds_restart_their_actors_before_groups_do,
    message_is_handled_again_after_a_restart_by_the_group,
    many_members_fail_at_once_and_each_message_is_handled_once,
    actors_of_the_host_are_members,
    system_ends_while_members_fail,
];

const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const PLACES: usize = 4096;

/// A system; what comes first is dropped last.
struct Running {
    system: ActorSystem,
    calls: Buffer<u64>,
    _engine: Engine,
}

fn start(select: Select, program: &ActorProgram) -> Running {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program());
    let engine = engine.watchdog(LONG).start().expect("the engine starts");
    let (system, calls) = actor_groups::start(&engine, program, PLACES).expect("it starts");
    Running {
        system,
        calls,
        _engine: engine,
    }
}

impl Running {
    fn launch(&self, kind: u32, n: usize) -> Vec<ActorId> {
        self.system.launch_all(kind, n).expect("there is room")
    }
    /// Actors that have been told their numbers: 10, 11, 12 and so on.
    fn members(&self, n: usize) -> Vec<ActorId> {
        let all = self.launch(MEMBER, n);
        for (number, actor) in (10..).zip(&all) {
            self.tell(*actor, ADD, &[number]);
        }
        self.settle();
        all
    }
    fn tell(&self, to: ActorId, tag: u8, words: &[u64]) {
        self.system.tell(to, tag, words).expect("it lives");
    }
    fn settle(&self) {
        self.system.settle().expect("it settles");
    }
    fn fail(&self, actor: ActorId) {
        self.tell(actor, FAIL, &[0]);
        self.settle();
    }
    fn state(&self, actor: ActorId) -> DevMember {
        self.settle();
        self.system.state(actor).expect("it is there")
    }
    fn sums(&self, actors: &[ActorId]) -> Vec<u64> {
        actors.iter().map(|a| self.state(*a).sum).collect()
    }
    fn group(&self, strategy: Strategy, most: u32, members: &[Member]) -> GroupId {
        let supervision = Supervision::new(strategy, most, HOUR);
        let group = self.system.supervise(supervision, members);
        group.expect("they are free")
    }
    fn stats(&self, group: GroupId) -> GroupStats {
        self.system.group(group).expect("it exists")
    }
}
/// Whether one call handles several messages, and fails as a whole.
fn is_wide(program: &ActorProgram) -> bool {
    program.kinds[MEMBER as usize].shape != Shape::Lane
}
fn permanent(actors: &[ActorId]) -> Vec<Member> {
    let member = |a: &ActorId| Member::Actor(*a, Policy::Permanent);
    actors.iter().map(member).collect()
}

fn strategy_says_which_members_begin_anew(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    for (strategy, left) in [
        (Strategy::OneForOne, [10, 0, 12, 13]),
        (Strategy::OneForAll, [0, 0, 0, 0]),
        (Strategy::RestForOne, [10, 0, 0, 0]),
    ] {
        let all = running.members(4);
        let group = running.group(strategy, 5, &permanent(&all));
        running.fail(all[1]);
        assert_eq!(running.sums(&all), left, "{strategy:?}");
        let expected = GroupStats {
            restarts: 1,
            members: 4,
            ended: false,
        };
        assert_eq!(running.stats(group), expected);
    }
}

fn policy_says_which_endings_are_followed_by_a_restart(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let system = &running.system;
    for (policy, lives) in [
        (Policy::Permanent, [true, true, true, true]),
        (Policy::Transient, [true, true, false, false]),
        (Policy::Temporary, [false, false, false, false]),
    ] {
        let all = running.members(4);
        let list: Vec<_> = all.iter().map(|a| Member::Actor(*a, policy)).collect();
        let group = running.group(Strategy::OneForOne, 5, &list);
        let monitors: Vec<_> = all
            .iter()
            .map(|a| system.monitor(*a).expect("it lives"))
            .collect();
        running.fail(all[0]);
        system.kill(&[all[1]]).expect("it runs");
        running.tell(all[2], STOP, &[]);
        system.stop(&[all[3]]).expect("it runs");
        running.settle();
        let endings = [
            Ending::Failed,
            Ending::Killed,
            Ending::Stopped,
            Ending::Stopped,
        ];
        for i in 0..4 {
            let ended = monitors[i].ended_within(Duration::ZERO);
            assert_eq!(ended, (!lives[i]).then_some(endings[i]), "{policy:?} {i}");
            let told = system.tell(all[i], ADD, &[1]);
            assert_eq!(told.is_ok(), lives[i], "{policy:?} {i}: {told:?}");
            if lives[i] {
                assert_eq!(
                    running.state(all[i]).sum,
                    1,
                    "it keeps its id and begins anew"
                );
            }
        }
        let alive = lives.iter().filter(|l| **l).count();
        let stats = running.stats(group);
        assert_eq!((stats.members, stats.restarts), (alive, alive as u64));
    }
}

fn mailbox_and_monitors_survive_a_restart_by_the_group(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let system = &running.system;
    let all = running.members(2);
    let [watcher] = running.launch(MEMBER, 1)[..] else {
        unreachable!("one was launched")
    };
    running.group(Strategy::OneForAll, 5, &permanent(&all));
    running.tell(watcher, MONITOR, &[all[0].bits()]);
    running.settle();
    system.deactivate(&all).expect("it runs");
    for actor in &all {
        running.tell(*actor, ADD, &[100]);
    }
    running.tell(all[0], FAIL, &[0]);
    for actor in &all {
        running.tell(*actor, ADD, &[7]);
    }
    system.activate(&all[..1]).expect("it runs");
    running.settle();
    system.activate(&all[1..]).expect("it runs");
    // The second one begins anew before it handles what waits. The first one has one call with all messages, or one for each.
    let first = if is_wide(program) { 0 } else { 7 };
    assert_eq!(running.sums(&all), [first, 107]);
    // An ask whose handler fails has its end, and the next one its reply.
    let failed = system.ask(all[0], FAIL, &[0]).expect_err("it fails");
    let failed = matches!(failed, ActorError::NoReply { reason } if reason == DeadReason::Failed);
    assert!(failed, "an ask of a failed handler");
    let reply = system.ask(all[0], GET, &[]).expect("it goes on");
    assert_eq!(reply.word(0), 0);
    // Restarts are no end.
    assert_eq!(running.state(watcher).downs, 0);
    system.kill(&all).expect("it runs");
    running.settle();
    assert_eq!(
        running.state(watcher).downs,
        0,
        "a permanent member goes on"
    );
}

fn group_that_restarts_too_often_ends(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let all = running.members(3);
    let group = running.group(Strategy::OneForOne, 2, &permanent(&all));
    let monitors: Vec<_> = (all.iter())
        .map(|a| running.system.monitor(*a).expect("it lives"))
        .collect();
    running.fail(all[0]);
    running.fail(all[2]);
    assert!(!running.stats(group).ended);
    running.fail(all[0]);
    let ended: Vec<_> = monitors.iter().map(|m| m.ended_within(LONG)).collect();
    let killed = Some(Ending::Killed);
    assert_eq!(ended, [Some(Ending::Failed), killed, killed]);
    let expected = GroupStats {
        restarts: 2,
        members: 0,
        ended: true,
    };
    assert_eq!(running.stats(group), expected);
}

fn outer_group_restarts_an_inner_one_as_a_whole(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let (inner, outer) = (running.members(2), running.members(1));
    let child = running.group(Strategy::OneForOne, 1, &permanent(&inner));
    let list = [Member::Group(child), permanent(&outer)[0]];
    let parent = running.group(Strategy::OneForOne, 1, &list);
    running.fail(inner[0]);
    assert_eq!(running.sums(&inner), [0, 11]);
    // Its restarts are used up, so that all of it begins anew, with new restarts.
    running.fail(inner[0]);
    assert_eq!(running.sums(&inner), [0, 0]);
    assert_eq!(running.sums(&outer), [10]);
    assert_eq!(running.stats(parent).restarts, 1);
    running.fail(inner[1]);
    assert!(!running.stats(child).ended);
    // The parent's are used up, too.
    running.fail(inner[1]);
    assert!(running.stats(child).ended && running.stats(parent).ended);
    for actor in inner.iter().chain(&outer) {
        let gone = running.system.tell(*actor, ADD, &[1]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

fn group_is_ended_by_the_host_and_wrong_members_are_refused(
    select: Select,
    program: &ActorProgram,
) {
    let running = start(select, program);
    let system = &running.system;
    let all = running.members(50);
    let group = running.group(Strategy::OneForAll, 5, &permanent(&all));
    let supervision = Supervision::new(Strategy::OneForOne, 1, HOUR);
    let refused = system.supervise(supervision, &permanent(&all[..1]));
    assert!(
        matches!(refused, Err(ActorError::Supervised { .. })),
        "{refused:?}"
    );
    system.end_group(group).expect("it exists");
    running.settle();
    assert_eq!(system.kill(&all).expect("it runs"), 50, "all have ended");
    assert_eq!(running.stats(group).members, 0);
    let refused = system.supervise(supervision, &permanent(&all[..1]));
    assert!(
        matches!(refused, Err(ActorError::Gone { .. })),
        "{refused:?}"
    );
}

fn kinds_restart_their_actors_before_groups_do(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let [careful, other] = [CAREFUL, MEMBER].map(|kind| running.launch(kind, 1)[0]);
    let group = running.group(Strategy::OneForAll, 5, &permanent(&[careful, other]));
    for actor in [careful, other] {
        running.tell(actor, ADD, &[5]);
    }
    running.tell(careful, LINK_TO, &[other.bits()]);
    running.settle();
    // What a failed handler has told is undone.
    running.tell(careful, FAIL, &[100]);
    assert_eq!(running.sums(&[careful, other]), [5, 5]);
    assert_eq!(running.stats(group).restarts, 0);
    // The kind restarts it once a day. An atomic kind keeps the state that it had, and other members begin anew.
    running.tell(careful, FAIL, &[100]);
    assert_eq!(running.sums(&[careful, other]), [5, 0]);
    assert_eq!(running.stats(group).restarts, 1);
    // A failure does not undo that an actor stops, and its group restarts it for that.
    running.tell(other, FAIL_AND_STOP, &[]);
    running.settle();
    assert_eq!(running.stats(group).restarts, 3);
    assert_eq!(running.sums(&[careful, other]), [0, 0]);
}

fn message_is_handled_again_after_a_restart_by_the_group(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let kinds = if is_wide(program) { 2 } else { 1 };
    for (place, kind) in (0..).step_by(4).zip([STUBBORN, PATIENT]).take(kinds) {
        let stubborn = running.launch(kind, 1)[0];
        let group = running.group(Strategy::OneForOne, 100, &permanent(&[stubborn]));
        // It fails twice and then replies. What comes later is handled later.
        running.tell(stubborn, FAIL_UP_TO, &[place, 2, 0]);
        running.tell(stubborn, ADD, &[40]);
        assert_eq!(running.state(stubborn).sum, 43);
        assert_eq!(running.stats(group).restarts, 2);
        let ask = |n, fails, first| {
            let words = [place + n, fails, first];
            running.system.ask(stubborn, FAIL_UP_TO, &words)
        };
        let reply = ask(1, 2, 0);
        assert_eq!(reply.expect("the third call replies").words(), [3]);
        // Three calls at most.
        let failed = ask(2, 9, 0).expect_err("it fails each time");
        assert!(
            matches!(failed, ActorError::NoReply { reason } if reason == DeadReason::Failed),
            "{failed}"
        );
        // One that has its reply is handled again, too. A reply that is undone is none.
        let reply = ask(3, 1, 1).expect("a call replies");
        assert_eq!(reply.words(), [if kind == PATIENT { 2 } else { 1 }]);
        running.settle();
        let calls = running.calls.read().expect("it can be read");
        assert_eq!(calls[place as usize..][..4], [3, 3, 3, 2]);
        assert_eq!(running.stats(group).restarts, 2 + 2 + 3 + 1);
    }
}

/// Half of the messages fail.
fn many_members_fail_at_once_and_each_message_is_handled_once(
    select: Select,
    program: &ActorProgram,
) {
    const GROUPS_OF: usize = 8;
    let running = start(select, program);
    let all: Vec<_> = [MEMBER, CAREFUL, STUBBORN]
        .map(|kind| running.launch(kind, 80))
        .concat();
    let groups: Vec<_> = all
        .chunks(GROUPS_OF)
        .zip(
            [
                Strategy::OneForOne,
                Strategy::OneForAll,
                Strategy::RestForOne,
            ]
            .iter()
            .cycle(),
        )
        .map(|(members, strategy)| running.group(*strategy, u32::MAX, &permanent(members)))
        .collect();
    let mut tells = Vec::new();
    for place in 0..PLACES as u64 {
        let to = all[(place as usize * 7) % all.len()];
        tells.push(Tell::new(to, FAIL_UP_TO, &[place, place % 2 * 9, 0]));
    }
    running.system.tell_all(&tells).expect("they live");
    let stats = running.system.settle().expect("it settles");
    let calls = running.calls.read().expect("it can be read");
    for (place, calls) in calls.iter().enumerate() {
        let stubborn = (place * 7) % all.len() >= 160;
        let expected = if stubborn && place % 2 == 1 { 3 } else { 1 };
        // One that is in a call with a message that fails is handled as often.
        let most = if stubborn && is_wide(program) {
            3
        } else {
            expected
        };
        assert!((expected..=most).contains(calls), "place {place}: {calls}");
    }
    let dead = stats.dead(DeadReason::Failed);
    match is_wide(program) {
        true => assert!(
            (PLACES as u64 / 2..=PLACES as u64).contains(&dead),
            "{dead}"
        ),
        false => assert_eq!(dead, PLACES as u64 / 2),
    }
    // Each failure is a restart by the group, but the first one of each careful actor that its kind has restarted.
    let failures = |from: usize, to: usize, each: u64| {
        let of = |place: &usize| (from..to).contains(&((place * 7) % all.len()));
        (0..PLACES).filter(|p| p % 2 == 1).filter(of).count() as u64 * each
    };
    let own = (80..160).filter(|i| (0..PLACES).any(|p| p % 2 == 1 && (p * 7) % all.len() == *i));
    let expected = failures(0, 160, 1) + failures(160, 240, 3) - own.count() as u64;
    // A restart by the group lets the restarts of the kind begin anew, too: so there are fewer of the group.
    let restarts: u64 = groups.iter().map(|g| running.stats(*g).restarts).sum();
    assert!(
        restarts <= expected && restarts > 0,
        "{restarts} of {expected}"
    );
    assert!(groups.iter().all(|g| !running.stats(*g).ended));
}

fn actors_of_the_host_are_members(select: Select, program: &ActorProgram) {
    let running = start(select, &program.with_kinds([Kind::host("host")]));
    let host_kind = program.kinds.len() as u32;
    let system = &running.system;
    let handled = Arc::new(AtomicU64::new(0));
    let host = {
        let handled = handled.clone();
        system.launch_host(host_kind, move |actor, message| match message.tag() {
            ADD => drop(handled.fetch_add(message.word(0), Ordering::Relaxed)),
            FAIL => actor.fail(),
            STOP => actor.stop(),
            _ => {}
        })
    };
    let host = host.expect("there is room");
    let all = running.members(2);
    let list = [
        permanent(&all[..1]),
        permanent(&[host]),
        permanent(&all[1..]),
    ]
    .concat();
    let group = running.group(Strategy::RestForOne, 5, &list);
    // The closure fails: what comes after it begins anew.
    running.tell(host, FAIL, &[]);
    running.tell(host, ADD, &[1]);
    running.settle();
    assert_eq!(running.sums(&all), [10, 0]);
    assert_eq!(handled.load(Ordering::Relaxed), 1);
    // It stops, and goes on.
    running.tell(all[1], ADD, &[5]);
    running.tell(host, STOP, &[]);
    running.settle();
    assert_eq!(running.sums(&all), [10, 0]);
    // A member before it fails, and it begins anew, too.
    running.fail(all[0]);
    assert_eq!(running.sums(&all), [0, 0]);
    running.tell(host, ADD, &[1]);
    running.settle();
    assert_eq!(handled.load(Ordering::Relaxed), 2);
    assert_eq!(running.stats(group).restarts, 3);
    // A closure supervises, too.
    let made = Arc::new(AtomicU64::new(0));
    let (own, members) = (made.clone(), permanent(&running.members(1)));
    let maker = system.launch_host(host_kind, move |actor, _| {
        let supervision = Supervision::new(Strategy::OneForOne, 1, HOUR);
        let group = actor.supervise(supervision, &members);
        own.store(1 + u64::from(group.is_ok()), Ordering::Relaxed);
    });
    running.tell(maker.expect("there is room"), ADD, &[]);
    running.settle();
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

fn system_ends_while_members_fail(select: Select, program: &ActorProgram) {
    let running = start(select, program);
    let all = running.launch(MEMBER, 500);
    for members in all.chunks(10) {
        running.group(Strategy::OneForAll, u32::MAX, &permanent(members));
    }
    let tells: Vec<_> = (0..20)
        .flat_map(|_| all.iter().map(|to| Tell::new(*to, FAIL, &[1])))
        .collect();
    running.system.tell_all(&tells).expect("they live");
    let Running {
        system,
        calls,
        _engine: engine,
    } = running;
    drop(system);
    drop(calls);
    let (system, _calls) = actor_groups::start(&engine, program, 1).expect("it starts");
    let actor = system.launch(MEMBER).expect("there is room");
    system.tell(actor, ADD, &[4]).expect("it lives");
    let reply = system.ask(actor, GET, &[]).expect("it replies");
    assert_eq!(reply.word(0), 4);
}

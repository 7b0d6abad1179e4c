//! Channels in handlers, and asks that handlers keep. On a GPU the host has the channels, and the actor its asks.

use std::time::{Duration, Instant};

use everwarp::actor::{
    ActorConfig, ActorCx, ActorError, ActorId, ActorProgram, ActorSystem, Asked, Channel,
    DeadReason, Kind, Message,
};
use everwarp::{DevNone, Device, Engine, EngineKind, Select};
use everwarp_programs::actor_broker::{
    AFTER, BLOCKS, BROKER, BROKERS, CANCEL, CAREFUL, CLOSE, COUNT, DevBroker, DevJob, DevPorter,
    PIPE, RECEIVE, SEND, SERVE, SERVE_AND_FAIL, WAIT, WAIT_AND_FAIL, WARPS, WORKER, WRONG,
};
use everwarp_runtime::Params;
use everwarp_testkit::cases;

use crate::support::{Case, in_each_shape, launch, tell, wait_for_end, wait_for_state};

/// Cases of channels.
pub(crate) const CHANNELS: &[Case] = in_each_shape![BROKERS, WARPS, BLOCKS;
    handler_passes_values_from_channel_to_channel_in_order,
    value_of_a_handler_waits_for_room_and_a_second_one_is_refused,
    handler_learns_that_a_channel_is_closed,
    value_on_its_way_to_a_handler_that_ends_goes_back,
    handler_that_means_another_type_fails,
    handlers_share_the_values_of_a_channel,
];
pub(crate) const ALL: &[Case] = cases![
    kinds_of_other_shapes_that_keep_asks_are_named,
    kept_asks_are_replied_to_later_and_in_any_number,
    kept_asks_end_with_their_actor_or_its_restart,
    undone_handler_keeps_what_it_kept_before,
    cancelled_timer_of_a_keeping_kind_is_never_heard,
    kind_that_keeps_asks_without_saying_so_is_named_on_a_gpu,
];

const LONG: Duration = Duration::from_secs(60);

fn start(select: Select, program: &ActorProgram) -> (Engine, ActorSystem) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program());
    let engine = engine.watchdog(LONG).start().expect("the engine starts");
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, program, config).expect("it starts");
    (engine, system)
}
fn job(number: u64) -> DevJob {
    DevJob {
        number,
        weight: number as f64 / 4.0,
        sender: number as u32 % 3,
        reserved: 0,
    }
}
fn channel(system: &ActorSystem, capacity: usize) -> Channel<DevJob> {
    system.channel(capacity).expect("it can")
}

fn handler_passes_values_from_channel_to_channel_in_order(select: Select, program: &ActorProgram) {
    const JOBS: u64 = 300;
    let (_engine, system) = start(select, program);
    let [worker] = launch(&system, WORKER);
    let (jobs, done) = (channel(&system, 4), channel(&system, 2));
    let ids = [jobs.id().bits(), done.id().bits()];
    tell(&system, worker, PIPE, &ids);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=JOBS {
                jobs.send_within(&job(number), LONG).expect("it is taken");
            }
        });
        for number in 1..=JOBS {
            let got = done.receive_within(LONG).expect("it is passed on");
            let sent = job(number);
            assert_eq!(got.number, number);
            assert_eq!(got.weight, 2.0 * sent.weight);
            assert_eq!(got.sender, sent.sender + 1);
        }
    });
    jobs.close().expect("the engine runs");
    let none = done.receive_within(LONG).expect_err("it is closed");
    assert!(matches!(none, ActorError::ChannelClosed { .. }), "{none}");
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.closed == 1);
    assert_eq!((state.received, state.sent), (JOBS, JOBS));
    assert_eq!((state.disorder, state.refused), (0, 0));
    assert_eq!(state.sum, JOBS * (JOBS + 1) / 2);
    assert_eq!(state.weight, state.sum as f64 / 4.0);
}

fn value_of_a_handler_waits_for_room_and_a_second_one_is_refused(
    select: Select,
    program: &ActorProgram,
) {
    let (_engine, system) = start(select, program);
    let [worker] = launch(&system, WORKER);
    let full = channel(&system, 1);
    let id = full.id().bits();
    for number in [1, 3, 5] {
        tell(&system, worker, SEND, &[id, number, number, 0]);
    }
    // The first is in the channel, the second waits, and the third is refused.
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.refused == 1);
    assert_eq!((state.sent, state.numbers, full.len()), (1, 1 + 5, 1));
    assert_eq!(full.receive_within(LONG).expect("there is one").number, 1);
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.sent == 2);
    assert_eq!((state.numbers, state.refused), (1 + 5 + 3, 1));
    let second = full.receive_within(LONG).expect("there is one");
    assert_eq!((second.number, second.sender), (3, 7));
    assert!(full.is_empty());
}

fn handler_learns_that_a_channel_is_closed(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [worker, other] = launch(&system, WORKER);
    let jobs = channel(&system, 2);
    let id = jobs.id().bits();
    jobs.send(&job(1)).expect("there is room");
    // One value, and two that never come.
    for number in [2, 4, 6] {
        tell(&system, worker, RECEIVE, &[id, number]);
    }
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.received == 1);
    assert_eq!((state.sum, state.numbers, state.closed), (1, 2, 0));
    tell(&system, other, CLOSE, &[id]);
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.closed == 2);
    assert_eq!(state.numbers, 2 + 4 + 6);
    // Afterwards it is closed for all, and so is a channel that never was.
    tell(&system, worker, SEND, &[id, 1, 9, 0]);
    tell(&system, worker, RECEIVE, &[u64::MAX, 8]);
    let state: DevPorter = wait_for_state(&system, worker, |s: &DevPorter| s.closed == 4);
    assert_eq!((state.sent, state.numbers), (0, 2 + 4 + 6 + 1 + 8));
    assert!(jobs.send(&job(2)).is_err());
}

fn value_on_its_way_to_a_handler_that_ends_goes_back(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [worker] = launch(&system, WORKER);
    let jobs = channel(&system, 4);
    tell(&system, worker, RECEIVE, &[jobs.id().bits(), 2]);
    tell(&system, worker, RECEIVE, &[jobs.id().bits(), 4]);
    system.settle().expect("it settles");
    system.deactivate(&[worker]).expect("it runs");
    // Both are for the worker, which does not handle them.
    jobs.send(&job(1)).expect("there is a receiver");
    jobs.send(&job(2)).expect("there is a receiver");
    system.settle().expect("it settles");
    assert!(jobs.is_empty());
    system.kill(&[worker]).expect("it runs");
    for number in [1, 2] {
        let got = jobs.receive_within(LONG).expect("it goes back");
        assert_eq!(got.number, number);
    }
    assert!(jobs.is_empty());
}

fn handler_that_means_another_type_fails(select: Select, program: &ActorProgram) {
    let (_engine, system) = start(select, program);
    let [worker, other] = launch(&system, WORKER);
    let jobs = channel(&system, 4);
    tell(&system, worker, WRONG, &[jobs.id().bits()]);
    wait_for_end(&system, worker, 0, &[]);
    let (failures, _) = system.failures();
    let failure = failures.iter().find(|f| f.actor == worker);
    let reason = &failure.expect("it has a reason").reason;
    assert!(reason.contains("DevJob"), "{reason}");
    // The channel is as it was.
    jobs.send(&job(3)).expect("there is room");
    tell(&system, other, RECEIVE, &[jobs.id().bits(), 2]);
    let state: DevPorter = wait_for_state(&system, other, |s: &DevPorter| s.received == 1);
    assert_eq!(state.sum, 3);
    // A number of the host's has its type, too.
    let weights = system.channel::<f64>(1).expect("it can");
    tell(&system, other, WRONG, &[weights.id().bits()]);
    weights.send(&0.0).expect("there is room");
    let state: DevPorter = wait_for_state(&system, other, |s: &DevPorter| s.received == 2);
    assert_eq!(state.sum, 3);
}

fn handlers_share_the_values_of_a_channel(select: Select, program: &ActorProgram) {
    const WORKERS: usize = 40;
    const EACH: u64 = 25;
    let (_engine, system) = start(select, program);
    let workers: [ActorId; WORKERS] = launch(&system, WORKER);
    let (jobs, done) = (channel(&system, 8), channel(&system, 8));
    for worker in workers {
        let ids = [jobs.id().bits(), done.id().bits()];
        tell(&system, worker, PIPE, &ids);
    }
    let all = WORKERS as u64 * EACH;
    let mut got = vec![0_u32; all as usize];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..all {
                jobs.send_within(&job(number), LONG).expect("it is taken");
            }
        });
        for _ in 0..all {
            let one = done.receive_within(LONG).expect("it is passed on");
            got[one.number as usize] += 1;
        }
    });
    assert!(got.iter().all(|&count| count == 1), "each once");
    system.settle().expect("it settles");
    let states: Vec<DevPorter> = system.states(&workers).expect("they are there");
    assert_eq!(states.iter().map(|s| s.received).sum::<u64>(), all);
    assert!(states.iter().all(|s| s.disorder == 0 && s.refused == 0));
}

/// Asks that wait, one after the other: asks of the host that are under way together have no order.
fn ask_some(system: &ActorSystem, to: ActorId, tag: u8, count: usize) -> Vec<Asked> {
    let ask = |_| {
        let asked = system.ask_later(to, tag, &[]).expect("it lives");
        system.settle().expect("it settles");
        asked
    };
    (0..count).map(ask).collect()
}
/// What an ask has ended with: its first word, or why it has none.
fn end(mut ask: Asked) -> Result<u64, DeadReason> {
    let begin = Instant::now();
    loop {
        match ask.try_reply() {
            Some(Ok(reply)) => return Ok(reply.word(0)),
            Some(Err(ActorError::NoReply { reason })) => return Err(reason),
            Some(Err(other)) => panic!("{other}"),
            None => assert!(begin.elapsed() < LONG, "the ask does not end"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
fn counts(system: &ActorSystem, broker: ActorId) -> [u64; 2] {
    let reply = system.ask(broker, COUNT, &[]).expect("it lives");
    [reply.word(0), reply.word(1)]
}

fn kept_asks_are_replied_to_later_and_in_any_number(select: Select) {
    let (_engine, system) = start(select, &BROKERS);
    for kind in [BROKER, CAREFUL] {
        let [broker] = launch(&system, kind);
        let mut asks = ask_some(&system, broker, WAIT, 6);
        // A message that is no ask keeps nothing.
        tell(&system, broker, WAIT, &[]);
        assert_eq!(counts(&system, broker), [6, 6]);
        tell(&system, broker, SERVE, &[2, 100]);
        tell(&system, broker, SERVE, &[3, 200]);
        system.settle().expect("it settles");
        assert_eq!(counts(&system, broker), [1, 1]);
        let last = asks.pop().expect("there are six");
        let ends: Vec<_> = asks.into_iter().map(end).collect();
        assert_eq!(ends, [100, 101, 200, 201, 202].map(Ok));
        tell(&system, broker, SERVE, &[8, 300]);
        assert_eq!(end(last), Ok(300));
        assert_eq!(counts(&system, broker), [0, 0]);
    }
}

fn kept_asks_end_with_their_actor_or_its_restart(select: Select) {
    let (_engine, system) = start(select, &BROKERS);
    let [broker] = launch(&system, BROKER);
    let asks = ask_some(&system, broker, WAIT, 3);
    // It begins anew, without its asks.
    let failed = ask_some(&system, broker, WAIT_AND_FAIL, 1);
    for ask in asks.into_iter().chain(failed) {
        assert_eq!(end(ask), Err(DeadReason::Failed));
    }
    assert_eq!(counts(&system, broker), [0, 0]);
    let asks = ask_some(&system, broker, WAIT, 4);
    system.kill(&[broker]).expect("it runs");
    for ask in asks {
        assert_eq!(end(ask), Err(DeadReason::Ended));
    }
}

fn undone_handler_keeps_what_it_kept_before(select: Select) {
    let (_engine, system) = start(select, &BROKERS);
    let [broker] = launch(&system, CAREFUL);
    let asks = ask_some(&system, broker, WAIT, 3);
    // Replies that are not sent, and an ask that is not kept.
    tell(&system, broker, SERVE_AND_FAIL, &[2, 900]);
    let failed = ask_some(&system, broker, WAIT_AND_FAIL, 1);
    for ask in failed {
        assert_eq!(end(ask), Err(DeadReason::Failed));
    }
    assert_eq!(counts(&system, broker), [3, 3]);
    tell(&system, broker, SERVE, &[8, 1]);
    let ends: Vec<_> = asks.into_iter().map(end).collect();
    assert_eq!(ends, [Ok(1), Ok(2), Ok(3)]);
}

fn cancelled_timer_of_a_keeping_kind_is_never_heard(select: Select) {
    let (_engine, system) = start(select, &BROKERS);
    for kind in [BROKER, CAREFUL] {
        let [broker] = launch(&system, kind);
        for round in 0..200 {
            // Some come before they are cancelled, and some are on their way then.
            tell(&system, broker, AFTER, &[round * 5_000]);
            tell(&system, broker, CANCEL, &[]);
        }
        let before = wait_for_state(&system, broker, |s: &DevBroker| s.timer == 0);
        tell(&system, broker, AFTER, &[30_000_000]);
        let state: DevBroker =
            wait_for_state(&system, broker, |s: &DevBroker| s.ticks > before.ticks);
        assert_eq!(state.strange, 0, "of {} ticks", state.ticks);
    }
}

/// On the CPU engine every kind may keep asks.
fn kind_that_keeps_asks_without_saying_so_is_named_on_a_gpu(select: Select) {
    const SOURCE: &str = "__device__ void keepers_keeper(ew::Actor& a, DevBroker&, const ew::Message&, const DevNone&) { a.keep(); }";
    fn keeper(actor: &mut ActorCx<'_, '_, '_>, _: &Message) {
        actor.keep();
    }
    let state = Params::of::<DevBroker>();
    let kind = Kind::lane("keeper", state, size_of::<DevBroker>(), keeper).services();
    let program = ActorProgram::new(
        "keepers".into(),
        vec![kind].into(),
        SOURCE.into(),
        "".into(),
        Params::of::<DevNone>(),
    );
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let config = ActorConfig::default();
    let system = ActorSystem::start(&engine, &program, config).expect("it starts");
    let [keeper] = launch(&system, 0);
    let asked = system.ask_later(keeper, WAIT, &[]).expect("it lives");
    let settled = system.settle();
    if engine.kind() == EngineKind::Cpu {
        settled.expect("it settles");
        system.kill(&[keeper]).expect("it runs");
        return assert_eq!(end(asked), Err(DeadReason::Ended));
    }
    let error = settled.expect_err("the engine has ended");
    let text = error.to_string();
    assert!(
        matches!(&error, ActorError::KeepsUndeclared { kind } if kind == "keeper")
            && text.contains("declare the kind with .keeps()"),
        "{text}"
    );
}

/// The CPU engine has kept asks in all shapes.
fn kinds_of_other_shapes_that_keep_asks_are_named(select: Select) {
    fn keeper(actor: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
        for place in 0..messages.len() {
            actor.keep_at(place);
        }
    }
    let device = Device::open(select).expect("the device opens");
    for shape in [Kind::warp, Kind::block] {
        let (state, none) = (Params::of::<DevBroker>(), Params::of::<DevNone>());
        let kind = shape("keeper", state, size_of::<DevBroker>(), keeper).keeps();
        let source = "// Not reached.";
        let program = ActorProgram::new(
            "keepers".into(),
            vec![kind].into(),
            source.into(),
            "".into(),
            none,
        );
        let engine = device.engine().program(program.program()).start();
        let engine = engine.expect("the engine starts");
        let system = ActorSystem::start(&engine, &program, ActorConfig::default());
        if engine.kind() == EngineKind::Cpu {
            let system = system.expect("it starts");
            let [keeper] = launch(&system, 0);
            let asks = ask_some(&system, keeper, WAIT, 3);
            system.kill(&[keeper]).expect("it runs");
            for ask in asks {
                assert_eq!(end(ask), Err(DeadReason::Ended));
            }
            continue;
        }
        let error = system.expect_err("it is refused");
        let text = error.to_string();
        assert!(
            matches!(&error, ActorError::KindOnCpuOnly { kind, .. } if kind == "keeper")
                && text.contains(".keeps()"),
            "{text}"
        );
    }
}

//! What traces have of actors, on every engine: handlers within the turns of their actors, and flows of messages to them.

use std::collections::BTreeMap;

use everwarp::actor::{ActorConfig, ActorSystem, Tell};
use everwarp::{Device, Select, telemetry};
use everwarp_programs::actor_services::{AFTER, AGENT, DevAgent, SERVICES};
use everwarp_programs::actor_shapes::{self, BLOCK, LINK, PASS, SHAPES, WARP};

use crate::perfetto::{Slice, Trace, read};

/// How many messages a kind has handled, by where they were sent: the names of the slices around that.
type Senders<'n> = BTreeMap<&'n str, u64>;

/// Messages that the actor of [`trace_calls`] passes on.
const CALLED: u64 = 100;
/// Timers of the other actor of [`trace_calls`].
const TIMERS: u64 = 5;

/// Tokens that actors pass around a ring. No mailbox is ever full.
pub(crate) const RING: &[&str] = &["ring", "--n", "200", "--tokens", "50", "--hops", "20"];
/// Actors that ask others, which reply in the cell of the ask.
pub(crate) const ASKS: &[&str] = &["asks", "--pairs", "30", "--questions", "10"];

/// Traces this program, in which an actor of warp shape passes messages on to one of block shape. Each call handles several of them.
/// Then another actor hears its timers.
pub(crate) fn trace_calls(select: Select) -> Trace {
    telemetry::start_trace(2 << 30).expect("nothing in this program is traced");
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(SHAPES.program()).start();
    let engine = engine.expect("the engine starts");
    let (system, calls) = actor_shapes::start(&engine, 1).expect("the system starts");
    let launch = |kind| system.launch(kind).expect("there is room");
    let (warp, block) = (launch(WARP), launch(BLOCK));
    system.tell(warp, LINK, &[block.bits()]).expect("both live");
    system.settle().expect("it settles");
    // All of them are there before the first is handled.
    system.deactivate(&[warp]).expect("the engine runs");
    let passed = (0..CALLED).map(|i| Tell::new(warp, PASS, &[0, i]));
    let passed: Vec<_> = passed.collect();
    system.tell_all(&passed).expect("it lives");
    system.activate(&[warp]).expect("the engine runs");
    system.settle().expect("it settles");
    drop(system);
    drop((calls, engine));
    hear_timers(&device);
    let mut file = Vec::new();
    let written = telemetry::write_trace(&mut file).expect("there is memory");
    assert_eq!(written.map(|written| written.lost), Some(0));
    read(&file)
}

fn hear_timers(device: &Device) {
    let engine = device.engine().program(SERVICES.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &SERVICES, ActorConfig::default());
    let system = system.expect("the system starts");
    let actor = system.launch(AGENT).expect("there is room");
    for number in 1..=TIMERS {
        let told = system.tell(actor, AFTER, &[number * 1_000_000, number]);
        told.expect("it lives");
    }
    loop {
        let state: DevAgent = system.state(actor).expect("it lives");
        if state.ticks == TIMERS {
            break;
        }
        std::thread::yield_now();
    }
}

/// Checks what the trace of [`trace_calls`] has of timers: each message has a flow from `sender`, the names of the slices around the
/// place where it was sent.
pub(crate) fn check_timers(
    trace: &Trace,
    messages: impl Fn(&Slice) -> u64,
    tell: &str,
    sender: &str,
) {
    let by_host = format!("actor_services/{tell}");
    let sent = [(&*by_host, TIMERS), (sender, TIMERS)];
    check(trace, "actor_services", "agent", messages, sent.into());
}

/// Checks the trace of [`trace_calls`]. Returns the calls of the first actor.
pub(crate) fn check_calls(
    trace: &Trace,
    messages: impl Fn(&Slice) -> u64,
    tell: &str,
) -> Vec<Slice> {
    let by_host = format!("actor_shapes/{tell}");
    let by_host = [(&*by_host, CALLED + 1)];
    check(trace, "actor_shapes", "warp", &messages, by_host.into());
    let by_warp = [("actor_shapes/warp_turn warp", CALLED)];
    check(trace, "actor_shapes", "block", &messages, by_warp.into());
    let calls = trace.slices.iter().filter(|slice| slice.name == "warp");
    let calls: Vec<_> = calls.cloned().collect();
    // One that links it, and three of 32 messages and one of four.
    let mut flows: Vec<_> = calls.iter().map(|call| call.flows.len()).collect();
    flows.sort_unstable();
    assert_eq!(flows, [1, 4, 32, 32, 32]);
    calls
}

/// Checks the trace of [`RING`]. `messages` says how many messages a slice stands for.
pub(crate) fn check_ring(trace: &Trace, messages: impl Fn(&Slice) -> u64, tell: &str) {
    let by_host = format!("ring/{tell}");
    let expected = [(&*by_host, 250), ("ring/member_turn member", 1000)];
    check(trace, "ring", "member", messages, expected.into());
}

/// The same of [`ASKS`].
pub(crate) fn check_asks(trace: &Trace, messages: impl Fn(&Slice) -> u64, tell: &str) {
    let asks = [("asks/asker_turn asker", 300)];
    check(trace, "asks", "asked", &messages, asks.into());
    let by_host = format!("asks/{tell}");
    let replies = [("asks/asked_turn asked", 300), (&*by_host, 30)];
    check(trace, "asks", "asker", &messages, replies.into());
}

/// Each message of a kind was handled within a turn, and has one flow, which ends there.
pub(crate) fn check(
    trace: &Trace,
    program: &str,
    kind: &str,
    messages: impl Fn(&Slice) -> u64,
    expected: Senders<'_>,
) {
    let handlers = trace.slices.iter().filter(|slice| slice.name == kind);
    let handlers: Vec<_> = handlers.collect();
    let turn = format!("{program}/{kind}_turn");
    for handler in &handlers {
        assert_eq!(handler.within, [&*turn], "a handler at {}", handler.begin);
    }
    let handled: u64 = handlers.iter().map(|handler| messages(handler)).sum();
    let wanted: u64 = expected.values().sum();
    assert_eq!(handled, wanted, "handled by `{kind}`");
    let mut senders = BTreeMap::<String, u64>::new();
    for flow in handlers.iter().flat_map(|handler| &handler.flows) {
        assert_eq!(trace.flows[flow], (1, 1), "flow {flow}");
        *senders.entry(trace.senders[flow].join(" ")).or_default() += 1;
    }
    let found = senders.iter().map(|(name, count)| (&**name, *count));
    assert_eq!(found.collect::<Senders<'_>>(), expected, "sent to `{kind}`");
}

//! What traces have of actors, on every engine: handlers within the turns of their actors, and flows of messages to them.

use std::collections::BTreeMap;

use crate::perfetto::{Slice, Trace};

/// How many messages a kind has handled, by where they were sent: the names of the slices around that.
type Senders<'n> = BTreeMap<&'n str, u64>;

/// Tokens that actors pass around a ring. No mailbox is ever full.
pub(crate) const RING: &[&str] = &["ring", "--n", "200", "--tokens", "50", "--hops", "20"];
/// Actors that ask others, which reply in the cell of the ask.
pub(crate) const ASKS: &[&str] = &["asks", "--pairs", "30", "--questions", "10"];

/// Checks the trace of [`RING`]. `messages` says how many messages a slice stands for.
pub(crate) fn check_ring(trace: &Trace, messages: impl Fn(&Slice) -> u64) {
    let expected = [("ring/host_tell", 250), ("ring/member_turn member", 1000)];
    check(trace, "ring", "member", messages, expected.into());
}

/// The same of [`ASKS`].
pub(crate) fn check_asks(trace: &Trace, messages: impl Fn(&Slice) -> u64) {
    let asks = [("asks/asker_turn asker", 300)];
    check(trace, "asks", "asked", &messages, asks.into());
    let replies = [("asks/asked_turn asked", 300), ("asks/host_tell", 30)];
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

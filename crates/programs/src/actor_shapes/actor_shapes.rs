//! The CPU twin of `actor_shapes.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{
    ADD, ASK, BURST, DevShape, DevShapes, FAIL_UP_TO, FORWARD, FOUR, GET, KILL, LAUNCH, LINK,
    NUMBER, PASS, SENDER, STOP,
};

/// Counts a call for a place.
fn call(a: &ActorCx<'_, '_, '_>, place: u64) -> u64 {
    // SAFETY: the system was started with these parameters.
    let params = *unsafe { a.params::<DevShapes>() };
    // SAFETY: messages name places of the table, and those of one place go to one actor.
    let calls = unsafe { &mut *(params.calls.address() as *mut u64).add(place as usize) };
    *calls += 1;
    *calls
}

/// The outcome of an ask, as it is counted.
fn replied(m: &Message) -> u64 {
    if m.failure().is_some() { 1000 } else { 1 }
}

/// A number, which must be its sender's next one.
fn number(state: &mut DevShape, m: &Message) {
    let expected = &mut state.expected[m.word(0) as usize];
    state.errors += u64::from(*expected != m.word(1));
    *expected = m.word(1) + 1;
}

/// First what messages change, all of them, then what they send. A block has `warps` warps, which all see the messages.
fn handle(a: &mut ActorCx<'_, '_, '_>, messages: &[Message], warps: usize) {
    let state = a.state::<DevShape>();
    let count = messages.len() as u64;
    state.count += count;
    state.most = state.most.max(count);
    state.seen[..warps].iter_mut().for_each(|n| *n += count);
    for m in messages {
        let state = a.state::<DevShape>();
        if m.is_reply() {
            state.replies += replied(m);
            continue;
        }
        match m.tag() {
            ADD | PASS | FAIL_UP_TO => state.sum += m.word(0),
            NUMBER => number(state, m),
            LINK => state.other = m.word(0),
            LAUNCH => {
                let child = a.launch(SENDER);
                a.tell(child, ADD, &[m.word(0)]);
                a.state::<DevShape>().other = child.bits();
            }
            _ => {}
        }
    }
    let state = a.state::<DevShape>();
    let values = [state.sum, state.count, state.errors, state.replies];
    let other = ActorId::from_bits(state.other);
    for (place, m) in messages.iter().enumerate().filter(|(_, m)| !m.is_reply()) {
        match m.tag() {
            GET => {
                a.reply_to(place, GET, &values);
            }
            PASS => a.tell(other, NUMBER, &[m.word(0), m.word(1)]),
            FORWARD if other.is_none() => {
                a.reply_to(place, FORWARD, &[m.word(0)]);
            }
            FORWARD => a.forward_at(place, other),
            ASK => a.ask(other, m.word(0) as u8, &[7], 7),
            FAIL_UP_TO if call(a, m.word(1)) <= m.word(2) => a.fail(),
            STOP => a.stop(),
            KILL => a.kill(other),
            FOUR => (m.word(1)..m.word(1) + 4).for_each(|n| a.tell(other, NUMBER, &[m.word(0), n])),
            _ => {}
        }
    }
}

pub(super) fn warp(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 1);
}
pub(super) fn block(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 8);
}
pub(super) fn narrow(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 1);
}
pub(super) fn atomic(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 1);
}
pub(super) fn stubborn(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 1);
}
pub(super) fn patient(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 8);
}
pub(super) fn latest(a: &mut ActorCx<'_, '_, '_>, m: &[Message]) {
    handle(a, m, 1);
}

pub(super) fn sender(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevShape>();
    let other = ActorId::from_bits(state.other);
    if m.is_reply() {
        state.replies += replied(m);
        return;
    }
    match m.tag() {
        ADD => state.sum += m.word(0),
        GET => {
            let values = [state.sum, state.count, state.errors, state.replies];
            a.reply(GET, &values);
        }
        LINK => state.other = m.word(0),
        NUMBER => {
            number(state, m);
            state.count += 1;
        }
        ASK => a.ask(other, m.word(0) as u8, &[7], 7),
        BURST => {
            let (from, first, end) = (m.word(0), m.word(1), m.word(2));
            let next = end.min(first + 4);
            for at in first..next {
                a.tell(other, NUMBER, &[from, at]);
            }
            if next < end {
                let own = a.id();
                a.tell(own, BURST, &[from, next, end]);
            }
        }
        _ => {}
    }
}

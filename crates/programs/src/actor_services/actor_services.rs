//! The CPU twin of `actor_services.cu`.

use std::time::Duration;

use everwarp::actor::{ActorCx, ActorId, DeadReason, Message, TimerId};

use super::{
    ADD, AFTER, ASK_WITHIN, CANCEL, DEMONITOR, DevAgent, EVERY, FAIL, GET, LINK, LINK_TO, MONITOR,
    PASS, STOP, TICK, UNLINK,
};

fn handle(a: &mut ActorCx<'_, '_, '_>, place: usize, m: &Message) {
    let (w0, w1) = (m.word(0), m.word(1));
    let state = a.state::<DevAgent>();
    if let Some(ending) = m.down() {
        state.downs += 1 + 1000 * ending as u64;
        state.last = w0;
        return;
    }
    if m.is_reply() {
        let counter = match m.failure() {
            None => &mut state.replies,
            Some(DeadReason::Timeout) => &mut state.timeouts,
            Some(_) => &mut state.failures,
        };
        *counter += 1;
        state.last = m.ask();
        return;
    }
    let (named, other) = (ActorId::from_bits(w0), ActorId::from_bits(state.other));
    let (time, timer) = (Duration::from_nanos(w0), TimerId::from_bits(state.timer));
    match m.tag() {
        ADD => state.sum += w0,
        GET => {
            let values = [state.sum, state.ticks, state.downs, state.disorder];
            a.reply_to(place, GET, &values);
        }
        LINK_TO => state.other = w0,
        MONITOR => a.monitor(named, w1),
        DEMONITOR => drop(a.demonitor(named)),
        LINK => drop(a.link(named)),
        UNLINK => a.unlink(named),
        ASK_WITHIN => a.ask_within(other, GET, &[], w0, Duration::from_nanos(w1)),
        AFTER => {
            let timer = a.after(time, TICK, &[w1]);
            a.state::<DevAgent>().timer = timer.bits();
        }
        EVERY => {
            let timer = a.every(time, TICK, &[w1]);
            a.state::<DevAgent>().timer = timer.bits();
        }
        CANCEL => drop(a.cancel(timer)),
        TICK => {
            // Each is later than the one before it.
            state.disorder += u64::from(w0 < state.last);
            state.last = w0;
            state.ticks += 1;
        }
        STOP => a.stop(),
        FAIL => {
            let number = state.passed;
            state.passed += 1;
            a.tell(other, ADD, &[1]);
            a.monitor(other, number);
            a.fail();
        }
        PASS => {
            let number = state.passed;
            state.passed += 2;
            a.monitor(other, number);
            a.monitor(other, number + 1);
            a.tell(other, ADD, &[w0]);
        }
        _ => {}
    }
}

pub(super) fn agent(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, 0, m);
}
pub(super) fn careful(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, 0, m);
}
/// Of warp and block shape.
pub(super) fn each(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    for (place, m) in messages.iter().enumerate() {
        handle(a, place, m);
    }
}

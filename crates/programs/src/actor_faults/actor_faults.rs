//! The CPU twin of `actor_faults.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{
    ADD, ASK, DevFaults, DevFaulty, FAIL_ASK, FAIL_FORWARD, FAIL_LATE, FAIL_ONCE, FAIL_UP_TO, GET,
    LINK, PASS,
};

/// Counts a call for a place.
fn call(a: &ActorCx<'_, '_, '_>, place: u64) -> u64 {
    // SAFETY: the system was started with these parameters.
    let params = *unsafe { a.params::<DevFaults>() };
    // SAFETY: messages name places of the table, and those of one place go to one actor.
    let calls = unsafe { &mut *(params.calls.address() as *mut u64).add(place as usize) };
    *calls += 1;
    *calls
}

fn handle(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevFaulty>();
    let other = ActorId::from_bits(state.other);
    if m.is_reply() {
        state.replies += if m.failure().is_some() { 1000 } else { 1 };
        return;
    }
    match m.tag() {
        ADD => state.sum += m.word(0),
        GET => {
            let values = [state.sum, state.replies];
            a.reply(GET, &values);
        }
        LINK => state.other = m.word(0),
        FAIL_LATE | PASS => {
            state.sum += m.word(0);
            a.tell(other, ADD, &[m.word(0)]);
            a.reply(m.tag(), &[1]);
        }
        FAIL_FORWARD => {
            state.sum += m.word(0);
            a.forward(other);
        }
        FAIL_ASK => {
            state.sum += m.word(0);
            a.ask(other, GET, &[], 0);
        }
        ASK => a.ask(other, m.word(0) as u8, &[7], 0),
        FAIL_UP_TO => {
            state.sum += m.word(0);
            let call = call(a, m.word(1));
            a.tell(other, ADD, &[1]);
            a.reply(FAIL_UP_TO, &[call]);
            if call <= m.word(2) {
                a.fail();
            }
        }
        FAIL_ONCE if other.is_none() => {
            a.reply(FAIL_ONCE, &[m.word(1)]);
        }
        FAIL_ONCE if call(a, m.word(0)) == 1 => {
            a.reply(FAIL_ONCE, &[77, 78]);
            a.fail();
        }
        FAIL_ONCE => a.forward(other),
        _ => {}
    }
    if matches!(m.tag(), FAIL_LATE | FAIL_FORWARD | FAIL_ASK) {
        a.fail();
    }
}

pub(super) fn ends(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}
pub(super) fn careful(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}
pub(super) fn atomic(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}
pub(super) fn stubborn(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}
pub(super) fn patient(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}
pub(super) fn latest(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, m);
}

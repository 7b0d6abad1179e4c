//! The handlers of `actor_faults`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{ADD, ASK, DevFaulty, FAIL_ASK, FAIL_FORWARD, FAIL_LATE, GET, LINK, PASS};

fn handle(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevFaulty>();
    let other = ActorId::from_bits(state.other);
    if m.is_reply() {
        state.replies += if m.failure().is_some() { 1000 } else { 1 };
        return;
    }
    match m.tag() {
        GET => {
            let values = [state.sum, state.replies];
            a.reply(GET, &values);
            return;
        }
        LINK => {
            state.other = m.word(0);
            return;
        }
        ASK => {
            a.ask(other, m.word(0) as u8, &[7], 0);
            return;
        }
        _ => state.sum += m.word(0),
    }
    match m.tag() {
        FAIL_LATE | PASS => {
            a.tell(other, ADD, &[m.word(0)]);
            a.reply(m.tag(), &[1]);
        }
        FAIL_FORWARD => a.forward(other),
        FAIL_ASK => a.ask(other, GET, &[], 0),
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

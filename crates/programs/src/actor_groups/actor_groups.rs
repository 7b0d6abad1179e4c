//! The CPU twin of `actor_groups.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{
    ADD, DevGroupParams, DevMember, FAIL, FAIL_AND_STOP, FAIL_UP_TO, GET, LINK_TO, MONITOR, STOP,
};

/// Counts a call for a place.
fn call(a: &ActorCx<'_, '_, '_>, place: u64) -> u64 {
    // SAFETY: the system was started with these parameters.
    let params = *unsafe { a.params::<DevGroupParams>() };
    // SAFETY: messages name places of the table, and those of one place go to one actor.
    let calls = unsafe { &mut *(params.calls.address() as *mut u64).add(place as usize) };
    *calls += 1;
    *calls
}

fn handle(a: &mut ActorCx<'_, '_, '_>, place: usize, m: &Message) {
    let state = a.state::<DevMember>();
    if let Some(ending) = m.down() {
        state.downs += 1 + 1000 * ending as u64;
        return;
    }
    state.handled += 1;
    match m.tag() {
        ADD => state.sum += m.word(0),
        GET => {
            let values = [state.sum, state.handled, state.downs];
            a.reply_to(place, GET, &values);
        }
        LINK_TO => state.other = m.word(0),
        FAIL => {
            state.sum += m.word(0);
            let other = ActorId::from_bits(state.other);
            a.tell(other, ADD, &[m.word(0)]);
            a.fail();
        }
        STOP => a.stop(),
        FAIL_UP_TO => {
            let call = call(a, m.word(0));
            if m.word(2) != 0 {
                a.reply_to(place, FAIL_UP_TO, &[call]);
            }
            if call <= m.word(1) {
                a.fail();
            } else {
                a.state::<DevMember>().sum += call;
                a.reply_to(place, FAIL_UP_TO, &[call]);
            }
        }
        MONITOR => a.monitor(ActorId::from_bits(m.word(0)), 5),
        FAIL_AND_STOP => {
            a.stop();
            a.fail();
        }
        _ => {}
    }
}

pub(super) fn member(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, 0, m);
}
pub(super) fn careful(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, 0, m);
}
pub(super) fn stubborn(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    handle(a, 0, m);
}
/// Of warp and block shape.
pub(super) fn each(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    for (place, m) in messages.iter().enumerate() {
        handle(a, place, m);
    }
}

//! The handlers of `asks`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::DevAsker;

pub(super) fn asker(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevAsker>();
    if !m.is_reply() {
        (state.other, state.left) = (m.word(0), m.word(1));
    } else if m.failure().is_none() {
        state.count += 1;
        state.sum += m.word(0);
    }
    if state.left != 0 {
        state.left -= 1;
        let other = ActorId::from_bits(state.other);
        a.ask(other, 0, &[], 0);
    }
}

pub(super) fn asked(a: &mut ActorCx<'_, '_, '_>, _: &Message) {
    let state = a.state::<DevAsker>();
    state.count += 1;
    let count = state.count;
    a.reply(0, &[count]);
}

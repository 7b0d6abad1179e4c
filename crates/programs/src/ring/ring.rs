//! The CPU twin of `ring.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DevRingMember, LINK, TOKEN};

pub(super) fn member(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevRingMember>();
    match (m.tag(), m.word(0)) {
        (LINK, next) => state.next = next,
        (_, 0) => state.ended += 1,
        (_, left) => {
            let next = ActorId::from_bits(state.next);
            a.tell(next, TOKEN, &[left - 1]);
        }
    }
}

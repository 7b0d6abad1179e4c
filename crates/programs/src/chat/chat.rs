//! The handlers of `chat`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DevChat, DevChatter, MEMBERS, NUMBER, POST, TURN, member, post};
use crate::element;

/// The id of a client or, after those, of a room.
fn actor(params: &DevChat, index: u64) -> ActorId {
    // SAFETY: the table has an id for each.
    ActorId::from_bits(unsafe { *element(params.actors, index) })
}

pub(super) fn client(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    match m.tag() {
        NUMBER => a.state::<DevChatter>().number = m.word(0),
        TURN => {
            let (number, left) = (a.state::<DevChatter>().number, m.word(0));
            // SAFETY: the system was started with these parameters.
            let params = *unsafe { a.params::<DevChat>() };
            let (room, content) = post(number, left, params.rooms);
            a.tell(actor(&params, params.clients + room), POST, &[content]);
            if left != 0 {
                let own = a.id();
                a.tell(own, TURN, &[left - 1]);
            }
        }
        _ => {
            let state = a.state::<DevChatter>();
            state.count += 1;
            state.sum = state.sum.wrapping_add(m.word(0));
        }
    }
}

pub(super) fn room(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    if m.tag() == NUMBER {
        a.state::<DevChatter>().number = m.word(0);
        return;
    }
    let number = a.state::<DevChatter>().number;
    // SAFETY: the system was started with these parameters.
    let params = *unsafe { a.params::<DevChat>() };
    for i in 0..MEMBERS {
        let to = actor(&params, member(number, i, params.clients));
        a.tell(to, POST, &[m.word(0)]);
    }
}

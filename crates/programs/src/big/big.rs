//! The CPU twin of `big.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DevBig, DevPeer, next_random, place};
use crate::element;

pub(super) fn peer(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let (left, seed) = (m.word(0), m.word(1));
    let state = a.state::<DevPeer>();
    state.handled += 1;
    if left == 0 {
        state.ended += 1;
        return;
    }
    // SAFETY: the system was started with these parameters, and the table has an id for each place.
    let next = unsafe {
        let params = a.params::<DevBig>();
        *element(params.peers, place(seed, params.count))
    };
    a.tell(ActorId::from_bits(next), 0, &[left - 1, next_random(seed)]);
}

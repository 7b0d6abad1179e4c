//! The CPU twin of `counting.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{AT_A_TIME, DevCounter};

pub(super) fn counter(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevCounter>();
    state.sum += m.word(0);
    state.count += 1;
}

pub(super) fn producer(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let (first, end, counter) = (m.word(0), m.word(1), m.word(2));
    let next = end.min(first + AT_A_TIME);
    for number in first..next {
        a.tell(ActorId::from_bits(counter), 0, &[number]);
    }
    if next < end {
        let own = a.id();
        a.tell(own, 0, &[next, end, counter]);
    }
}

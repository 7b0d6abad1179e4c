//! The handlers of `philosophers`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DevDiner, PUT_BACK, SIT, TAKE, TAKEN};

pub(super) fn philosopher(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevDiner>();
    if m.tag() == SIT {
        (state.first, state.second, state.left) = (m.word(0), m.word(1), m.word(2));
        if state.left == 0 {
            return;
        }
    } else {
        state.held += 1;
    }
    let (first, second) = (
        ActorId::from_bits(state.first),
        ActorId::from_bits(state.second),
    );
    if state.held == 1 {
        return a.tell(second, TAKE, &[]);
    }
    let mut hungry = true;
    if state.held == 2 {
        (state.held, state.count, state.left) = (0, state.count + 1, state.left - 1);
        hungry = state.left != 0;
        a.tell(second, PUT_BACK, &[]);
        a.tell(first, PUT_BACK, &[]);
    }
    if hungry {
        a.tell(first, TAKE, &[]);
    }
}

pub(super) fn fork(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let from = m.from().bits();
    let state = a.state::<DevDiner>();
    if m.tag() == TAKE {
        if state.first != 0 {
            // Only two philosophers use a fork, so at most one waits.
            state.held += u64::from(state.second != 0 || state.first == from);
            state.second = from;
            return;
        }
        state.first = from;
    } else {
        debug_assert_eq!(m.tag(), PUT_BACK);
        state.held += u64::from(state.first != from);
        (state.first, state.second) = (state.second, 0);
    }
    if state.first != 0 {
        state.count += 1;
        let holder = ActorId::from_bits(state.first);
        a.tell(holder, TAKEN, &[]);
    }
}

//! The handlers of `chameneos`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DevChameneo, GO, MEET, OPEN, changed};

pub(super) fn mall(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let (from, colour) = (m.from(), m.word(0));
    let state = a.state::<DevChameneo>();
    if m.tag() == OPEN {
        state.meetings = m.word(0);
        return;
    }
    // The creatures that come when all have met wait for ever, and hold nothing.
    if state.meetings == 0 {
        return;
    }
    if state.other == 0 {
        (state.other, state.colour) = (from.bits(), colour);
        return;
    }
    let (first, its_colour) = (ActorId::from_bits(state.other), state.colour);
    (state.other, state.meetings) = (0, state.meetings - 1);
    a.tell(first, MEET, &[from.bits(), colour]);
    a.tell(from, MEET, &[first.bits(), its_colour]);
}

pub(super) fn creature(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let own = a.id();
    let state = a.state::<DevChameneo>();
    if m.tag() == MEET {
        state.meetings += 1;
        state.colour = changed(state.colour, m.word(1));
        state.errors += u64::from(m.word(0) == own.bits());
    } else {
        (state.other, state.colour) = (m.word(0), m.word(1));
    }
    let (mall, colour) = (ActorId::from_bits(state.other), state.colour);
    a.tell(mall, GO, &[colour]);
}

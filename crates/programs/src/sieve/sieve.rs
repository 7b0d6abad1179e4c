//! The handlers of `sieve`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{AT_A_TIME, DevSieve, FILTER, KEPT};

pub(super) fn filter(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let number = m.word(0) as u32;
    let state = a.state::<DevSieve>();
    let count = state.count as usize;
    if state.primes[..count]
        .iter()
        .any(|p| number.is_multiple_of(*p))
    {
        return;
    }
    if count < KEPT {
        state.primes[count] = number;
        state.count += 1;
        return;
    }
    let mut next = ActorId::from_bits(state.next);
    if next.is_none() {
        next = a.launch(FILTER);
        a.state::<DevSieve>().next = next.bits();
    }
    a.tell(next, 0, &[number.into()]);
}

pub(super) fn source(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let (mut number, end, to) = (m.word(0), m.word(1), m.word(2));
    for _ in 0..AT_A_TIME {
        if number < end {
            a.tell(ActorId::from_bits(to), 0, &[number]);
            number += 2;
        }
    }
    if number < end {
        let own = a.id();
        a.tell(own, 0, &[number, end, to]);
    }
}

//! The handlers of `bank`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{DEPOSIT, DevBank, DevBankActor, OPEN, REFUND, WITHDRAW};
use crate::{element, mix};

fn params(a: &ActorCx<'_, '_, '_>) -> DevBank {
    // SAFETY: the system was started with these parameters.
    *unsafe { a.params::<DevBank>() }
}

pub(super) fn account(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let risk = params(a).risk;
    let state = a.state::<DevBankActor>();
    if m.tag() == OPEN {
        state.money = m.word(0);
        return;
    }
    let (amount, random) = (m.word(0), m.word(1));
    let enough = m.tag() != WITHDRAW || state.money >= amount;
    if enough {
        state.done += 1;
        state.money = match m.tag() {
            WITHDRAW => state.money - amount,
            _ => state.money + amount,
        };
    }
    a.reply(m.tag(), &[enough.into()]);
    // The asker must not see the reply, and the money is as it was.
    if mix(random ^ u64::from(m.tag())) >> 32 < risk {
        a.fail();
    }
}

pub(super) fn teller(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let params = params(a);
    let state = a.state::<DevBankActor>();
    let good = m.is_reply() && m.failure().is_none() && m.word(0) != 0;
    let next = if !m.is_reply() {
        (state.left, state.seed) = (m.word(0), m.word(1));
        None
    } else {
        match state.step as u8 {
            WITHDRAW if good => Some(DEPOSIT),
            // It has paid nothing out.
            WITHDRAW => None,
            DEPOSIT if !good => Some(REFUND),
            DEPOSIT => None,
            _ => {
                if !good {
                    state.money += state.amount;
                }
                None
            }
        }
    };
    let step = match next {
        Some(step) => step,
        None => {
            state.done += u64::from(m.is_reply());
            if state.left == 0 {
                return;
            }
            state.left -= 1;
            state.seed = mix(state.seed);
            let place = |random: u64| mix(random) % params.count;
            let (from, to) = (place(state.seed), place(state.seed ^ 1));
            // SAFETY: the table has an id for each account.
            let id = |place| unsafe { *element(params.accounts, place) };
            (state.source, state.to) = (id(from), id(to));
            state.amount = 1 + state.seed % 100;
            WITHDRAW
        }
    };
    state.step = step.into();
    let to = match step {
        DEPOSIT => state.to,
        _ => state.source,
    };
    let (amount, random) = (state.amount, state.seed);
    a.ask(ActorId::from_bits(to), step, &[amount, random], 0);
}

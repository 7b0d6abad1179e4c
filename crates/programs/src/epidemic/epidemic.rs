//! The handlers of `epidemic`.

use everwarp::DevPtr;
use everwarp::actor::{ActorCx, ActorId, Message};

use super::{
    AT_A_TIME, BEGIN, DAY, DevAgent, DevEpidemic, INFECTED, INFECTIOUS, MEET, MEETINGS, MET,
    NUMBER, OUTSIDE, WARDS, catches, met,
};
use crate::element;

fn params(a: &ActorCx<'_, '_, '_>) -> DevEpidemic {
    // SAFETY: the system was started with these parameters.
    *unsafe { a.params::<DevEpidemic>() }
}
/// The id at a place of a table.
fn id(table: DevPtr<u64>, index: u64) -> ActorId {
    // SAFETY: the tables have an id for each agent and ward.
    ActorId::from_bits(unsafe { *element(table, index) })
}

pub(super) fn agent(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let params = params(a);
    let day = m.word(0);
    if m.tag() == MEET {
        let number = m.word(1);
        for i in 0..MEETINGS {
            let other = met(number, day, i, params.count);
            a.tell(id(params.agents, other), MET, &[day, number, other]);
        }
        return;
    }
    debug_assert_eq!(m.tag(), MET);
    let (from, number) = (m.word(1), m.word(2));
    let state = a.state::<DevAgent>();
    if state.since == 0 && (from == OUTSIDE || catches(number, from, day, params.risk)) {
        state.since = day + 1;
        a.tell(id(params.wards, number % WARDS), INFECTED, &[number, day]);
    }
}

pub(super) fn ward(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let params = params(a);
    let own = a.id();
    let state = a.state::<DevAgent>();
    // SAFETY: the list of this ward has `capacity` entries, and no other actor touches it.
    let list = unsafe {
        let first = params.lists.address() as *mut u64;
        let first = first.add((state.since * params.capacity) as usize);
        std::slice::from_raw_parts_mut(first, params.capacity as usize)
    };
    match m.tag() {
        NUMBER => state.since = m.word(0),
        INFECTED => {
            list[state.listed as usize] = m.word(0) | m.word(1) << 32;
            state.listed += 1;
        }
        _ => {
            debug_assert_eq!(m.tag(), DAY);
            let (day, mut at) = (m.word(0), m.word(1));
            let infected = &list[..state.listed as usize];
            if at == BEGIN {
                // The list is in the order of days.
                let over = |entry: &&u64| (**entry >> 32) + INFECTIOUS < day;
                let rest = &infected[state.first as usize..];
                state.first += rest.iter().take_while(over).count() as u64;
                at = state.first;
            }
            for _ in 0..AT_A_TIME {
                let Some(entry) = infected.get(at as usize) else {
                    return;
                };
                // The others were infected today.
                if entry >> 32 >= day {
                    return;
                }
                let number = entry & 0xffff_ffff;
                a.tell(id(params.agents, number), MEET, &[day, number]);
                at += 1;
            }
            a.tell(own, DAY, &[day, at]);
        }
    }
}

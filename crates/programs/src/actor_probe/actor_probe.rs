//! The CPU twin of `actor_probe.cu`.

use everwarp::actor::{ActorCx, ActorId, Message};

use super::{
    ADD, ASK, BURST, DevProbeNode, FAIL, FORWARD, GET, KILL, LAUNCH, LINK, NUMBER, PASS, QUIET,
    STOP, STOP_LATER, TOO_MANY, TRY,
};

fn node(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let DevProbeNode {
        sum,
        count,
        next,
        errors,
        ..
    } = *a.state::<DevProbeNode>();
    let next = ActorId::from_bits(next);
    if m.is_reply() {
        let state = a.state::<DevProbeNode>();
        match m.failure() {
            Some(reason) => state.errors += 1000 + reason as u64,
            None if m.ask() == 77 => state.sum += m.word(0),
            None => state.errors += 1,
        }
        return;
    }
    match m.tag() {
        ADD => {
            let state = a.state::<DevProbeNode>();
            state.sum += m.word(0);
            state.count += 1;
        }
        GET => {
            a.reply(GET, &[sum, count, errors]);
        }
        FORWARD if next.is_none() => {
            a.reply(GET, &[sum, count, errors]);
        }
        FORWARD => a.forward(next),
        LINK => a.state::<DevProbeNode>().next = m.word(0),
        PASS if m.word(1) > 0 => a.tell(next, PASS, &[m.word(0), m.word(1) - 1]),
        PASS => {
            let state = a.state::<DevProbeNode>();
            state.sum += m.word(0);
            state.count += 1;
        }
        BURST => {
            let (sender, mut at, end) = (m.word(0), m.word(1), m.word(2));
            for _ in 0..3 {
                if at < end {
                    a.tell(next, NUMBER, &[sender, at]);
                    at += 1;
                }
            }
            if at < end {
                let own = a.id();
                a.tell(own, BURST, &[sender, at, end]);
            }
        }
        NUMBER => {
            let state = a.state::<DevProbeNode>();
            let expected = &mut state.expected[m.word(0) as usize & 3];
            state.errors += u64::from(*expected != m.word(1));
            *expected = m.word(1) + 1;
            state.count += 1;
        }
        FAIL => a.fail(),
        STOP => a.stop(),
        QUIET => {}
        LAUNCH => {
            let child = a.launch(m.word(0) as u32);
            a.tell(child, ADD, &[m.word(1)]);
            a.state::<DevProbeNode>().next = child.bits();
        }
        ASK => a.ask(next, GET, &[], 77),
        KILL => a.kill(next),
        STOP_LATER => a.stop_later(next),
        TOO_MANY => (0..5).for_each(|i| a.tell(next, ADD, &[i])),
        TRY => {
            let sent = a.try_tell(next, ADD, &[m.word(0)]);
            a.state::<DevProbeNode>().errors += u64::from(!sent);
        }
        _ => a.state::<DevProbeNode>().errors += 1_000_000,
    }
}

pub(super) fn narrow(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    node(a, m);
}
pub(super) fn wide(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    node(a, m);
}

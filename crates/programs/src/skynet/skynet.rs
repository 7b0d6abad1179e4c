//! The CPU twin of `skynet.cu`.

use everwarp::actor::{ActorCx, Message};

use super::{DevSkynetNode, NODE, START, SUM};

pub(super) fn node(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let parent = a.parent();
    if m.tag() == START && m.word(1) > 1 {
        let (first, size) = (m.word(0), m.word(1));
        let parts = size.min(10);
        for i in 0..parts {
            let (from, to) = (size * i / parts, size * (i + 1) / parts);
            let child = a.launch(NODE);
            a.tell(child, START, &[first + from, to - from]);
        }
        a.state::<DevSkynetNode>().pending = parts;
        return;
    }
    let state = a.state::<DevSkynetNode>();
    if m.tag() == SUM {
        state.pending -= 1;
        state.sum += m.word(0);
    } else {
        // A leaf; or nothing at all.
        state.sum = m.word(0) * m.word(1);
    }
    if state.pending == 0 && !parent.is_none() {
        let sum = state.sum;
        a.tell(parent, SUM, &[sum]);
        a.stop();
    }
}

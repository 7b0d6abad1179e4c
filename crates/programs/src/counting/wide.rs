//! `counting_wide`: the same with counters of warp and block shape, which add up to 32 numbers at a time.

use everwarp::actor::{ActorCx, Message, actors};

use super::DevCounter;
use super::twin::producer;

actors! {
    /// The program.
    pub static WIDE: counting_wide(), "counting_wide.cu" {
        /// Adds numbers with a warp.
        WARP_COUNTER: warp(warp: DevCounter).mailbox(1024),
        /// Adds numbers with a block.
        BLOCK_COUNTER: block(block: DevCounter).mailbox(1024),
        /// As the producer of `counting`.
        PRODUCER: lane(producer: DevCounter).mailbox(4).sends(9),
    }
}

fn warp(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    let state = a.state::<DevCounter>();
    state.sum += messages.iter().map(|m| m.word(0)).sum::<u64>();
    state.count += messages.len() as u64;
}

fn block(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    warp(a, messages);
}

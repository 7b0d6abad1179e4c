//! The host library against a mock engine.

mod failure;
mod flow;
mod futures;

use std::time::Duration;

use crate::engine::Engine;
use crate::instance::Instance;
use crate::mock::{self, Hand, PARAMS, PROGRAM};

/// An engine that nothing should ever find stuck.
fn engine(slots: u32, tokens: u32, arena: u32) -> (Engine, Hand) {
    mock::start(mock::pools(slots, tokens, arena), Duration::from_secs(60))
}

fn instance(engine: &Engine) -> Instance {
    // SAFETY: the parameters point to nothing.
    unsafe { engine.instance(&PROGRAM, &PARAMS) }.expect("there is a slot")
}

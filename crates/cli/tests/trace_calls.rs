//! A trace of calls that handle several messages. It has a program of its own, since a program has one trace.

#[path = "watch/handlers.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod handlers;
#[path = "watch/perfetto.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod perfetto;

use everwarp::Select;

use crate::handlers::{check_calls, check_timers, trace_calls};

#[test]
fn calls_that_handle_several_messages_have_a_flow_for_each() {
    let trace = trace_calls(Select::Cpu);
    check_calls(&trace, |call| call.flows.len() as u64, "host_tell");
    // The thread that keeps the timers sends, and has no slices.
    check_timers(&trace, |_| 1, "host_tell", "");
}

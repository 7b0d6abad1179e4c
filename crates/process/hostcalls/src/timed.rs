//! How long requests take, from the moment at which one is taken from the ring until its answer is written.

use everwarp_contract::hostcall::{NUMBERS, name};
use everwarp_telemetry::hosted::HostedProcesses;

use crate::events::Woken;
use crate::request::Reply;
use crate::ring::{Ring, Ticket};

/// The name of calls that the table does not have.
const UNKNOWN: &str = "unknown";

/// Room for the times of a service's processes and their calls, if they are measured.
pub(crate) fn times() -> Option<HostedProcesses> {
    // 0 is the number of no call. The CPU engine has WASI's own names, in small letters.
    let kind = |number| name(number).unwrap_or(UNKNOWN).to_lowercase();
    HostedProcesses::of_level((0..NUMBERS as u32).map(kind))
}

/// Answers a request, as [`Ring::answer`] does, and then records how long it took.
#[must_use = "a process that is not woken waits for ever"]
pub(crate) fn answer_timed(
    ring: &Ring,
    ticket: Ticket,
    reply: &Reply,
    times: Option<&HostedProcesses>,
) -> Option<Woken> {
    let (call, place, taken) = (ticket.call, ticket.process.slot(), ticket.taken);
    let woken = ring.answer(ticket, reply);
    if let Some(times) = times {
        times.answered(call, place, taken);
    }
    woken
}

//! The CPU twin of `actor_broker.cu`.

use std::time::Duration;

use everwarp::Buffer;
use everwarp::actor::{ActorCx, ActorId, ChannelId, DeadReason, KeptAsk, Message, TimerId};

use super::{
    AFTER, CANCEL, CLOSE, COUNT, DevBroker, DevCarrier, DevJob, DevPorter, FAIL, FORWARD,
    FORWARD_AND_FAIL, FRAME, MOST_KEPT, NEXT, PIPE, RECEIVE, SEND, SERVE, SERVE_AND_FAIL, TICK,
    TWICE, WAIT, WAIT_AND_FAIL, WRONG,
};

fn send(a: &mut ActorCx<'_, '_, '_>, channel: ChannelId, job: &DevJob, number: u64) {
    if !a.send_on(channel, job, number) {
        let state = a.state::<DevPorter>();
        state.refused += 1;
        state.numbers += number;
    }
}

pub(super) fn worker(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    work(a, m);
}
/// Of warp and block shape.
pub(super) fn workers(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    messages.iter().for_each(|m| work(a, m));
}
fn work(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    if !m.is_reply() {
        let channel = ChannelId::from_bits(m.word(0));
        match m.tag() {
            RECEIVE => a.receive_on::<DevJob>(channel, m.word(1)),
            SEND => {
                let job = DevJob {
                    number: m.word(2),
                    weight: f64::from_bits(m.word(3)),
                    sender: 7,
                    reserved: 0,
                };
                send(a, channel, &job, m.word(1));
            }
            CLOSE => a.close_channel(channel),
            WRONG => a.receive_on::<f64>(channel, 0),
            PIPE => {
                let state = a.state::<DevPorter>();
                (state.from, state.to) = (m.word(0), m.word(1));
                a.receive_on::<DevJob>(channel, 0);
            }
            _ => {}
        }
        return;
    }
    let state = a.state::<DevPorter>();
    state.numbers += m.ask();
    let [from, to] = [state.from, state.to].map(ChannelId::from_bits);
    let passes = state.to != 0;
    match m.failure() {
        Some(DeadReason::Dropped) => state.refused += 1,
        Some(_) => {
            state.closed += 1;
            if passes {
                a.close_channel(to);
            }
        }
        None if m.ask() % 2 == 1 => {
            state.sent += 1;
            if passes {
                a.receive_on::<DevJob>(from, 0);
            }
        }
        None => {
            let mut job = m.value::<DevJob>();
            state.received += 1;
            state.sum += job.number;
            state.weight += job.weight;
            state.disorder += u64::from(job.number < state.last);
            state.last = job.number;
            job.weight *= 2.0;
            job.sender += 1;
            if passes {
                send(a, to, &job, 1);
            }
        }
    }
}

fn keep(a: &mut ActorCx<'_, '_, '_>) {
    let kept = a.keep();
    let state = a.state::<DevBroker>();
    if kept != KeptAsk::NONE && (state.count as usize) < MOST_KEPT {
        state.kept[state.count as usize] = kept.bits();
        state.count += 1;
    }
}
fn serve(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    let state = a.state::<DevBroker>();
    let count = m.word(0).min(state.count);
    for i in 0..count {
        let kept = KeptAsk::from_bits(a.state::<DevBroker>().kept[i as usize]);
        a.reply_kept(kept, WAIT, &[m.word(1) + i, kept.bits()]);
    }
    let state = a.state::<DevBroker>();
    state.count -= count;
    for i in 0..state.count {
        state.kept[i as usize] = state.kept[(i + count) as usize];
    }
}

pub(super) fn broker(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    match m.tag() {
        WAIT => keep(a),
        WAIT_AND_FAIL => {
            keep(a);
            a.fail();
        }
        SERVE => serve(a, m),
        SERVE_AND_FAIL => {
            serve(a, m);
            a.fail();
        }
        COUNT => {
            let counts = [a.state::<DevBroker>().count, a.kept() as u64];
            a.reply(COUNT, &counts);
        }
        AFTER => {
            let timer = a.after(Duration::from_nanos(m.word(0)), TICK, &[]);
            a.state::<DevBroker>().timer = timer.bits();
        }
        CANCEL => {
            let timer = std::mem::take(&mut a.state::<DevBroker>().timer);
            a.cancel(TimerId::from_bits(timer));
        }
        TICK => {
            let state = a.state::<DevBroker>();
            let timer = m.timer().map_or(0, TimerId::bits);
            state.ticks += 1;
            state.strange += u64::from(timer != state.timer);
        }
        _ => {}
    }
}
pub(super) fn careful(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    broker(a, m);
}

/// Adds the elements of the buffer that came with a message, increments them, and returns it. None if it has no buffer.
fn frame(a: &mut ActorCx<'_, '_, '_>, place: usize) -> Option<Buffer<u32>> {
    let buffer = a.open_at::<Buffer<u32>>(place).ok()?;
    // SAFETY: the buffer is this handler's, and on this engine its elements are in the host's memory.
    let elements =
        unsafe { std::slice::from_raw_parts_mut(buffer.ptr().address() as *mut u32, buffer.len()) };
    let state = a.state::<DevCarrier>();
    state.elements += elements.len() as u64;
    for element in elements {
        state.sum += u64::from(*element);
        *element += 1;
    }
    Some(buffer)
}

pub(super) fn carrier(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    carry(a, 0, m);
}
/// Of warp and block shape.
pub(super) fn carriers(a: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
    for (place, m) in messages.iter().enumerate() {
        carry(a, place, m);
    }
}
fn carry(a: &mut ActorCx<'_, '_, '_>, place: usize, m: &Message) {
    let state = a.state::<DevCarrier>();
    let next = ActorId::from_bits(state.next);
    state.count += u64::from(m.tag() != NEXT);
    state.plain += u64::from(m.tag() != NEXT && !m.has_payload());
    match m.tag() {
        NEXT => state.next = m.word(0),
        FRAME => {
            if let Some(buffer) = frame(a, place)
                && next != ActorId::NONE
            {
                a.tell_buffer(next, FRAME, &[m.word(0) + 1], buffer);
            }
        }
        FORWARD => a.forward_at(place, next),
        FORWARD_AND_FAIL => {
            a.forward_at(place, next);
            a.fail();
        }
        FAIL => a.fail(),
        TWICE => {
            a.forward_at(place, next);
            a.forward_at(place, next);
        }
        _ => {}
    }
}
pub(super) fn steady(a: &mut ActorCx<'_, '_, '_>, m: &Message) {
    carrier(a, m);
}

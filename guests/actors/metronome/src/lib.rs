//! A metronome: it counts the ticks of its timer, cancels it after three, and asks another one within a time.

#![no_std]

use core::cell::Cell;

use everwarp_guest_actor::{Actor, Own, Reason, Timer, actor};

static TICKS: Own<Cell<u32>> = Own(Cell::new(0));
static SUM: Own<Cell<u64>> = Own(Cell::new(0));
static TIMER: Own<Cell<Timer>> = Own(Cell::new(Timer::NONE));
/// What the last ask came to: the ticks of the other one, or 1000 and the number of the reason.
static HEARD: Own<Cell<u32>> = Own(Cell::new(0));

actor! {
    "scratch 512";
    every tick as tick_every(weight: u64);
    after tick as tick_after(weight: u64);
    ask_within ticks as ask_ticks();

    on begin(nanos: u64, weight: u64) {
        TIMER.set(tick_every(nanos, weight));
    }
    on once(nanos: u64, weight: u64) {
        tick_after(nanos, weight);
    }
    on tick(weight: u64) {
        TICKS.set(TICKS.get() + 1);
        SUM.set(SUM.get() + weight);
        if TICKS.get() == 3 {
            TIMER.get().cancel();
        }
    }
    on ticks() -> u32 {
        TICKS.get()
    }
    on sum() -> u64 {
        SUM.get()
    }
    on listen(to: Actor, nanos: u64) {
        ask_ticks(to, 1, nanos);
    }
    reply ticks(_number: u32, ticks: u32) {
        HEARD.set(ticks);
    }
    failed ticks(_number: u32, reason: i32) {
        HEARD.set(1000 + Reason::of(reason) as u32);
    }
    on heard() -> u32 {
        HEARD.get()
    }
}

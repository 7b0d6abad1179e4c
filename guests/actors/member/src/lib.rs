//! A member of a ring: it passes a token on until no hops are left. The native program `ring` does the same.

#![no_std]

use core::cell::Cell;

use everwarp_guest_actor::{Actor, Own, actor};

static NEXT: Own<Cell<Actor>> = Own(Cell::new(Actor::NONE));
static ENDED: Own<Cell<u64>> = Own(Cell::new(0));

actor! {
    "mailbox 8";
    "sends 1";
    "scratch 512";
    tell token(hops: u64);

    on link(next: Actor) {
        NEXT.set(next);
    }
    on token(hops: u64) {
        match hops.checked_sub(1) {
            Some(left) => token(NEXT.get(), left),
            None => ENDED.set(ENDED.get() + 1),
        }
    }
    on ended() -> u64 {
        ENDED.get()
    }
}

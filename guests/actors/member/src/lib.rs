//! A member of a ring: it passes a token on until no hops are left. The native program `ring` does the same, with the same
//! state.

#![no_std]

use core::cell::Cell;

use everwarp_guest_actor::{Actor, Own, actor};

#[repr(C)]
struct Member {
    next: Cell<Actor>,
    ended: Cell<u64>,
}

static MEMBER: Own<Member> = Own(Member {
    next: Cell::new(Actor::NONE),
    ended: Cell::new(0),
});

actor! {
    "mailbox 8";
    "sends 1";
    "scratch 512";
    tell token(hops: u64);

    on link(next: Actor) {
        MEMBER.next.set(next);
    }
    on token(hops: u64) {
        match hops.checked_sub(1) {
            Some(left) => token(MEMBER.next.get(), left),
            None => MEMBER.ended.set(MEMBER.ended.get() + 1),
        }
    }
}

//! An account: `pay` moves money to another one.

#![no_std]

use core::cell::Cell;

use everwarp_guest_actor::{Actor, Own, actor, fail};

static BALANCE: Own<Cell<u64>> = Own(Cell::new(0));

actor! {
    "scratch 512";
    tell deposit(amount: u64);

    on deposit(amount: u64) {
        BALANCE.set(BALANCE.get() + amount);
    }
    on pay(to: Actor, amount: u64) {
        let Some(left) = BALANCE.get().checked_sub(amount) else { fail() };
        BALANCE.set(left);
        deposit(to, amount);
    }
    on balance() -> u64 {
        BALANCE.get()
    }
}

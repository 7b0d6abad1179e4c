//! The CPU twin of `pingpong.cu`.

use everwarp::TaskCx;

use super::{LEAF, LEVEL, PING, PONG, WIDTH};

pub(super) fn ping(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, PING + 1),
        n => t.spawn(PONG, 0, (n - 1).into()),
    }
}

pub(super) fn pong(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, PONG + 1),
        n => t.spawn(PING, 0, (n - 1).into()),
    }
}

pub(super) fn level(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, 1),
        n => {
            t.fork(LEVEL, 0, (n - 1).into());
            (0..WIDTH).for_each(|_| t.spawn_child(LEAF, 0, 0));
        }
    }
}

pub(super) fn leaf(_: &mut dyn TaskCx) {}

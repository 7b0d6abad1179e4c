//! Actors whose handlers are modules compute on every engine what the CPU engine computes, to the bit.

use everwarp::Select;
use everwarp_testkit::cases;

use crate::modules;
use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    every_operator_of_a_module_is_exact,
    generated_modules_are_exact,
    imports_of_modules_work,
    modules_of_rust_and_c_work,
];

/// Generated modules of one program, and programs.
const MODULES: u64 = 4;
const PROGRAMS: u64 = 2;

fn every_operator_of_a_module_is_exact(select: Select) {
    let play = modules::every_operator();
    modules::check_operators(&play.compare(&play.on(select)));
}

fn generated_modules_are_exact(select: Select) {
    // Others than those that the host runs.
    for number in 1000..1000 + PROGRAMS {
        let play = modules::generated(number, MODULES);
        let [right, ..] = modules::counts(&play.compare(&play.on(select)));
        assert!(right > 40, "{right} results");
    }
}

fn imports_of_modules_work(select: Select) {
    let play = modules::imports();
    let lines = play.compare(&play.on(select));
    assert_eq!(lines[0], "37", "{lines:?}");
}

fn modules_of_rust_and_c_work(select: Select) {
    for play in modules::guests() {
        let lines = play.compare(&play.on(select));
        assert_eq!(lines[..3], ["46", "1e", "gone"], "{lines:?}");
    }
}

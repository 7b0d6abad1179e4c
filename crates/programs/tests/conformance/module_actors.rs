//! Actors whose handlers are modules compute on every engine what the CPU engine computes, to the bit.

use std::time::Duration;

use everwarp::actor::{ActorConfig, ActorId, ActorSystem};
use everwarp::{Device, Select};
use everwarp_testkit::cases;

use crate::modules;
use crate::support::{Case, wait_until};

pub(crate) const ALL: &[Case] = cases![
    every_operator_of_a_module_is_exact,
    generated_modules_are_exact,
    imports_of_modules_work,
    modules_keep_asks_and_timers,
    timers_and_deadlines_of_modules_come,
    modules_without_services_have_names_if_their_program_says_so,
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

fn modules_keep_asks_and_timers(select: Select) {
    let play = modules::keeping();
    modules::check_keeping(&play.compare(&play.on(select)));
}

fn modules_of_rust_and_c_work(select: Select) {
    for play in modules::guests() {
        let lines = play.compare(&play.on(select));
        assert_eq!(lines[..3], ["46", "1e", "gone"], "{lines:?}");
    }
}

fn timers_and_deadlines_of_modules_come(select: Select) {
    let program = modules::keepers();
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &program, ActorConfig::default());
    let system = system.expect("the system starts");
    let tag = |message: &str| program.message(message).expect("there is one").tag;
    let tell = |actor: ActorId, message: &str, words: &[u64]| {
        let told = system.tell(actor, tag(message), words);
        told.expect("it lives");
    };
    let sums = |actor: ActorId| {
        let reply = system.ask(actor, tag("sums"), &[]).expect("it replies");
        <[u64; 4]>::try_from(reply.words()).expect("four sums")
    };
    // What `keeper.wat` does with the numbers.
    const AFTER: u64 = 1;
    const EVERY: u64 = 2;
    const CANCEL: u64 = 4;
    const OPEN: u64 = 8;
    const KEEP: u64 = 16;
    for kind in 0..3 {
        let [asker, keeper] = [0, kind].map(|kind| system.launch(kind).expect("there is room"));
        // An ask that is kept ends at its deadline, and a reply after it reaches no actor.
        tell(asker, "send_within", &[keeper.bits(), 5000, KEEP]);
        wait_until("the deadline", || sums(asker)[..3] == [1, 0, 1]);
        tell(keeper, "go", &[OPEN]);
        // One that has its reply in time.
        tell(
            asker,
            "send_within",
            &[keeper.bits(), 3_600_000_000_000, KEEP],
        );
        system.settle().expect("it settles");
        tell(keeper, "go", &[OPEN]);
        wait_until("the reply", || sums(asker)[..3] == [2, 1, 1]);
        tell(keeper, "go", &[AFTER]);
        wait_until("the timer", || sums(keeper)[3] == 1);
        tell(keeper, "go", &[EVERY]);
        wait_until("the periodic timer", || sums(keeper)[3] >= 4);
        tell(keeper, "go", &[CANCEL]);
        system.settle().expect("it settles");
        let last = sums(keeper)[3];
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(sums(keeper)[3], last, "it was cancelled");
        // The end of the actor ends the asks that it keeps.
        for _ in 0..8 {
            tell(asker, "send", &[keeper.bits(), KEEP]);
        }
        system.settle().expect("it settles");
        assert_eq!(sums(asker)[..3], [10, 1, 1]);
        let monitor = system.monitor(keeper).expect("the program has services");
        system.kill(&[keeper]).expect("the engine runs");
        wait_until("the end of the asks", || sums(asker)[..3] == [10, 1, 9]);
        let ended = monitor.ended_within(Duration::from_secs(60));
        assert!(ended.is_some(), "the monitor is notified");
    }
    assert_eq!(system.failures().1, 0, "{:?}", system.failures());
}

fn modules_without_services_have_names_if_their_program_says_so(select: Select) {
    let program = modules::imports().program.services();
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &program, ActorConfig::default());
    let system = system.expect("the system starts");
    let letters = system.dead_letters(8).expect("the program has services");
    let ada = system.launch(0).expect("there is room");
    system.register("ada", ada).expect("the name is free");
    assert_eq!(system.lookup("ada").expect("it has names"), ada);
    let add = program.message("add").expect("there is one").tag;
    system.deactivate(&[ada]).expect("it lives");
    system.tell(ada, add, &[5]).expect("it lives");
    system.kill(&[ada]).expect("it lives");
    wait_until("the dead letter", || {
        letters.drain().any(|letter| letter.to == ada)
    });
    wait_until("the name", || {
        system.lookup("ada").expect("it has names") == ActorId::NONE
    });
}

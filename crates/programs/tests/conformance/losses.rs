//! A device that the driver loses while tasks run: every wait ends, and so does the process.

use everwarp::{Device, Engine, Error, Select};
use everwarp_programs::fib;
use everwarp_programs::probe::Probe;
use everwarp_testkit::cases;

use crate::support::{Case, block_on, with};

pub(crate) const ALL: &[Case] = cases![a_lost_device_ends_every_wait];

fn is_loss(error: &Error) -> bool {
    // The first waiter finds the loss, and later calls name what the first one found.
    let text = error.to_string();
    let named = text.contains("the driver has lost the device (");
    named && !text.contains("it gave no reason")
}

fn a_lost_device_ends_every_wait(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine: Engine = with(&device).start().expect("it starts");
    let fibs = fib::instance(&engine).expect("fib is there");
    let probe = Probe::new(&engine, 1000).expect("there is memory");
    let submit = || engine.submit(fibs.task(fib::CALL).arg(40));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut pending = submit().expect("the device is not lost yet");
            scope.spawn(move || {
                let error = pending.wait().expect_err("fib(40) takes longer");
                assert!(is_loss(&error), "{error}");
            });
        }
        let pending = submit().expect("the device is not lost yet");
        scope.spawn(move || {
            let error = block_on(pending).expect_err("fib(40) takes longer");
            assert!(is_loss(&error), "{error}");
        });
    });
    let later = submit().expect_err("nothing runs any more");
    assert!(is_loss(&later), "{later}");
    assert!(probe.marks.read().is_err(), "its memory is lost");
    // The engine's end waits for nothing.
}

//! The service's engine on a GPU from end to end: many clients at once, and clients and engines that are killed. Without
//! a GPU every case is reported as ignored.

#![cfg(target_os = "linux")]

mod cases;
#[path = "../service/client.rs"]
mod client;
#[path = "../service/sandbox.rs"]
#[allow(dead_code, reason = "the tests of the CPU engine use all of it")]
mod sandbox;

use everwarp::{Device, Select};
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Trial};

fn main() {
    let device = Device::open(Select::Cuda);
    let gpu = needs_gpu(&device);
    let trials = cases::ALL.iter().map(|&(name, case)| {
        let run = move || {
            case();
            Ok(())
        };
        gpu.trial(Trial::test(name, run))
    });
    let args = Arguments {
        // Each case has a service with an engine of its own, and looks at the memory that is left.
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&args, trials.collect()).exit()
}

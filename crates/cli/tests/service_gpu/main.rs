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
use everwarp_testkit::run_on_gpu;

fn main() {
    // Each case has a service with an engine of its own, and looks at the memory that is left.
    run_on_gpu(&Device::open(Select::Cuda), cases::ALL)
}

//! How long a call takes from a mock device to the host and back: `latency [CALLS]`, 5,000 of each kind unless given.
//!
//! `NOP` is served by the thread that reads the ring, `FD_FDSTAT_GET` by a worker. Every answer is checked.

#[path = "../tests/wasi/device.rs"]
#[allow(dead_code, reason = "tests do more with it")]
mod device;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use device::{Ask, Device};
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Config, HostInput, HostOutput, Server, ServerConfig, Service, Streams};
use everwarp_process::Pid;

fn main() -> io::Result<()> {
    let calls = std::env::args()
        .nth(1)
        .map_or(Ok(5000), |calls| calls.parse());
    let calls: usize = calls.map_err(io::Error::other)?;
    let streams = Streams::new(
        HostInput::new(io::empty(), false),
        HostOutput::new(io::sink(), false),
        HostOutput::new(io::sink(), false),
    );
    let service = Arc::new(Service::new(1, streams, Arc::new(()))?);
    let opened = service.open(Pid::new(0, 1), Config::default());
    opened.map_err(io::Error::other)?;
    let device = Device::new(16, 16);
    let server = Server::start(device.ring(), &service, ServerConfig::default())?;
    for (name, call) in [
        ("NOP", number::NOP),
        ("FD_FDSTAT_GET", number::FD_FDSTAT_GET),
    ] {
        let mut times: Vec<_> = (0..calls.max(1))
            .map(|_| {
                let begin = Instant::now();
                let reply = device.ask(&Ask {
                    process: 0,
                    generation: 1,
                    call,
                    data_bytes: 0,
                    args: [0; 6],
                    payload: &[],
                });
                assert_eq!(reply.errno, 0, "{name}");
                begin.elapsed()
            })
            .collect();
        times.sort();
        let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{name}: median {median:?}, 99th percentile {slow:?}");
    }
    drop(server);
    Ok(())
}

//! Many processes at once.

use std::time::Instant;

use everwarp_guest::{Config, Host, Output, Reason};
use libtest_mimic::Failed;

use super::{config, normal, number, run, wait};

/// As many processes wait as there are places; another one's work goes on beside them.
pub(super) fn waits_hold_no_lane(host: &Host) -> Result<(), Failed> {
    let sleep = number("sleep");
    let pids = host.spawn_many(sleep, &config(&[]), host.places(sleep) as usize)?;
    for _ in 0..10 {
        normal(&run(host, "facts", &config(&[]))?, 0)?;
    }
    for pid in &pids {
        host.kill(*pid)?;
    }
    for pid in pids {
        wait(host, pid)?;
    }
    Ok(())
}

/// Every process's memory is zero at first and stays its own, whatever a hostile one beside it tries.
pub(super) fn neighbours(host: &Host) -> Result<(), Failed> {
    let module = number("neighbour");
    for _ in 0..3 {
        let good = host.spawn_many(module, &config(&["good"]), 500)?;
        let hostile = host.spawn_many(module, &config(&["hostile"]), 50)?;
        let more = host.spawn_many(module, &config(&["good"]), 500)?;
        for pid in hostile {
            match wait(host, pid)?.reason {
                Reason::Trap { sentence, .. }
                    if sentence.starts_with("out of bounds memory access") => {}
                other => return Err(format!("a hostile process ended by {other:?}").into()),
            }
        }
        for pid in good.into_iter().chain(more) {
            normal(&wait(host, pid)?, 0)?;
        }
    }
    Ok(())
}

pub(super) fn a_hundred_thousand(host: &Host) -> Result<(), Failed> {
    let config = Config {
        stdout: Output::Lines {
            tag: true,
            to_stderr: false,
        },
        ..config(&[])
    };
    for pid in host.spawn_many(number("sum"), &config, 100_000)? {
        normal(&wait(host, pid)?, 0)?;
    }
    Ok(())
}

/// Calls of the host by one process and by thousands at once; says how long they took.
pub(super) fn many_callers(host: &Host) -> Result<(), Failed> {
    let module = number("calls");
    for count in [1, 31, 64, 4000] {
        let begin = Instant::now();
        let mut worst = 0;
        for pid in host.spawn_many(module, &config(&[]), count)? {
            let exit = wait(host, pid)?;
            normal(&exit, 0)?;
            let bytes = exit.stdout.expect("it was captured").bytes;
            let took = u64::from_le_bytes(bytes.as_slice().try_into()?);
            worst = worst.max(took / 1000);
        }
        let rate = count as f64 * 1000.0 / begin.elapsed().as_secs_f64();
        eprintln!(
            "{count} processes with 1,000 calls each: {rate:.0} calls/s, up to {worst} ns a call"
        );
    }
    Ok(())
}

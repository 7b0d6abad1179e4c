//! Ctrl-C: the processes end, and the command reports how far they came. Ctrl-Z: the command stops, and so does the
//! output of its processes in a service.
//!
//! With `--events` a process may ask for signals. Those that it has asked for go to it and do nothing else; whatever ends or
//! stops the command gives the terminal back first.

use std::sync::Arc;

use everwarp::process::Events;
use signal_hook::consts::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::job::Job;
use crate::error::CliError;
use crate::exit_code;

/// Listens for signals on a thread of its own.
///
/// The first signal ends the processes, or the command if there are none yet. The second one ends the command in any
/// case, for processes that do not end. With an engine of its own, Ctrl-Z stops the command and its processes without
/// being listened for.
pub(super) fn listen(job: &Arc<Job>, in_service: bool) -> Result<(), CliError> {
    let mut all = vec![SIGINT, SIGTERM];
    if in_service || job.events().is_some() {
        all.push(SIGTSTP);
    }
    if job.events().is_some() {
        all.extend([SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH]);
    }
    let mut signals = Signals::new(all).map_err(CliError::Signals)?;
    let job = job.clone();
    let listen = move || {
        for signal in signals.forever() {
            match job.events() {
                Some(events) if events.signal(signal) => {}
                Some(events) if ![SIGINT, SIGTERM].contains(&signal) => by_default(events, signal),
                _ if signal == SIGTSTP => stop(&job),
                _ => handle(&job, signal),
            }
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(listen).map(drop).map_err(CliError::Signals)
}

/// Does what a signal does to a program that does not listen for it. The terminal has its own settings meanwhile.
fn by_default(events: &Events, signal: i32) {
    if signal == SIGCONT {
        return;
    }
    events.suspend();
    // After Ctrl-Z it returns when the command is continued. If the system refuses, the command goes on.
    drop(emulate_default_handler(signal));
    events.resume();
}

/// Stops this command until it is continued. Meanwhile its processes in the service write nothing.
fn stop(job: &Job) {
    // If the service has ended, the threads that wait report it.
    drop(job.with_host(|host| host.hold_output(true)));
    // It returns when the command is continued. If the system refuses, the command goes on.
    drop(emulate_default_handler(SIGTSTP));
    drop(job.with_host(|host| host.hold_output(false)));
}

fn handle(job: &Job, signal: i32) {
    let first = job.note(signal);
    let ended = job.with_host(|host| {
        if first {
            let name = exit_code::signal_name(signal);
            if let Some(gate) = job.gate() {
                let left = gate.drain();
                eprintln!("everwarp: {name}: no further connections; {left} are still served");
                return;
            }
            eprintln!("everwarp: {name}: the processes end");
            // If the engine has failed, the threads that wait report it.
            drop(host.kill_all());
        }
    });
    if !first || ended.is_none() {
        job.events().into_iter().for_each(|events| events.suspend());
        std::process::exit(exit_code::of_signal(signal).into());
    }
}

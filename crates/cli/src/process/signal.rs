//! Ctrl-C: the processes end, and the command says what became of them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::engine::Processes;
use crate::error::CliError;

/// What a signal ends, and whether one came.
#[derive(Default)]
pub(super) struct Ending {
    signal: AtomicI32,
    /// What runs, as soon as anything does.
    processes: Mutex<Option<Arc<dyn Processes>>>,
}

impl Ending {
    /// Listens for signals on a thread of its own.
    ///
    /// The first one ends the processes; until there are any it ends the command, as does the second one, for those
    /// that do not end.
    pub(super) fn listen() -> Result<Arc<Self>, CliError> {
        let ending = Arc::new(Self::default());
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::Signals)?;
        let of_thread = ending.clone();
        let listen = move || {
            for signal in signals.forever() {
                of_thread.hear(signal);
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen)
            .map_err(CliError::Signals)?;
        Ok(ending)
    }

    fn hear(&self, signal: i32) {
        let first = self.signal.swap(signal, Ordering::AcqRel) == 0;
        let processes = self.processes.lock();
        match &*processes.unwrap_or_else(PoisonError::into_inner) {
            Some(processes) if first => {
                eprintln!("everwarp: {}: the processes end", name(signal));
                processes.kill_all();
            }
            _ => std::process::exit(code(signal).into()),
        }
    }

    /// From here on a signal ends these.
    pub(super) fn ends(&self, processes: Arc<dyn Processes>) {
        let mut there = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *there = Some(processes);
    }

    /// The signal that came, if one did.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Lets go of what runs, which can end then.
    pub(super) fn forget(&self) {
        let mut there = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *there = None;
    }
}

/// A signal's name.
pub(crate) fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        _ => "SIGTERM",
    }
}

/// The exit code of a command that a signal ended.
pub(crate) fn code(signal: i32) -> u8 {
    128 + signal as u8
}

//! What one command runs, as signals and other commands reach it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use everwarp_process::Pid;

use super::engine::Processes;
use crate::control::{self, Answer, Request};

/// The processes of a command, from before they are there until they have ended.
pub(super) struct Job {
    module: String,
    begin: Instant,
    /// The signal that came, or 0.
    signal: AtomicI32,
    processes: RwLock<Option<Arc<dyn Processes>>>,
    /// Those that the command was asked for, with their numbers.
    instances: Mutex<Vec<(Pid, u32)>>,
}

impl Job {
    pub(super) fn new(module: &str) -> Self {
        Self {
            module: module.to_owned(),
            begin: Instant::now(),
            signal: AtomicI32::new(0),
            processes: RwLock::default(),
            instances: Mutex::default(),
        }
    }

    /// From here on these are what is meant.
    pub(super) fn begins(&self, processes: Arc<dyn Processes>) {
        *self
            .processes
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(processes);
    }

    /// All have ended, and their host may.
    pub(super) fn is_over(&self) {
        *self
            .processes
            .write()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Calls with what runs, which lives on meanwhile; nothing if nothing does.
    pub(super) fn with<T>(&self, act: impl FnOnce(&dyn Processes) -> T) -> Option<T> {
        let processes = self
            .processes
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        processes.as_deref().map(act)
    }

    fn instances(&self) -> MutexGuard<'_, Vec<(Pid, u32)>> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the processes that were asked for, from this number on.
    pub(super) fn name(&self, pids: &[Pid], from: u32) {
        self.instances().extend(pids.iter().copied().zip(from..));
    }

    /// Notes a signal; whether it is the first.
    pub(super) fn note(&self, signal: i32) -> bool {
        self.signal.swap(signal, Ordering::AcqRel) == 0
    }

    /// The signal that came, if one did.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Answers another command.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        let answered = self.with(|processes| match request {
            Request::List { most } => self.list(processes, *most).map(Answer::Listing),
            Request::Kill { pid } => {
                let pid: Pid = pid
                    .parse()
                    .map_err(|e: everwarp_process::ParsePidError| e.to_string())?;
                let found = processes.kill(pid)?;
                Ok(if found {
                    Answer::Asked
                } else {
                    Answer::NoProcess
                })
            }
        });
        let nothing = || match request {
            Request::List { .. } => Ok(Answer::Listing(self.engine("starting or ending"))),
            Request::Kill { .. } => Ok(Answer::NoProcess),
        };
        let answered: Result<_, String> = answered.unwrap_or_else(nothing);
        answered.unwrap_or_else(|reason| Answer::Refused { reason })
    }

    /// This engine without any processes.
    fn engine(&self, engine: &str) -> control::Engine {
        control::Engine {
            os_pid: std::process::id(),
            engine: engine.to_owned(),
            module: self.module.clone(),
            age_s: self.begin.elapsed().as_secs_f64(),
            waiting: 0,
            running: 0,
            ended: 0,
            left_out: 0,
            processes: Vec::new(),
        }
    }

    fn list(&self, processes: &dyn Processes, most: u32) -> Result<control::Engine, String> {
        let listing = processes.list(most as usize)?;
        let instances: HashMap<Pid, u32> = self.instances().iter().copied().collect();
        let row = |status: &everwarp_process::ProcessSnapshot| control::Process {
            pid: status.pid.to_string(),
            instance: instances.get(&status.pid).copied(),
            parent: status.parent.map(|parent| parent.to_string()),
            state: status.stage.to_string(),
            fuel_used: status.fuel_used,
            memory_bytes: status.memory_bytes,
        };
        Ok(control::Engine {
            waiting: listing.waiting,
            running: listing.running,
            ended: listing.ended,
            left_out: listing.total() - listing.rows.len(),
            processes: listing.rows.iter().map(row).collect(),
            ..self.engine(processes.engine())
        })
    }
}

//! `ew_processes`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use everwarp::process::{Command, Exit, Host, HostError, Pid};

use crate::engine::Engine;
use crate::exits::Exits;
use crate::module::Module;
use crate::objects::{borrow, free, give};
use crate::options::{Granted, Options};
use crate::status::{Failure, Status, guard};

/// Processes that were started together, and the exits that have been collected.
#[derive(Debug)]
pub struct Processes {
    host: Host,
    pids: Vec<Pid>,
    collected: Mutex<Vec<Exit>>,
}

impl Processes {
    fn start(
        engine: &Engine,
        module: &Module,
        instances: u32,
        mut granted: Granted,
    ) -> Result<Self, Failure> {
        if instances == 0 {
            return Err(Failure::argument("instances must be at least 1"));
        }
        let (host, module) = engine.load(&module.0, granted.memory, granted.fuel.is_some())?;
        let mut command = Command::new(&host, &module);
        granted.grant(&mut command);
        let children =
            command.spawn_each(instances, |number, start| granted.write(number, start))?;
        Ok(Self {
            pids: children.pids().to_vec(),
            host,
            collected: Mutex::default(),
        })
    }

    /// Collects exits until all are there or the time is over.
    fn wait(&self, timeout: Option<Duration>) -> Result<Exits, Failure> {
        let begin = Instant::now();
        let mut collected = self
            .collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for pid in &self.pids[collected.len()..] {
            let exit = match timeout {
                None => self.host.wait(*pid),
                Some(timeout) => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    self.host.wait_timeout(*pid, left)
                }
            };
            match exit {
                Err(HostError::Timeout { .. }) => return Err(Failure::timeout()),
                exit => collected.push(exit?),
            }
        }
        Ok(Exits(std::mem::take(&mut collected)))
    }

    fn kill(&self) -> Result<(), Failure> {
        for pid in &self.pids {
            self.host.kill(*pid)?;
        }
        Ok(())
    }
}

/// Starts processes whose result belongs at `place`.
///
/// # Safety
/// - As for [`ew_start`]; `place` is only compared with null.
unsafe fn start<T>(
    engine: *mut Engine,
    module: *const Module,
    instances: u32,
    options: *const Options,
    place: *mut *mut T,
) -> Result<Processes, Failure> {
    // SAFETY: the caller vouches for all of them.
    let (engine, module, granted) = unsafe {
        (
            borrow(engine, "engine")?,
            borrow(module, "module")?,
            Granted::copy(options)?,
        )
    };
    if place.is_null() {
        return Err(Failure::null("the place for the result"));
    }
    Processes::start(engine, module, instances, granted)
}

/// Starts processes.
///
/// # Safety
/// - The objects are null or alive; `options` is null or as the header says; `processes` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_start(
    engine: *mut Engine,
    module: *const Module,
    instances: u32,
    options: *const Options,
    processes: *mut *mut Processes,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let started = unsafe { start(engine, module, instances, options, processes) }?;
        // SAFETY: the caller vouches for it.
        unsafe { give(started, processes) }
    })
}

/// Waits for processes.
///
/// # Safety
/// - `processes` is null or alive; `exits` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_processes_wait(
    processes: *mut Processes,
    timeout_ms: i64,
    exits: *mut *mut Exits,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let processes = unsafe { borrow(processes, "processes") }?;
        if exits.is_null() {
            return Err(Failure::null("the place for the result"));
        }
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let ended = processes.wait(timeout)?;
        // SAFETY: the caller vouches for it.
        unsafe { give(ended, exits) }
    })
}

/// Asks processes to end.
///
/// # Safety
/// - `processes` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_processes_kill(processes: *mut Processes) -> Status {
    // SAFETY: the caller vouches for it.
    guard(|| unsafe { borrow(processes, "processes") }?.kill())
}

/// Frees the handle of processes.
///
/// # Safety
/// - `processes` is null or alive, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_processes_free(processes: *mut Processes) {
    // SAFETY: the caller vouches for it.
    unsafe { free(processes) }
}

/// Starts processes and waits for all of them.
///
/// # Safety
/// - As for [`ew_start`] and [`ew_processes_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(
    engine: *mut Engine,
    module: *const Module,
    instances: u32,
    options: *const Options,
    exits: *mut *mut Exits,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let started = unsafe { start(engine, module, instances, options, exits) }?;
        let ended = started.wait(None)?;
        // SAFETY: the caller vouches for it.
        unsafe { give(ended, exits) }
    })
}

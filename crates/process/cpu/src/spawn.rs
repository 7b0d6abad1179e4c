//! Starting many processes: several threads queue them in parts.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use everwarp_process::sync::on_threads;
use everwarp_process::{HostError, SpawnError, SpawnRequest};

use crate::channel::ChannelSide;
use crate::engines::Metering;
use crate::family::{HostAccess, ModuleIndex};
use crate::grants::{CheckedGrants, StartValues};
use crate::lock::lock;
use crate::modules::ModuleSet;
use crate::process::QueuedWork;
use crate::program::Program;
use crate::run::ProcessWork;
use crate::scheduler::Scheduler;

/// Worker threads for each thread that queues processes: queueing a process takes a tenth of the time of a short one.
const WORKERS_PER_SPAWNER: usize = 4;
const SPAWNERS_MOST: usize = 8;
/// Processes that one thread queues together: at least as many as are worth a thread, and at most as many as may pass
/// before the caller can break off.
const PART_LEAST: u32 = 256;
const PART_MOST: u32 = 1024;

/// A call of `spawn` that is being carried out.
struct SpawnCall<'c> {
    request: &'c SpawnRequest<'c>,
    scheduler: &'c Scheduler,
    program: Arc<Program>,
    grants: Arc<CheckedGrants>,
    ends: Vec<ChannelSide>,
    host: HostAccess,
    part: u32,
    /// The number of the next part.
    next: AtomicU32,
    /// The caller has broken off, or a part has failed.
    stopped: AtomicBool,
    /// The first error.
    error: Mutex<Option<SpawnError>>,
}

impl SpawnCall<'_> {
    fn work(&self, number: u32) -> Result<Box<dyn QueuedWork>, SpawnError> {
        let mut values = StartValues::default();
        (self.request.write)(number, &mut values);
        values.check()?;
        Ok(Box::new(ProcessWork {
            program: Arc::clone(&self.program),
            grants: Arc::clone(&self.grants),
            values,
            ends: self.ends.clone(),
            instance: number,
            host: self.host.clone(),
            inheritance: None,
        }))
    }

    /// Queues the processes with these numbers, all of them or none.
    fn spawn_part(&self, numbers: Range<u32>) -> Result<(), SpawnError> {
        let first = numbers.start;
        let works = numbers
            .map(|number| self.work(number))
            .collect::<Result<Vec<_>, _>>()?;
        let pids = self
            .scheduler
            .spawn_all(works.into_iter())
            .ok_or(SpawnError::Full)?;
        if (self.request.started)(first, &pids).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Queues parts until none is left.
    fn spawn_parts(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            let part = u64::from(self.next.fetch_add(1, Ordering::Relaxed));
            let count = self.request.count;
            let Ok(begin) = u32::try_from(part * u64::from(self.part)) else {
                return;
            };
            if begin >= count {
                return;
            }
            let end = begin.saturating_add(self.part).min(count);
            if let Err(error) = self.spawn_part(begin..end) {
                lock(&self.error).get_or_insert(error);
                self.stopped.store(true, Ordering::Relaxed);
            }
        }
    }

    fn run(self, spawners: usize) -> Result<(), SpawnError> {
        on_threads(spawners, || self.spawn_parts());
        match lock(&self.error).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Queues the processes of a request for a host with `workers` worker threads.
pub(crate) fn spawn(
    request: &SpawnRequest<'_>,
    modules: &ModuleSet,
    scheduler: &Scheduler,
    workers: usize,
) -> Result<(), SpawnError> {
    let module = request.module;
    let program = modules.get(ModuleIndex(module.0));
    let program = program.ok_or(SpawnError::UnknownModule(module))?;
    let host = modules.host().clone();
    let (grants, ends) = CheckedGrants::check(request.grants, host.id)?;
    program.expect(request.count);
    let compiled = program.code(Metering::of(grants.fuel));
    compiled.map_err(|error| HostError::Engine {
        reason: error.to_string(),
    })?;
    let spawners = (workers / WORKERS_PER_SPAWNER).clamp(1, SPAWNERS_MOST);
    let part = request
        .count
        .div_ceil(spawners as u32)
        .clamp(PART_LEAST, PART_MOST);
    let call = SpawnCall {
        request,
        scheduler,
        program,
        grants: Arc::new(grants),
        ends,
        host,
        part,
        next: AtomicU32::new(0),
        stopped: AtomicBool::new(false),
        error: Mutex::default(),
    };
    call.run(spawners.min(request.count.div_ceil(part) as usize))
}

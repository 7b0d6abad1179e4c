//! Starting processes: what each is given, on the device and on the host.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use everwarp_hostcalls::{Config as ServedConfig, GivenConnection, ServedDirectory};
use everwarp_process::{
    ChannelEnd, Grants, Input, ModuleId, Output, Pid, SpawnError, SpawnRequest, StartWriter,
};
use everwarp_runtime::Buffer;
use everwarp_telemetry::clock;

use crate::channel::HostEnd;
use crate::directory::DirectoryCache;
use crate::error::refused;
use crate::host_core::{HostCore, HostedModule};
use crate::layout::family::HANDLES;
use crate::layout::process::{PROCESS_COLLECTS, PROCESS_GIVEN, PROCESS_INPUT, PROCESS_TALKS};
use crate::process::{GroupMemory, Phase, ProcessGroup, QueuedProcess};
use crate::strings::{ProcessStrings, StringsBuffer};

/// The processes of a group: see [`ProcessGroup`].
const SHARING: usize = 128;
/// The processes that one thread writes for at a time: the fewer, the sooner the last thread is done. 100,000 processes
/// that validate a document each took 17 ms on an H200, and 20 ms with twice as many at a time.
const PART: u32 = 1 << 11;
/// The most threads that write for many processes. They are half of the machine's cores, because other threads serve the
/// processes that run.
const SPAWNERS: usize = 8;
/// The descriptors that a process may have if its grants do not say: as many as Linux allows by default.
const DESCRIPTORS: u32 = 1024;

/// How many threads write for many processes.
fn spawners() -> usize {
    let cores = std::thread::available_parallelism().map_or(SPAWNERS, NonZeroUsize::get);
    (cores / 2).clamp(1, SPAWNERS)
}

/// Starts processes. Several threads write what many processes are given, and the first processes run while the last are
/// written for. Parts are reported as soon as they have been started, in any order.
pub(crate) fn spawn(
    core: &HostCore,
    directories: &DirectoryCache,
    request: &SpawnRequest<'_>,
) -> Result<(), SpawnError> {
    let batch = SpawnBatch::new(core, directories, request)?;
    let parts = request.count.div_ceil(PART);
    let next = AtomicU32::new(0);
    let start = || {
        let mut buffer = StringsBuffer::default();
        loop {
            let part = next.fetch_add(1, Relaxed);
            if part >= parts {
                return Ok(());
            }
            let numbers = part * PART..request.count.min((part + 1).saturating_mul(PART));
            let first = numbers.start;
            match batch.start(numbers, &mut buffer, request.write) {
                Ok(pids) => {
                    if (request.started)(first, &pids) == ControlFlow::Break(()) {
                        next.store(parts, Relaxed);
                        return Ok(());
                    }
                }
                Err(e) => {
                    next.store(parts, Relaxed);
                    return Err(e);
                }
            }
        }
    };
    let threads = (parts as usize).clamp(1, spawners());
    if parts <= 1 {
        return start();
    }
    core.queues.announce(batch.module, request.count as usize);
    let result = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(start)).collect();
        let own = start();
        let joined = others.into_iter().map(|other| other.join());
        let joined = joined.map(|other| other.unwrap_or_else(|e| resume_unwind(e)));
        joined.fold(own, Result::and)
    });
    core.queues.announce(batch.module, 0);
    result
}

/// The properties that the processes of one request have in common.
struct SpawnBatch<'a> {
    core: &'a HostCore,
    module: ModuleId,
    grants: &'a Grants,
    fuel: i64,
    directories: Vec<ServedDirectory>,
    ends: Vec<HostEnd>,
    /// The ends as the device reads them, in front of the arguments of each process, the first one last.
    front: Vec<u8>,
    /// The flags that do not depend on the process.
    flags: u32,
    /// Whether the module's memory is shared by threads.
    threads: bool,
    /// Whether output is tagged with the process's pid.
    tagged: bool,
}

impl<'a> SpawnBatch<'a> {
    fn new(
        core: &'a HostCore,
        directories: &DirectoryCache,
        request: &SpawnRequest<'a>,
    ) -> Result<Self, SpawnError> {
        let (module, grants) = (request.module, request.grants);
        let hosted = core.modules.get(module.0 as usize);
        let hosted = hosted.ok_or(SpawnError::UnknownModule(module))?;
        let ends = ends(core, hosted, &grants.ends)?;
        let front = ends.iter().rev().map(HostEnd::entry);
        let front = front.flat_map(u32::to_le_bytes).collect();
        let tagged = |output| matches!(output, Output::Lines { tag: true, .. });
        let threads = hosted.module.threads.is_some();
        Ok(Self {
            core,
            module,
            grants,
            fuel: fuel(grants)?,
            directories: directories.served(&grants.directories)?,
            ends,
            front,
            flags: match (threads, grants.stdout) {
                // The host orders what several threads write and read.
                (true, _) => 0,
                // A reader of the host's stream gets output as soon as it is written.
                (false, Output::Inherit) => PROCESS_GIVEN,
                (false, _) => PROCESS_GIVEN | PROCESS_COLLECTS,
            },
            threads,
            tagged: tagged(grants.stdout) || tagged(grants.stderr),
        })
    }

    /// Starts the processes with these numbers, and returns their pids in order.
    fn start(
        &self,
        numbers: Range<u32>,
        buffer: &mut StringsBuffer,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
    ) -> Result<Vec<Pid>, SpawnError> {
        let (each, strings) = self.write(numbers.clone(), buffer, write)?;
        let pids = self.core.table.reserve(each.len());
        let groups = self.groups(&pids, &each, &Arc::new(strings));
        self.queue(&pids, &each, &groups, numbers);
        // Where many threads spawn, each starts some of the processes.
        if let Some((batch, wave)) = self.core.queues.add_waiting(self.module, &pids) {
            self.core.begin(self.module, &batch, wave);
        }
        Ok(pids)
    }

    /// Writes what each process has of its own, and copies it to the device, all at once; equal neighbours share.
    fn write(
        &self,
        numbers: Range<u32>,
        buffer: &mut StringsBuffer,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
    ) -> Result<(Vec<ProcessStrings>, Buffer<u8>), SpawnError> {
        buffer.clear();
        buffer.set_directories(self.directories.iter().map(ServedDirectory::guest));
        let mut each = Vec::with_capacity(numbers.len());
        for number in numbers {
            each.push(buffer.add(&self.front, |writer| write(number, writer))?);
        }
        let bytes = buffer.finish();
        // Device code reads the whole words that hold what it reads.
        let strings = self.core.engine.buffer_uncleared(bytes + 16);
        let strings = strings.map_err(refused)?;
        strings.write_pieces(0, buffer.pieces()).map_err(refused)?;
        Ok((each, strings))
    }

    /// Makes the groups that share what processes have in common.
    fn groups(
        &self,
        pids: &[Pid],
        each: &[ProcessStrings],
        strings: &Arc<Buffer<u8>>,
    ) -> Vec<Arc<ProcessGroup>> {
        let ends: Arc<[HostEnd]> = self.ends.as_slice().into();
        let own = |(pid, own): (&Pid, &ProcessStrings)| everwarp_hostcalls::Own {
            // Only tags contain the name.
            name: self.tagged.then(|| pid.to_string()),
            stdin: own.stdin.clone().map(Input::Bytes),
            connection: GivenConnection::new(own.connection.clone()),
        };
        let group = |(pids, each): (&[Pid], &[ProcessStrings])| {
            let given = |own: &ProcessStrings| own.stdin.is_some() || own.connection.is_some();
            let differ = self.tagged || each.iter().any(given);
            let own = pids
                .iter()
                .zip(each)
                .map(own)
                .take(if differ { SHARING } else { 0 });
            Arc::new(ProcessGroup {
                memory: Arc::new(GroupMemory {
                    strings: Arc::clone(strings),
                    fuel: self.fuel,
                }),
                ends: Arc::clone(&ends),
                served: Arc::new(self.served(own.collect())),
            })
        };
        pids.chunks(SHARING)
            .zip(each.chunks(SHARING))
            .map(group)
            .collect()
    }

    /// The configuration of a group in the service of host calls.
    fn served(&self, own: Vec<everwarp_hostcalls::Own>) -> ServedConfig {
        let listeners = self.grants.listeners.len();
        let events = usize::from(self.grants.events.is_some());
        let standard_and_given = 3 + (self.directories.len() + listeners + events) as u32;
        ServedConfig {
            name: String::new(),
            directories: self.directories.clone(),
            listeners: self.grants.listeners.clone(),
            launcher: self.grants.launcher.clone(),
            network: self.grants.network.clone(),
            events: self.grants.events.clone(),
            stdin: self.grants.stdin.clone(),
            stdout: self.grants.stdout,
            stderr: self.grants.stderr,
            handles: self
                .grants
                .handles
                .unwrap_or(DESCRIPTORS)
                .max(standard_and_given),
            own,
        }
    }

    /// Records in the table that the processes wait for places.
    fn queue(
        &self,
        pids: &[Pid],
        each: &[ProcessStrings],
        groups: &[Arc<ProcessGroup>],
        numbers: Range<u32>,
    ) {
        let queued = self.core.service.times().map_or(0, |_| clock::now());
        let mut cursor = self.core.table.cursor();
        for (at, ((pid, own), instance)) in pids.iter().zip(each).zip(numbers).enumerate() {
            let phase = cursor.reserved(*pid).expect("it was reserved just now");
            *phase = Phase::Queued(QueuedProcess {
                group: Arc::clone(&groups[at / SHARING]),
                number: (at % SHARING) as u32,
                strings_at: own.begin,
                flags: match self.threads {
                    true => self.flags,
                    // The host moves the bytes of a connection.
                    false if own.connection.is_some() => self.flags & !PROCESS_COLLECTS,
                    false => self.flags | input_flags(&self.grants.stdin, own.stdin.is_some()),
                },
                instance,
                module: self.module,
                queued,
            });
        }
    }
}

fn fuel(grants: &Grants) -> Result<i64, SpawnError> {
    let fuel = grants.fuel.unwrap_or(i64::MAX as u64);
    match i64::try_from(fuel) {
        Ok(fuel) if fuel > 0 => Ok(fuel),
        _ => Err(SpawnError::Fuel { fuel }),
    }
}

/// The ends of channels that processes of a module are given, if they may have as many.
fn ends(
    core: &HostCore,
    hosted: &HostedModule,
    ends: &[ChannelEnd],
) -> Result<Vec<HostEnd>, SpawnError> {
    let most = match hosted.places.meets_others() {
        true => HANDLES as usize,
        false => 0,
    };
    if ends.len() > most {
        let ends = ends.len();
        return Err(SpawnError::Ends { ends, most });
    }
    ends.iter()
        .map(|end| HostEnd::of(end, &core.family))
        .collect()
}

/// The flags that say where a process reads its standard input. The device reads an input that the process was given, and
/// an empty one.
fn input_flags(stdin: &Input, has_own: bool) -> u32 {
    match stdin {
        _ if has_own => PROCESS_INPUT,
        Input::Empty => PROCESS_INPUT,
        Input::Bytes(_) => 0,
        Input::Inherit => PROCESS_TALKS,
    }
}

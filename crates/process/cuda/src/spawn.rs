//! Starting processes: what each is given, on the device and on the host.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use everwarp_hostcalls::{Config as ServedConfig, Directory as ServedDirectory};
use everwarp_process::{
    ChannelEnd, Grants, Input, Output, Pid, SpawnError, SpawnRequest, StartWriter,
};
use everwarp_runtime::Buffer;

use crate::channel::HostEnd;
use crate::directory::DirectoryCache;
use crate::dispatch::Shared;
use crate::error::refused;
use crate::kin::HANDLES;
use crate::layout::{PROCESS_COLLECTS, PROCESS_GIVEN, PROCESS_INPUT, PROCESS_TALKS};
use crate::state::{Group, Held, Job, Phase};
use crate::strings::{All, Own};

/// Processes that share what they have in common: see [`Group`].
const SHARING: usize = 128;
/// Of many processes, those that one thread writes for at a time: the fewer, the sooner the last thread is done.
/// 100,000 that validate a document each took 17 ms on an H200, and 20 with twice as many at a time.
const PART: u32 = 1 << 11;
/// Threads that write for many processes, at most; otherwise half of the machine's cores, because other threads serve
/// the processes that run.
const SPAWNERS: usize = 8;
/// Descriptors that a process may have at a time where its grants do not say: as many as Linux allows by default.
const DESCRIPTORS: u32 = 1024;

/// How many threads write for many processes.
fn spawners() -> usize {
    let cores = std::thread::available_parallelism().map_or(SPAWNERS, NonZeroUsize::get);
    (cores / 2).clamp(1, SPAWNERS)
}

/// Starts processes. Several threads write what many processes are given, and the first processes run while the last are
/// written for. Parts are reported as soon as they have been started, in any order.
pub(crate) fn spawn(
    shared: &Arc<Shared>,
    directories: &DirectoryCache,
    request: &SpawnRequest<'_>,
) -> Result<(), SpawnError> {
    let batch = SpawnBatch::new(shared, directories, request)?;
    let parts = request.count.div_ceil(PART);
    let next = AtomicU32::new(0);
    let start = || {
        let mut all = All::default();
        loop {
            let part = next.fetch_add(1, Relaxed);
            if part >= parts {
                return Ok(());
            }
            let numbers = part * PART..request.count.min((part + 1).saturating_mul(PART));
            let first = numbers.start;
            match batch.start(numbers, &mut all, request.write) {
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
    if threads == 1 && parts <= 1 {
        return start();
    }
    shared.announce(batch.module, request.count as usize);
    let result = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(start)).collect();
        let own = start();
        let joined = others.into_iter().map(|other| other.join());
        let joined = joined.map(|other| other.unwrap_or_else(|e| resume_unwind(e)));
        joined.fold(own, Result::and)
    });
    shared.announce(batch.module, 0);
    result
}

impl Shared {
    /// Says how many processes are spawned together, or 0 when all have been. It decides how many a warp starts side by
    /// side.
    fn announce(&self, module: usize, count: usize) {
        if let Some(line) = self.state().lines.get_mut(module) {
            line.together = count;
        }
    }
}

/// What the processes of one request have in common.
struct SpawnBatch<'a> {
    shared: &'a Shared,
    module: usize,
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
        shared: &'a Arc<Shared>,
        directories: &DirectoryCache,
        request: &SpawnRequest<'a>,
    ) -> Result<Self, SpawnError> {
        let (module, grants) = (request.module.0 as usize, request.grants);
        let loaded = shared.modules.get(module);
        let loaded = loaded.ok_or(SpawnError::UnknownModule(request.module))?;
        let ends = ends(shared, module, &grants.ends)?;
        let front = ends.iter().rev().map(HostEnd::entry);
        let front = front.flat_map(u32::to_le_bytes).collect();
        let tagged = |output| matches!(output, Output::Lines { tag: true, .. });
        let threads = loaded.threads.is_some();
        Ok(Self {
            shared,
            module,
            grants,
            fuel: fuel(grants)?,
            directories: directories.served(&grants.directories)?,
            ends,
            front,
            flags: match (threads, grants.stdout) {
                // What several threads write and read passes through the host, in their order.
                (true, _) => 0,
                // A reader of the host's stream sees output as soon as it is written.
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
        all: &mut All,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
    ) -> Result<Vec<Pid>, SpawnError> {
        let (each, strings) = self.write(numbers.clone(), all, write)?;
        let pids = self.shared.table.reserve(each.len());
        let groups = self.groups(&pids, &each, &Arc::new(strings));
        self.queue(&pids, &each, &groups, numbers);
        let mut state = self.shared.state();
        let line = &mut state.lines[self.module];
        line.waiting.extend(&pids);
        self.shared.begin_some(state, self.module);
        Ok(pids)
    }

    /// Writes what each process has of its own, and copies it to the device, all at once; equal neighbours share.
    fn write(
        &self,
        numbers: Range<u32>,
        all: &mut All,
        write: &(dyn Fn(u32, &mut dyn StartWriter) + Sync),
    ) -> Result<(Vec<Own>, Buffer<u8>), SpawnError> {
        all.clear();
        all.directories(self.directories.iter().map(ServedDirectory::guest));
        let mut each = Vec::with_capacity(numbers.len());
        for number in numbers {
            each.push(all.add(&self.front, |writer| write(number, writer))?);
        }
        let bytes = all.finish();
        // Device code reads the whole words that hold what it reads.
        let buffer = self.shared.engine.buffer_uncleared(bytes + 16);
        let buffer = buffer.map_err(refused)?;
        let inputs = all.inputs.iter().map(|input| &input[..]);
        let pieces = std::iter::once(&all.bytes[..]).chain(inputs);
        buffer.write_pieces(0, pieces).map_err(refused)?;
        Ok((each, buffer))
    }

    /// Makes the groups that share what processes have in common.
    fn groups(&self, pids: &[Pid], each: &[Own], strings: &Arc<Buffer<u8>>) -> Vec<Arc<Group>> {
        let ends: Arc<[HostEnd]> = self.ends.as_slice().into();
        let own = |(pid, own): (&Pid, &Own)| everwarp_hostcalls::Own {
            // Only tags say the name.
            name: self.tagged.then(|| pid.to_string()),
            stdin: own.stdin.clone().map(Input::Bytes),
        };
        let group = |(pids, each): (&[Pid], &[Own])| {
            let differ = self.tagged || each.iter().any(|own| own.stdin.is_some());
            let own = pids
                .iter()
                .zip(each)
                .map(own)
                .take(if differ { SHARING } else { 0 });
            Arc::new(Group {
                held: Arc::new(Held {
                    strings: Arc::clone(strings),
                    fuel: self.fuel,
                }),
                ends: Arc::clone(&ends),
                wasi: Arc::new(self.served(own.collect())),
            })
        };
        pids.chunks(SHARING)
            .zip(each.chunks(SHARING))
            .map(group)
            .collect()
    }

    /// What the service of host calls knows of a group.
    fn served(&self, own: Vec<everwarp_hostcalls::Own>) -> ServedConfig {
        let standard_and_given = 3 + self.directories.len() as u32;
        ServedConfig {
            name: String::new(),
            directories: self.directories.clone(),
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

    /// Lets the table know that the processes wait for places.
    fn queue(&self, pids: &[Pid], each: &[Own], groups: &[Arc<Group>], numbers: Range<u32>) {
        let mut cursor = self.shared.table.cursor();
        for (at, ((pid, own), instance)) in pids.iter().zip(each).zip(numbers).enumerate() {
            let phase = cursor.reserved(*pid).expect("it was reserved just now");
            *phase = Phase::Queued(Job {
                group: Arc::clone(&groups[at / SHARING]),
                number: (at % SHARING) as u32,
                strings_at: own.begin,
                flags: match self.threads {
                    true => self.flags,
                    false => self.flags | input_flags(&self.grants.stdin, own.stdin.is_some()),
                },
                instance,
                module: self.module as u32,
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
    shared: &Arc<Shared>,
    module: usize,
    ends: &[ChannelEnd],
) -> Result<Vec<HostEnd>, SpawnError> {
    let most = match shared.places[module].meets_others() {
        true => HANDLES as usize,
        false => 0,
    };
    if ends.len() > most {
        let ends = ends.len();
        return Err(SpawnError::Ends { ends, most });
    }
    ends.iter().map(|end| HostEnd::of(end, shared)).collect()
}

/// The flags that say where a process reads its standard input: what it was given is read where it runs.
fn input_flags(stdin: &Input, has_own: bool) -> u32 {
    match stdin {
        _ if has_own => PROCESS_INPUT,
        Input::Empty => PROCESS_INPUT,
        Input::Bytes(_) => 0,
        Input::Inherit => PROCESS_TALKS,
    }
}

//! Starting processes: what each is given, on the device and on the host.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use everwarp_hostcalls::{Directory, Input, Output};
use everwarp_process::Pid;
use everwarp_runtime::Buffer;

use crate::channel::End;
use crate::config::{Config, Strings};
use crate::error::SpawnError;
use crate::host::Host;
use crate::kin::HANDLES;
use crate::layout::{PROCESS_COLLECTS, PROCESS_GIVEN, PROCESS_INPUT, PROCESS_TALKS};
use crate::state::{Group, Held, Job, Phase};
use crate::strings::{All, Own, Writer};

/// Processes that share what they have in common: see [`Group`].
const SHARING: usize = 128;
/// Of many processes, those that one thread writes for at a time: the fewer, the sooner the last thread is done.
/// 100,000 that validate a document each took 17 ms on an H200, and 20 with twice as many at a time.
const PART: u32 = 1 << 11;
/// Threads that write for many processes, at most; otherwise half of what the machine has, because others serve those
/// that run.
const SPAWNERS: usize = 8;

/// How many threads write for many processes.
fn spawners() -> usize {
    let cores = std::thread::available_parallelism().map_or(SPAWNERS, NonZeroUsize::get);
    (cores / 2).clamp(1, SPAWNERS)
}

impl Host {
    /// Copies what processes are given to the device, all at once; equal neighbours share.
    fn give(&self, all: &mut All) -> Result<Buffer<u8>, SpawnError> {
        let bytes = all.finish();
        // Device code reads the whole words that hold what it reads.
        let buffer = self.shared().engine.buffer_uncleared(bytes + 16)?;
        let inputs = all.inputs.iter().map(|input| &input[..]);
        buffer.write_pieces(0, std::iter::once(&all.bytes[..]).chain(inputs))?;
        Ok(buffer)
    }

    fn fuel(config: &Config) -> Result<i64, SpawnError> {
        let fuel = config.fuel.unwrap_or(i64::MAX as u64);
        match i64::try_from(fuel) {
            Ok(fuel) if fuel > 0 => Ok(fuel),
            _ => Err(SpawnError::Fuel { fuel }),
        }
    }

    /// Starts a process, as soon as there is a place for it.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn(&self, module: usize, config: &Config) -> Result<Pid, SpawnError> {
        let pids = self.spawn_many(module, config, 1)?;
        Ok(pids[0])
    }

    /// Starts `count` processes with the same configuration.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn_many(
        &self,
        module: usize,
        config: &Config,
        count: usize,
    ) -> Result<Vec<Pid>, SpawnError> {
        let count = u32::try_from(count).map_err(|_| SpawnError::TooMany)?;
        self.spawn_numbers(
            module,
            config,
            0..count,
            &mut All::default(),
            |_, writer| {
                writer.strings(&config.strings);
            },
        )
    }

    /// Starts a process for each of these arguments and environments, which stand in the place of the
    /// configuration's own.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing was started.
    pub fn spawn_each(
        &self,
        module: usize,
        config: &Config,
        each: impl Iterator<Item = Strings>,
    ) -> Result<Vec<Pid>, SpawnError> {
        let each: Vec<Strings> = each.collect();
        let count = u32::try_from(each.len()).map_err(|_| SpawnError::TooMany)?;
        self.spawn_numbers(
            module,
            config,
            0..count,
            &mut All::default(),
            |number, writer| {
                writer.strings(&each[number as usize]);
            },
        )
    }

    /// Starts `count` processes, each with the arguments and the environment that are written for its number, which
    /// stand in the place of the configuration's own. Several threads write at once, and the first processes run
    /// while the last are written for. Parts of them are handed over as soon as they are begun, in any order: the
    /// number of the first of a part, and their names.
    ///
    /// # Panics
    /// There is no module of that number.
    ///
    /// # Errors
    /// [`SpawnError`]; then some may have been started.
    pub fn spawn_all(
        &self,
        module: usize,
        config: &Config,
        count: u32,
        write: impl Fn(u32, &mut Writer<'_>) + Sync,
        begun: impl Fn(u32, Vec<Pid>) + Sync,
    ) -> Result<(), SpawnError> {
        let parts = count.div_ceil(PART);
        let next = AtomicU32::new(0);
        let begin = || {
            let mut all = All::default();
            loop {
                let part = next.fetch_add(1, Relaxed);
                if part >= parts {
                    return Ok(());
                }
                let numbers = part * PART..count.min((part + 1).saturating_mul(PART));
                let first = numbers.start;
                match self.spawn_numbers(module, config, numbers, &mut all, &write) {
                    Ok(pids) => begun(first, pids),
                    Err(e) => {
                        next.store(parts, Relaxed);
                        return Err(e);
                    }
                }
            }
        };
        self.announce(module, count as usize);
        let threads = (parts as usize).clamp(1, spawners());
        let all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(begin)).collect();
            let own = begin();
            let joined = others.into_iter().map(|other| other.join());
            let joined = joined.map(|other| other.unwrap_or_else(|e| resume_unwind(e)));
            joined.fold(own, Result::and)
        });
        self.announce(module, 0);
        all
    }

    /// Says how many are spawned together, or 0 when all have been. It decides how many a warp begins side by side.
    fn announce(&self, module: usize, count: usize) {
        if let Some(line) = self.shared().state().lines.get_mut(module) {
            line.together = count;
        }
    }

    /// Starts those that have these numbers.
    fn spawn_numbers(
        &self,
        module: usize,
        config: &Config,
        numbers: Range<u32>,
        all: &mut All,
        mut write: impl FnMut(u32, &mut Writer<'_>),
    ) -> Result<Vec<Pid>, SpawnError> {
        assert!(
            module < self.shared().modules.len(),
            "there is no module {module}"
        );
        let fuel = Self::fuel(config)?;
        let ends = config.ends.len();
        let most = match self.shared().places[module].meets_others() {
            true => HANDLES as usize,
            false => 0,
        };
        if ends > most {
            return Err(SpawnError::Ends { ends, most });
        }
        let ends: Arc<[End]> = config.ends.as_slice().into();
        // They stand in front of the rest, the first one last.
        let front: Vec<u8> = ends
            .iter()
            .rev()
            .map(End::entry)
            .flat_map(u32::to_le_bytes)
            .collect();
        all.clear();
        all.directories(config.directories.iter().map(Directory::guest));
        let mut each = Vec::with_capacity(numbers.len());
        for number in numbers.clone() {
            each.push(all.add(&front, |writer| write(number, writer))?);
        }
        let strings = Arc::new(self.give(all)?);
        // What several threads write and read passes through the host, in their order.
        let threads = self.shared().modules[module].threads.is_some();
        // What somebody reads while it is written goes out at once.
        let collects = match config.stdout {
            Output::Inherit => 0,
            _ => PROCESS_COLLECTS,
        };
        let tagged = |output| matches!(output, Output::Lines { tag: true, .. });
        // Only tags say the name.
        let named = tagged(config.stdout) || tagged(config.stderr);
        let pids = self.shared().table.reserve(each.len());
        let own = |(pid, own): (&Pid, &Own)| everwarp_hostcalls::Own {
            name: named.then(|| pid.to_string()),
            stdin: own.stdin.clone().map(Input::Bytes),
        };
        let group = |(pids, each): (&[Pid], &[Own])| {
            let differ = named || each.iter().any(|own| own.stdin.is_some());
            let own = pids
                .iter()
                .zip(each)
                .map(own)
                .take(if differ { SHARING } else { 0 });
            let wasi = everwarp_hostcalls::Config {
                name: String::new(),
                directories: config.directories.clone(),
                stdin: config.stdin.clone(),
                stdout: config.stdout,
                stderr: config.stderr,
                handles: config.handles.max(3 + config.directories.len() as u32),
                own: own.collect(),
            };
            Arc::new(Group {
                held: Arc::new(Held {
                    strings: Arc::clone(&strings),
                    fuel,
                }),
                ends: Arc::clone(&ends),
                wasi: Arc::new(wasi),
            })
        };
        let groups: Vec<_> = pids
            .chunks(SHARING)
            .zip(each.chunks(SHARING))
            .map(group)
            .collect();
        let mut cursor = self.shared().table.cursor();
        for (at, ((pid, own), instance)) in pids.iter().zip(&each).zip(numbers).enumerate() {
            let phase = cursor.reserved(*pid).expect("it was reserved just now");
            *phase = Phase::Queued(Job {
                group: Arc::clone(&groups[at / SHARING]),
                number: (at % SHARING) as u32,
                strings_at: own.begin,
                flags: match threads {
                    true => 0,
                    false => PROCESS_GIVEN | collects | reads(&config.stdin, own.stdin.is_some()),
                },
                instance,
                module: module as u32,
            });
        }
        drop(cursor);
        let mut state = self.shared().state();
        let line = &mut state.lines[module];
        line.waiting.extend(&pids);
        self.shared().begin_some(state, module);
        Ok(pids)
    }
}

/// The flags that say where a process reads its standard input: what it was given is read where it runs.
fn reads(stdin: &Input, has_own: bool) -> u32 {
    match stdin {
        _ if has_own => PROCESS_INPUT,
        Input::Empty => PROCESS_INPUT,
        Input::Bytes(_) => 0,
        Input::Inherit => PROCESS_TALKS,
    }
}

//! Starting processes: what each is given, on the device and on the host.

use std::sync::Arc;

use everwarp::Buffer;
use everwarp_interface::{Bytes, Pid};
use everwarp_wasi::{Input, Output};

use crate::channel::End;
use crate::config::{Config, Strings};
use crate::error::SpawnError;
use crate::host::Host;
use crate::kin::HANDLES;
use crate::layout::{PROCESS_COLLECTS, PROCESS_INPUT, PROCESS_TALKS};
use crate::state::{Job, Phase};
use crate::strings;

/// What one process has of its own on the device.
struct Own {
    /// Where it begins, among that of all.
    begin: u64,
    stdin: Option<Bytes>,
}

impl Host {
    /// Copies what processes are given to the device, all at once; equal neighbours share. Answers where each
    /// one's lies, and its standard input if it has one of its own.
    fn strings(
        &self,
        all: impl Iterator<Item = Strings>,
        ends: &[End],
    ) -> Result<(Arc<Buffer<u8>>, Vec<Own>), SpawnError> {
        let (mut bytes, mut own) = (Vec::new(), Vec::new());
        let mut last: Option<(Strings, u64)> = None;
        for strings in all {
            // What is read counts up in there.
            let shared = last.as_ref().filter(|_| strings.stdin.is_none());
            let same = shared.filter(|(before, _)| *before == strings);
            let begin = match same {
                Some((_, begin)) => *begin,
                None => {
                    // The ends stand in front of the rest, the first one last.
                    let begin = (bytes.len() + 4 * ends.len()).next_multiple_of(16);
                    bytes.resize(begin - 4 * ends.len(), 0);
                    let entries = ends.iter().rev().map(End::entry);
                    bytes.extend(entries.flat_map(u32::to_le_bytes));
                    strings::encode(&strings, &mut bytes)?;
                    last = Some((strings, begin as u64));
                    begin as u64
                }
            };
            let stdin = last.as_ref().and_then(|(strings, _)| strings.stdin.clone());
            own.push(Own { begin, stdin });
        }
        Ok((Arc::new(self.shared().engine.buffer_from(&bytes)?), own))
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
        let same = std::iter::repeat_n(config.strings.clone(), count);
        self.spawn_each(module, config, same)
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
        assert!(
            module < self.shared().modules.len(),
            "there is no module {module}"
        );
        let fuel = Self::fuel(config)?;
        let ends = config.ends.len();
        let most = match self.shared().world {
            Some(_) => HANDLES as usize,
            None => 0,
        };
        if ends > most {
            return Err(SpawnError::Ends { ends, most });
        }
        let ends: Arc<[End]> = config.ends.as_slice().into();
        let (strings, each) = self.strings(each, &ends)?;
        // What several threads write and read passes through the host, in their order.
        let threads = self.shared().modules[module].threads.is_some();
        // What somebody reads while it is written goes out at once.
        let collects = match config.stdout {
            Output::Inherit => 0,
            _ => PROCESS_COLLECTS,
        };
        let tagged = |output| matches!(output, Output::Lines { tag: true, .. });
        let tagged = tagged(config.stdout) || tagged(config.stderr);
        let wasi = |name, stdin: Option<Bytes>| {
            Arc::new(everwarp_wasi::Config {
                name,
                directories: config.directories.clone(),
                stdin: stdin.map_or_else(|| config.stdin.clone(), Input::Bytes),
                stdout: config.stdout,
                stderr: config.stderr,
                handles: config.handles.max(3 + config.directories.len() as u32),
            })
        };
        // Only tags say the name; without them all have the same.
        let nameless = wasi(String::new(), None);
        let mut state = self.shared().state();
        let mut pids = Vec::with_capacity(each.len());
        for (instance, Own { begin, stdin }) in each.into_iter().enumerate() {
            let pid = state.insert(Phase::Free);
            let job = Job {
                strings: Arc::clone(&strings),
                strings_at: begin,
                fuel,
                flags: match threads {
                    true => 0,
                    false => collects | reads(&config.stdin, stdin.is_some()),
                },
                instance: instance as u32,
                ends: Arc::clone(&ends),
                wasi: match (tagged, stdin) {
                    (true, stdin) => wasi(pid.to_string(), stdin),
                    (false, Some(stdin)) => wasi(String::new(), Some(stdin)),
                    (false, None) => Arc::clone(&nameless),
                },
            };
            state.entries[pid.slot() as usize].phase = Phase::Queued(job);
            state.lines[module].waiting.push_back(pid);
            pids.push(pid);
        }
        drop(state);
        self.shared().call_dispatcher();
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

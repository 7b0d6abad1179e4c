//! Processes on either engine, as far as measuring needs them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use everwarp::Device;
use everwarp_process as gpu;
use everwarp_process::ProcessEngine;
use everwarp_process_cpu::CpuProcesses;
use everwarp_process_cuda::{CudaProcesses, Streams};

use crate::error::CliError;

/// What a process may write.
const LIMIT: usize = 8192;

/// A host with its modules loaded.
pub(super) enum Host {
    Gpu(Box<CudaProcesses>),
    Cpu(CpuProcesses),
}

/// What processes are given.
#[derive(Clone, Copy, Default)]
pub(super) struct Given<'g> {
    /// Arguments behind the program's name.
    pub(super) argument: Option<&'g str>,
    pub(super) directory: Option<&'g Path>,
}

impl Given<'_> {
    fn args(&self) -> Vec<String> {
        let args = ["program"].into_iter().chain(self.argument);
        args.map(str::to_owned).collect()
    }
}

impl Host {
    /// Loads modules; on a GPU there may be `places` processes of each at a time.
    pub(super) fn start(
        device: &Device,
        modules: &[(&str, &[u8])],
        places: u32,
    ) -> Result<Self, CliError> {
        Self::reading(device, modules, places, gpu::Reads::default())
    }

    /// The same with workers that read files in this way; they are a GPU's.
    pub(super) fn reading(
        device: &Device,
        modules: &[(&str, &[u8])],
        places: u32,
        reads: gpu::Reads,
    ) -> Result<Self, CliError> {
        if device.cuda().is_none() {
            let module = |&(name, bytes): &(&str, &[u8])| gpu::Module::new(name, bytes.to_vec());
            let modules = modules.iter().map(module).collect::<Result<Vec<_>, _>>()?;
            let host = CpuProcesses::start(&modules, &gpu::HostConfig::default())?;
            return Ok(Self::Cpu(host));
        }
        let mut config = gpu::HostConfig::default();
        config.load.places = places;
        config.load.memory = Some(1 << 16);
        config.reads = reads;
        let module = |&(name, bytes): &(&str, &[u8])| gpu::Module::new(name, bytes.to_vec());
        let modules = modules.iter().map(module).collect::<Result<Vec<_>, _>>()?;
        let host = CudaProcesses::start(device, &modules, &config, Streams::inherit())?;
        Ok(Self::Gpu(Box::new(host)))
    }

    /// Runs `count` processes of a module, waits for their ends, which must be good ones, and answers what each wrote.
    pub(super) fn run(
        &self,
        module: usize,
        given: Given<'_>,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, CliError> {
        match self {
            Self::Gpu(host) => run_on(&**host, module, given, count),
            Self::Cpu(host) => run_on(host, module, given, count),
        }
    }
}

pub(super) fn failed(pid: &impl ToString, reason: &impl ToString) -> CliError {
    CliError::Process {
        pid: pid.to_string(),
        reason: reason.to_string(),
    }
}

/// Spawns processes that are all given the same; returns their pids by number.
pub(super) fn spawn_gpu(
    host: &dyn ProcessEngine,
    module: gpu::ModuleId,
    grants: &gpu::Grants,
    args: &[String],
    count: usize,
) -> Result<Vec<gpu::Pid>, gpu::SpawnError> {
    let parts = Mutex::new(BTreeMap::new());
    host.spawn(&gpu::SpawnRequest {
        module,
        grants,
        count: count as u32,
        write: &|_, writer| args.iter().for_each(|arg| writer.arg(&[arg])),
        started: &|first, pids| {
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.insert(first, pids.to_vec());
            ControlFlow::Continue(())
        },
    })?;
    let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(parts.into_values().flatten().collect())
}

fn run_on(
    host: &dyn ProcessEngine,
    module: usize,
    given: Given<'_>,
    count: usize,
) -> Result<Vec<Vec<u8>>, CliError> {
    let open = |path: &Path| {
        gpu::Directory::open(path, "/data").map_err(|source| CliError::Input {
            path: path.to_owned(),
            source,
        })
    };
    let grants = gpu::Grants {
        directories: given.directory.map(open).transpose()?.into_iter().collect(),
        stdout: gpu::Output::Capture { limit: LIMIT },
        ..gpu::Grants::default()
    };
    let pids = spawn_gpu(
        host,
        gpu::ModuleId(module as u32),
        &grants,
        &given.args(),
        count,
    )?;
    let (mut written, mut first) = (Vec::with_capacity(count), None);
    host.wait_each(&pids, &mut |pid, exit| match exit.status {
        gpu::ExitStatus::Exited(0) => written.push(exit.stdout.map_or_else(Vec::new, |s| s.bytes)),
        status => {
            first.get_or_insert_with(|| failed(&pid, &status));
        }
    })?;
    match first {
        None => Ok(written),
        Some(failed) => Err(failed),
    }
}

//! Starting hosts for the experiments, and running processes whose output is checked.

use std::path::Path;

use everwarp::process::{Command, Exit, Host, Module, Output, Pid, Reads};
use everwarp::{Device, EngineKind};

use crate::error::CliError;

/// The most bytes that a process may write.
const OUTPUT_LIMIT: usize = 8192;
/// The memory of a process on a GPU.
const MEMORY: u64 = 1 << 16;

/// What processes get.
#[derive(Clone, Copy, Default)]
pub(super) struct ProcessInput<'g> {
    /// The argument after the program's name.
    pub(super) argument: Option<&'g str>,
    /// A directory, which they see as `/data`.
    pub(super) directory: Option<&'g Path>,
}

/// A host with the module that an experiment runs.
pub(super) struct Bench {
    pub(super) host: Host,
    module: Module,
}

pub(super) fn module(name: &str, bytes: &'static [u8]) -> Result<Module, CliError> {
    Module::new(name, bytes).map_err(|source| CliError::Module {
        path: name.into(),
        source,
    })
}

impl Bench {
    /// Loads a module; on a GPU it has this many places.
    pub(super) fn start(
        device: &Device,
        name: &str,
        bytes: &'static [u8],
        places: u32,
    ) -> Result<Self, CliError> {
        Self::start_reading(device, name, bytes, places, Reads::default())
    }

    /// The same, with a GPU's servers reading files in this way.
    pub(super) fn start_reading(
        device: &Device,
        name: &str,
        bytes: &'static [u8],
        places: u32,
        reads: Reads,
    ) -> Result<Self, CliError> {
        let module = module(name, bytes)?;
        let mut builder = Host::builder(device)
            .module(&module)
            .places(places)
            .reads(reads);
        if device.kind() == EngineKind::Cuda {
            builder = builder.memory(MEMORY);
        }
        let host = builder.start()?;
        Ok(Self { host, module })
    }

    /// Runs `count` processes, waits until all have exited with code 0, and returns what each wrote.
    pub(super) fn run(
        &self,
        input: ProcessInput<'_>,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, CliError> {
        let mut command = Command::new(&self.host, &self.module);
        command.arg0("program").args(input.argument);
        command.stdout(Output::capture(OUTPUT_LIMIT));
        if let Some(directory) = input.directory {
            command.dir(directory, "/data");
        }
        let children = command.spawn_many(count as u32)?;
        let (mut written, mut first) = (Vec::with_capacity(count), None);
        children.wait_each(|pid, exit| match exit.success() {
            true => written.push(exit.stdout.map_or_else(Vec::new, |stdout| stdout.bytes)),
            false => {
                first.get_or_insert_with(|| failed(pid, &exit));
            }
        })?;
        match first {
            None => Ok(written),
            Some(failed) => Err(failed),
        }
    }
}

pub(super) fn failed(pid: Pid, exit: &Exit) -> CliError {
    CliError::Process {
        pid: pid.to_string(),
        reason: exit.status.to_string(),
    }
}

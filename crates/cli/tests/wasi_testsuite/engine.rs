//! Programs as processes of one engine or the other, in a process of the system that the runner may end.

use std::error::Error;
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use everwarp::{Device, Select};
use everwarp_process::{Captured, Input, Output};

use crate::program::{Ended, Program};

/// More than any of them prints.
const OUTPUT: Output = Output::Capture { limit: 1 << 20 };
/// A program waits for a fifth of a second at most, so what takes this long does not end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The stack of each thread of a GPU, for calls as deep as those of formatted output in Rust.
const STACK: u32 = 48 << 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Says how a program ended, to the runner: with which code if by itself.
fn tell(
    code: Option<u32>,
    reason: &impl ToString,
    stdout: Option<Captured>,
    stderr: Option<Captured>,
) -> Result<()> {
    let bytes = |of: Option<Captured>| of.map_or_else(Vec::new, |captured| captured.bytes);
    let ended = Ended {
        code,
        reason: reason.to_string(),
        stdout: bytes(stdout),
        stderr: bytes(stderr),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &ended)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The arguments, of which the first is the program's name.
fn args(program: &Program) -> Vec<String> {
    let name = std::iter::once(program.name().to_owned());
    name.chain(program.specification.args.iter().cloned())
        .collect()
}

fn env(program: &Program) -> Vec<(String, String)> {
    program.specification.env.clone().into_iter().collect()
}

/// Runs programs on the CPU engine, one after the other.
pub(crate) fn cpu(programs: &[Program], under: &Path) -> Result<()> {
    use everwarp_process::{HostConfig, Module, ProcessEngine};
    let config = HostConfig {
        workers: NonZeroUsize::new(1),
        ..HostConfig::default()
    };
    let host = everwarp_process_cpu::CpuProcesses::start(&[], &config)?;
    for program in programs {
        let module = Module::new(program.name(), std::fs::read(&program.path)?)?;
        let loaded = host.load(&module, &config.load)?;
        run(&host, loaded.id, program, under)?;
    }
    Ok(())
}

/// Runs a program of a loaded module, and says how it ended.
fn run(
    host: &dyn everwarp_process::ProcessEngine,
    module: everwarp_process::ModuleId,
    program: &Program,
    under: &Path,
) -> Result<()> {
    use everwarp_process::{Directory, ExitStatus, Grants, HostError, SpawnRequest};
    let folders = program.folders(under)?.into_iter();
    let folders = folders.map(|(host, guest)| Directory::open(host, guest));
    let grants = Grants {
        directories: folders.collect::<std::io::Result<_>>()?,
        stdin: Input::Empty,
        stdout: OUTPUT,
        stderr: OUTPUT,
        ..Grants::default()
    };
    let (args, env) = (args(program), env(program));
    let started = Mutex::new(None);
    host.spawn(&SpawnRequest {
        module,
        grants: &grants,
        count: 1,
        write: &|_, writer| {
            args.iter().for_each(|arg| writer.arg(&[arg]));
            for (name, value) in &env {
                writer.variable(name, &[value]);
            }
        },
        started: &|_, pids| {
            *started.lock().expect("no holder panics") = pids.first().copied();
            ControlFlow::Continue(())
        },
    })?;
    let pid = started.into_inner()?.ok_or("it was not started")?;
    let exit = match host.wait(pid, Some(PATIENCE)) {
        Err(HostError::Timeout { .. }) => {
            host.kill(pid)?;
            host.wait(pid, None)?
        }
        ended => ended?,
    };
    let code = match exit.status {
        ExitStatus::Exited(code) => Some(code),
        _ => None,
    };
    tell(code, &exit.status, exit.stdout, exit.stderr)
}

/// Runs programs on the CUDA engine, all of them in one image. With `prepare` they are only compiled, so that who does
/// the same again finds the image in the cache.
pub(crate) fn cuda(programs: &[Program], under: &Path, prepare: bool) -> Result<()> {
    use everwarp_process::{HostConfig, Module, ModuleId};
    use everwarp_process_cuda::{CudaProcesses, Streams};
    let device = Device::open(Select::Cuda)?;
    let modules = programs.iter().map(|program| {
        let bytes = std::fs::read(&program.path)?;
        Ok(Module::new(program.name(), bytes)?)
    });
    let modules: Vec<_> = modules.collect::<Result<_>>()?;
    let mut config = HostConfig::default();
    config.load.places = 1;
    config.load.memory_budget = Some((4 << 30) / 10 * 7 / modules.len().max(1) as u64);
    config.stack_bytes = Some(STACK);
    let host = CudaProcesses::start(&device, &modules, &config, Streams::inherit())?;
    eprintln!(
        "{} modules: started in {:?}, frames of up to {} bytes, calls {} deep",
        modules.len(),
        host.engine().start_time(),
        host.largest_frame(),
        host.depth()
    );
    if prepare {
        return Ok(());
    }
    for (number, program) in programs.iter().enumerate() {
        run(&host, ModuleId(number as u32), program, under)?;
    }
    Ok(())
}

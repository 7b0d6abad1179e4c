//! Runs programs as processes of an engine, in a child process that the runner may end.

use std::error::Error;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use everwarp::process::serving::Folder;
use everwarp::process::{Command, Exit, Host, Module, Output};
use everwarp::{Device, Select, Service};

use crate::program::{Ended, Program};

/// More than any program prints.
const OUTPUT: Output = Output::capture(1 << 20);
/// A program waits for up to a fifth of a second, so a program that takes this long does not end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The stack of each thread of a GPU, for calls as deep as those of formatted output in Rust.
const STACK: u32 = 48 << 10;
/// The device memory for the places of all programs together.
const MEMORY: u64 = 3 << 30;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Tells the runner how a program ended.
fn tell(exit: Exit) -> Result<()> {
    let ended = Ended {
        code: exit.status.code(),
        reason: exit.status.to_string(),
        stdout: exit.stdout_bytes().to_vec(),
        stderr: exit.stderr_bytes().to_vec(),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &ended)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn module(program: &Program) -> Result<Module> {
    let bytes = std::fs::read(&program.path)?;
    Ok(Module::new(program.name(), bytes)?)
}

/// Runs a program of a loaded module, and tells how it ended.
fn run(host: &Host, module: &Module, program: &Program, under: &Path) -> Result<()> {
    let specification = &program.specification;
    let mut command = Command::new(host, module);
    command
        .args(specification.args.iter().cloned())
        .envs(specification.env.clone())
        .stdout(OUTPUT)
        .stderr(OUTPUT);
    for (path, guest) in program.folders(under)? {
        command.dir(path, guest);
    }
    let mut child = command.spawn()?;
    let exit = match child.wait_timeout(PATIENCE)? {
        Some(exit) => exit,
        None => {
            child.kill()?;
            child.wait()?
        }
    };
    tell(exit)
}

/// Runs programs on an engine of a service, one after the other. All of them are clients of the same service.
pub(crate) fn service(
    engine: Select,
    programs: &[Program],
    under: &Path,
    folder: &Path,
) -> Result<()> {
    for program in programs {
        let folder = Folder::at(folder.to_owned());
        let service = Service::connect_in(folder, engine)?;
        let service = service.ok_or("no service is up")?;
        let module = module(program)?;
        let builder = service.host().module(&module);
        let host = match engine {
            Select::Cuda => builder.places(1).stack(STACK).memory_budget(MEMORY),
            _ => builder.workers(NonZeroUsize::MIN),
        };
        let host = host.start()?;
        run(&host, &module, program, under)?;
    }
    Ok(())
}

/// Runs programs on the CPU engine, one after the other.
pub(crate) fn cpu(programs: &[Program], under: &Path) -> Result<()> {
    let device = Device::open(Select::Cpu)?;
    for program in programs {
        let module = module(program)?;
        let host = Host::builder(&device).module(&module);
        let host = host.workers(NonZeroUsize::MIN).start()?;
        run(&host, &module, program, under)?;
    }
    Ok(())
}

/// Runs programs on the CUDA engine, all of them in one image. With `prepare` they are only compiled, so that the next
/// call finds the image in the cache.
pub(crate) fn cuda(programs: &[Program], under: &Path, prepare: bool) -> Result<()> {
    let device = Device::open(Select::Cuda)?;
    let modules: Vec<_> = programs.iter().map(module).collect::<Result<_>>()?;
    let mut builder = Host::builder(&device).places(1).stack(STACK);
    builder = builder.memory_budget(MEMORY / modules.len().max(1) as u64);
    for module in &modules {
        builder = builder.module(module);
    }
    let host = builder.start()?;
    if prepare {
        return Ok(());
    }
    for (program, module) in programs.iter().zip(&modules) {
        run(&host, module, program, under)?;
    }
    Ok(())
}

//! Measures how long each phase of many processes on a GPU takes, and how long each thread of the host works meanwhile.
//!
//! usage: `instances MODULE COUNT MEMORY PLACES [--dir HOST::GUEST] [--workers N] [--rounds N] -- ARGS`, with
//! `{instance}` for the number of each process. The output of the processes goes to standard output, the figures to
//! standard error.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use everwarp_process::{
    Directory, Exit, Grants, HostConfig, Module, ModuleId, Output, Pid, ProcessEngine,
    SpawnRequest, StartWriter,
};
use everwarp_process_cuda::{CudaProcesses, Streams};
use everwarp_runtime::{Device, Select};

/// The time that threads of this program have worked, by their names.
fn worked() -> std::io::Result<BTreeMap<String, Duration>> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?;
        let schedule = std::fs::read_to_string(task.join("schedstat"))?;
        let first = schedule.split(' ').next().and_then(|n| n.parse().ok());
        *all.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(first.unwrap_or(0));
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: instances MODULE COUNT MEMORY PLACES [--dir HOST::GUEST] [--workers N] \
                 [--rounds N] [--interleave] -- ARGS";
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or(usage);
    let path = word()?;
    let count: u32 = word()?.parse()?;
    let memory: u64 = word()?.parse()?;
    let places: u32 = word()?.parse()?;
    let (mut grants, mut workers, mut rounds) = (Grants::default(), None, 3);
    let mut interleaved = false;
    loop {
        match word()?.as_str() {
            "--dir" => {
                let folders = word()?;
                let (host, guest) = folders.split_once("::").ok_or(usage)?;
                let directory = Directory::open(host, guest)?;
                grants.directories.push(directory);
            }
            "--workers" => workers = Some(word()?.parse()?),
            "--interleave" => interleaved = true,
            "--rounds" => rounds = word()?.parse()?,
            "--" => break,
            _ => return Err(usage.into()),
        }
    }
    let args: Vec<String> = words.collect();
    let lines = Output::Lines {
        tag: false,
        to_stderr: false,
    };
    (grants.stdout, grants.stderr) = (lines, lines);
    let write = |number: u32, writer: &mut dyn StartWriter| {
        writer.arg(&[&path]);
        for arg in &args {
            writer.arg(&[&arg.replace("{instance}", &number.to_string())]);
        }
    };
    let module = Module::new(path.clone(), std::fs::read(&path)?)?;
    let device = Device::open(Select::Cuda)?;
    let mut config = HostConfig::default();
    config.load.places = places;
    config.load.memory = Some(memory);
    config.interleaved = interleaved;
    config.servers = workers.unwrap_or(config.servers);
    let begin = Instant::now();
    let host = CudaProcesses::start(&device, &[module], &config, Streams::inherit())?;
    let started = begin.elapsed();
    for round in 0..rounds {
        let before = worked()?;
        let begin = Instant::now();
        let pids = Mutex::new(Vec::<Pid>::with_capacity(count as usize));
        host.spawn(&SpawnRequest {
            module: ModuleId(0),
            grants: &grants,
            count,
            write: &write,
            started: &|_, started| {
                pids.lock().expect("no holder panics").extend(started);
                ControlFlow::Continue(())
            },
        })?;
        let pids = pids.into_inner()?;
        let spawned = begin.elapsed();
        let (mut first, mut failed, mut fuel) = (None, 0, 0);
        host.wait_each(&pids, &mut |_, exit: Exit| {
            first.get_or_insert_with(|| begin.elapsed());
            failed += usize::from(!exit.success());
            fuel += exit.fuel_used.unwrap_or(0);
        })?;
        let ended = begin.elapsed();
        let after = worked()?;
        eprintln!(
            "round {round}: {count} of {path} on {} places: started {started:.1?}, spawned {spawned:.1?}, first {:.1?}, \
             all {ended:.1?} ({:.2} us each), {failed} failed, {fuel} fuel",
            host.width(ModuleId(0)),
            first.unwrap_or_default(),
            ended.as_secs_f64() * 1e6 / f64::from(count)
        );
        let threads = after.into_iter().map(|(name, at)| {
            let earlier = before.get(&name).copied().unwrap_or_default();
            (name, at.saturating_sub(earlier))
        });
        let busy = threads.filter(|(_, time)| *time > Duration::from_millis(1));
        let busy: Vec<_> = busy
            .map(|(name, time)| format!("{name} {time:.1?}"))
            .collect();
        eprintln!("  threads: {}", busy.join(", "));
    }
    Ok(())
}

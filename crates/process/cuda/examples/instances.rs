//! Where the time of many processes on a GPU goes: how long each phase takes, and how long each thread of the
//! host worked meanwhile.
//!
//! usage: `instances MODULE COUNT MEMORY PLACES [--dir HOST::GUEST] [--workers N] [--rounds N] -- ARGS`, with
//! `{instance}` for the number of each process. What they print goes to standard output, the figures to standard error.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use everwarp_process_cuda::{
    Config, Directory, Host, HostConfig, Module, Output, Streams, Strings,
};
use everwarp_runtime::{Device, Select};

/// Processes that are spawned together: the first ones run while the arguments of the next are gathered.
const PART: usize = 1 << 13;

/// Seconds that threads of this process have worked, by their names.
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
    let count: usize = word()?.parse()?;
    let memory: u64 = word()?.parse()?;
    let places: u32 = word()?.parse()?;
    let (mut config, mut workers, mut rounds) = (Config::default(), None, 3);
    let mut interleaved = false;
    loop {
        match word()?.as_str() {
            "--dir" => {
                let folders = word()?;
                let (host, guest) = folders.split_once("::").ok_or(usage)?;
                let directory = Directory::open(Path::new(host), guest.to_owned())?;
                config.directories.push(directory);
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
    (config.stdout, config.stderr) = (lines, lines);
    let strings = |number: usize| Strings {
        args: [path.clone()]
            .into_iter()
            .chain(
                args.iter()
                    .map(|a| a.replace("{instance}", &number.to_string())),
            )
            .collect(),
        ..Strings::default()
    };
    let module = Module::new(path.clone(), std::fs::read(&path)?);
    let device = Device::open(Select::Cuda)?;
    let gpu = device.cuda().expect("a GPU was asked for");
    let mut host = HostConfig {
        memory: Some(memory),
        interleaved,
        ..HostConfig::new(places, gpu.memory()?.0)
    };
    host.workers = workers.unwrap_or(host.workers);
    let begin = Instant::now();
    let host = Host::start(&device, &[module], &host, Streams::inherit())?;
    let started = begin.elapsed();
    for round in 0..rounds {
        let before = worked()?;
        let begin = Instant::now();
        let mut pids = Vec::with_capacity(count);
        for begin in (0..count).step_by(PART) {
            let part = begin..count.min(begin + PART);
            pids.extend(host.spawn_each(0, &config, part.map(strings))?);
        }
        let spawned = begin.elapsed();
        let (mut first, mut failed, mut fuel) = (None, 0, 0);
        for pid in pids {
            let exit = host.wait(pid)?.expect("nobody else waits for it");
            first.get_or_insert_with(|| begin.elapsed());
            failed += usize::from(exit.reason != everwarp_process_cuda::Reason::Normal(0));
            fuel += exit.fuel_used;
        }
        let ended = begin.elapsed();
        let after = worked()?;
        eprintln!(
            "round {round}: {count} of {path} on {} places: started {started:.1?}, spawned {spawned:.1?}, first {:.1?}, \
             all {ended:.1?} ({:.2} us each), {failed} failed, {fuel} fuel",
            host.places(0),
            first.unwrap_or_default(),
            ended.as_secs_f64() * 1e6 / count as f64
        );
        let threads = after.into_iter().map(|(name, at)| {
            let begun = before.get(&name).copied().unwrap_or_default();
            (name, at.saturating_sub(begun))
        });
        let busy = threads.filter(|(_, time)| *time > Duration::from_millis(1));
        let busy: Vec<_> = busy
            .map(|(name, time)| format!("{name} {time:.1?}"))
            .collect();
        eprintln!("  threads: {}", busy.join(", "));
    }
    Ok(())
}

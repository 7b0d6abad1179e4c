//! Measures how long an engine pauses, on which a process runs, for modules that are loaded one after the other.
//!
//! usage: `loads MODULE...`. Each module then runs once, with nothing on its standard input.

use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use everwarp_process::{
    Grants, HostConfig, LoadConfig, Module, ModuleId, Output, Pid, ProcessEngine, SpawnRequest,
};
use everwarp_process_cuda::{CudaProcesses, Streams};
use everwarp_runtime::{Device, Select};

/// `(module (func (export "_start") (loop (br 0))))`
const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";
const MEMORY: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn spawn(host: &CudaProcesses, module: ModuleId, name: &str) -> Result<Pid, Box<dyn Error>> {
    let lines = Output::lines();
    let grants = Grants {
        stdout: lines,
        stderr: lines,
        ..Grants::default()
    };
    let pids = Mutex::new(Vec::new());
    host.spawn(&SpawnRequest {
        module,
        grants: &grants,
        count: 1,
        write: &|_, writer| writer.arg(&[name]),
        started: &|_, started| {
            pids.lock().expect("no holder panics").extend(started);
            std::ops::ControlFlow::Continue(())
        },
    })?;
    Ok(pids.into_inner()?.pop().ok_or("no process has started")?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        return Err("usage: loads MODULE...".into());
    }
    let load = LoadConfig {
        places: 4,
        children: 0,
        threads: 0,
        memory: Some(MEMORY),
        memory_budget: Some(1 << 30),
        ..LoadConfig::default()
    };
    let mut config = HostConfig {
        spare_places: 4 * paths.len() as u32,
        ..HostConfig::default()
    };
    config.load = load.clone();
    let endless = Module::new("endless", ENDLESS.to_vec())?;
    let device = Device::open(Select::Cuda)?;
    let host = CudaProcesses::start(&device, &[endless], &config, Streams::inherit())?;
    let endless = spawn(&host, ModuleId(0), "endless")?;
    println!(
        "| module | bytes | until it was assembled and linked, s | pause, ms | ends with |\n|---|---|---|---|---|"
    );
    for path in &paths {
        let bytes = std::fs::read(path)?;
        let length = bytes.len();
        let loaded = host.load(&Module::new(path.clone(), bytes)?, &load)?;
        let pid = spawn(&host, loaded.id, path)?;
        let exit = host.wait(pid, Some(PATIENCE))?;
        let name = path.rsplit('/').next().unwrap_or(path);
        println!(
            "| {name} | {length} | {:.3} | {:.2} | {} |",
            loaded.compiling.as_secs_f64(),
            loaded.pause.as_secs_f64() * 1e3,
            exit.status
        );
    }
    host.kill(endless)?;
    host.wait(endless, Some(PATIENCE))?;
    Ok(())
}

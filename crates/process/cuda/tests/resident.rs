//! Hosts that share one resident engine on a GPU. Without one, every case is reported as ignored.

use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_process::{
    Exit, ExitStatus, Grants, HostConfig, HostStreams, InputSource, Module, ModuleId, Output,
    OutputTarget, Pid, ProcessEngine, SpawnRequest, StartError,
};
use everwarp_process_cuda::{CudaProcesses, ResidentConfig, ResidentProcesses};
use everwarp_runtime::{Device, Select, cuda_device_count};
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Failed, Trial};

type Case = fn(&Arc<ResidentProcesses>) -> Result<(), Failed>;

const CASES: &[(&str, Case)] = &[
    (
        "hosts_have_pids_streams_and_limits_of_their_own",
        own_settings,
    ),
    (
        "a_host_with_loaded_modules_opens_in_milliseconds",
        opens_quickly,
    ),
    ("a_host_that_ends_leaves_its_places_clean", clean_places),
    (
        "a_host_that_ends_leaves_the_processes_of_others_alone",
        others_run_on,
    ),
    (
        "endless_processes_of_one_host_keep_no_memory_of_others",
        memory_comes_back,
    ),
    ("families_of_two_hosts_do_not_meet", families),
    ("many_different_modules_leave_the_engine_as_it_was", forgets),
    (
        "modules_come_next_to_the_image_until_there_are_many",
        come_next_to_the_image,
    ),
    ("a_hundred_hosts_run_at_once", hundred),
];

const PATIENCE: Duration = Duration::from_secs(20);
/// How many different modules are loaded one after the other. Each takes an exchange of the image, so 10,000 would take too
/// long.
const DIFFERENT: u32 = 200;

const HELLO: &[u8] = include_bytes!("../../../../guests/built/hello.wasm");
const FAMILY: &str = include_str!("modules/family.wat");
/// Exits with code 0 if its memory is as it should be at the start, and spoils it.
const SPOILS: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory 1) (data (i32.const 16) "begin")
  (func (export "_start") (local i32)
    (if (i32.ne (i32.load8_u (i32.const 16)) (i32.const 98)) (then (call $exit (i32.const 1))))
    (if (i32.ne (i32.load (i32.const 60000)) (i32.const 0)) (then (call $exit (i32.const 2))))
    (memory.fill (i32.const 0) (i32.const 255) (i32.const 65536))))"#;
const ENDLESS: &str = r#"(module (func (export "_start") (loop (br 0))))"#;

fn module(name: &str, text: &str) -> Module {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    Module::new(name, wat.encode().expect("it can be encoded")).expect("it is valid")
}

fn hello() -> Module {
    Module::new("hello", HELLO).expect("it is valid")
}

/// Streams that are kept.
#[derive(Default)]
struct Kept(Mutex<Vec<u8>>);

impl Kept {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no other holder panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl InputSource for Kept {
    fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
    fn is_terminal(&self) -> bool {
        false
    }
}

impl OutputTarget for Kept {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut kept = self.0.lock().expect("no other holder panics");
        kept.extend_from_slice(bytes);
        Ok(())
    }
    fn is_terminal(&self) -> bool {
        false
    }
}

fn config(places: u32) -> HostConfig {
    let mut config = HostConfig::default();
    config.load.places = places;
    config.load.children = 64;
    config.load.memory = Some(68 << 10);
    config.channels = 16;
    config.servers = 2;
    config
}

struct Opened {
    host: CudaProcesses,
    stdout: Arc<Kept>,
}

fn open(
    resident: &Arc<ResidentProcesses>,
    module: &Module,
    config: &HostConfig,
) -> Result<Opened, StartError> {
    let stdout = Arc::<Kept>::default();
    let streams = HostStreams {
        stdin: Arc::<Kept>::default(),
        stdout: stdout.clone(),
        stderr: Arc::<Kept>::default(),
        budgets: None,
    };
    let modules = std::slice::from_ref(module);
    let host = resident.open(modules, config, Some(&streams))?;
    Ok(Opened { host, stdout })
}

fn spawn(host: &CudaProcesses, count: u32, grants: &Grants) -> Result<Vec<Pid>, Failed> {
    let pids = Mutex::new(Vec::new());
    host.spawn(&SpawnRequest {
        module: ModuleId(0),
        grants,
        count,
        write: &|number, start| start.arg(&["p", &number.to_string()]),
        started: &|_, part| {
            pids.lock().expect("no other holder panics").extend(part);
            std::ops::ControlFlow::Continue(())
        },
    })?;
    Ok(pids.into_inner()?)
}

fn wait(host: &CudaProcesses, pid: Pid) -> Result<Exit, Failed> {
    Ok(host.wait(pid, Some(PATIENCE))?)
}

fn run(host: &CudaProcesses, count: u32, grants: &Grants) -> Result<Vec<ExitStatus>, Failed> {
    let pids = spawn(host, count, grants)?;
    let exits = pids.iter().map(|pid| Ok(wait(host, *pid)?.status));
    exits.collect()
}

fn lines() -> Grants {
    Grants {
        stdout: Output::lines(),
        ..Grants::default()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), Failed> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("found {found:?}, expected {expected:?}").into()),
    }
}

fn all_exit(statuses: &[ExitStatus], count: usize) -> Result<(), Failed> {
    same(statuses.len(), count)?;
    match statuses
        .iter()
        .find(|status| **status != ExitStatus::Exited(0))
    {
        None => Ok(()),
        Some(other) => Err(format!("a process ended with {other}").into()),
    }
}

fn own_settings(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let hello = hello();
    let mut large = config(64);
    large.load.memory = Some(1 << 20);
    large.contract = true;
    let mut woven = config(64);
    woven.interleaved = true;
    let hosts = [config(64), large, woven].map(|config| open(resident, &hello, &config));
    let hosts: Vec<Opened> = hosts.into_iter().collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let runs: Vec<_> = hosts
            .iter()
            .map(|opened| scope.spawn(|| run(&opened.host, 500, &lines())))
            .collect();
        for run in runs {
            all_exit(&run.join().map_err(|_| "a thread panicked")??, 500)?;
        }
        Ok::<_, Failed>(())
    })?;
    for opened in &hosts {
        let text = opened.stdout.text();
        let mut found: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("argument 0: p"))
            .collect();
        found.sort_unstable();
        let mut expected: Vec<_> = (0..500).map(|n| format!("argument 0: p{n}")).collect();
        expected.sort_unstable();
        same(found == expected, true)?;
        same(opened.host.list(10)?.total(), 0)?;
    }
    Ok(())
}

fn opens_quickly(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let hello = hello();
    let mut times = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        let opened = open(resident, &hello, &config(4096))?;
        times.push(begin.elapsed());
        all_exit(&run(&opened.host, 100, &lines())?, 100)?;
    }
    times.sort();
    eprintln!(
        "a host opens in {:?} (median), {:?} at most",
        times[10], times[19]
    );
    Ok(())
}

fn clean_places(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let spoils = module("spoils", SPOILS);
    for _ in 0..5 {
        let opened = open(resident, &spoils, &config(32))?;
        all_exit(&run(&opened.host, 100, &lines())?, 100)?;
    }
    Ok(())
}

fn others_run_on(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let endless = module("endless", ENDLESS);
    let stays = open(resident, &endless, &config(64))?;
    let looping = spawn(&stays.host, 50, &lines())?;
    for _ in 0..3 {
        let goes = open(resident, &endless, &config(64))?;
        spawn(&goes.host, 20, &lines())?;
    }
    let listing = stays.host.list(0)?;
    same((listing.running, listing.ended), (50, 0))?;
    for pid in &looping {
        same(stays.host.kill(*pid)?, true)?;
    }
    for pid in looping {
        same(wait(&stays.host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

/// Hosts that come one after the other take more memory together than the device has.
fn memory_comes_back(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let (hello, family) = (hello(), module("family", FAMILY));
    let stays = open(resident, &module("endless", ENDLESS), &config(32))?;
    let looping = spawn(&stays.host, 8, &lines())?;
    for round in 0..8 {
        // No host can have the places of an earlier one: its processes may have less memory.
        let mut large = config(1024);
        large.load.memory = Some((32 << 20) - (round << 16));
        let plain = open(resident, &hello, &large)?;
        all_exit(&run(&plain.host, 100, &lines())?, 100)?;
        drop(plain);
        let meets_others = open(resident, &family, &large)?;
        let (sender, receiver) = meets_others.host.channel(4, 64)?;
        sender.send(b"message").map_err(|e| e.to_string())?;
        let found = receiver.receive().map_err(|e| e.to_string())?;
        same(found, b"message".to_vec())?;
    }
    let listing = stays.host.list(0)?;
    same((listing.running, listing.ended), (8, 0))?;
    for pid in &looping {
        same(stays.host.kill(*pid)?, true)?;
    }
    for pid in looping {
        same(wait(&stays.host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

fn families(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let family = module("family", FAMILY);
    let plain = module("plain", ENDLESS);
    for _ in 0..3 {
        let [a, b] = [(); 2].map(|()| open(resident, &family, &config(64)));
        let (a, b) = (a?, b?);
        let (sender, receiver) = a.host.channel(4, 64)?;
        let (_, other) = b.host.channel(4, 64)?;
        sender
            .send(b"to the first host")
            .map_err(|e| e.to_string())?;
        let found = receiver.receive().map_err(|e| e.to_string())?;
        same(found, b"to the first host".to_vec())?;
        drop(other);
    }
    let bare = open(resident, &plain, &config(64))?;
    same(bare.host.channel(4, 64).is_err(), true)
}

fn forgets(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let memory = || resident.engine().footprint();
    let before = (memory(), resident.module_count());
    let begin = Instant::now();
    let mut most = 0;
    for number in 0..DIFFERENT {
        let text = format!(
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
              (func (export "_start") (call $exit (i32.const {}))))"#,
            number % 100
        );
        let opened = open(resident, &module(&format!("m{number}"), &text), &config(32))?;
        let statuses = run(&opened.host, 40, &lines())?;
        let expected = ExitStatus::Exited(number % 100);
        same(statuses.iter().all(|status| *status == expected), true)?;
        most = most.max(resident.module_count());
    }
    eprintln!(
        "{DIFFERENT} modules in {:?}, {most} in the image at most",
        begin.elapsed()
    );
    same(memory(), before.0)?;
    // Some unused modules and the places of some ended hosts are kept.
    same(most <= before.1 + 26, true)
}

fn come_next_to_the_image(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    // It writes, and calls through a table, so that it needs the engine's functions and its own.
    let text = |number: u32| {
        format!(
            r#"(module
              (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
              (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
              (memory (export "memory") 1) (data (i32.const 8) "\10\00\00\00\05\00\00\00nine\n")
              (type $f (func (result i32))) (table funcref (elem $a $b $c $d $e))
              (func $a (result i32) (i32.const {number})) (func $b (result i32) (i32.const 1))
              (func $c (result i32) (i32.const 2)) (func $d (result i32) (i32.const 3))
              (func $e (result i32) (call_indirect (type $f) (i32.load (i32.const 0))))
              (func (export "_start")
                (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 4)))
                (call $exit (call_indirect (type $f) (i32.add (i32.const 4) (i32.load (i32.const 0)))))))"#
        )
    };
    let endless = open(resident, &module("endless", ENDLESS), &config(32))?;
    spawn(&endless.host, 5, &lines())?;
    let begin = resident.joined_count();
    let mut counts = Vec::new();
    let check = |number: u32| {
        let name = format!("next-{number}");
        let opened = open(resident, &module(&name, &text(number)), &config(32))?;
        let statuses = run(&opened.host, 40, &lines())?;
        let expected = ExitStatus::Exited(number % 256);
        same(statuses.iter().all(|status| *status == expected), true)?;
        same(opened.stdout.text().matches("nine\n").count(), 40)
    };
    for number in 0..130 {
        check(number)?;
        counts.push(resident.joined_count());
    }
    // One that was forgotten, and whose number another one has got.
    check(0)?;
    // Where the driver assembles, each comes in an image.
    if counts.iter().any(|count| *count > begin) {
        let most = counts.iter().max().copied();
        same(most, Some(100))?;
        let steps = counts.windows(2).map(|pair| pair[1].checked_sub(pair[0]));
        same(
            steps.clone().all(|step| matches!(step, None | Some(1))),
            true,
        )?;
        same(steps.filter(Option::is_none).count(), 1)?;
    }
    endless.host.kill_all()?;
    drop(endless);
    // When no host has come for a while, everything is linked into one image.
    let begin = Instant::now();
    while resident.joined_count() > 0 {
        if begin.elapsed() > PATIENCE {
            return Err("modules stay next to the image of an engine without hosts".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    check(131)
}

fn hundred(resident: &Arc<ResidentProcesses>) -> Result<(), Failed> {
    let hello = hello();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let opened = open(resident, &hello, &config(256))?;
                    all_exit(&run(&opened.host, 300, &lines())?, 300)?;
                    let text = opened.stdout.text();
                    let lines = text
                        .lines()
                        .filter(|line| line.starts_with("argument 0: p"));
                    same(lines.count(), 300)
                })
            })
            .collect();
        for run in runs {
            run.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    let args = Arguments {
        // Each case looks at the whole engine.
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let device = match args.list {
        true => None,
        false => Some(Device::open(Select::Cuda)),
    };
    let device = match device {
        // A GPU that is there and cannot be opened is a failure.
        Some(Err(e)) if cuda_device_count().is_ok_and(|count| count > 0) => {
            eprintln!("the GPU cannot be opened: {e}");
            return ExitCode::FAILURE;
        }
        other => other,
    };
    let Some(Ok(device)) = &device else {
        let needed = device.as_ref().map(needs_gpu);
        let trials = CASES.iter().map(|&(name, _)| {
            let trial = Trial::test(name, || Ok(()));
            match needed {
                Some(needed) => needed.trial(trial),
                None => trial,
            }
        });
        return libtest_mimic::run(&args, trials.collect()).exit_code();
    };
    let begin = Instant::now();
    let resident = ResidentProcesses::start(device, ResidentConfig::default());
    let resident = resident.unwrap_or_else(|e| panic!("the engine does not start: {e}"));
    eprintln!("started in {:?}", begin.elapsed());
    let trials = CASES.iter().map(|&(name, case)| {
        let resident = Arc::clone(&resident);
        Trial::test(name, move || {
            let begin = Instant::now();
            case(&resident)?;
            eprintln!("{name}: {:?}", begin.elapsed());
            Ok(())
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

//! Processes on a GPU. Without one, every case is reported as ignored.
//!
//! One host serves all cases: every module is linked into its image, and the table's places are used again and again. It
//! is started four times: with memories of their own for all processes, with interleaved memories, on an engine that
//! hosts share, and with images that lack functions at first. Another host starts with two modules, and its cases load others. The
//! last ones have modules of their own: processes ask for functions that take long or cannot be had, and for those of a large module
//! that is compiled while they run.

mod cases;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use everwarp_process::{HostConfig, Module, Tier};
use everwarp_process_cuda::{
    CudaProcesses, ResidentConfig, ResidentProcesses, Streams, Unrehearsed,
};
use everwarp_runtime::{Device, Select, cuda_device_count};
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Trial};

/// How the hosts differ that run the cases, and which cases each one runs.
const KINDS: [(&str, &[(&str, cases::Case)]); 8] = [
    ("apart", cases::ALL),
    ("interleaved", cases::ALL),
    ("shared", cases::ALL),
    ("bare", cases::BARE),
    ("lazy", cases::ALL),
    ("missing", cases::MISSING),
    ("missing-shared", cases::MISSING),
    ("growing", cases::GROWING),
];
/// The variable that names the one kind of host to run the cases on.
const KIND: &str = "EVERWARP_CUDA_HOST";

/// A module of `tests/modules`.
fn module(name: &str, text: &str) -> Module {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    let bytes = wat.encode().expect("it can be encoded");
    Module::new(name, bytes).expect("it is valid")
}

/// The modules that a host of this kind starts with.
fn modules(kind: &str) -> Vec<Module> {
    if kind == "growing" {
        return vec![cases::growing::module()];
    }
    if kind.starts_with("missing") {
        return vec![cases::missing::module()];
    }
    let texts = cases::MODULES.iter();
    if kind == "bare" {
        let bare = texts.filter(|(name, _)| cases::BARE_MODULES.contains(name));
        return bare.map(|(name, text)| module(name, text)).collect();
    }
    let built = cases::GUESTS
        .iter()
        .map(|(name, bytes)| Module::new(*name, bytes.to_vec()).expect("it is valid"));
    texts
        .map(|(name, text)| module(name, text))
        .chain(built)
        .collect()
}

fn main() -> ExitCode {
    let args = Arguments {
        // Each case wants the whole host.
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
        let trials = KINDS.iter().flat_map(|&(kind, cases)| {
            cases.iter().map(move |&(name, _)| {
                let trial = Trial::test(name, || Ok(())).with_kind(kind);
                match needed {
                    Some(needed) => needed.trial(trial),
                    None => trial,
                }
            })
        });
        return libtest_mimic::run(&args, trials.collect()).exit_code();
    };
    let only = std::env::var(KIND).ok();
    for (kind, cases) in KINDS {
        if only.as_ref().is_some_and(|only| only != kind) {
            continue;
        }
        let wanted = |name: &str| match &args.filter {
            None => true,
            Some(filter) if args.exact => name == filter,
            Some(filter) => name.contains(filter),
        };
        if !cases.iter().any(|(name, _)| wanted(name)) {
            continue;
        }
        let host = start(device, &modules(kind), kind);
        let trials = cases.iter().map(|&(name, case)| {
            let host = Arc::clone(&host);
            Trial::test(name, move || {
                let begin = Instant::now();
                case(&host)?;
                eprintln!("{name}: {:?}", begin.elapsed());
                Ok(())
            })
            .with_kind(kind)
        });
        let conclusion = libtest_mimic::run(&args, trials.collect());
        drop(host);
        if conclusion.has_failed() {
            return conclusion.exit_code();
        }
    }
    ExitCode::SUCCESS
}

/// A host with these modules.
fn start(device: &Device, modules: &[Module], kind: &str) -> Arc<CudaProcesses> {
    let mut config = HostConfig::default();
    config.load.places = 4096;
    // Four pages, and the small table of one module.
    config.load.memory = Some((4 << 16) + 1024);
    config.load.memory_budget = Some((28 << 30) / modules.len() as u64);
    config.interleaved = kind == "interleaved";
    config.tier = match kind {
        "lazy" | "missing" | "missing-shared" => Tier::Least,
        "growing" => Tier::Lazy,
        _ => Tier::Best,
    };
    if kind == "growing" {
        // For calls some thousands deep.
        config.stack_bytes = Some(512 << 10);
        // Without a rehearsal all functions would be compiled.
        for module in modules {
            if let Some(unrehearsed) = Unrehearsed::of(module, &[], &config) {
                unrehearsed.rehearsed(BTreeSet::new(), true);
            }
        }
    }
    config.spare_places = 2048;
    let begin = Instant::now();
    let host = match kind {
        "shared" | "missing-shared" => ResidentProcesses::start(device, ResidentConfig::default())
            .and_then(|resident| resident.open(modules, &config, None)),
        _ => CudaProcesses::start(device, modules, &config, Streams::inherit()),
    };
    let host = Arc::new(host.unwrap_or_else(|e| panic!("the host does not start: {e}")));
    eprintln!(
        "started in {:?} (engine {:?}): frames of up to {} bytes, calls {} deep",
        begin.elapsed(),
        host.engine().start_time(),
        host.largest_frame(),
        host.depth()
    );
    host
}

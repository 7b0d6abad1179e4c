//! Processes on a GPU. Where there is none, all of this is skipped, and says so.
//!
//! One host serves all cases: its image has every module linked, and the table's places are used again and again. A
//! last one begins with two modules, beside which others are loaded.

mod cases;

use std::process::ExitCode;
use std::sync::Arc;

use everwarp_process_cuda::{Host, HostConfig, Module, Streams};
use everwarp_runtime::{Device, Select};
use libtest_mimic::{Arguments, Trial};

/// A module of `tests/modules`.
fn module(name: &str, text: &str) -> Module {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    Module::new(name, wat.encode().expect("it can be encoded"))
}

fn main() -> ExitCode {
    let args = Arguments::from_args();
    if args.list {
        let trials = cases::ALL
            .iter()
            .chain(cases::BARE)
            .map(|(name, _)| Trial::test(*name, || Ok(())));
        return libtest_mimic::run(&args, trials.collect()).exit_code();
    }
    let device = match Device::open(Select::Cuda) {
        Ok(device) => device,
        Err(e) => {
            eprintln!(
                "skipped: {} cases of processes on a GPU: {e}",
                cases::ALL.len() + cases::BARE.len()
            );
            return ExitCode::SUCCESS;
        }
    };
    let texts = cases::MODULES.iter().map(|(name, text)| module(name, text));
    let built = cases::GUESTS
        .iter()
        .map(|(name, bytes)| Module::new(*name, bytes.to_vec()));
    let modules: Vec<_> = texts.chain(built).collect();
    let bare = cases::MODULES.iter();
    let bare = bare.filter(|(name, _)| cases::BARE_MODULES.contains(name));
    let bare: Vec<_> = bare.map(|(name, text)| module(name, text)).collect();
    let one_after_the_other = Arguments {
        test_threads: Some(1),
        ..args
    };
    // Each case twice: with memories of their own, and with interleaved ones.
    for (kind, modules, all) in [
        ("apart", &modules, cases::ALL),
        ("interleaved", &modules, cases::ALL),
        ("bare", &bare, cases::BARE),
    ] {
        let wanted = |name: &str| match &one_after_the_other.filter {
            None => true,
            Some(filter) if one_after_the_other.exact => name == filter,
            Some(filter) => name.contains(filter),
        };
        if !all.iter().any(|(name, _)| wanted(name)) {
            continue;
        }
        let host = start(&device, modules, kind == "interleaved");
        let trials = all.iter().map(|&(name, case)| {
            let host = Arc::clone(&host);
            Trial::test(name, move || {
                let begin = std::time::Instant::now();
                case(&host)?;
                eprintln!("{name}: {:?}", begin.elapsed());
                Ok(())
            })
            .with_kind(kind)
        });
        let conclusion = libtest_mimic::run(&one_after_the_other, trials.collect());
        drop(host);
        if conclusion.has_failed() {
            return conclusion.exit_code();
        }
    }
    ExitCode::SUCCESS
}

/// A host with these modules.
fn start(device: &Device, modules: &[Module], interleaved: bool) -> Arc<Host> {
    let config = HostConfig {
        // Four pages, and the small table of one module.
        memory: Some((4 << 16) + 1024),
        interleaved,
        spare_places: 2048,
        ..HostConfig::new(4096, 40 << 30)
    };
    let begin = std::time::Instant::now();
    let host = Host::start(device, modules, &config, Streams::inherit());
    let host = Arc::new(host.unwrap_or_else(|e| panic!("the host starts: {e}")));
    eprintln!(
        "started in {:?} (engine {:?}): frames of up to {} bytes, calls {} deep",
        begin.elapsed(),
        host.engine().start_time(),
        host.engine().largest_frame(),
        host.depth()
    );
    host
}

//! Modules as handlers: the CUDA C++ that is made of them, compiled by the host's compiler, and the CPU engine compute the
//! same, to the bit.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use everwarp::actor::FailedModule;
use libtest_mimic::Failed;

use crate::modules::{self, Play, Step, Word};
use crate::{LIMIT, compile, write, write_sources};

const MODULES_CPP: &str = include_str!("modules.cpp");
/// Exact, as a GPU is: no fused operations, and no assumptions about pointers.
const FLAGS: [&str; 3] = ["-O1", "-ffp-contract=off", "-fno-strict-aliasing"];
/// Generated modules of one program, and programs.
const MODULES: u64 = 16;
const PROGRAMS: u64 = 2;

/// The same with the device source, compiled for the host.
fn on_host(folder: &Path, play: &Play) -> Result<Vec<String>, Failed> {
    let Play { program, steps } = play;
    if let Some(kind) = program.kinds.iter().find(|kind| kind.device().is_none()) {
        return Err(format!("{kind:?} is not translated").into());
    }
    write_sources(folder, program, MODULES_CPP)?;
    let tag = |message: &str| program.message(message).expect("there is one").tag;
    let mut script = String::new();
    for step in steps {
        match step {
            Step::Launch(kind) => writeln!(script, "L {kind}")?,
            Step::Ask(actor, message, words) => {
                write!(script, "A {actor} {} {}", tag(message), words.len())?;
                words
                    .iter()
                    .try_for_each(|word| write!(script, " {word:x}"))?;
                writeln!(script)?;
            }
            Step::Tell(actor, message, words) => {
                write!(script, "T {actor} {} {}", tag(message), words.len())?;
                for word in words {
                    match word {
                        Word::Number(number) => write!(script, " {number:x}")?,
                        Word::Actor(actor) => write!(script, " 0@{actor}")?,
                    }
                }
                writeln!(script)?;
            }
        }
    }
    write(&folder.join("script.txt"), &script)?;
    let lanes = compile(folder, &FLAGS)?;
    let mut command = Command::new(lanes);
    command.current_dir(folder).args(["1", "1"]);
    let text = everwarp_testkit::run(&mut command, LIMIT)?.success()?;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("failure ") {
            Some(rest) => {
                let numbers: Vec<u32> =
                    rest.split(' ').map(str::parse).collect::<Result<_, _>>()?;
                let device = program.kinds[numbers[0] as usize]
                    .device()
                    .expect("it has one");
                let failed = FailedModule {
                    reason: numbers[1],
                    place: numbers[2],
                    tag: numbers[3] as u8,
                };
                lines.push((device.reason)(failed));
            }
            None if line.ends_with(" steps") => {}
            None => lines.push(line.to_owned()),
        }
    }
    Ok(lines)
}

pub(crate) fn every_operator_of_a_module_computes_the_same(folder: &Path) -> Result<(), Failed> {
    let play = modules::every_operator();
    modules::check_operators(&play.compare(&on_host(folder, &play)?));
    Ok(())
}

/// `EVERWARP_MODULES=400` runs that many programs.
pub(crate) fn generated_modules_compute_the_same(folder: &Path) -> Result<(), Failed> {
    let mut all = [0; 3];
    let programs = std::env::var("EVERWARP_MODULES").ok();
    let programs = programs.and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    for number in 0..programs {
        let play = modules::generated(number, MODULES);
        let lines = play.compare(&on_host(&folder.join("program"), &play)?);
        let counts = modules::counts(&lines);
        all.iter_mut()
            .zip(counts)
            .for_each(|(all, count)| *all += count);
    }
    let [right, failed, fuel] = all;
    eprintln!(
        "{right} results, {failed} failures, {fuel} of the last ones of each program by fuel"
    );
    assert!(right > 200 && failed > 300 && fuel > 3, "{all:?}");
    Ok(())
}

pub(crate) fn imports_of_modules_do_the_same(folder: &Path) -> Result<(), Failed> {
    let play = modules::imports();
    let lines = play.compare(&on_host(folder, &play)?);
    assert_eq!(lines[0], "37", "{lines:?}");
    Ok(())
}

pub(crate) fn modules_keep_asks_and_timers_the_same(folder: &Path) -> Result<(), Failed> {
    let play = modules::keeping();
    modules::check_keeping(&play.compare(&on_host(folder, &play)?));
    Ok(())
}

pub(crate) fn guests_of_rust_and_c_compute_the_same(folder: &Path) -> Result<(), Failed> {
    for play in modules::guests() {
        let lines = play.compare(&on_host(&folder.join(&*play.program.name), &play)?);
        assert_eq!(lines[..3], ["46", "1e", "gone"], "{lines:?}");
    }
    Ok(())
}

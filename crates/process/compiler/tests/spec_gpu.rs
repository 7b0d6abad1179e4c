//! Runs the official test suites of WebAssembly 2.0 with vectors, of extended constants, of tail calls and of threads
//! on a CUDA device. Each file runs in a separate process with a watchdog, and must give the same counts as on the
//! interpreter (`spec-2.0.txt`).
//!
//! The command is `cargo test -p everwarp-compiler --test spec_gpu`; without a device it lists its tests as ignored.
//! With `SPEC_CUBINS=FOLDER` it uses the machine code in the folder, and the driver compiles the remaining images.
//! `SPEC_ASSEMBLE=FOLDER` fills that folder, on a machine with ptxas, which needs no GPU. `SPEC_REPORT=FILE` writes
//! the counts to a file.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Failed, Trial};
use support::spec::{self, Counts, File};
use support::{cubins, gpu, report, tools};

/// The environment variable with which this process tells a child to run one file.
const CHILD: &str = "EVERWARP_SPEC_FILE";
/// A file that takes longer has hung. The longest takes some seconds if its code is already assembled; assembling the
/// longest function of the suite takes one core one to two minutes.
const LIMIT: Duration = Duration::from_secs(300);

fn file(name: &str) -> Option<File> {
    spec::files().into_iter().find(|file| file.name == name)
}

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn main() {
    if let Ok(name) = std::env::var(CHILD) {
        let file = file(&name).expect("a file");
        print!("{}", on_device(&file));
        return;
    }
    let mut args = Arguments::from_args();
    let results: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let mut trials = Vec::new();
    let assembled = folder("SPEC_ASSEMBLE");
    let device = gpu::device_name();
    let mut needed = None;
    for file in spec::files() {
        let name = file.name.to_string();
        trials.push(match &assembled {
            Some(folder) => {
                let folder = folder.clone();
                Trial::test(format!("assemble::{name}"), move || {
                    assemble(&name, &folder)
                })
            }
            None => {
                let results = Arc::clone(&results);
                let test = move || {
                    let output = run_child(&name)?;
                    let verdict = report::verdict(&name, &output);
                    let mut results = results.lock().map_err(|e| e.to_string())?;
                    results.insert(name.clone(), output);
                    Ok(verdict?)
                };
                let needed = needed.get_or_insert_with(|| needs_gpu(&device));
                needed.trial(Trial::test(format!("cuda::{}", file.name), test))
            }
        });
    }
    // More children would not be faster: the device queues their work, and each child takes memory on it.
    args.test_threads = Some(args.test_threads.unwrap_or(4));
    let begin = Instant::now();
    let conclusion = libtest_mimic::run(&args, trials);
    if let (Some(path), Ok(device)) = (folder("SPEC_REPORT"), device) {
        let results = results.lock().expect("no test panicked in it");
        let text = report::report(&device, &results, begin.elapsed());
        std::fs::write(path, text).expect("the report can be written");
    }
    conclusion.exit();
}

/// Runs a file on the device. In the output, failures and the device's statistics follow the section of the table.
fn on_device(file: &File) -> String {
    let machine = gpu::Gpu::open(folder("SPEC_CUBINS")).expect("a device");
    let machine = Rc::new(RefCell::new(machine));
    let counts = spec::run(file.source, machine.clone());
    let work = machine.borrow().work;
    report::output(&file.name, &counts, &work)
}

/// Fills the folder with the code of a file's images while the interpreter runs the file.
fn assemble(name: &str, folder: &Path) -> Result<(), Failed> {
    let ptxas = tools::ptxas().ok_or("no ptxas; run .ci/install-ptxas")?;
    std::fs::create_dir_all(folder)?;
    let file = file(name).ok_or("no such file")?;
    let machine = cubins::Assembler::new(&ptxas, folder);
    let Counts { failed, .. } = spec::run(file.source, Rc::new(RefCell::new(machine)));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}

/// Runs a child and returns its output about a file, or an error if the child crashes or hangs.
fn run_child(name: &str) -> Result<String, Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    // The driver does not report the frame sizes of an image from its cache.
    child.env(CHILD, name).env("CUDA_CACHE_DISABLE", "1");
    Ok(everwarp_testkit::run(&mut child, LIMIT)?.success()?)
}

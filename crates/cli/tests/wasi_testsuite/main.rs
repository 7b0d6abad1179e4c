//! The official test suite of WASI, preview 1, on one of the engines.
//!
//! The suite is not part of this repository: `WASI_TESTSUITE` names a folder with its programs as modules, such as `tests`
//! in a checkout whose programs have been built. Without it the test is reported as ignored.
//! `WASI_TESTSUITE_ENGINE` is `cpu` (the default), `cuda`, or `service-cpu` or `service-cuda` (an engine of a service that the
//! test starts), `WASI_TESTSUITE_TABLE` a file for the table of results, and `WASI_TESTSUITE_GROUPS` into how many groups
//! the programs are divided, by default as many as the machine runs at once.
//!
//! Each program gets copies of the folders that it uses. Programs run in child processes, which are killed when they take
//! too long: on the CPU engine in one each; on a GPU in one for each group, because an engine takes
//! longer to start than programs to run. Before that another process compiles the group's image, which takes longest,
//! and leaves it in the cache; so all groups are compiled at once, and one engine runs at a time.

mod engine;
mod program;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Duration;

use everwarp::Select;
use everwarp_testkit::{Needed, Outcome};
use libtest_mimic::{Arguments, Trial};
use program::{Ended, Program, find};

/// The variable with the path of a child's work, by which the child also knows that it is one.
const CHILD: &str = "EVERWARP_WASI_TESTSUITE_CHILD";
/// The variable with the folder of the service's socket.
const SERVICE: &str = "EVERWARP_WASI_TESTSUITE_SERVICE";
/// Assembling a module for a GPU takes up to four seconds.
const PER_PROGRAM: Duration = Duration::from_secs(30);

/// Where programs run.
struct Engine {
    name: String,
    service: Option<TestService>,
}

/// A service in a folder of its own, which ends with this value.
struct TestService(tempfile::TempDir);

impl TestService {
    fn start(engine: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("a temporary folder: {e}"))?;
        let service = Self(folder);
        let up = service.command(&["up", "--detach", "--engine", engine]);
        match up.status.success() {
            true => Ok(service),
            false => Err(String::from_utf8_lossy(&up.stderr).into_owned()),
        }
    }

    fn command(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        let folder = self.0.path();
        command
            .args(args)
            .env("XDG_RUNTIME_DIR", folder)
            .env("XDG_CONFIG_HOME", folder);
        everwarp_testkit::output(&mut command)
    }

    fn socket_folder(&self) -> PathBuf {
        self.0.path().join("everwarp")
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.command(&["down", "--now"]);
    }
}

/// How programs ended, with their numbers.
type Ends = Vec<(usize, Option<Ended>)>;

/// The work of a child.
#[derive(serde::Deserialize, serde::Serialize)]
struct Work {
    engine: String,
    prepare: bool,
    programs: Vec<Program>,
}

/// The folder of the service's socket, in a child.
fn socket_folder() -> Result<PathBuf, &'static str> {
    let folder = std::env::var_os(SERVICE).ok_or("there is no service")?;
    Ok(folder.into())
}

fn child(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let work: Work = serde_json::from_slice(&std::fs::read(file)?)?;
    let under = file.parent().ok_or("a file without a folder")?;
    match work.engine.as_str() {
        "cpu" => engine::cpu(&work.programs, under),
        "service-cpu" => engine::service(Select::Cpu, &work.programs, under, &socket_folder()?),
        "service-cuda" => engine::service(Select::Cuda, &work.programs, under, &socket_folder()?),
        _ => engine::cuda(&work.programs, under, work.prepare),
    }
}

/// Runs programs in a child and returns the end of each program that the child reached.
fn run(engine: &Engine, programs: &[Program], prepare: bool) -> std::io::Result<Vec<Ended>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("work.json");
    let work = Work {
        engine: engine.name.clone(),
        prepare,
        programs: programs.to_vec(),
    };
    std::fs::write(&file, serde_json::to_vec(&work)?)?;
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(service) = &engine.service {
        command.env(SERVICE, service.socket_folder());
    }
    let finished = everwarp_testkit::run(
        command.env(CHILD, &file),
        PER_PROGRAM * programs.len() as u32,
    )?;
    std::io::stderr().write_all(&finished.stderr)?;
    match finished.outcome {
        Outcome::Exited(status) if status.success() => {}
        Outcome::Exited(status) => {
            eprintln!("a child with {} programs failed: {status}", programs.len());
        }
        Outcome::TimedOut(_) => eprintln!("a child with {} programs took too long", programs.len()),
    }
    // A child that was killed may have left half a line.
    let whole = finished.stdout.split_inclusive(|&byte| byte == b'\n');
    whole
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| Ok(serde_json::from_slice(line)?))
        .collect()
}

/// The ends of some of the programs, each with its number; `None` if the child did not reach the program. The engine of one
/// group runs at a time.
fn run_group(
    engine: &Engine,
    group: &[(usize, &Program)],
    turn: &Mutex<()>,
) -> std::io::Result<Ends> {
    if engine.name != "cuda" {
        let one = |(number, program): &(usize, &Program)| {
            let mut ended = run(engine, &[(*program).clone()], false)?;
            Ok((*number, ended.pop()))
        };
        return group.iter().map(one).collect();
    }
    let programs: Vec<_> = group
        .iter()
        .map(|(_, program)| (*program).clone())
        .collect();
    run(engine, &programs, true)?;
    let turn = turn.lock().expect("nothing panics in its turn");
    let ended = run(engine, &programs, false)?;
    drop(turn);
    let ended = ended
        .into_iter()
        .map(Some)
        .chain(std::iter::repeat_with(|| None));
    let numbers = group.iter().map(|(number, _)| *number);
    Ok(numbers.zip(ended).collect())
}

/// The ends of all programs, in their order.
fn run_all(
    engine: &Engine,
    programs: &[Program],
    groups: NonZeroUsize,
) -> std::io::Result<Vec<Option<Ended>>> {
    let turn = Mutex::new(());
    // Programs of one language are about as large, so every group gets some of each.
    let group = |first| {
        programs
            .iter()
            .enumerate()
            .skip(first)
            .step_by(groups.get())
    };
    let ends: std::io::Result<Vec<Ends>> = std::thread::scope(|scope| {
        let start = |first| {
            let (group, turn) = (group(first).collect::<Vec<_>>(), &turn);
            scope.spawn(move || run_group(engine, &group, turn))
        };
        let threads: Vec<_> = (0..groups.get()).map(start).collect();
        let threads = threads.into_iter();
        threads
            .map(|t| t.join().expect("it does not panic"))
            .collect()
    });
    let mut ends: Ends = ends?.into_iter().flatten().collect();
    ends.sort_by_key(|(number, _)| *number);
    Ok(ends.into_iter().map(|(_, ended)| ended).collect())
}

fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(CHILD) {
        return match child(Path::new(&file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let folder = std::env::var_os("WASI_TESTSUITE");
    let folder = folder.ok_or("WASI_TESTSUITE names no folder with them");
    let needed = Needed::look("the programs of the WASI suite", &folder);
    let test = Trial::test("all_programs_of_the_suite_pass", move || {
        match suite(Path::new(&folder?))? {
            true => Ok(()),
            false => Err("some programs failed; they are named above".into()),
        }
    });
    let trials = vec![needed.trial(test)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs a suite as the environment says; returns whether all passed.
fn suite(folder: &Path) -> Result<bool, String> {
    let engine = std::env::var("WASI_TESTSUITE_ENGINE").unwrap_or_else(|_| "cpu".to_owned());
    if !["cpu", "cuda", "service-cpu", "service-cuda"].contains(&engine.as_str()) {
        return Err(format!(
            "WASI_TESTSUITE_ENGINE is cpu, cuda, service-cpu or service-cuda, not {engine}"
        ));
    }
    let served = engine.strip_prefix("service-");
    let service = served.map(TestService::start).transpose()?;
    let engine = Engine {
        name: engine,
        service,
    };
    let groups = match std::env::var("WASI_TESTSUITE_GROUPS") {
        Ok(groups) => groups
            .parse()
            .map_err(|_| format!("WASI_TESTSUITE_GROUPS is a number above 0, not {groups}"))?,
        Err(_) => available_parallelism().map_err(|e| format!("the machine's cores: {e}"))?,
    };
    let shown = folder.display();
    let programs = find(folder).map_err(|e| format!("WASI_TESTSUITE={shown}: {e}"))?;
    if programs.is_empty() {
        return Err(format!(
            "WASI_TESTSUITE={shown}: there are no programs in it; guests/README.md says how they are built"
        ));
    }
    let ends = run_all(&engine, &programs, groups).map_err(|e| format!("the children: {e}"))?;

    let place = match engine.name.strip_prefix("service-") {
        None => format!("on the {} engine", engine.name),
        Some(served) => format!("on the {served} engine of a service"),
    };
    let mut table = format!("WASI test suite, preview 1, {place}\n\n");
    let mut counts = BTreeMap::<&str, (usize, usize)>::new();
    for (program, ended) in programs.iter().zip(&ends) {
        let complaint = match ended {
            None => Some("its child did not reach it".to_owned()),
            Some(ended) => program.complaint(ended),
        };
        let count = counts.entry(program.language()).or_default();
        count.1 += 1;
        let word = match complaint {
            None => {
                count.0 += 1;
                "pass"
            }
            Some(why) => {
                eprintln!("{} in {}: {why}\n", program.name(), program.language());
                "FAIL"
            }
        };
        let (language, name) = (program.language(), program.name());
        writeln!(table, "{language:15} {name:40} {word}").expect("a string takes it");
    }
    table.push('\n');
    for (language, (passed, all)) in &counts {
        writeln!(table, "{language:15} {passed} of {all} pass").expect("a string takes it");
    }
    println!("{table}");
    if let Some(file) = std::env::var_os("WASI_TESTSUITE_TABLE") {
        std::fs::write(file, &table).map_err(|e| format!("WASI_TESTSUITE_TABLE: {e}"))?;
    }
    Ok(counts.values().all(|(passed, all)| passed == all))
}

//! `everwarp run MODULE.wasm`: one process, or many of one module.

mod cpu;
mod cuda;
mod engine;
mod job;
mod lines;
mod options;
pub(crate) mod signal;
mod tally;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::{Device, Select, cuda_device_count};
use everwarp_process::{Bytes, Input, Output};
use serde::Serialize;

use job::Job;
use lines::StdinLines;
pub(crate) use options::Options;
use tally::Tally;

use crate::control::{Folder, Request, Server};
use crate::error::CliError;
use crate::output::print_json;
use crate::run::Args;

/// Whether the name of a program means a module.
pub(crate) fn is_module(program: &str) -> bool {
    Path::new(program).extension().is_some_and(|e| e == "wasm")
}

/// What is printed of several processes, and with `--json` of one.
#[derive(Debug, Serialize)]
struct Report {
    program: String,
    engine: &'static str,
    /// How many processes run at once: threads of the CPU engine, places on a GPU.
    threads: usize,
    instances: u32,
    succeeded: u32,
    failed: u32,
    /// Those that a signal kept from beginning; the others that it ended are among the failed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_begun: Option<u32>,
    /// How many ended for each reason.
    reasons: BTreeMap<String, u32>,
    /// The code of a single process that ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u32>,
    /// The first failure, by the order of beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    fuel_used: u64,
    /// Reading, validating and compiling the module.
    load_s: f64,
    /// From the beginning of the first process to the end of the last.
    elapsed_s: f64,
    instances_per_s: f64,
}

/// What is to be run.
struct Plan<'a> {
    args: &'a Args,
    path: &'a Path,
    bytes: &'a [u8],
    instances: u32,
    lines: Option<StdinLines>,
    job: Arc<Job>,
}

impl Plan<'_> {
    fn single(&self) -> bool {
        self.instances == 1
    }

    /// The arguments of a process, of which the first is the module's name.
    fn arguments(&self, number: u32) -> Vec<String> {
        let mut all = vec![self.args.program.clone()];
        all.extend(self.args.process.args(number));
        all
    }

    /// The standard input that a process has to itself.
    fn line(&self, number: u32) -> Option<Bytes> {
        self.lines.as_ref().map(|lines| lines.of(number))
    }

    /// Standard input of the others: the command's own goes to a single process.
    fn input(&self) -> Input {
        match self.single() {
            true => Input::Inherit,
            false => Input::Empty,
        }
    }

    /// Where standard output and standard error go: as they are, or in whole lines where several processes share
    /// them. With `--json` standard output belongs to the object.
    fn outputs(&self) -> (Output, Output) {
        let many = !self.single() || self.args.process.tag;
        let lines = Output::Lines {
            tag: self.args.process.tag,
            to_stderr: self.args.json,
        };
        let choose = |in_lines| if in_lines { lines } else { Output::Inherit };
        (choose(many || self.args.json), choose(many))
    }
}

/// How all of them ran.
struct Ran {
    engine: &'static str,
    width: usize,
    on: String,
    load: Duration,
    elapsed: Duration,
    tally: Tally,
}

fn describe(r: &Report, on: &str) -> String {
    let mut reasons: Vec<_> = r.reasons.iter().map(|(k, n)| format!("{n} {k}")).collect();
    reasons.extend(r.not_begun.map(|n| format!("{n} not begun")));
    format!(
        "{} processes on {on}: {}\n{:.6} s ({:.0} processes/s), {} fuel",
        r.instances,
        reasons.join(", "),
        r.elapsed_s,
        r.instances_per_s,
        r.fuel_used
    )
}

/// The GPU that processes run on, if they do and there may be many. One process is at home on a core: a lane of a GPU is
/// many times slower, and only many of them are fast together.
fn gpu(args: &Args, engine: Select) -> Result<Option<Device>, CliError> {
    let many = match args.process.instances() {
        Some(instances) => instances > 1,
        None => args.process.stdin_lines.is_some(),
    };
    let wanted = match engine {
        Select::Cpu => false,
        Select::Cuda if args.size.is_some() => {
            return Err(CliError::NotOnEngine {
                option: "--size",
                engine: "CUDA",
                other: "cpu",
            });
        }
        Select::Cuda => true,
        Select::Auto => many && args.size.is_none() && cuda_device_count().is_ok_and(|n| n > 0),
    };
    Ok(match wanted {
        true => Some(Device::open(Select::Cuda)?),
        false => None,
    })
}

/// Lets `everwarp ps` and `everwarp kill` reach the processes. Work goes on without them where that fails.
fn serve(job: &Arc<Job>) -> Option<Server> {
    let job = job.clone();
    let answers = Arc::new(move |request: Request| job.answer(&request));
    let server = Server::start(&Folder::of_user(), answers);
    server
        .inspect_err(|e| eprintln!("everwarp: warning: `everwarp ps` will not find this: {e}"))
        .ok()
}

/// Runs the module; the answer is the command's exit code.
pub(crate) fn main(args: &Args) -> Result<u8, CliError> {
    args.process.check()?;
    let wanted = args.process.instances();
    let path = PathBuf::from(&args.program);
    let bytes = std::fs::read(&path).map_err(|source| CliError::Input {
        path: path.clone(),
        source,
    })?;
    let engine = args.engine.parse()?;
    // To open a GPU takes a while.
    let job = Arc::new(Job::new(&args.program));
    signal::listen(&job)?;
    let server = serve(&job);
    let begin = Instant::now();
    let gpu = gpu(args, engine)?;
    let opening = begin.elapsed();
    let file = args.process.stdin_lines.as_deref();
    let lines = file.map(|file| StdinLines::read(file, gpu.as_ref()));
    let lines = lines.transpose()?;
    let instances = match (&lines, file) {
        (Some(lines), Some(file)) => lines.instances(file, wanted)?,
        _ => wanted.unwrap_or(1),
    };
    let gpu = gpu.filter(|_| instances > 1 || engine == Select::Cuda);
    let plan = Plan {
        args,
        path: &path,
        bytes: &bytes,
        instances,
        lines,
        job,
    };
    let ran = match &gpu {
        Some(gpu) => cuda::run(&plan, gpu, opening),
        None => cpu::run(&plan),
    }?;
    drop(server);
    let tally = ran.tally;
    let signal = plan.job.signal();
    let (succeeded, failed) = (tally.succeeded, tally.failed);
    let elapsed_s = ran.elapsed.as_secs_f64();
    let reasons = tally.reasons();
    let code = tally.first.as_ref().map_or(Some(0), |(_, how)| how.code());
    let first = tally.first.map(|(pid, how)| CliError::Process {
        pid: pid.to_string(),
        reason: how.reason(),
    });
    let report = Report {
        program: args.program.clone(),
        engine: ran.engine,
        threads: ran.width,
        instances,
        succeeded,
        failed,
        not_begun: signal.map(|_| instances - succeeded - failed),
        reasons,
        exit_code: code.filter(|_| instances == 1),
        first_failure: first.as_ref().map(CliError::to_string),
        fuel_used: tally.fuel_used,
        load_s: ran.load.as_secs_f64(),
        elapsed_s,
        instances_per_s: f64::from(instances) / elapsed_s,
    };
    if args.json {
        print_json(&report)?;
    } else if instances > 1 || signal.is_some() {
        eprintln!("{}", describe(&report, &ran.on));
    }
    if let Some(signal) = signal {
        let done = report.succeeded;
        return Err(CliError::Signal {
            signal,
            done,
            instances,
        });
    }
    match (first, report.exit_code) {
        // The system has room for 8 bits, and a code of 256 must not look like success.
        (_, Some(code)) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, None) => Ok(0),
        (Some(first), None) if instances == 1 => Err(first),
        (Some(first), None) => Err(CliError::Processes {
            failed: report.failed,
            instances,
            first: Box::new(first),
        }),
    }
}

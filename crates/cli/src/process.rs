//! `everwarp run MODULE.wasm`: one process, or many of one module.

mod options;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use everwarp::Select;
use everwarp_process::{Config, Host, Input, Output, Program, Reason};
use serde::Serialize;

pub(crate) use options::Options;

use crate::error::CliError;
use crate::output::print_json;
use crate::run::Args;

/// Whether the name of a program means a module.
pub(crate) fn is_module(program: &str) -> bool {
    Path::new(program).extension().is_some_and(|e| e == "wasm")
}

/// What is printed of several processes, and with `--json` of one.
#[derive(Debug, Default, Serialize)]
struct Report {
    program: String,
    engine: &'static str,
    threads: usize,
    instances: u32,
    succeeded: u32,
    failed: u32,
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

/// What the process with this number is given.
fn config(args: &Args, number: u32) -> Config {
    let options = &args.process;
    let single = options.instances() == 1;
    // With --json standard output belongs to the object.
    let lines = Output::Lines {
        tag: options.tag,
        to_stderr: args.json,
    };
    let (stdout, stderr) = match (single, options.tag) {
        (true, false) if args.json => (lines, Output::Inherit),
        (true, false) => (Output::Inherit, Output::Inherit),
        _ => (lines, lines),
    };
    let mut all = vec![args.program.clone()];
    all.extend(options.args(number));
    Config {
        args: all,
        env: options.env(number),
        directories: options.dir.clone(),
        stdin: match single {
            true => Input::Inherit,
            false => Input::Empty,
        },
        stdout,
        stderr,
        fuel: options.fuel,
        memory_limit: options.memory,
    }
}

fn key(reason: &Reason) -> String {
    match reason {
        Reason::Normal(code) => format!("exit code {code}"),
        Reason::Trap { kind, .. } => format!("trap: {kind}"),
        other => other.word().to_owned(),
    }
}

fn describe(r: &Report) -> String {
    let reasons: Vec<_> = r.reasons.iter().map(|(k, n)| format!("{n} {k}")).collect();
    format!(
        "{} processes on {} threads of the CPU engine: {}\n{:.6} s ({:.0} processes/s), {} fuel",
        r.instances,
        r.threads,
        reasons.join(", "),
        r.elapsed_s,
        r.instances_per_s,
        r.fuel_used
    )
}

/// Runs the module; the answer is the command's exit code.
pub(crate) fn main(args: &Args) -> Result<u8, CliError> {
    if args.engine.parse::<Select>()? == Select::Cuda {
        return Err(CliError::ProcessEngine);
    }
    args.process.check()?;
    let threads = match args.size {
        None => None,
        Some(size) => Some(NonZeroUsize::new(size as usize).ok_or(CliError::Value {
            option: "--size",
            rule: "at least 1",
            value: 0,
        })?),
    };
    let path = PathBuf::from(&args.program);
    let begin = Instant::now();
    let bytes = std::fs::read(&path).map_err(|source| CliError::Input {
        path: path.clone(),
        source,
    })?;
    let program = Program::load(&bytes).map_err(|source| CliError::Program { path, source })?;
    let load_s = begin.elapsed().as_secs_f64();
    let host = Host::start(threads).map_err(CliError::ProcessHost)?;
    let instances = args.process.instances();
    let mut report = Report {
        program: args.program.clone(),
        engine: "cpu",
        threads: host.threads(),
        instances,
        load_s,
        ..Report::default()
    };
    let begin = Instant::now();
    let pids: Vec<_> = (0..instances)
        .map(|number| host.spawn(&program, config(args, number)))
        .collect::<Result<_, _>>()?;
    let mut first = None;
    for pid in pids {
        let exit = host.wait(pid).expect("nobody else waits for it");
        report.fuel_used = report.fuel_used.saturating_add(exit.fuel_used);
        *report.reasons.entry(key(&exit.reason)).or_default() += 1;
        if exit.success() {
            report.succeeded += 1;
            continue;
        }
        report.failed += 1;
        let reason = exit.reason;
        first.get_or_insert(CliError::Process { pid, reason });
    }
    report.elapsed_s = begin.elapsed().as_secs_f64();
    report.instances_per_s = f64::from(instances) / report.elapsed_s;
    report.first_failure = first.as_ref().map(CliError::to_string);
    let code = match &first {
        None => Some(0),
        Some(CliError::Process {
            reason: Reason::Normal(code),
            ..
        }) => Some(*code),
        Some(_) => None,
    };
    report.exit_code = code.filter(|_| instances == 1);
    if args.json {
        print_json(&report)?;
    } else if instances > 1 {
        eprintln!("{}", describe(&report));
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

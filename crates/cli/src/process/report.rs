//! The report that is printed when the processes have exited, and the command's exit code.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use everwarp::process::OutputError;
use serde::Serialize;
use signal_hook::consts::SIGPIPE;

use super::plan::Plan;
use super::run::Ran;
use crate::error::CliError;
use crate::exit_code;
use crate::output::print_json;

/// The report on several processes, and with `--json` on one.
#[derive(Debug, Serialize)]
struct ProcessReport {
    program: String,
    engine: String,
    /// How many processes run at the same time: threads of the CPU engine, places on a GPU.
    threads: u32,
    instances: u32,
    succeeded: u32,
    failed: u32,
    /// Those that started on the CPU engine while the code for the GPU was assembled.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_on_cpu: Option<u64>,
    /// The processes that a signal kept from starting. Those that it ended are among the failed ones.
    #[serde(rename = "not_begun", skip_serializing_if = "Option::is_none")]
    not_started: Option<u32>,
    /// How many ended for each reason.
    reasons: BTreeMap<String, u32>,
    /// The code of a single process that exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u32>,
    /// The first failure, in the order of starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    /// `null` if fuel was not counted.
    fuel_used: Option<u64>,
    /// Opening the device, and validating, compiling and loading the module.
    load_s: f64,
    /// From the start of the first process to the exit of the last.
    elapsed_s: f64,
    instances_per_s: f64,
}

impl ProcessReport {
    fn new(plan: &Plan<'_>, ran: &Ran) -> Self {
        let tally = &ran.tally;
        let elapsed_s = ran.elapsed.as_secs_f64();
        let code = match &tally.first_failure {
            Some((_, status)) => status.code(),
            None => Some(0),
        };
        let counted = tally.succeeded + tally.failed;
        Self {
            program: plan.args.program.clone(),
            engine: ran.engine.to_string(),
            threads: ran.width,
            instances: plan.instances,
            succeeded: tally.succeeded,
            failed: tally.failed,
            started_on_cpu: ran.meanwhile.as_ref().map(|meanwhile| meanwhile.on_cpu),
            not_started: plan
                .job
                .signal()
                .map(|_| plan.instances.saturating_sub(counted)),
            reasons: tally.reasons(),
            exit_code: code.filter(|_| plan.single()),
            first_failure: first_failure(ran).map(|error| error.to_string()),
            fuel_used: tally.fuel_used,
            load_s: ran.load.as_secs_f64(),
            elapsed_s,
            instances_per_s: f64::from(plan.instances) / elapsed_s,
        }
    }

    fn describe(&self, place: &str) -> String {
        let reasons = self.reasons.iter();
        let mut reasons: Vec<_> = reasons.map(|(key, n)| format!("{n} {key}")).collect();
        reasons.extend(self.not_started.map(|n| format!("{n} not started")));
        let started_on_cpu = self.started_on_cpu;
        let started_on_cpu =
            started_on_cpu.map(|n| format!(", {n} of them started on the CPU engine"));
        let fuel = self.fuel_used.map(|fuel| format!(", {fuel} fuel"));
        format!(
            "{} processes on {place}{}: {}\n{:.6} s ({:.0} processes/s){}",
            self.instances,
            started_on_cpu.unwrap_or_default(),
            reasons.join(", "),
            self.elapsed_s,
            self.instances_per_s,
            fuel.unwrap_or_default()
        )
    }
}

fn first_failure(ran: &Ran) -> Option<CliError> {
    let (pid, status) = ran.tally.first_failure.as_ref()?;
    Some(CliError::Process {
        pid: pid.to_string(),
        reason: status.to_string(),
    })
}

/// Prints the report and returns the command's exit code.
pub(super) fn finish(plan: &Plan<'_>, ran: Ran) -> Result<u8, CliError> {
    let mut report = ProcessReport::new(plan, &ran);
    if plan.per_connection() {
        return finish_serving(plan, &mut report, &ran);
    }
    let signal = plan.job.signal();
    if plan.args.json {
        print_json(&report)?;
    } else if signal == Some(SIGPIPE) {
        // The reader of the output has what it wanted, and expects no report.
    } else if !plan.single() || signal.is_some() {
        eprintln!("{}", report.describe(&ran.place));
    }
    match signal {
        Some(SIGPIPE) => return Ok(exit_code::of_signal(SIGPIPE)),
        Some(signal) => {
            return Err(CliError::Signal {
                signal,
                done: report.succeeded,
                instances: plan.instances,
            });
        }
        None => {}
    }
    let code = exit_code_of(&report, &ran);
    match &ran.lost {
        Some(lost) => with_lost_output(code, lost),
        None => code,
    }
}

/// Prints the report on connections. A server that a signal has ended has done what it was asked to do.
fn finish_serving(plan: &Plan<'_>, report: &mut ProcessReport, ran: &Ran) -> Result<u8, CliError> {
    report.instances = report.succeeded + report.failed;
    report.not_started = None;
    report.instances_per_s = f64::from(report.instances) / report.elapsed_s;
    match plan.args.json {
        true => print_json(report)?,
        false => eprintln!("{}", report.describe(&ran.place)),
    }
    match &ran.lost {
        Some(lost) => with_lost_output(Ok(0), lost),
        None => Ok(0),
    }
}

/// The exit code if no output was lost.
fn exit_code_of(report: &ProcessReport, ran: &Ran) -> Result<u8, CliError> {
    match (first_failure(ran), report.exit_code) {
        (_, Some(code)) => Ok(exit_code::of_process(code)),
        (None, None) => Ok(0),
        (Some(first), None) if report.instances == 1 => Err(first),
        (Some(first), None) => Err(CliError::Processes {
            failed: report.failed,
            instances: report.instances,
            first: Box::new(first),
        }),
    }
}

/// Lost output makes a successful run fail. A run that failed anyway keeps its own code and error.
fn with_lost_output(code: Result<u8, CliError>, lost: &OutputError) -> Result<u8, CliError> {
    if lost.kind == ErrorKind::BrokenPipe {
        return match code {
            Ok(0) => Ok(exit_code::of_signal(SIGPIPE)),
            code => code,
        };
    }
    match code {
        Ok(0) => Err(CliError::LostOutput(lost.clone())),
        code => {
            eprintln!("everwarp: {lost}");
            code
        }
    }
}

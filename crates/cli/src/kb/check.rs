//! Findings with this machine's figures.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use everwarp::{Device, Select};
use everwarp_kb::{Check, Finding, FindingId, Knowledge, Report, ReportRow};
use serde::Serialize;

use super::show::figure;
use super::{data_folder, knowledge};
use crate::bench::{Outcome, measure_part, today};
use crate::error::CliError;
use crate::output::{check_place, print, print_json, write_file};

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The finding's number; without one, all findings that a benchmark tests.
    id: Option<FindingId>,
    /// Read the figures from this report of `everwarp bench --json` or `--out`.
    #[arg(long, conflicts_with = "measure")]
    report: Option<PathBuf>,
    /// Measure again, also where the newest report has the figures.
    #[arg(long)]
    measure: bool,
    /// Where to measure: cpu, cuda, or auto.
    #[arg(long, default_value = "auto")]
    engine: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One of our rows for a finding.
#[derive(Debug, Serialize)]
struct CheckedRow<'k> {
    #[serde(flatten)]
    check: &'k Check,
    /// Seconds, or units a second, as `figure` says; `null` if this machine has not measured it.
    value: Option<f64>,
}

/// A finding with this machine's figures.
#[derive(Debug, Serialize)]
pub(super) struct Checked<'k> {
    #[serde(flatten)]
    finding: &'k Finding,
    device: Option<&'k str>,
    measured: Vec<CheckedRow<'k>>,
}

impl<'k> Checked<'k> {
    pub(super) fn new(finding: &'k Finding, report: Option<&'k Report>) -> Self {
        let row = |check| CheckedRow {
            check,
            value: report.and_then(|r| r.figure(check)),
        };
        Self {
            finding,
            device: report.map(|r| r.device.as_str()),
            measured: finding.checks.iter().map(row).collect(),
        }
    }
}

/// Where the figures of `kb check` are kept.
fn report_path() -> PathBuf {
    data_folder().join("report.json")
}

/// The figures that this machine has measured, if it has.
pub(super) fn newest_report() -> Result<Option<Report>, CliError> {
    let path = report_path();
    match path.exists() {
        true => Ok(Some(Report::read(&path)?)),
        false => Ok(None),
    }
}

pub(super) fn main(args: &CheckArgs) -> Result<(), CliError> {
    let knowledge = knowledge()?;
    let findings: Vec<&Finding> = match args.id {
        Some(id) => vec![knowledge.finding(id)?],
        None => knowledge
            .findings()
            .iter()
            .filter(|f| !f.checks.is_empty())
            .collect(),
    };
    if let [finding] = findings[..]
        && finding.checks.is_empty()
    {
        return Err(CliError::NoCheck {
            id: finding.id.to_string(),
        });
    }
    let report = match &args.report {
        Some(path) => Report::read(path)?,
        None => measured(args, &findings)?,
    };
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|f| Checked::new(f, Some(&report)))
            .collect();
        return print_json(&rows);
    }
    let parts: Vec<_> = findings
        .iter()
        .map(|finding| with_figures(finding, &report))
        .collect();
    print(parts.join("\n").trim_end())
}

/// A finding and this machine's figures, a line each.
fn with_figures(finding: &Finding, report: &Report) -> String {
    let claimed = match (finding.number.as_str(), finding.hardware.as_str()) {
        ("", _) => "no figure".to_owned(),
        (number, "") => number.to_owned(),
        (number, hardware) => format!("{number} ({hardware})"),
    };
    let mut out = format!(
        "{:>5}  {}\n       source: {claimed}\n",
        finding.id, finding.claim
    );
    for check in &finding.checks {
        let value = match report.figure(check) {
            Some(value) => figure(check, value),
            None => "not measured on this engine".to_owned(),
        };
        writeln!(
            out,
            "       here:   {value}, {} ({})",
            check.what, report.device
        )
        .expect("writing to a string cannot fail");
    }
    out
}

/// The newest report, with what it lacks of these findings measured now.
fn measured(args: &CheckArgs, findings: &[&Finding]) -> Result<Report, CliError> {
    let device = Device::open(args.engine.parse::<Select>()?)?;
    let (engine, name) = (device.kind().to_string(), device.name());
    // A GPU's context would take memory and time from the children's.
    drop(device);
    let before = newest_report()?.filter(|report| !args.measure && report.device == name);
    let mut report = before.unwrap_or_default();
    let wanted: BTreeSet<(&str, &str)> = findings
        .iter()
        .flat_map(|f| &f.checks)
        .filter(|check| report.figure(check).is_none())
        .map(|check| (check.bench.as_str(), check.part.as_str()))
        .collect();
    if wanted.is_empty() {
        return Ok(report);
    }
    // Figures that cannot be kept should not be measured.
    let path = report_path();
    std::fs::create_dir_all(data_folder()).map_err(|source| CliError::Output {
        path: data_folder(),
        source,
    })?;
    check_place(&path)?;
    for (bench, part) in wanted {
        eprintln!("measuring {bench} {part} on {engine}");
        match rows(&engine, bench, part) {
            Ok(rows) => {
                let old = |row: &ReportRow| {
                    rows.iter()
                        .any(|r| (&r.bench, &r.row, &r.case) == (&row.bench, &row.row, &row.case))
                };
                report.rows.retain(|row| !old(row));
                report.rows.extend(rows);
            }
            // A part that this engine does not have is shown as not measured.
            Err(why) => eprintln!("everwarp: warning: {bench} {part} was not measured: {why}"),
        }
    }
    report.device = name;
    report.date = today();
    write_file(&path, |out| {
        serde_json::to_writer_pretty(out, &report).map_err(std::io::Error::from)
    })?;
    Ok(report)
}

/// Measures one part in a process of its own, and returns the rows whose results were right.
fn rows(engine: &str, bench: &str, part: &str) -> Result<Vec<ReportRow>, String> {
    let mut rows = Vec::new();
    for outcome in measure_part(engine, bench, part) {
        match outcome {
            Outcome::Measured(row) if row.verified => rows.push(ReportRow {
                bench: row.bench,
                row: row.row,
                case: row.case,
                median_s: row.median_s,
                units: row.units,
                unit: row.unit,
                verified: row.verified,
                raw: row.raw,
            }),
            Outcome::Failed { error, .. } => {
                return Err(error.lines().next().unwrap_or("it failed").to_owned());
            }
            _ => {}
        }
    }
    Ok(rows)
}

/// The book's chapter: every claim with its source, and our figure where we have one.
pub(super) fn chapter(report: Option<&Path>) -> Result<String, CliError> {
    let knowledge = Knowledge::built_in();
    let report = report.map(Report::read).transpose()?;
    let mut out = String::from(
        "# What is known about GPU-centric computing\n\n\
         `everwarp kb chapter` writes this page from the findings in `crates/kb/data`; `everwarp kb search` finds them. A\n\
         line that begins with *here* is our own figure.\n",
    );
    for topic in knowledge.topics() {
        write!(out, "\n## {}\n\n{}\n\n", topic.title, topic.about)
            .expect("writing to a string cannot fail");
        for finding in knowledge.of_topic(topic) {
            let number = match finding.number.is_empty() {
                true => String::new(),
                false => format!(" **{}**", finding.number),
            };
            writeln!(
                out,
                "- {}{number} ([{}]({}), {})",
                finding.claim, finding.id, finding.source, finding.confidence
            )
            .expect("writing to a string cannot fail");
            for check in &finding.checks {
                let found = report.as_ref().and_then(|r| Some((r, r.figure(check)?)));
                if let Some((report, value)) = found {
                    writeln!(
                        out,
                        "  - *here*: {}: **{}** ({})",
                        check.what,
                        figure(check, value),
                        report.device
                    )
                    .expect("writing to a string cannot fail");
                }
            }
        }
    }
    Ok(out)
}

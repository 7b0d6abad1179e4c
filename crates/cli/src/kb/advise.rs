//! The five questions, and what follows from the answers.

use std::fmt::Write;
use std::io::{BufRead, IsTerminal};

use everwarp_kb::advise::{Advice, Costs, Dependencies, Question, advise, duration};

use super::check::newest_report;
use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct AdviseArgs {
    /// How long a piece of work takes on one core, such as `20us` or `1.5ms`.
    #[arg(long, value_parser = seconds)]
    piece: Option<f64>,
    /// How many pieces there are, such as `100000` or `1e6`.
    #[arg(long, value_parser = amount)]
    count: Option<f64>,
    /// What the pieces depend on: none, known (the graph is known beforehand) or unknown (each decides what comes next).
    #[arg(long, value_parser = dependencies)]
    depends: Option<Dependencies>,
    /// Bytes that must cross the bus if the work runs on a GPU, such as `0`, `64M` or `2G`.
    #[arg(long, value_parser = bytes)]
    bytes: Option<f64>,
    /// How soon the first answer is wanted, such as `50us`, or `any`.
    #[arg(long, value_parser = latency)]
    latency: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{text}` is no number from 0")),
    }
}

fn with_unit(text: &str, units: &[(&str, f64)], rule: &str) -> Result<f64, String> {
    let text = text.trim();
    let found = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (digits, factor) = found.ok_or_else(|| rule.to_owned())?;
    number(digits)
        .map(|n| n * factor)
        .map_err(|_| rule.to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    // Longer units first: `s` is the end of all of them.
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    with_unit(
        text,
        &units,
        "give a time with its unit, such as 800ns, 20us, 1.5ms or 2s",
    )
}

fn latency(text: &str) -> Result<f64, String> {
    match text.trim() {
        "any" => Ok(f64::INFINITY),
        text => seconds(text).map_err(|rule| format!("{rule}, or `any`")),
    }
}

fn amount(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| match n >= 1.0 {
        true => Ok(n.round()),
        false => Err("give a number from 1".to_owned()),
    })
}

fn bytes(text: &str) -> Result<f64, String> {
    let units = [
        ("K", 1024.0),
        ("M", 1048576.0),
        ("G", 1073741824.0),
        ("", 1.0),
    ];
    with_unit(text, &units, "give bytes, such as 65536, 64M or 2G")
}

fn dependencies(text: &str) -> Result<Dependencies, String> {
    match text.trim() {
        "none" => Ok(Dependencies::None),
        "known" => Ok(Dependencies::Known),
        "unknown" => Ok(Dependencies::Unknown),
        _ => Err("use none, known or unknown".to_owned()),
    }
}

/// The answer that was given, or asks for it on a terminal.
fn ask<T>(
    given: Option<T>,
    flag: &'static str,
    question: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, CliError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(CliError::NeedsAnswer { flag });
    }
    loop {
        eprint!("{question} ");
        let mut line = String::new();
        match input.lock().read_line(&mut line) {
            Ok(0) | Err(_) => return Err(CliError::NeedsAnswer { flag }),
            Ok(_) => {}
        }
        match parse(line.trim()) {
            Ok(answer) => return Ok(answer),
            Err(rule) => eprintln!("{rule}"),
        }
    }
}

pub(super) fn main(args: &AdviseArgs) -> Result<(), CliError> {
    let question = Question {
        piece_s: ask(
            args.piece,
            "--piece",
            "How long does a piece take on one core (20us)?",
            seconds,
        )?,
        count: ask(args.count, "--count", "How many pieces are there?", amount)?,
        dependencies: ask(
            args.depends,
            "--depends",
            "What do they depend on (none, known, unknown)?",
            dependencies,
        )?,
        bytes: ask(
            args.bytes,
            "--bytes",
            "How many bytes must cross the bus (0, 64M)?",
            bytes,
        )?,
        latency_s: ask(
            args.latency,
            "--latency",
            "How soon is the first answer wanted (50us, any)?",
            latency,
        )?,
    };
    let report = newest_report()?;
    let costs = report.as_ref().map_or_else(Costs::published, Costs::of);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let advice = advise(&question, &costs, cores as f64);
    match args.json {
        true => print_json(&advice),
        false => print(&text(&advice)),
    }
}

fn text(advice: &Advice) -> String {
    let mut out = format!(
        "{}\n  {}\n\ncosts of {}\n",
        advice.tool.name(),
        advice.why,
        advice.device
    );
    for estimate in &advice.estimates {
        let ids: Vec<_> = estimate.findings.iter().map(ToString::to_string).collect();
        let total = match estimate.ruled_out.is_empty() {
            true => duration(estimate.total_s),
            false => "no".to_owned(),
        };
        let why = match estimate.ruled_out.as_str() {
            "" => &estimate.arithmetic,
            why => why,
        };
        writeln!(
            out,
            "  {:19} {total:>10}  {why} (findings {})",
            estimate.tool.name(),
            ids.join(", ")
        )
        .expect("writing to a string cannot fail");
    }
    if !everwarp::cuda_device_count().is_ok_and(|n| n > 0) {
        out.push_str("\nThis machine has no GPU that can be used; `everwarp doctor` says why.");
    }
    out.push_str("\nActors are not built yet. A benchmark of the real work beats this arithmetic.");
    out
}

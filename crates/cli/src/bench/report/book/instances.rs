//! The table of processes, from the file that `bench/instances/run` writes.

use std::fmt::Write;

use serde::Deserialize;

use super::{Source, cell};
use crate::bench::stats::median;

/// A run of `bench/instances/run`.
#[derive(Debug, Deserialize)]
pub(super) struct Instances {
    pub(super) date: String,
    pub(super) cores: u32,
    pub(super) count: u32,
    pub(super) rows: Vec<InstancesRow>,
}

/// One command on one engine.
#[derive(Debug, Deserialize)]
pub(super) struct InstancesRow {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) engine: String,
    pub(super) interleaved: bool,
    /// The device, in words.
    pub(super) on: String,
    pub(super) command: String,
    pub(super) warm_ups: u32,
    /// From the start of the first process to the end of the last, of each run.
    pub(super) inside_s: Vec<f64>,
    /// The whole command on a shell's clock. Empty if it was not measured.
    pub(super) command_s: Vec<f64>,
}

impl Instances {
    pub(super) fn row(&self, name: &str, engine: &str, interleaved: bool) -> Option<&InstancesRow> {
        let rows = &mut self.rows.iter();
        rows.find(|r| r.name == name && r.engine == engine && r.interleaved == interleaved)
    }

    /// The number of processes, with commas.
    pub(super) fn count(&self) -> String {
        let digits = self.count.to_string();
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    }
}

impl InstancesRow {
    /// What the engine is called in a table.
    pub(super) fn engine(&self) -> &'static str {
        match (self.engine.as_str(), self.interleaved) {
            ("cpu", _) => "wasmtime",
            (_, true) => "GPU, interleaved",
            (_, false) => "GPU",
        }
    }
}

/// A time of the table: seconds with three digits that count.
pub(super) fn seconds(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.4} s"),
        v if v < 10.0 => format!("{v:.2} s"),
        v => format!("{v:.1} s"),
    }
}

/// How often the first time goes into the second.
pub(super) fn factor(ours: f64, other: f64) -> String {
    match other / ours {
        f if f >= 10.0 => format!("{f:.0} x"),
        f if f >= 1.0 => format!("{f:.1} x"),
        f => format!("**loses** {:.1} x", 1.0 / f),
    }
}

/// The median with the smallest and the largest time.
fn spread(times: &[f64]) -> String {
    if times.is_empty() {
        return "not measured".to_owned();
    }
    let text = seconds(median(times.to_vec()));
    if times.len() == 1 {
        return text;
    }
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    format!("{text} ({} to {})", seconds(least), seconds(most))
}

/// The comparison of the medians with the CPU engine's, where both were measured.
fn compared(row: &InstancesRow, cpu: Option<&InstancesRow>, whole: bool) -> String {
    let times = |r: &InstancesRow| {
        if whole {
            r.command_s.clone()
        } else {
            r.inside_s.clone()
        }
    };
    match cpu {
        Some(cpu) if row.engine != "cpu" && !times(row).is_empty() && !times(cpu).is_empty() => {
            factor(median(times(row)), median(times(cpu)))
        }
        _ => String::new(),
    }
}

pub(super) fn write(out: &mut String, source: &Source<Instances>) {
    let run = &source.content;
    let devices: Vec<&str> = ["cuda", "cpu"]
        .iter()
        .filter_map(|engine| run.rows.iter().find(|r| r.engine == *engine))
        .map(|r| r.on.as_str())
        .collect();
    let _ = write!(
        out,
        "\n## Processes: a GPU and wasmtime\n\n\
         `bench/instances/run` starts {} processes of each guest on both engines of one machine and compares their \
         outputs, which must be equal. {}; {} cores, {} (`{}`).\n\n\
         **Inside** is the time that the command reports: from the start of the first process to the end of the last. \
         **Command** is the whole command on a shell's clock: it also opens the device, starts the engine, reserves memory \
         and loads the machine code, which a first run has compiled and cached. A factor above 1 means that the GPU is \
         faster. *Interleaved* is `--interleave`.\n\n\
         | guest | engine | warm-ups, runs | inside | | command | |\n|---|---|---|---|---|---|---|\n",
        run.count(),
        devices.join("; "),
        run.cores,
        run.date,
        source.path
    );
    for row in &run.rows {
        let cpu = run.row(&row.name, "cpu", false);
        let _ = writeln!(
            out,
            "| `{}`: {} | {} | {}, {} | {} | {} | {} | {} |",
            row.name,
            cell(&row.what),
            row.engine(),
            row.warm_ups,
            row.inside_s.len(),
            spread(&row.inside_s),
            compared(row, cpu, false),
            spread(&row.command_s),
            compared(row, cpu, true),
        );
    }
    let uneven = |r: &InstancesRow| {
        let cpu = run.row(&r.name, "cpu", false);
        cpu.is_some_and(|c| c.warm_ups != r.warm_ups || c.inside_s.len() != r.inside_s.len())
    };
    if run.rows.iter().any(uneven) {
        let _ = writeln!(
            out,
            "\nIn this run the two engines did not have the same number of warm-ups and runs, which favours the GPU. The script \
             that measured it has been replaced by one that treats both alike."
        );
    }
    let _ = writeln!(out, "\nThe commands:\n\n```sh");
    for row in &run.rows {
        let _ = writeln!(out, "{}", row.command.replace("{instance}", "'{instance}'"));
    }
    let _ = writeln!(out, "```");
}

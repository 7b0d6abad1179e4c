//! The files that a run writes: JSON, CSV, plots, and one page for people.

#[cfg(test)]
mod book;
mod csv;
mod html;
mod machine;
mod svg;

use std::path::Path;

use everwarp::Device;
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use super::stats::Outcome;
use crate::error::CliError;
use crate::output::write_file;
use machine::Machine;
pub(crate) use machine::today;

/// A whole run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) bench: String,
    pub(crate) engine: String,
    pub(crate) device: String,
    /// The reason for choosing this device.
    pub(crate) why: String,
    #[serde(flatten)]
    machine: Machine,
    pub(crate) rows: Vec<Outcome>,
}

impl Report {
    /// An empty report with date, machine and command.
    pub(crate) fn begin(bench: &str, device: &Device) -> Self {
        Self {
            bench: bench.to_owned(),
            engine: device.kind().to_string(),
            device: device.name(),
            why: device.why().to_owned(),
            machine: Machine::here(),
            rows: Vec::new(),
        }
    }

    /// Writes all files to a folder, which is created if it does not exist.
    pub(crate) fn write(&self, folder: &Path, experiments: &[&Experiment]) -> Result<(), CliError> {
        std::fs::create_dir_all(folder).map_err(|source| CliError::Output {
            path: folder.to_owned(),
            source,
        })?;
        let text = |name: &str, text: &str| {
            write_file(&folder.join(name), |out| out.write_all(text.as_bytes()))
        };
        let json = serde_json::to_string_pretty(self).expect("numbers and strings are always JSON");
        text("bench.json", &(json + "\n"))?;
        text("bench.csv", &csv::write(&self.rows))?;
        let mut sections = Vec::new();
        for experiment in experiments {
            let mine = |o: &&Outcome| o.bench() == experiment.name;
            let rows: Vec<&Outcome> = self.rows.iter().filter(mine).collect();
            let plots = svg::plots(experiment, &rows);
            for plot in &plots {
                text(&format!("{}.svg", plot.name), &plot.svg)?;
            }
            sections.push(html::Section {
                experiment,
                rows,
                plots,
            });
        }
        text("report.html", &html::write(self, &sections))
    }
}

/// Escapes text for XML and HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

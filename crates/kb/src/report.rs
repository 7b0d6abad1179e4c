//! Figures of `everwarp bench`, as findings are compared with them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::KbError;
use crate::finding::{Check, Figure};

/// A measured row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// The experiment.
    pub bench: String,
    /// The row.
    pub row: String,
    /// The case.
    #[serde(default)]
    pub case: String,
    /// Seconds for a repetition, by the median.
    pub median_s: f64,
    /// Units that a repetition does.
    pub units: f64,
    /// What a unit is.
    pub unit: String,
    /// Whether every result was right.
    pub verified: bool,
    /// Raw limits measured in the same run.
    #[serde(default)]
    pub raw: Vec<(String, f64)>,
}

/// A report: one machine's rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The device that ran.
    #[serde(default)]
    pub device: String,
    /// When.
    #[serde(default)]
    pub date: String,
    /// The rows that were measured.
    pub rows: Vec<ReportRow>,
}

impl Report {
    /// Reads what `everwarp bench --json` prints or `--out` writes. Rows that were skipped or failed are left out.
    ///
    /// # Errors
    /// [`KbError::File`], or [`KbError::Report`] if the file is something else.
    pub fn read(path: &Path) -> Result<Self, KbError> {
        #[derive(Deserialize)]
        struct Whole {
            device: String,
            date: String,
            rows: Vec<serde_json::Value>,
        }
        let text = std::fs::read_to_string(path).map_err(|source| KbError::File {
            path: path.to_owned(),
            source,
        })?;
        let whole: Whole = serde_json::from_str(&text).map_err(|e| KbError::Report {
            path: path.to_owned(),
            message: e.to_string(),
        })?;
        let rows = whole
            .rows
            .into_iter()
            .filter_map(|row| serde_json::from_value(row).ok());
        Ok(Self {
            device: whole.device,
            date: whole.date,
            rows: rows.collect(),
        })
    }

    /// This machine's figure for a check, if the report has it.
    pub fn figure(&self, check: &Check) -> Option<f64> {
        let is = |row: &&ReportRow| {
            row.bench == check.bench && row.row == check.row && row.case == check.case
        };
        let row = self.rows.iter().find(is)?;
        match &check.figure {
            Figure::Time => Some(row.median_s / row.units),
            Figure::Rate => Some(row.units / row.median_s),
            Figure::Total => Some(row.median_s),
            Figure::Raw(name) => row
                .raw
                .iter()
                .find(|(known, _)| known == name)
                .map(|raw| raw.1),
        }
    }
}

//! Rows: what was measured, how often, and what it is to be compared with.

use serde::Serialize;
use serde_json::Value;

/// One measured row. Times are in seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    row: &'static str,
    engine: String,
    device: String,
    /// What one repetition does.
    what: String,
    n: usize,
    min_s: f64,
    median_s: f64,
    mean_s: f64,
    p99_s: f64,
    /// Standard deviation.
    spread_s: f64,
    /// How many things one repetition does, for a rate or a time of each.
    units: f64,
    unit: &'static str,
    /// Units a second, by the median.
    per_second: f64,
    /// Whether every result was equal to the reference.
    verified: bool,
    /// Raw limits of the same machine and process: name and value.
    raw: Vec<(&'static str, f64)>,
}

impl Row {
    pub(crate) fn new(
        engine: &everwarp::Engine,
        what: &str,
        unit: &'static str,
        units: f64,
        mut times: Vec<f64>,
    ) -> Self {
        assert!(!times.is_empty(), "a row has repetitions");
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let mean = times.iter().sum::<f64>() / n as f64;
        let spread = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        let at = |q: f64| times[((n as f64 * q).ceil() as usize).clamp(1, n) - 1];
        Self {
            row: "",
            engine: engine.kind().to_string(),
            device: engine.device_name(),
            what: what.to_owned(),
            n,
            min_s: times[0],
            median_s: at(0.5),
            mean_s: mean,
            p99_s: at(0.99),
            spread_s: spread,
            units,
            unit,
            per_second: units / at(0.5),
            verified: false,
            raw: Vec::new(),
        }
    }
    pub(crate) fn verified(self, verified: bool) -> Self {
        Self { verified, ..self }
    }
    pub(crate) fn raw(mut self, name: &'static str, value: f64) -> Self {
        self.raw.push((name, value));
        self
    }
    pub(crate) fn named(self, row: &'static str) -> Self {
        Self { row, ..self }
    }
}

/// The median of some times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

fn rate(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e3 => format!("{:.2} k", v / 1e3),
        v => format!("{v:.2} "),
    }
}

/// The rows as a table for people.
pub(crate) fn table(rows: &[Value]) -> String {
    let mut text = format!(
        "{:<13}{:>7}{:>13}{:>13}{:>13}{:>22}  result\n",
        "row", "n", "min", "median", "p99", "rate"
    );
    for row in rows {
        let name = row["row"].as_str().unwrap_or_default();
        if let Some(error) = row["error"].as_str() {
            text += &format!("{name:<13}failed: {error}\n");
            continue;
        }
        let f = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let unit = format!(
            "{}{}/s",
            rate(f("per_second")),
            row["unit"].as_str().unwrap_or_default()
        );
        let right = if row["verified"] == Value::Bool(true) {
            "right"
        } else {
            "WRONG"
        };
        let times = [f("min_s"), f("median_s"), f("p99_s")].map(time);
        text += &format!(
            "{name:<13}{:>7}{:>13}{:>13}{:>13}{unit:>22}  {right}",
            row["n"], times[0], times[1], times[2]
        );
        for raw in row["raw"].as_array().into_iter().flatten() {
            let (name, value) = (
                raw[0].as_str().unwrap_or_default(),
                raw[1].as_f64().unwrap_or(f64::NAN),
            );
            let value = if name.ends_with("_s") {
                time(value)
            } else {
                rate(value)
            };
            text += &format!(
                "; {} {value}",
                name.trim_end_matches("_s").replace('_', " ")
            );
        }
        text += "\n";
    }
    text.trim_end().to_owned()
}

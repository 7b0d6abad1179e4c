//! Rows for people: numbers with units, and the table on the terminal.

use super::stats::{Outcome, Role, Row};

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.2} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

pub(crate) fn rate(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e3 => format!("{:.2} k", v / 1e3),
        v => format!("{v:.2} "),
    }
}

/// What a row's comparison comes to; losses are called losses.
pub(crate) fn verdict(row: &Row) -> Option<String> {
    let rival = row.rivals.first()?;
    Some(match row.over(rival) {
        a if a >= 1.0 => format!("{a:.2} x as fast as {}", rival.row),
        a => format!("LOSES by {:.2} x to {}", 1.0 / a, rival.row),
    })
}

/// Raw values as text: names that end in `_s` are times, others are rates.
pub(crate) fn raw(row: &Row) -> Vec<String> {
    let text = |(name, value): &(String, f64)| match name.strip_suffix("_s") {
        Some(name) => format!("{} {}", name.replace('_', " "), time(*value)),
        None => format!("{} {}", name.replace('_', " "), rate(*value)),
    };
    row.raw.iter().map(text).collect()
}

fn line(row: &Row) -> String {
    let times = [row.min_s, row.median_s, row.p99_s, row.mean_s, row.spread_s];
    let times = times.map(|t| format!("{:>12}", time(t))).concat();
    let rate = format!("{}{}/s", rate(row.per_second), row.unit);
    let mut notes = vec![if row.verified { "right" } else { "WRONG" }.to_owned()];
    notes.extend(verdict(row));
    notes.extend(raw(row).into_iter().map(|r| r.trim().to_owned()));
    let mark = match row.role {
        Role::Ours => '*',
        _ => ' ',
    };
    format!(
        "{mark}{:<18}{:>24}{:>7}{times}{rate:>18}{:>12}  {}\n",
        row.row,
        row.case,
        row.n,
        time(row.median_s / row.units),
        notes.join("; ")
    )
}

/// All rows as a table; those of the engine are marked with a star.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        " {:<18}{:>24}{:>7}{:>12}{:>12}{:>12}{:>12}{:>12}{:>18}{:>12}  result\n",
        "row", "case", "n", "min", "median", "p99", "mean", "spread", "rate", "each"
    );
    for outcome in outcomes {
        text += &match outcome {
            Outcome::Measured(row) => line(row),
            Outcome::Skipped {
                row, case, skipped, ..
            } => format!(" {row:<18}{case:>24}  not measured: {skipped}\n"),
            Outcome::Failed { row, error, .. } => format!(" {row:<18}  FAILED: {error}\n"),
        };
    }
    text.trim_end().to_owned()
}

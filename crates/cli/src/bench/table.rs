//! Rows for people: numbers with units, and the table on the terminal.

use super::columns::{COLUMNS, Column, InTable};
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

/// The comparison of a row with its fastest rival, in words; a loss is called a loss.
pub(crate) fn verdict(row: &Row) -> Option<String> {
    let rival = row.rivals.first()?;
    Some(match row.over(rival) {
        a if a >= 1.0 => format!("{a:.2} x as fast as {}", rival.row),
        a => format!("LOSES by {:.2} x to {}", 1.0 / a, rival.row),
    })
}

/// Raw values as text. A name that ends in `_s` is a time; any other is a rate.
pub(crate) fn raw(row: &Row) -> Vec<String> {
    let text = |(name, value): &(String, f64)| match name.strip_suffix("_s") {
        Some(name) => format!("{} {}", name.replace('_', " "), time(*value)),
        None => format!("{} {}", name.replace('_', " "), rate(*value)),
    };
    row.raw.iter().map(text).collect()
}

/// One line of cells and, at its end, the notes.
fn line(cell: impl Fn(&Column) -> String, notes: &str) -> String {
    let mut line = String::new();
    for column in &COLUMNS {
        match column.table {
            InTable::Left(width) => line += &format!("{:<width$}", cell(column)),
            InTable::Right(width) => line += &format!("{:>width$}", cell(column)),
            InTable::No | InTable::Note => {}
        }
    }
    format!("{line}  {notes}\n")
}

fn measured(row: &Row) -> String {
    let notes = COLUMNS.iter().filter(|c| c.table == InTable::Note);
    let notes: Vec<String> = notes
        .map(|c| (c.text)(row))
        .filter(|t| !t.is_empty())
        .collect();
    let mark = match row.role {
        Role::Ours => '*',
        _ => ' ',
    };
    format!("{mark}{}", line(|c| (c.text)(row), &notes.join("; ")))
}

/// All rows as a table; those of the engine are marked with a star.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(" {}", line(|c| c.title.to_owned(), "result"));
    for outcome in outcomes {
        text += &match outcome {
            Outcome::Measured(row) => measured(row),
            Outcome::Skipped {
                row, case, skipped, ..
            } => format!(" {row:<18}{case:>24}  not measured: {skipped}\n"),
            Outcome::Failed { row, error, .. } => format!(" {row:<18}  FAILED: {error}\n"),
        };
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_row_its_times_and_its_comparison() {
        let mut row = Row::new("what", "task", 4.0, vec![2.0])
            .size(10)
            .verified(true)
            .rival("fast", 1.0)
            .raw("limit_s", 0.5);
        row.row = "ours".into();
        let text = table(&[Outcome::Measured(Box::new(row))]);
        let (head, line) = text.split_once('\n').expect("a head and a line");
        for heading in [
            "row", "case", "n", "min", "median", "p99", "rate", "each", "result",
        ] {
            assert!(head.split_whitespace().any(|h| h == heading), "{head}");
        }
        assert!(line.starts_with("*ours"), "{line}");
        assert!(
            line.contains("2.000 s") && line.contains("2.00 task/s"),
            "{line}"
        );
        assert!(
            line.ends_with("500.000 ms  right; LOSES by 2.00 x to fast; limit 500.000 ms"),
            "{line}"
        );
    }
}

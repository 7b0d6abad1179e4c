//! All rows as one table for programs.

use crate::bench::columns::for_programs;
use crate::bench::stats::Outcome;

/// A field, in quotes if it needs them (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The columns' names, then one line for each row. The last column says why a row was not measured.
pub(super) fn write(rows: &[Outcome]) -> String {
    let names: Vec<&str> = for_programs().map(|c| c.name).chain(["note"]).collect();
    let mut text = names.join(",") + "\n";
    for outcome in rows {
        let (mut fields, note) = match outcome {
            Outcome::Measured(row) => (
                for_programs().map(|c| (c.value)(row)).collect(),
                String::new(),
            ),
            Outcome::Skipped {
                bench,
                row,
                case,
                skipped,
            } => (
                vec![bench.clone(), row.clone(), case.clone()],
                format!("not measured: {skipped}"),
            ),
            Outcome::Failed { bench, row, error } => {
                (vec![bench.clone(), row.clone()], format!("failed: {error}"))
            }
        };
        fields.resize(names.len() - 1, String::new());
        fields.push(note);
        let fields: Vec<String> = fields.iter().map(|f| field(f)).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Row;

    #[test]
    fn every_line_has_every_column() {
        let row = Row::new("one, two", "task", 2.0, vec![0.5]).size(7);
        let failed = Outcome::Failed {
            bench: "A".into(),
            row: "x".into(),
            error: "said \"no\"".into(),
        };
        let text = write(&[Outcome::Measured(Box::new(row)), failed]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let columns = lines[0].split(',').count();
        assert_eq!(
            lines[1].replace("\"one, two\"", "x").split(',').count(),
            columns
        );
        assert!(lines[2].ends_with(",\"failed: said \"\"no\"\"\""));
        assert_eq!(lines[2].split(',').count(), columns);
    }

    /// Programs that read the file find columns by these names.
    #[test]
    fn names_and_order_are_those_of_the_committed_files() {
        assert_eq!(
            write(&[]),
            "bench,row,case,size,role,engine,device,what,n,min_s,median_s,mean_s,p99_s,spread_s,units,unit,\
             per_second,verified,rival,rival_median_s,advantage,raw,note\n"
        );
    }
}

//! All rows as one table for programs.

use crate::bench::stats::{Outcome, Role, Row};

const HEAD: &str = "bench,row,case,size,role,engine,device,what,n,min_s,median_s,mean_s,p99_s,spread_s,units,unit,\
                    per_second,verified,rival,rival_median_s,advantage,raw,note";

/// A field, in quotes if it needs them (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn measured(r: &Row) -> Vec<String> {
    let role = match r.role {
        Role::Ours => "ours",
        Role::Rival => "rival",
        Role::Limit => "limit",
    };
    let raw: Vec<String> = r.raw.iter().map(|(n, v)| format!("{n}={v:e}")).collect();
    let number = |v: f64| format!("{v:e}");
    let rival = r.rivals.first();
    vec![
        r.bench.clone(),
        r.row.clone(),
        r.case.clone(),
        r.size.map_or_else(String::new, |s| s.to_string()),
        role.to_owned(),
        r.engine.clone(),
        r.device.clone(),
        r.what.clone(),
        r.n.to_string(),
        number(r.min_s),
        number(r.median_s),
        number(r.mean_s),
        number(r.p99_s),
        number(r.spread_s),
        number(r.units),
        r.unit.clone(),
        number(r.per_second),
        r.verified.to_string(),
        rival.map_or_else(String::new, |v| v.row.clone()),
        rival.map_or_else(String::new, |v| number(v.median_s)),
        r.advantage().map_or_else(String::new, number),
        raw.join(";"),
        String::new(),
    ]
}

pub(super) fn write(rows: &[Outcome]) -> String {
    let columns = HEAD.split(',').count();
    let mut text = format!("{HEAD}\n");
    for outcome in rows {
        let mut fields = match outcome {
            Outcome::Measured(row) => measured(row),
            Outcome::Skipped {
                bench, row, case, ..
            } => vec![bench.clone(), row.clone(), case.clone()],
            Outcome::Failed { bench, row, .. } => vec![bench.clone(), row.clone()],
        };
        let note = match outcome {
            Outcome::Measured(_) => None,
            Outcome::Skipped { skipped, .. } => Some(format!("not measured: {skipped}")),
            Outcome::Failed { error, .. } => Some(format!("failed: {error}")),
        };
        if let Some(note) = note {
            fields.resize(columns - 1, String::new());
            fields.push(note);
        }
        let fields: Vec<String> = fields.iter().map(|f| field(f)).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let columns = HEAD.split(',').count();
        assert_eq!(
            lines[1].replace("\"one, two\"", "x").split(',').count(),
            columns
        );
        assert!(lines[2].ends_with(",\"failed: said \"\"no\"\"\""));
        assert_eq!(lines[2].split(',').count(), columns);
    }
}

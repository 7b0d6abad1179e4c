//! One page with everything in it: no scripts, no fonts, nothing from elsewhere.

use std::fmt::Write;

use super::svg::Plot;
use super::{Report, escape};
use crate::bench::experiment::Experiment;
use crate::bench::stats::{Outcome, Role, Row};
use crate::bench::table::{rate, raw, time, verdict};

/// An experiment with what it gave.
pub(super) struct Section<'s> {
    pub(super) experiment: &'s Experiment,
    pub(super) rows: Vec<&'s Outcome>,
    pub(super) plots: Vec<Plot>,
}

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; vertical-align: top; }
th { background: #f6f6f6; position: sticky; top: 0; }
td.text, th.text { text-align: left; } td.wide { white-space: normal; min-width: 14rem; }
tr.ours td { background: #fdf6f0; font-weight: 500; }
.win { color: #19692c; } .loss { color: #b00020; font-weight: 600; } .bad { background: #b00020; color: #fff; padding: 0 .3rem; }
.note { color: #666; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; } dt { font-weight: 600; } dd { margin: 0 0 .3rem 1rem; }";

pub(super) fn write(report: &Report, sections: &[Section<'_>]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>everwarp bench {bench} on {device}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>everwarp bench {bench}</h1>\n",
        bench = escape(&report.bench),
        device = escape(&report.device),
    );
    facts(&mut out, report);
    summary(&mut out, report);
    for section in sections {
        write_section(&mut out, section);
    }
    out + "</body>\n</html>\n"
}

fn facts(out: &mut String, report: &Report) {
    let m = &report.machine;
    let memory = format!("{:.0} GiB", m.memory_gib);
    let host = format!("{}, {} cores, {memory}; {}", m.processor, m.cores, m.system);
    let engine = format!("{} on {} ({})", report.engine, report.device, report.why);
    let _ = writeln!(out, "<dl>");
    for (name, value) in [
        ("Engine", engine.as_str()),
        ("Host", &host),
        ("Driver", &m.driver),
        ("Date", &m.date),
        ("Command", &m.command),
        ("Version", &m.version),
    ] {
        if !value.is_empty() {
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
        }
    }
    let _ = writeln!(out, "</dl>");
}

/// What a reader wants to know first: what failed, and where the engine loses.
fn summary(out: &mut String, report: &Report) {
    let rows = || report.rows.iter().filter_map(Outcome::row);
    let ours = || rows().filter(|r| r.role == Role::Ours && !r.rivals.is_empty());
    let lost = |r: &&Row| r.advantage().is_some_and(|a| a < 1.0);
    let (all, losses) = (ours().count(), ours().filter(lost).count());
    let bad = report.rows.iter().filter(|o| o.is_bad()).count();
    let _ = writeln!(
        out,
        "<h2>Summary</h2>\n<p>{} rows, of which {bad} failed or gave a wrong result. Of {all} rows of the engine that \
         have a rival, {} win and <span class=\"loss\">{losses} lose</span>. Each is compared with the fastest of its \
         rivals, by the median.</p>",
        report.rows.len(),
        all - losses,
    );
    if losses == 0 {
        return;
    }
    let _ = writeln!(out, "<details open><summary>Losses</summary>\n<ul>");
    for row in ours().filter(lost) {
        let name = format!("{} {} {}: ", row.bench, row.row, row.case);
        let text = verdict(row).unwrap_or_default();
        let _ = writeln!(
            out,
            "<li>{}<span class=\"loss\">{}</span></li>",
            escape(&name),
            escape(&text)
        );
    }
    let _ = writeln!(out, "</ul></details>");
}

fn write_section(out: &mut String, section: &Section<'_>) {
    let e = section.experiment;
    let _ = writeln!(
        out,
        "<h2>{}: {}</h2>\n<p>{}</p>",
        escape(e.name),
        escape(e.title),
        escape(e.about)
    );
    for plot in &section.plots {
        let _ = writeln!(out, "<figure>{}</figure>", plot.svg);
    }
    let _ = writeln!(
        out,
        "<table>\n<tr><th class=\"text\">row</th><th class=\"text\">case</th><th>n</th><th>min</th><th>median</th>\
         <th>p99</th><th>mean</th><th>spread</th><th>rate</th><th>each</th><th class=\"text\">result</th>\
         <th class=\"text\">against the fastest rival, and the others</th><th class=\"text\">raw limits</th>\
         <th class=\"text\">engine, device</th><th class=\"text\">what</th></tr>"
    );
    for outcome in &section.rows {
        match outcome {
            Outcome::Measured(row) => measured(out, row),
            Outcome::Skipped {
                row, case, skipped, ..
            } => {
                let _ = writeln!(
                    out,
                    "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td>\
                     <td class=\"text note\" colspan=\"13\">not measured: {}</td></tr>",
                    escape(row),
                    escape(case),
                    escape(skipped)
                );
            }
            Outcome::Failed { row, error, .. } => {
                let _ = writeln!(
                    out,
                    "<tr><td class=\"text\">{}</td><td></td><td class=\"text\" colspan=\"13\">\
                     <span class=\"bad\">failed</span> <pre>{}</pre></td></tr>",
                    escape(row),
                    escape(error)
                );
            }
        }
    }
    let _ = writeln!(out, "</table>");
}

fn measured(out: &mut String, row: &Row) {
    let class = if row.role == Role::Ours { "ours" } else { "" };
    let _ = write!(
        out,
        "<tr class=\"{class}\"><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td>",
        escape(&row.row),
        escape(&row.case),
        row.n
    );
    for seconds in [row.min_s, row.median_s, row.p99_s, row.mean_s, row.spread_s] {
        let _ = write!(out, "<td>{}</td>", time(seconds));
    }
    let result = match row.verified {
        true => "right",
        false => "<span class=\"bad\">WRONG</span>",
    };
    let (class, verdict) = match (row.advantage(), verdict(row)) {
        (Some(a), Some(text)) => (if a < 1.0 { "loss" } else { "win" }, text),
        _ => ("note", String::new()),
    };
    let others = row.rivals.iter().skip(1);
    let others: Vec<String> = others
        .map(|r| format!("{:.2} x {}", row.over(r), r.row))
        .collect();
    let _ = writeln!(
        out,
        "<td>{}{}/s</td><td>{}</td><td class=\"text\">{result}</td><td class=\"text wide\"><span class=\"{class}\">{}</span> \
         <span class=\"note\">{}</span></td>\
         <td class=\"text\">{}</td><td class=\"text\">{}, {}</td><td class=\"text wide\">{}</td></tr>",
        rate(row.per_second),
        escape(&row.unit),
        time(row.median_s / row.units),
        escape(&verdict),
        escape(&others.join(", ")),
        escape(&raw(row).join("; ")),
        escape(&row.engine),
        escape(&row.device),
        escape(&row.what)
    );
}

#[cfg(test)]
mod tests {
    use everwarp::{Device, Select};

    use super::*;
    use crate::bench::experiment::ALL;

    #[test]
    fn losses_failures_and_what_is_left_out_are_said() {
        let device = Device::open(Select::Cpu).expect("cores are always there");
        let mut report = Report::begin("A", &device);
        let mut lost = Row::new("x < y", "task", 1.0, vec![2.0])
            .size(10)
            .verified(true)
            .rival("fast", 1.0)
            .rival("slow", 8.0);
        lost.row = "lost".into();
        let wrong = Row::new("", "task", 1.0, vec![1.0]).size(10);
        report.rows = vec![
            Outcome::Measured(Box::new(lost)),
            Outcome::Measured(Box::new(wrong)),
            Outcome::Skipped {
                bench: "A".into(),
                row: "big".into(),
                case: "99".into(),
                skipped: "too long".into(),
            },
            Outcome::Failed {
                bench: "A".into(),
                row: "broken".into(),
                error: "it <crashed>".into(),
            },
        ];
        let section = Section {
            experiment: ALL[1],
            rows: report.rows.iter().collect(),
            plots: Vec::new(),
        };
        let page = write(&report, &[section]);
        for part in [
            "4 rows, of which 2 failed or gave a wrong result",
            "<span class=\"loss\">1 lose</span>",
            "LOSES by 2.00 x to fast",
            "4.00 x slow",
            "<span class=\"bad\">WRONG</span>",
            "not measured: too long",
            "it &lt;crashed&gt;",
            "x &lt; y",
        ] {
            assert!(page.contains(part), "the page lacks {part}");
        }
    }
}

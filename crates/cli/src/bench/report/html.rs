//! One page with everything in it: it loads no scripts, fonts or other files.

use std::fmt::Write;

use super::svg::Plot;
use super::{Report, escape};
use crate::bench::columns::{Column, InPage, for_page};
use crate::bench::experiment::Experiment;
use crate::bench::stats::{Outcome, Role, Row};
use crate::bench::table::verdict;

/// An experiment with its rows and plots.
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

/// The first things that a reader wants to know: the rows that failed, and the rows where the engine loses.
fn summary(out: &mut String, report: &Report) {
    let rows = || report.rows.iter().filter_map(Outcome::row);
    let ours = || rows().filter(|r| r.role == Role::Ours && !r.rivals.is_empty());
    let lost = |r: &&Row| r.advantage().is_some_and(|a| a < 1.0);
    let (all, losses) = (ours().count(), ours().filter(lost).count());
    let bad = report.rows.iter().filter(|o| o.is_bad()).count();
    let _ = writeln!(
        out,
        "<h2>Summary</h2>\n<p>{} rows; {bad} failed or gave a wrong result. {all} rows of the engine have a rival: {} win and \
         <span class=\"loss\">{losses} lose</span>. Each is compared with its fastest rival, by the median.</p>",
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
    let _ = writeln!(out, "<table>\n<tr>{}</tr>", heads());
    for outcome in &section.rows {
        match outcome {
            Outcome::Measured(row) => measured(out, row),
            Outcome::Skipped {
                row, case, skipped, ..
            } => {
                let note = format!("not measured: {}", escape(skipped));
                unmeasured(
                    out,
                    row,
                    case,
                    &format!("<span class=\"note\">{note}</span>"),
                );
            }
            Outcome::Failed { row, error, .. } => {
                let note = format!("<pre>{}</pre>", escape(error));
                unmeasured(
                    out,
                    row,
                    "",
                    &format!("<span class=\"bad\">failed</span> {note}"),
                );
            }
        }
    }
    let _ = writeln!(out, "</table>");
}

fn heads() -> String {
    let head = |column: &Column| match column.page {
        InPage::No => String::new(),
        InPage::Number => format!("<th>{}</th>", column.title),
        InPage::Text | InPage::Wide => format!("<th class=\"text\">{}</th>", column.title),
    };
    for_page().map(head).collect()
}

/// A row that has a note instead of figures.
fn unmeasured(out: &mut String, row: &str, case: &str, note: &str) {
    let _ = writeln!(
        out,
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\" colspan=\"{}\">{note}</td></tr>",
        escape(row),
        escape(case),
        for_page().count() - 2,
    );
}

fn measured(out: &mut String, row: &Row) {
    let class = if row.role == Role::Ours { "ours" } else { "" };
    let _ = write!(out, "<tr class=\"{class}\">");
    for column in for_page() {
        let mut text = escape(&(column.text)(row));
        let class = (column.class)(row);
        if !class.is_empty() {
            text = format!("<span class=\"{class}\">{text}</span>");
        }
        let _ = match column.page {
            InPage::No | InPage::Number => write!(out, "<td>{text}</td>"),
            InPage::Text => write!(out, "<td class=\"text\">{text}</td>"),
            InPage::Wide => write!(out, "<td class=\"text wide\">{text}</td>"),
        };
    }
    let _ = writeln!(out, "</tr>");
}

#[cfg(test)]
mod tests {
    use everwarp::{Device, Select};

    use super::*;
    use crate::bench::ALL;

    #[test]
    fn the_page_names_losses_failures_and_rows_that_were_left_out() {
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
            "4 rows; 2 failed or gave a wrong result",
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

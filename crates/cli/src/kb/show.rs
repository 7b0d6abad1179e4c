//! Findings as text.

use std::fmt::Write;

use everwarp_kb::advise::duration;
use everwarp_kb::{Check, Figure, Finding, Report};

/// Columns of a table's claims.
const CLAIM_WIDTH: usize = 96;

/// Makes a link for terminals that know them; elsewhere the text.
fn link(text: &str, address: &str, links: bool) -> String {
    match links && address.starts_with("https://") {
        true => format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\"),
        false => text.to_owned(),
    }
}

/// Text from a user or a file, without control characters.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Cuts text into lines at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// A row for each finding: number, claim, figures.
pub(super) fn table(findings: &[&Finding], links: bool) -> String {
    let mut out = String::new();
    for finding in findings {
        let id = format!("{:>5}", finding.id);
        let mut lines = wrap(&plain(&finding.claim), CLAIM_WIDTH);
        if !finding.number.is_empty() {
            lines.extend(wrap(&format!("[{}]", plain(&finding.number)), CLAIM_WIDTH));
        }
        for (number, line) in lines.iter().enumerate() {
            let head = if number == 0 {
                link(&id, &finding.source, links)
            } else {
                " ".repeat(id.len())
            };
            writeln!(out, "{head}  {line}").expect("writing to a string cannot fail");
        }
    }
    out.trim_end().to_owned()
}

/// A figure of a check with its unit.
pub(super) fn figure(check: &Check, value: f64) -> String {
    let rate = |value: f64| match value {
        v if v >= 1e9 => format!("{:.2} G/s", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M/s", v / 1e6),
        v => format!("{v:.0} /s"),
    };
    match &check.figure {
        Figure::Time | Figure::Total => duration(value),
        Figure::Rate => rate(value),
        Figure::Raw(name) if name.ends_with("_s") => duration(value),
        Figure::Raw(_) => rate(value),
    }
}

/// Everything about one finding.
pub(super) fn detail(finding: &Finding, report: Option<&Report>) -> String {
    let mut out = format!("{}  {}\n", finding.id, finding.topic);
    out.push_str(&wrap(&plain(&finding.claim), CLAIM_WIDTH).join("\n"));
    for (name, text) in [
        ("figures", &finding.number),
        ("hardware", &finding.hardware),
        ("source", &finding.source),
        ("confidence", &finding.confidence.to_string()),
        ("tags", &finding.tags.join(", ")),
    ] {
        if !text.is_empty() {
            write!(out, "\n{name:11} {}", plain(text)).expect("writing to a string cannot fail");
        }
    }
    for check in &finding.checks {
        let measured = report.and_then(|r| Some((r, r.figure(check)?)));
        let figure = match measured {
            Some((report, value)) => format!(
                "{} ({}, {})",
                figure(check, value),
                report.device,
                report.date
            ),
            None => format!("not measured here yet: everwarp kb check {}", finding.id),
        };
        write!(out, "\nhere        {}: {figure}", check.what)
            .expect("writing to a string cannot fail");
    }
    out
}

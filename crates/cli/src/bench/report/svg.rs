//! Plots as SVG, written by hand: lines over sizes on logarithmic axes, bars where the cases have names.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::escape;
use crate::bench::experiment::Experiment;
use crate::bench::stats::{Outcome, Role, Row};
use crate::bench::table::{rate, time};

/// A finished plot.
pub(super) struct Plot {
    /// Its file's name, without the ending.
    pub(super) name: String,
    pub(super) svg: String,
}

const WIDTH: f64 = 900.0;
const FONT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";
/// Colours that most people can tell apart, those of the engine first. Rivals are drawn with dashes as well.
const OURS: [&str; 5] = ["#c0392b", "#e67e22", "#8e44ad", "#d81b60", "#6d4c41"];
const OTHERS: [&str; 8] = [
    "#1f77b4", "#2ca02c", "#17becf", "#7f7f7f", "#005f73", "#bcbd22", "#4a5a9a", "#333333",
];

/// The plots of an experiment: one of lines, or one of bars for each case.
pub(super) fn plots(experiment: &Experiment, outcomes: &[&Outcome]) -> Vec<Plot> {
    let rows: Vec<&Row> = outcomes.iter().filter_map(|o| o.row()).collect();
    let sized: Vec<&Row> = rows.iter().filter(|r| r.size.is_some()).copied().collect();
    let mut list = Vec::new();
    if !sized.is_empty() {
        list.push(Plot {
            name: experiment.name.to_owned(),
            svg: lines(experiment, &sized),
        });
    }
    let mut cases: Vec<&str> = Vec::new();
    for row in rows
        .iter()
        .filter(|r| r.size.is_none() && !r.case.is_empty())
    {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    for case in cases {
        let of_case: Vec<&Row> = rows.iter().filter(|r| r.case == case).copied().collect();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let file: String = case.chars().map(plain).collect();
        list.push(Plot {
            name: format!("{}-{file}", experiment.name),
            svg: bars(case, &of_case),
        });
    }
    list
}

fn begin(height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" {FONT}>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"20\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}</text>\n",
        escape(title)
    )
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#333\">{content}</text>"
    );
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    );
}

/// The names of rows in their order, each with its colour and role.
fn series<'r>(rows: &[&'r Row]) -> Vec<(&'r str, &'static str, Role)> {
    let mut list: Vec<(&str, &str, Role)> = Vec::new();
    for row in rows {
        if list.iter().any(|(name, ..)| *name == row.row) {
            continue;
        }
        let ours = row.role == Role::Ours;
        let before = list.iter().filter(|s| (s.2 == Role::Ours) == ours).count();
        let colours: &[&'static str] = if ours { &OURS } else { &OTHERS };
        list.push((&row.row, colours[before % colours.len()], row.role));
    }
    list
}

/// Units a second over the size, both logarithmic.
fn lines(experiment: &Experiment, rows: &[&Row]) -> String {
    const HEIGHT: f64 = 480.0;
    const LEFT: f64 = 80.0;
    const RIGHT: f64 = 690.0;
    const TOP: f64 = 45.0;
    const BOTTOM: f64 = 430.0;
    let title = format!(
        "{}: {} (work a second, more is better)",
        experiment.name, experiment.title
    );
    let mut out = begin(HEIGHT, &title);
    let sizes: BTreeSet<u64> = rows.iter().filter_map(|r| r.size).collect();
    let log = |v: f64| v.max(1e-9).log10();
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
    };
    let (left, right) = ends(&mut sizes.iter().map(|&s| log(s as f64)));
    let (low, high) = ends(&mut rows.iter().map(|r| log(r.per_second)));
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let x = |size: u64| LEFT + (log(size as f64) - left) / (right - left).max(0.1) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (log(value) - low) / (high - low) * (BOTTOM - TOP);
    for decade in low as i32..=high as i32 {
        let value = 10f64.powi(decade);
        line(&mut out, (LEFT, y(value)), (RIGHT, y(value)), "#e3e3e3");
        let label = format!("{}/s", rate(value).replace(".00", ""));
        text(&mut out, LEFT - 8.0, y(value) + 4.0, "end", &label);
    }
    for &size in &sizes {
        line(&mut out, (x(size), TOP), (x(size), BOTTOM), "#f0f0f0");
        let label = rate(size as f64).replace(".00", "");
        text(&mut out, x(size), BOTTOM + 18.0, "middle", label.trim());
    }
    for (i, (name, colour, role)) in series(rows).into_iter().enumerate() {
        let mut points: Vec<&&Row> = rows.iter().filter(|r| r.row == name).collect();
        points.sort_by_key(|r| r.size);
        let at = |r: &&Row| (x(r.size.unwrap_or(1)), y(r.per_second));
        let path: Vec<String> = points
            .iter()
            .map(|r| format!("{:.1},{:.1}", at(r).0, at(r).1))
            .collect();
        let (width, dash) = match role {
            Role::Ours => (3.0, ""),
            Role::Rival => (1.5, " stroke-dasharray=\"6 3\""),
            Role::Limit => (1.5, " stroke-dasharray=\"1 3\""),
        };
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>",
            path.join(" ")
        );
        for r in &points {
            let (cx, cy) = at(r);
            let tip = format!("{name}, {}: {}", r.case, time(r.median_s));
            let _ = writeln!(
                out,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"><title>{}</title></circle>",
                escape(&tip)
            );
        }
        let key = TOP + 10.0 + i as f64 * 20.0;
        let _ = writeln!(
            out,
            "<line x1=\"710\" y1=\"{key}\" x2=\"740\" y2=\"{key}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>"
        );
        let name = if role == Role::Ours {
            format!("{name} (everwarp)")
        } else {
            name.to_owned()
        };
        text(&mut out, 748.0, key + 4.0, "start", &name);
    }
    out + "</svg>\n"
}

/// The median of each row of one case, fastest first, logarithmic.
fn bars(case: &str, rows: &[&Row]) -> String {
    const LEFT: f64 = 130.0;
    const RIGHT: f64 = 700.0;
    let mut sorted: Vec<&Row> = rows.to_vec();
    sorted.sort_by(|a, b| a.median_s.total_cmp(&b.median_s));
    let height = 50.0 + sorted.len() as f64 * 28.0;
    let mut out = begin(
        height,
        &format!("{case} (time, less is better; logarithmic)"),
    );
    let least = sorted[0].median_s;
    let most = sorted[sorted.len() - 1].median_s;
    let decades = (most / least).log10().max(0.1);
    for (i, row) in sorted.iter().enumerate() {
        let y = 42.0 + i as f64 * 28.0;
        let share = 0.15 + 0.85 * (row.median_s / least).log10() / decades;
        let width = share * (RIGHT - LEFT);
        let colour = if row.role == Role::Ours {
            OURS[0]
        } else {
            "#9db4c8"
        };
        text(&mut out, LEFT - 8.0, y + 15.0, "end", &row.row);
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>"
        );
        text(
            &mut out,
            LEFT + width + 8.0,
            y + 15.0,
            "start",
            &time(row.median_s),
        );
    }
    out + "</svg>\n"
}

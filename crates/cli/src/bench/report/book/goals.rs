//! The project's own goals, each with the measured figure; a goal that is not reached is called missed.

use std::fmt::Write;

use super::instances::Instances;
use super::{Results, throughput};
use crate::bench::stats::{Row, median};
use crate::bench::table::{rate, time};

/// The figure of a row that a goal is about.
#[derive(Clone, Copy)]
enum Figure {
    /// The median may be up to this many seconds.
    Median(f64),
    /// The time of one unit may be up to this many seconds.
    Each(f64),
    /// At least this many units a second.
    Rate(f64),
    /// The median may be up to this many times the raw limit with this name.
    TimesLimit(f64, &'static str),
}

/// Goals for rows of `everwarp bench`: experiment, row and case, what is measured, figure.
const ROWS: [(&str, &str, Figure); 12] = {
    use Figure::{Each, Median, Rate, TimesLimit};
    [
        (
            "core round_trip",
            "round trip, engine idle",
            TimesLimit(1.25, "three_hop_relay_s"),
        ),
        (
            "core fork_join",
            "a level that forks 32 tasks and joins",
            Each(5e-6),
        ),
        ("core epoch_swap", "epoch swap", Median(10e-6)),
        (
            "core start",
            "start of an engine, image cached",
            Median(50e-3),
        ),
        (
            "core bfs_chain",
            "breadth-first search, chain of 20,000",
            Median(25e-3),
        ),
        (
            "core bfs_roads",
            "breadth-first search, Moscow roads",
            Median(2e-3),
        ),
        ("P call", "a host call, one process", Each(4e-6)),
        ("P calls 4000", "host calls, 4,000 processes", Rate(3e6)),
        ("P reads 64", "reads of 4 KiB, 64 processes", Rate(0.5e6)),
        (
            "P begin 30000",
            "start of a process, 30,000 together",
            Each(1e-6),
        ),
        ("P children 500", "a child, 500 parents", Each(1e-6)),
        ("P load 1000", "pause for loading a module", Median(5e-3)),
    ]
};

/// How much faster than wasmtime on 16 cores these guests shall be.
const FASTER: f64 = 20.0;
const FASTER_ROWS: [&str; 5] = [
    "json",
    "forth-same",
    "forth-differ",
    "forth-file",
    "forth-line",
];

/// The largest share of CUDA C++'s time for compiled code, as processes have it.
const SHARE: f64 = 1.3;

fn line(out: &mut String, what: &str, goal: &str, measured: &str, reached: bool) {
    let verdict = if reached { "reached" } else { "**missed**" };
    let _ = writeln!(out, "| {what} | {goal} | {measured} | {verdict} |");
}

fn of_row(out: &mut String, what: &str, row: &Row, figure: Figure) {
    let each = row.median_s / row.units;
    let (goal, measured, reached) = match figure {
        Figure::Median(most) => (time(most), time(row.median_s), row.median_s <= most),
        Figure::Each(most) => (time(most), time(each), each <= most),
        Figure::Rate(least) => (
            format!("{}{}/s", rate(least), row.unit),
            format!("{}{}/s", rate(row.per_second), row.unit),
            row.per_second >= least,
        ),
        Figure::TimesLimit(times, limit) => {
            let raw = row.raw.iter().find(|(name, _)| name == limit);
            let most = times * raw.expect("the row has the limit").1;
            let goal = format!(
                "{times} x {} ({})",
                limit.trim_end_matches("_s").replace('_', " "),
                time(most)
            );
            (goal, time(row.median_s), row.median_s <= most)
        }
    };
    line(out, what, &goal, &measured, reached);
}

fn of_processes(out: &mut String, run: &Instances, name: &str) {
    for interleaved in [false, true] {
        let (Some(gpu), Some(cpu)) = (
            run.row(name, "cuda", interleaved),
            run.row(name, "cpu", false),
        ) else {
            continue;
        };
        let factor = median(cpu.inside_s.clone()) / median(gpu.inside_s.clone());
        let how = if interleaved { ", interleaved" } else { "" };
        let what = format!(
            "{} processes of `{name}`{how}, inside the engine",
            run.count()
        );
        let goal = format!("{FASTER:.0} x wasmtime on {} cores", run.cores);
        line(
            out,
            &what,
            &goal,
            &format!("{factor:.1} x"),
            factor >= FASTER,
        );
    }
}

pub(super) fn write(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "\n## Goals of the project\n\n\
         What we aimed for, against the same results as above. A reached goal is no claim about other systems.\n\n\
         | what | goal | measured | |\n|---|---|---|---|"
    );
    for (key, what, figure) in ROWS {
        let mut words = key.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (experiment, row, case) = (word(), word(), word());
        of_row(out, what, results.row(experiment, row, Some(case)), figure);
    }
    for name in FASTER_ROWS {
        of_processes(out, &results.instances.content, name);
    }
    for (what, share) in throughput::best_shares() {
        let goal = format!("{SHARE} x the time of CUDA C++");
        line(
            out,
            &format!("{what}, as a process"),
            &goal,
            &format!("{share:.2} x"),
            share <= SHARE,
        );
    }
}

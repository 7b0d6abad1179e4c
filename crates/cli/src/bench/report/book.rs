//! The book's page of benchmarks and the README's table of figures, generated from the files that `everwarp bench` and
//! `bench/instances/run` wrote and that are committed in `bench/results`. No figure in them is typed by hand.
//!
//! The test below compares the committed documents with what is generated. After new results are committed,
//! `EVERWARP_WRITE=1 cargo test -p everwarp-cli book` writes the documents again.

mod goals;
mod instances;
mod readme;
mod throughput;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::svg::{self, Plot};
use crate::bench::ALL;
use crate::bench::experiment::Experiment;
use crate::bench::report::Report;
use crate::bench::stats::{Outcome, Role, Row};
use crate::bench::table::{raw, time, verdict};
use instances::Instances;

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of results, with its path in the repository.
struct Source<T> {
    path: String,
    content: T,
}

/// All files of results with this beginning and ending of their name, newest first by the date that they state.
fn sources<T: serde::de::DeserializeOwned>(
    beginning: &str,
    ending: &str,
    date: fn(&T) -> &str,
) -> Vec<Source<T>> {
    let mut list = Vec::new();
    let results = top().join("bench/results");
    for folder in std::fs::read_dir(results).expect("the results are in the repository") {
        let folder = folder.expect("the folder can be read").path();
        for file in std::fs::read_dir(&folder).into_iter().flatten() {
            let file = file.expect("the folder can be read");
            let name = file.file_name().into_string().expect("a plain name");
            if !name.starts_with(beginning) || !name.ends_with(ending) {
                continue;
            }
            let text = std::fs::read_to_string(file.path()).expect("the file can be read");
            let content = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let folder = folder.file_name().expect("a name").to_string_lossy();
            let path = format!("bench/results/{folder}/{name}");
            list.push(Source { path, content });
        }
    }
    list.sort_by(|a, b| (date(&b.content), &b.path).cmp(&(date(&a.content), &a.path)));
    list
}

/// Every result that the documents are made from.
struct Results {
    reports: Vec<Source<Report>>,
    instances: Source<Instances>,
}

impl Results {
    fn read() -> Self {
        let instances = sources("instances", ".json", |i: &Instances| &i.date);
        Self {
            reports: sources("bench", ".json", |r: &Report| &r.machine.date),
            instances: instances.into_iter().next().expect("a run of processes"),
        }
    }

    /// The newest report on a GPU that measured this experiment.
    fn newest(&self, experiment: &str) -> Option<&Source<Report>> {
        let measured = |r: &&Source<Report>| {
            let rows = &r.content.rows;
            r.content.engine == "cuda" && rows.iter().any(|o| o.bench() == experiment)
        };
        self.reports.iter().find(measured)
    }

    /// A measured row of the newest report that has its experiment, with this case if one is given.
    fn row(&self, experiment: &str, name: &str, case: Option<&str>) -> &Row {
        let report = self.newest(experiment);
        let rows = report.into_iter().flat_map(|r| &r.content.rows);
        let mut rows = rows.filter_map(Outcome::row);
        let wanted =
            |r: &&Row| r.bench == experiment && r.row == name && case.is_none_or(|c| r.case == c);
        rows.find(wanted)
            .unwrap_or_else(|| panic!("no committed report has the row {experiment} {name}"))
    }
}

/// A cell of a table: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn bold_loss(text: &str) -> String {
    match text.strip_prefix("LOSES") {
        Some(rest) => format!("**loses**{rest}"),
        None => text.to_owned(),
    }
}

/// The plots of an experiment, without bars for cases that few rows have.
fn plots(experiment: &Experiment, rows: &[&Outcome]) -> Vec<Plot> {
    const FEWEST_BARS: usize = 4;
    // Lines have one rectangle, the background.
    let worth_it = |p: &Plot| !(2..=FEWEST_BARS).contains(&p.svg.matches("<rect").count());
    let all = svg::plots(experiment, rows).into_iter();
    all.filter(worth_it).collect()
}

/// The rows of the engine in one experiment, each with its fastest rival and its raw limits.
fn experiment(out: &mut String, experiment: &Experiment, source: &Source<Report>) {
    let report = &source.content;
    let mine = |o: &&Outcome| o.bench() == experiment.name;
    let rows: Vec<&Outcome> = report.rows.iter().filter(mine).collect();
    let _ = writeln!(
        out,
        "\n### {}: {}\n\n{}\n",
        experiment.name, experiment.title, experiment.about
    );
    let _ = writeln!(
        out,
        "`{}`, {}, {} cores, {} (`{}`)\n",
        report.machine.command,
        report.device,
        report.machine.cores,
        report.machine.date,
        source.path
    );
    for plot in plots(experiment, &rows) {
        let _ = writeln!(out, "![{0}](benchmarks/{0}.svg)\n", plot.name);
    }
    let _ = writeln!(
        out,
        "| row | case | runs | median | spread | each | compared with the fastest rival; raw limits |\n\
         |---|---|---|---|---|---|---|"
    );
    for row in rows.iter().filter_map(|o| o.row()) {
        if row.role != Role::Ours {
            continue;
        }
        let mut notes = vec![];
        if !row.verified {
            notes.push("**wrong result**".to_owned());
        }
        notes.extend(verdict(row).map(|v| bold_loss(&v)));
        notes.extend(raw(row).iter().map(|r| r.trim().to_owned()));
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            row.row,
            cell(&row.case),
            row.n,
            time(row.median_s),
            time(row.spread_s),
            time(row.median_s / row.units),
            cell(&notes.join("; "))
        );
    }
    let missing = rows.iter().filter_map(|o| match o {
        Outcome::Measured(_) => None,
        Outcome::Skipped {
            row, case, skipped, ..
        } => Some(format!("`{row}` {case}: {skipped}")),
        Outcome::Failed { row, error, .. } => Some(format!("`{row}` **failed**: {error}")),
    });
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        let _ = writeln!(out, "\nNot measured:\n");
        for line in missing {
            let _ = writeln!(out, "- {}", line.lines().next().unwrap_or_default());
        }
    }
}

/// The rows in which the engine is slower than its fastest rival.
fn losses(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "\n## Where the engine loses\n\n\
         Each row of the engine that is slower than its fastest rival:\n\n\
         | experiment | row | case | engine | fastest rival | |\n|---|---|---|---|---|---|"
    );
    for experiment in ALL {
        let report = results.newest(experiment.name);
        let rows = report.into_iter().flat_map(|r| &r.content.rows);
        for row in rows.filter_map(Outcome::row) {
            let lost = row.advantage().filter(|a| *a < 1.0);
            let (Some(advantage), Some(rival)) = (lost, row.rivals.first()) else {
                continue;
            };
            if row.bench != experiment.name || row.role != Role::Ours {
                continue;
            }
            let _ = writeln!(
                out,
                "| {} | `{}` | {} | {} | {}, {} | {:.1} x slower |",
                row.bench,
                row.row,
                cell(&row.case),
                time(row.median_s),
                rival.row,
                time(rival.median_s),
                1.0 / advantage
            );
        }
    }
}

const BEGINNING: &str = "\
<!-- Generated from bench/results by `EVERWARP_WRITE=1 cargo test -p everwarp-cli book`. Do not edit. -->

# Benchmarks

Every figure on this page is generated from committed raw results; the file is named next to each table. Each result was
checked against a plain reference. A loss is called a loss, and [all losses](#where-the-engine-loses) are listed together.

How to read the tables:

- **median** is the time in the middle of all runs, or the mean of the two in the middle. The engine, its rivals and the
  raw limits use this one definition.
- **spread** is the standard deviation, except for processes: there the smallest and the largest time are given.
- **each** is the median divided by the amount of work: the time of one task, one call or one edge.
- The first run of each row is a warm-up and is not counted (in the core rows since 2026-11-22). Checks, and copies of
  results to the host, are outside the timed part.
";

/// The whole page.
fn page(results: &Results) -> String {
    let mut out = BEGINNING.to_owned();
    instances::write(&mut out, &results.instances);
    throughput::write(&mut out);
    let _ = writeln!(
        out,
        "\n## Tasks, the heap and host calls\n\n\
         `everwarp bench all --engine cuda --roads FILE` measures everything in this section. The road network is that of \
         Moscow; without `--roads` the rows that need it are left out. A rival is another way to do the same work; a raw \
         limit is the least that the same machine needs for a similar step, measured in the same process."
    );
    for one in ALL {
        match results.newest(one.name) {
            Some(source) => experiment(&mut out, one, source),
            None => {
                let _ = writeln!(
                    out,
                    "\n### {}: {}\n\nNo committed run.",
                    one.name, one.title
                );
            }
        }
    }
    losses(&mut out, results);
    goals::write(&mut out, results);
    out
}

/// Every generated document: its path in the repository and its text.
fn documents(results: &Results) -> Vec<(String, String)> {
    let mut list = vec![("docs/benchmarks.md".to_owned(), page(results))];
    for one in ALL {
        let Some(source) = results.newest(one.name) else {
            continue;
        };
        let mine = |o: &&Outcome| o.bench() == one.name;
        let rows: Vec<&Outcome> = source.content.rows.iter().filter(mine).collect();
        for plot in plots(one, &rows) {
            list.push((format!("docs/benchmarks/{}.svg", plot.name), plot.svg));
        }
    }
    list.push(("README.md".to_owned(), readme::document(results)));
    list
}

#[test]
fn the_book_has_the_committed_figures() {
    let update = std::env::var_os("EVERWARP_WRITE").is_some();
    for (path, text) in documents(&Results::read()) {
        let file = top().join(&path);
        if std::fs::read_to_string(&file).is_ok_and(|committed| committed == text) {
            continue;
        }
        assert!(
            update,
            "{path} differs from what the committed results give: run EVERWARP_WRITE=1 cargo test -p everwarp-cli book"
        );
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder can be made");
        std::fs::write(file, text).expect("the document can be written");
    }
}

//! Tables of what there is: the same for the screen and for text.

use std::collections::HashMap;

use everwarp_telemetry::Distribution;
use everwarp_telemetry::view::{EngineView, Health, HealthState, ProgramView};

use super::gather::{Snapshot, Target};

/// A tab of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Engines,
    Workers,
    Functions,
    Kinds,
    Actors,
    Processes,
    Gpus,
}

impl Tab {
    pub(crate) const ALL: [Self; 7] = [
        Self::Engines,
        Self::Workers,
        Self::Functions,
        Self::Kinds,
        Self::Actors,
        Self::Processes,
        Self::Gpus,
    ];
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Engines => "engines",
            Self::Workers => "workers",
            Self::Functions => "functions",
            Self::Kinds => "kinds",
            Self::Actors => "actors",
            Self::Processes => "processes",
            Self::Gpus => "GPUs",
        }
    }
}

/// A field of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    /// A number, and how it is shown.
    Number(f64, String),
}

impl Cell {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
        }
    }
    fn number(value: f64) -> Self {
        Self::Number(value, short(value))
    }
    fn of<T: Into<u64>>(value: T) -> Self {
        Self::number(value.into() as f64)
    }
    fn option(value: Option<u64>) -> Self {
        value.map_or_else(Self::none, Self::of)
    }
    fn none() -> Self {
        Self::Number(-1.0, "-".to_owned())
    }
    fn bytes(value: Option<u64>) -> Self {
        value.map_or_else(Self::none, |value| Self::Number(value as f64, bytes(value)))
    }
    fn time(value: Option<u64>) -> Self {
        value.map_or_else(Self::none, |value| Self::Number(value as f64, time(value)))
    }
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Number(one, _), Self::Number(other, _)) => one.total_cmp(other),
            _ => self.text().cmp(other.text()),
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) target: Option<Target>,
    /// More about it.
    pub(crate) details: Vec<String>,
    pub(crate) health: HealthState,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Keeps the rows that contain a text.
    pub(crate) fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|row| {
            text.is_empty()
                || row
                    .cells
                    .iter()
                    .any(|cell| cell.text().to_lowercase().contains(&text))
        });
    }
    /// Sorts by a column; the largest numbers come first, and texts by the alphabet, unless it is reversed.
    pub(crate) fn sort(&mut self, column: usize, reversed: bool) {
        self.rows.sort_by(|one, other| {
            let (one, other) = (&one.cells[column], &other.cells[column]);
            let order = match one {
                Cell::Text(_) => one.compare(other),
                Cell::Number(..) => other.compare(one),
            };
            if reversed { order.reverse() } else { order }
        });
    }
}

/// A number in a short form.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e10 => format!("{:.1}G", v / 1e9),
        v if v >= 1e7 => format!("{:.1}M", v / 1e6),
        v if v >= 1e5 => format!("{:.1}k", v / 1e3),
        v if v.fract() == 0.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

/// A number of bytes in a short form.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count}"),
        1024..0x10_0000 => format!("{:.1}K", count as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1}M", count as f64 / 1_048_576.0),
        _ => format!("{:.1}G", count as f64 / 1_073_741_824.0),
    }
}

/// Nanoseconds in a short form.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn distribution(name: &str, of: Option<&Distribution>) -> Option<String> {
    let of = of?;
    Some(format!(
        "{name}: median {}, 90 % {}, 99 % {}, most {}, mean {}, {} counted",
        time(of.p50),
        time(of.p90),
        time(of.p99),
        time(of.most),
        time(of.mean()),
        of.count
    ))
}

fn health(details: &mut Vec<String>, of: &Health) -> Cell {
    if !of.reason.is_empty() {
        details.push(format!("{}: {}", of.state, of.reason));
    }
    Cell::Text(of.state.to_string())
}

/// What changed a second since an earlier moment, by the name of what is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates(HashMap<String, f64>);

fn counts(snapshot: &Snapshot) -> HashMap<String, u64> {
    let mut all = HashMap::new();
    for p in &snapshot.programs {
        for e in &p.engines {
            all.insert(format!("e{}.{}", p.os_pid, e.number), e.executed);
            for w in &e.workers {
                all.insert(
                    format!("w{}.{}.{}", p.os_pid, e.number, w.number),
                    w.executed,
                );
            }
            for f in &e.functions {
                let key = format!("f{}.{}.{}/{}", p.os_pid, e.number, f.program, f.function);
                all.insert(key, f.calls.unwrap_or(0));
            }
        }
        for s in &p.systems {
            for k in &s.kinds {
                all.insert(format!("k{}.{}.{}", p.os_pid, s.number, k.kind), k.handled);
            }
            for a in &s.actors {
                all.insert(format!("a{}.{}.{}", p.os_pid, s.number, a.id), a.handled);
            }
        }
    }
    all
}

impl Rates {
    /// What changed a second between two moments.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot, seconds: f64) -> Self {
        let (before, after) = (counts(before), counts(after));
        let rate = |(key, now): (String, u64)| {
            let then = *before.get(&key)?;
            Some((key, now.saturating_sub(then) as f64 / seconds.max(1e-3)))
        };
        Self(after.into_iter().filter_map(rate).collect())
    }
    fn cell(&self, key: &str) -> Cell {
        self.0
            .get(key)
            .map_or_else(Cell::none, |rate| Cell::number(rate.round()))
    }
}

/// The table of a tab.
pub(crate) fn table(tab: Tab, snapshot: &Snapshot, rates: &Rates) -> Table {
    match tab {
        Tab::Engines => engines(snapshot, rates),
        Tab::Workers => workers(snapshot, rates),
        Tab::Functions => functions(snapshot, rates),
        Tab::Kinds => kinds(snapshot, rates),
        Tab::Actors => actors(snapshot, rates),
        Tab::Processes => processes(snapshot),
        Tab::Gpus => gpus(snapshot),
    }
}

fn row(cells: Vec<Cell>, details: Vec<String>) -> Row {
    Row {
        cells,
        target: None,
        details,
        health: HealthState::Ok,
    }
}

fn pid(program: &ProgramView) -> Cell {
    Cell::Number(program.os_pid.into(), program.os_pid.to_string())
}

fn each_engine(snapshot: &Snapshot) -> impl Iterator<Item = (&ProgramView, &EngineView)> {
    snapshot
        .programs
        .iter()
        .flat_map(|program| program.engines.iter().map(move |engine| (program, engine)))
}

fn engines(snapshot: &Snapshot, rates: &Rates) -> Table {
    let mut rows: Vec<Row> = each_engine(snapshot)
        .map(|(p, e)| {
            let mut details = Vec::new();
            let health_cell = health(&mut details, &e.health);
            details.push(format!("{}, everwarp {}; {} batches, {} continuations", e.device, p.version, e.batches, e.fired));
            details.push(format!(
                "pools: {} tasks ({} refused), {} groups ({} refused), a worker had no room {} times",
                e.task_limit, e.task_refusals, e.group_limit, e.group_refusals, e.starved
            ));
            details.extend(e.depth.as_ref().map(|d| format!("queue of a worker: median {}, 99 % {}, most {}", d.p50, d.p99, d.most)));
            if !p.measures {
                details.push("times are not measured: start the program with EVERWARP_TELEMETRY=on".to_owned());
            }
            let cells = vec![
                pid(p),
                Cell::Text(p.program.clone()),
                Cell::Text(e.engine.clone()),
                health_cell,
                Cell::Number(e.age_s, format!("{:.0} s", e.age_s)),
                Cell::of(e.size),
                Cell::of(e.executed),
                rates.cell(&format!("e{}.{}", p.os_pid, e.number)),
                Cell::of(e.queued),
                Cell::of(e.received),
                Cell::bytes(e.heap_used),
                Cell::bytes(Some(e.device_bytes)),
            ];
            Row { health: e.health.state, ..row(cells, details) }
        })
        .collect();
    rows.extend(snapshot.silent.iter().map(|silent| {
        let mut cells = vec![Cell::none(); 12];
        cells[0] = Cell::Number(silent.os_pid.into(), silent.os_pid.to_string());
        (cells[1], cells[2], cells[3]) = (
            Cell::Text("?".to_owned()),
            Cell::Text("?".to_owned()),
            Cell::Text("silent".to_owned()),
        );
        Row {
            health: HealthState::Failed,
            ..row(cells, vec![silent.reason.clone()])
        }
    }));
    let columns = vec![
        "PROGRAM", "NAME", "ENGINE", "HEALTH", "AGE", "SIZE", "TASKS", "TASKS/S", "QUEUED",
        "MOVED", "HEAP", "MEMORY",
    ];
    Table { columns, rows }
}

fn workers(snapshot: &Snapshot, rates: &Rates) -> Table {
    let rows = each_engine(snapshot).flat_map(|(p, e)| {
        e.workers.iter().map(move |w| {
            let cells = vec![
                pid(p),
                Cell::Text(e.engine.clone()),
                Cell::of(w.number),
                Cell::Text(match w.workers {
                    1 => w.state.clone(),
                    all => format!("{} of {all} running", w.running),
                }),
                Cell::Text(w.function.clone()),
                Cell::of(w.executed),
                rates.cell(&format!("w{}.{}.{}", p.os_pid, e.number, w.number)),
                Cell::of(w.queued),
                Cell::of(w.received),
            ];
            row(cells, Vec::new())
        })
    });
    let columns = vec![
        "PROGRAM", "ENGINE", "WORKER", "STATE", "FUNCTION", "TASKS", "TASKS/S", "QUEUED", "MOVED",
    ];
    Table {
        columns,
        rows: rows.collect(),
    }
}

fn functions(snapshot: &Snapshot, rates: &Rates) -> Table {
    let rows = each_engine(snapshot).flat_map(|(p, e)| {
        e.functions.iter().map(move |f| {
            let details = [
                distribution("run", f.run.as_ref()),
                distribution("wait", f.wait.as_ref()),
            ];
            let key = format!("f{}.{}.{}/{}", p.os_pid, e.number, f.program, f.function);
            let cells = vec![
                pid(p),
                Cell::Text(f.program.clone()),
                Cell::Text(f.function.clone()),
                Cell::option(f.calls),
                f.calls.map_or_else(Cell::none, |_| rates.cell(&key)),
                Cell::time(f.run.as_ref().map(|d| d.p50)),
                Cell::time(f.run.as_ref().map(|d| d.p99)),
                Cell::time(f.wait.as_ref().map(|d| d.p50)),
                Cell::time(f.wait.as_ref().map(|d| d.p99)),
            ];
            row(cells, details.into_iter().flatten().collect())
        })
    });
    let columns = vec![
        "PROGRAM", "OF", "FUNCTION", "CALLS", "CALLS/S", "RUN", "RUN 99%", "WAIT", "WAIT 99%",
    ];
    Table {
        columns,
        rows: rows.collect(),
    }
}

fn kinds(snapshot: &Snapshot, rates: &Rates) -> Table {
    let mut rows = Vec::new();
    for p in &snapshot.programs {
        for s in &p.systems {
            for k in &s.kinds {
                let mut details = Vec::new();
                let health_cell = health(&mut details, &k.health);
                health(&mut details, &s.health);
                let dead = s
                    .dead
                    .iter()
                    .map(|(reason, count)| format!("{reason} {count}"));
                let dead = dead.collect::<Vec<_>>().join(", ");
                details.push(format!("dead letters of {}: {dead}", s.program));
                details.push(format!(
                    "{} of {} actors live; senders were muted {} times, actors restarted {} times, launches refused {} times",
                    s.live, s.limit, s.mutes, s.restarts, s.launch_refusals
                ));
                details.extend(distribution("handling a message", k.handling.as_ref()));
                details.extend(distribution("wait of a turn", k.wait.as_ref()));
                details.extend(distribution("asks of the host", s.ask.as_ref()));
                let cells = vec![
                    pid(p),
                    Cell::Text(s.program.clone()),
                    Cell::Text(k.kind.clone()),
                    health_cell,
                    Cell::of(k.live),
                    Cell::of(k.busy),
                    Cell::of(k.deactivated),
                    Cell::of(k.waiting),
                    Cell::Number(k.longest.into(), format!("{} of {}", k.longest, k.bound)),
                    Cell::of(k.handled),
                    rates.cell(&format!("k{}.{}.{}", p.os_pid, s.number, k.kind)),
                    Cell::time(k.handling.as_ref().map(|d| d.p50)),
                ];
                rows.push(Row {
                    health: k.health.state,
                    ..row(cells, details)
                });
            }
        }
    }
    let columns = vec![
        "PROGRAM",
        "OF",
        "KIND",
        "HEALTH",
        "LIVE",
        "BUSY",
        "PAUSED",
        "WAITING",
        "LONGEST",
        "HANDLED",
        "HANDLED/S",
        "HANDLING",
    ];
    Table { columns, rows }
}

fn actors(snapshot: &Snapshot, rates: &Rates) -> Table {
    let mut rows = Vec::new();
    for p in &snapshot.programs {
        for s in &p.systems {
            for a in &s.actors {
                let target = Target {
                    os_pid: p.os_pid,
                    source: Some(s.number),
                    id: a.id.clone(),
                    is_actor: true,
                };
                let parent = a
                    .parent
                    .as_ref()
                    .map(|parent| format!("launched by {parent}"));
                let cells = vec![
                    pid(p),
                    Cell::Text(s.program.clone()),
                    Cell::Text(a.id.clone()),
                    Cell::Text(a.kind.clone()),
                    Cell::Text(a.state.clone()),
                    Cell::of(a.waiting),
                    Cell::of(a.handled),
                    rates.cell(&format!("a{}.{}.{}", p.os_pid, s.number, a.id)),
                ];
                rows.push(Row {
                    target: Some(target),
                    ..row(cells, parent.into_iter().collect())
                });
            }
        }
    }
    let columns = vec![
        "PROGRAM",
        "OF",
        "ACTOR",
        "KIND",
        "STATE",
        "WAITING",
        "HANDLED",
        "HANDLED/S",
    ];
    Table { columns, rows }
}

fn processes(snapshot: &Snapshot) -> Table {
    let own = snapshot
        .programs
        .iter()
        .flat_map(|p| p.hosts.iter().map(move |h| (h, Some(h.number))));
    let served = snapshot.served.iter().map(|h| (h, None));
    let rows = own.chain(served).flat_map(|(h, source)| {
        h.processes.iter().map(move |process| {
            let target = Target {
                os_pid: h.os_pid,
                source,
                id: process.pid.clone(),
                is_actor: false,
            };
            let mut details = vec![format!(
                "{}: {} running, {} waiting for a place, {} ended, {} not shown",
                h.module, h.running, h.waiting, h.ended, h.left_out
            )];
            if let Some(totals) = &h.totals {
                let waited = match h.engine.as_str() {
                    "cpu" => "wait for a thread",
                    _ => "wait for a place",
                };
                details.extend(distribution(waited, Some(&totals.wait)));
                details.extend(distribution("from start to end", Some(&totals.run)));
                details.extend(distribution("host calls", Some(&totals.call)));
                let kinds = totals.by_kind.iter();
                details.extend(kinds.flat_map(|kind| distribution(&kind.call, Some(&kind.times))));
            }
            let cells = vec![
                Cell::Number(h.os_pid.into(), h.os_pid.to_string()),
                Cell::Text(h.module.clone()),
                Cell::Text(h.engine.clone()),
                Cell::Text(process.pid.clone()),
                Cell::option(process.instance.map(u64::from)),
                Cell::Text(process.parent.clone().unwrap_or_else(|| "-".to_owned())),
                Cell::option(process.fuel_used),
                Cell::bytes(process.memory_bytes),
                Cell::Text(process.state.clone()),
            ];
            Row {
                target: Some(target),
                ..row(cells, details)
            }
        })
    });
    let columns = vec![
        "PROGRAM", "MODULE", "ENGINE", "PID", "INSTANCE", "PARENT", "FUEL", "MEMORY", "STATE",
    ];
    Table {
        columns,
        rows: rows.collect(),
    }
}

fn gpus(snapshot: &Snapshot) -> Table {
    let watts = |watts: Option<f64>| {
        watts.map_or_else(Cell::none, |w| Cell::Number(w, format!("{w:.0} W")))
    };
    let rows = snapshot.gpus.iter().map(|gpu| {
        let cells = vec![
            Cell::of(gpu.number),
            Cell::Text(gpu.name.clone()),
            watts(gpu.power_w),
            watts(gpu.power_limit_w),
            Cell::bytes(gpu.memory_used),
            Cell::bytes(gpu.memory_bytes),
            Cell::option(gpu.busy_percent.map(u64::from)),
            Cell::option(gpu.temperature_c.map(u64::from)),
        ];
        row(cells, Vec::new())
    });
    let columns = vec![
        "GPU", "NAME", "POWER", "LIMIT", "USED", "MEMORY", "BUSY %", "C",
    ];
    Table {
        columns,
        rows: rows.collect(),
    }
}

/// A table as text.
pub(crate) fn text(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table
            .rows
            .iter()
            .map(|row| row.cells[column].text().chars().count());
        cells
            .chain([table.columns[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let numeric = |column: usize| {
        let mut cells = table.rows.iter().map(|row| &row.cells[column]);
        cells.all(|cell| matches!(cell, Cell::Number(..)))
    };
    let line = |texts: Vec<&str>| {
        let padded = texts.iter().enumerate().map(|(i, text)| {
            let width = widths[i];
            if numeric(i) {
                format!("{text:>width$}")
            } else {
                format!("{text:<width$}")
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(table.columns.clone());
    let rows = table
        .rows
        .iter()
        .map(|row| line(row.cells.iter().map(Cell::text).collect()));
    [head]
        .into_iter()
        .chain(rows)
        .collect::<Vec<_>>()
        .join("\n")
}

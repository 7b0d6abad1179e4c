//! `everwarp cache`: the compiled code that is kept on disk.

use std::path::PathBuf;
use std::time::SystemTime;

use everwarp_cache::{Cache, Entry, Kind, Removed};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};
use crate::process::size;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List the entries, the one that was used last first.
    #[arg(long, conflicts_with_all = ["clear", "limit"])]
    list: bool,
    /// Remove all entries.
    #[arg(long, conflicts_with = "limit")]
    clear: bool,
    /// The most that the entries may have together, from now on: bytes, or a number followed by K, M or G. Entries that
    /// were not used for longest are removed.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What the cache holds, after what the command has done.
#[derive(Debug, Serialize)]
struct CacheReport {
    folder: Option<PathBuf>,
    limit_bytes: u64,
    images: Amount,
    modules: Amount,
    /// What this command has removed.
    removed: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Row>>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Amount {
    entries: usize,
    bytes: u64,
}

impl From<Removed> for Amount {
    fn from(removed: Removed) -> Self {
        Self {
            entries: removed.entries,
            bytes: removed.bytes,
        }
    }
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Row {
    /// `image` of a GPU engine, or `module` of the CPU engine.
    kind: &'static str,
    /// What it was made from.
    name: String,
    bytes: u64,
    /// Seconds since it was last used.
    unused_s: u64,
    file: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let cache = Cache::user();
    let removed = match (args.clear, args.limit) {
        (true, _) => cache.clear(),
        (_, Some(limit)) => cache.set_limit(limit),
        _ => Ok(Removed::default()),
    };
    let removed = removed.map_err(CliError::Cache)?;
    let entries = cache.entries().map_err(|source| CliError::Input {
        path: cache.folder().map(PathBuf::from).unwrap_or_default(),
        source,
    })?;
    let report = CacheReport {
        folder: cache.folder().map(PathBuf::from),
        limit_bytes: cache.limit(),
        images: amount(&entries, Kind::Image),
        modules: amount(&entries, Kind::Module),
        removed: removed.into(),
        entries: args.list.then(|| entries.iter().map(row).collect()),
    };
    if args.json {
        return print_json(&report);
    }
    print(&describe(&report))
}

fn amount(entries: &[Entry], kind: Kind) -> Amount {
    let entries = entries.iter().filter(|entry| entry.kind == kind);
    entries.fold(Amount::default(), |sum, entry| Amount {
        entries: sum.entries + 1,
        bytes: sum.bytes + entry.bytes,
    })
}

fn row(entry: &Entry) -> Row {
    // A clock that was set back does not make an entry negative.
    let unused = SystemTime::now().duration_since(entry.used);
    Row {
        kind: entry.kind.extension(),
        name: entry.label.clone(),
        bytes: entry.bytes,
        unused_s: unused.unwrap_or_default().as_secs(),
        file: entry.path.clone(),
    }
}

fn describe(report: &CacheReport) -> String {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let mut text = String::new();
    for row in report.entries.iter().flatten() {
        // Names come from users and must not control the terminal.
        let name = row.name.escape_debug();
        text += &format!("{:6} {:>9.2} MB  {name}\n", row.kind, mega(row.bytes));
    }
    let folder = match &report.folder {
        Some(folder) => folder.display().to_string(),
        None => "no folder; set EVERWARP_CACHE_DIR".to_owned(),
    };
    text += &format!("folder: {folder}\n");
    for (what, amount) in [
        ("images of GPU engines", report.images),
        ("modules of the CPU engine", report.modules),
    ] {
        let (entries, size) = (amount.entries, mega(amount.bytes));
        text += &format!("{what}: {entries}, {size:.2} MB\n");
    }
    if report.removed.entries > 0 {
        let Amount { entries, bytes } = report.removed;
        text += &format!("removed: {entries}, {:.2} MB\n", mega(bytes));
    }
    text + &format!("limit: {:.2} MB", mega(report.limit_bytes))
}

//! `everwarp programs`.

use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the command line knows of a program.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) takes: &'static str,
}

pub(crate) const ENTRIES: [Entry; 6] = [
    Entry {
        name: "bfs",
        about: "breadth-first search: levels and parents; every frontier vertex is a task",
        takes: "--graph FILE | --generate SPEC, --source N (0), --output FILE (vertex, level, parent)",
    },
    Entry {
        name: "pagerank",
        about: "the power iteration; every iteration forks and joins",
        takes: "--graph FILE | --generate SPEC, --iterations N (20), --output FILE (vertex, rank)",
    },
    Entry {
        name: "fib",
        about: "Fibonacci numbers; every call is a task",
        takes: "--n N (25, at most 47)",
    },
    Entry {
        name: "tree",
        about: "a full binary tree of block-shaped tasks",
        takes: "--n LEVELS (12, at most 28)",
    },
    Entry {
        name: "pingpong",
        about: "two tasks that spawn each other in turn",
        takes: "--n STEPS (10000)",
    },
    Entry {
        name: "noop",
        about: "tasks that do nothing, from the host",
        takes: "--n TASKS (10000)",
    },
];

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    if args.json {
        return print_json(&ENTRIES);
    }
    for e in ENTRIES {
        print(&format!("{:<10}{}\n{:<10}{}", e.name, e.about, "", e.takes))?;
    }
    print("\nAll take --engine cpu|cuda|auto, --verify and --json; see `everwarp run --help`.")
}

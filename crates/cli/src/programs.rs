//! `everwarp programs`.

use everwarp_programs::{OptionKind, ProgramOption, REGISTRY, Registered};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A row of the list.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    takes: String,
}

/// An option, as the list shows it: its flag, its value, and the default in brackets.
fn shown(option: &ProgramOption) -> String {
    let flag = match option.metavariable() {
        Some(value) => format!("{} {value}", option.flag),
        None => option.flag.to_owned(),
    };
    match option.kind {
        OptionKind::Number { default, most } if most < u32::MAX => {
            format!("{flag} ({default}, at most {most})")
        }
        OptionKind::Number { default, .. } => format!("{flag} ({default})"),
        _ => flag,
    }
}

fn row(entry: &dyn Registered) -> Row {
    let options: Vec<_> = entry.options().iter().map(shown).collect();
    Row {
        name: entry.name(),
        about: entry.about(),
        takes: options.join(", "),
    }
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let rows = REGISTRY.map(row);
    if args.json {
        return print_json(&rows);
    }
    for r in rows {
        print(&format!("{:<14}{}\n{:<14}{}", r.name, r.about, "", r.takes))?;
    }
    print(
        "\nAll take --engine cpu|cuda|auto, --size, --verify and --json; see `everwarp run PROGRAM --help`.",
    )
}

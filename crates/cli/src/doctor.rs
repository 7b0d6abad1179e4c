//! `everwarp doctor`: collects facts about the machine, then judges them.
//!
//! The two steps are separate, so that every judgement can be tested on any machine.

mod facts;
mod judge;

use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON: a list of the parts that were looked at, and what to do about missing ones.
    #[arg(long)]
    json: bool,
}

/// The state of one part that an engine needs.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
    /// What to do, in one line; `None` if nothing is missing.
    fix: Option<&'static str>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.ok { "ok     " } else { "missing" };
        write!(f, "{state} {:<20}{}", self.what, self.found)?;
        match self.fix {
            Some(fix) => write!(f, "\n{:<28}-> {fix}", ""),
            None => Ok(()),
        }
    }
}

/// Prints the findings. A missing part is not a failure of this command.
pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let list = judge::judge(&facts::look());
    if args.json {
        return print_json(&list);
    }
    for finding in list {
        print(&finding.to_string())?;
    }
    Ok(())
}

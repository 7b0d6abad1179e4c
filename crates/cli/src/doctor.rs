//! `everwarp doctor`: looks at the machine, then judges what it saw.
//!
//! The two are apart, so that every judgement can be tested on a machine that has none of it.

mod facts;
mod judge;

use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON: a list of what was looked at, with what to do where something is missing.
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
    /// What to do, in one line; nothing where nothing is missing.
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

/// What is missing is said, and no failure of this command: it has looked.
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

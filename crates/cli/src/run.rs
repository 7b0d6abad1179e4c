//! `everwarp run`: a native program, or a WebAssembly module as processes.
//!
//! Each shows and accepts only the options that apply to it, so the command line is read in two steps: the first finds
//! the program's name among the words, the second reads the other words with the options of that program.

mod line;
mod native;
mod options;
mod served;
mod watch;

use std::ffi::OsString;

use clap::builder::StyledStr;

use crate::error::CliError;
use crate::process;
use line::Line;
use options::Target;
pub(crate) use served::{RunError, serve, serve_on};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, override_help = help())]
pub(crate) struct Args {
    /// Everything after `run`, read once it is known which program it is for.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Args {
    /// The words after `run`, where the command line begins with it and names a program next. To read it here takes a
    /// tenth of the time that all commands with all their options take.
    pub(crate) fn of_program() -> Option<Self> {
        let mut words = std::env::args_os().skip(1);
        let run = words.next()? == "run";
        let words: Vec<_> = words.collect();
        let first = words.first()?.to_str()?;
        let named = run && !first.is_empty() && !first.starts_with('-') && first != "help";
        named.then_some(Self { words })
    }
}

/// The command with the options of all programs and of modules, for shells and manual pages.
pub(crate) fn complete_command() -> clap::Command {
    options::complete()
}

/// The help of the command as a whole.
fn help() -> StyledStr {
    options::general().render_help()
}

/// Runs the program and returns the command's exit code.
pub(crate) fn main(args: Args) -> Result<u8, CliError> {
    let line = Line::split(args.words);
    let Some(name) = &line.program else {
        // There is nothing to run: this prints the help if it was asked for, and otherwise what is missing.
        let general = options::general().no_binary_name(true);
        let read = general.try_get_matches_from(&line.rest);
        read.expect_err("the program's name is required").exit()
    };
    let target = Target::find(name)?;
    line.check(&target)?;
    match target {
        Target::Module(path) => {
            let (args, watch) = options::module(path, &line.rest);
            let watch = watch.start()?;
            watch.finish(process::main(&args))
        }
        Target::Native(program) => {
            let options = options::native(program, &line.rest);
            let watch = options.engine.watch.start()?;
            watch.finish(native::main(program, &options).map(|()| 0))
        }
    }
}

/// Runs the server of a site with these options of a module.
pub(crate) fn site(words: &[String], site: process::Site) -> Result<u8, CliError> {
    let words: Vec<_> = words.iter().map(OsString::from).collect();
    let (args, watch) = options::module("http.wasm", &words);
    let args = process::Args {
        site: Some(site),
        ..args
    };
    let watch = watch.start()?;
    watch.finish(process::main(&args))
}

//! `everwarp completions` and `everwarp man`: what shells and `man` know of the command.

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::error::CliError;
use crate::run;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell: bash, zsh or fish.
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages, such as ~/.local/share/man/man1.
    folder: PathBuf,
}

/// The command, with the options of all programs and modules under `run`.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("run", |_| run::complete_command())
}

/// Prints the completions for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let shell = match args.shell.as_str() {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        _ => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "everwarp", &mut text);
    match std::io::stdout().write_all(&text) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Stdout(e)),
        _ => Ok(()),
    }
}

/// Writes a page for the command and for each of its subcommands.
pub(crate) fn man(args: &ManArgs) -> Result<(), CliError> {
    if !args.folder.is_dir() {
        return Err(CliError::NoManFolder {
            path: args.folder.clone(),
        });
    }
    clap_mangen::generate_to(command(), &args.folder).map_err(|source| CliError::Output {
        path: args.folder.clone(),
        source,
    })
}

//! The child of an engine's child that compiles one module for the CPU engine.

use std::process::Command;

use everwarp::process::serving::answer_parent;

#[derive(Debug, clap::Args)]
pub(crate) struct CompilerArgs {
    /// Whether fuel is counted.
    #[arg(action = clap::ArgAction::Set)]
    metered: bool,
    /// Bytes of stack of each process.
    stack: usize,
}

/// The command that [`compiler`] is the other end of. It is this program, even if its file was replaced meanwhile.
pub(crate) fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("compiler");
    command
}

/// Compiles the module on standard input.
pub(crate) fn compiler(args: &CompilerArgs) -> ! {
    let code = answer_parent(args.metered, args.stack).unwrap_or_else(|error| {
        eprintln!("{error}");
        1
    });
    std::process::exit(code)
}

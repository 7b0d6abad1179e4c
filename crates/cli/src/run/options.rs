//! The options of `everwarp run`, for each program and for modules.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use everwarp::Select;
use everwarp_programs::{
    OptionKind, OptionValue, OptionValues, ProgramOption, REGISTRY, Registered, find,
};

use super::watch::WatchOptions;
use crate::error::CliError;
use crate::process;

/// The name that stands for every module in help texts.
pub(super) const MODULE: &str = "MODULE.wasm";

/// A program that can be run.
pub(super) enum Target<'a> {
    /// A native program.
    Native(&'static dyn Registered),
    /// A module at this path.
    Module(&'a str),
}

impl<'a> Target<'a> {
    /// The program with that name.
    pub(super) fn find(name: &'a str) -> Result<Self, CliError> {
        if process::is_module(name) {
            return Ok(Self::Module(name));
        }
        let unknown = || CliError::UnknownProgram {
            name: name.to_owned(),
            known: REGISTRY.map(|entry| entry.name()).join(", "),
        };
        find(name).map(Self::Native).ok_or_else(unknown)
    }
    /// Its name, as the command line has it.
    pub(super) fn name(&self) -> &'a str {
        match self {
            Self::Native(program) => program.name(),
            Self::Module(path) => path,
        }
    }
    /// The command with its options.
    pub(super) fn command(&self) -> Command {
        match self {
            Self::Native(program) => native_command(*program),
            Self::Module(path) => module_command(path),
        }
    }
}

/// The options that all programs and modules take.
#[derive(Debug, Args)]
pub(super) struct EngineOptions {
    /// Where to run it: cpu, cuda, wgpu, or auto (a GPU if there is one to use).
    #[arg(long, default_value = "auto")]
    pub(super) engine: String,
    /// The adapter of the wgpu engine: a part of its name, or its number; the error for an unknown one lists them.
    #[arg(long, value_name = "NAME|N")]
    pub(super) adapter: Option<String>,
    /// The engine's size: threads on a CPU, blocks on a GPU; all that there are by default.
    #[arg(long)]
    pub(super) size: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Start an engine for this command, even if a service is up (`everwarp up`).
    #[arg(long)]
    pub(super) alone: bool,
    /// Say where it runs: in the service, or on an engine of this command.
    #[arg(short, long)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) watch: WatchOptions,
}

/// How a native program is to run.
pub(super) struct NativeOptions {
    pub(super) engine: EngineOptions,
    pub(super) verify: bool,
    pub(super) values: OptionValues,
}

/// `everwarp run` without a program.
pub(super) fn general() -> Command {
    let about = "Run a native program, or a WebAssembly module as processes.";
    let program = Arg::new("PROGRAM").required(true);
    let program = program.help(format!(
        "A program of the list below, or the path of a module, {MODULE}"
    ));
    let mut list = String::from("Programs:\n");
    for entry in REGISTRY {
        list += &format!("  {:<14}{}\n", entry.name(), entry.about());
    }
    list += &format!(
        "\n`everwarp run PROGRAM --help` shows the options of a program, and `everwarp run {MODULE} --help` those of a module."
    );
    let command = Command::new("run").bin_name("everwarp run").arg(program);
    // clap takes the text about a command from the options that are added to it, so it is set last.
    EngineOptions::augment_args(command)
        .about(about)
        .after_help(list)
}

/// `everwarp run` with the options of modules and of all programs.
pub(super) fn complete() -> Command {
    let mut command = process::Options::augment_args(general().bin_name("everwarp run"));
    for program in REGISTRY {
        for option in program.options() {
            let known = command
                .get_arguments()
                .any(|argument| argument.get_id() == id(option.flag));
            if !known {
                command = command.arg(argument(option).help_heading("Options of programs"));
            }
        }
    }
    command
}

/// One line that runs an entry of the registry, for its help.
pub(crate) fn example(entry: &dyn Registered) -> String {
    let options = entry.example().iter();
    let options: String = options
        .map(|(flag, value)| format!(" {flag} {value}"))
        .collect();
    format!("everwarp run {}{options} --verify", entry.name())
}

fn native_command(program: &'static dyn Registered) -> Command {
    let command = Command::new(program.name())
        .bin_name(format!("everwarp run {}", program.name()))
        .after_help(format!("Example: {}", example(program)));
    let own = program.options().iter().map(argument);
    let verify = Arg::new("verify").long("verify").action(ArgAction::SetTrue);
    EngineOptions::augment_args(command.args(own))
        .about(program.about())
        .arg(verify.help("Check the result against the plain reference"))
}

fn module_command(path: &str) -> Command {
    let command = Command::new(MODULE).bin_name(format!("everwarp run {path}"));
    process::Options::augment_args(EngineOptions::augment_args(command))
        .about("Run a WebAssembly module as one process, or as many.")
}

/// The name of an option in clap: its flag without the dashes.
fn id(flag: &'static str) -> &'static str {
    flag.trim_start_matches('-')
}

fn argument(option: &'static ProgramOption) -> Arg {
    let argument = Arg::new(id(option.flag)).long(id(option.flag));
    let argument = match option.excludes {
        Some(other) => argument.conflicts_with(id(other)),
        None => argument,
    };
    let about = match option.kind {
        OptionKind::Number { default, most } if most < u32::MAX => {
            format!("{} [default: {default}, at most {most}]", option.about)
        }
        OptionKind::Number { default, .. } => format!("{} [default: {default}]", option.about),
        _ => option.about.to_owned(),
    };
    let argument = argument.help(about);
    match option.metavariable() {
        None => argument.action(ArgAction::SetTrue),
        Some(metavariable) => argument
            .value_name(metavariable)
            .value_parser(|text: &str| option.parse(text)),
    }
}

/// Reads words with a command, or ends the program with clap's message or help.
fn matches(command: Command, words: &[OsString]) -> ArgMatches {
    let read = command.no_binary_name(true).try_get_matches_from(words);
    read.unwrap_or_else(|error| error.exit())
}

/// The options of the engine. The wgpu engine measures no times and has no traces: where they are asked for, it is refused.
fn engine(matches: &ArgMatches) -> EngineOptions {
    let options = EngineOptions::from_arg_matches(matches);
    let mut options = options.unwrap_or_else(|error| error.exit());
    options.alone |= options.watch.any();
    // An unknown name has its own error later.
    if let (Some(flag), Ok(Select::Wgpu)) = (options.watch.times(), options.engine.parse()) {
        let text = format!(
            "{flag} is not there for --engine wgpu yet: leave it out, or use --engine cpu or cuda"
        );
        let error = Command::new("everwarp run").error(ErrorKind::ArgumentConflict, text);
        error.exit()
    }
    options
}

/// The options of a native program.
pub(super) fn native(program: &'static dyn Registered, words: &[OsString]) -> NativeOptions {
    let matches = matches(native_command(program), words);
    let mut values = OptionValues::default();
    for option in program.options() {
        let value = match option.kind {
            OptionKind::Switch => matches
                .get_flag(id(option.flag))
                .then_some(OptionValue::Given),
            _ => matches.get_one::<OptionValue>(id(option.flag)).cloned(),
        };
        if let Some(value) = value {
            values.set(option, value);
        }
    }
    NativeOptions {
        engine: engine(&matches),
        verify: matches.get_flag("verify"),
        values,
    }
}

/// The options of a module.
pub(super) fn module(path: &str, words: &[OsString]) -> (process::Args, WatchOptions) {
    let matches = matches(module_command(path), words);
    let EngineOptions {
        engine,
        adapter,
        size,
        json,
        alone,
        verbose,
        watch,
    } = engine(&matches);
    let args = process::Args {
        program: path.to_owned(),
        adapter,
        engine,
        size,
        json,
        alone,
        verbose,
        site: None,
        process: process::Options::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()),
    };
    (args, watch)
}

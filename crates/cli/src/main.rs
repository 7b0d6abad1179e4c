//! The `everwarp` command.
//!
//! Exit codes: 0 is success; 1 means that the work failed or its result is wrong; 2 means that the command line is wrong.
//! A single process of a WebAssembly module that exits by itself passes its own code on.

mod actors;
mod assembling;
mod bench;
mod cache;
mod compile;
mod control;
mod doctor;
mod error;
mod exit_code;
mod kb;
mod output;
mod process;
mod programs;
mod ps;
mod roofline;
mod run;
mod serve;
mod service;
mod shell;
mod top;
#[cfg(feature = "wgpu")]
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use everwarp::trace;

use crate::error::Printed;

/// A GPU-resident task runtime: the GPU runs the program, the CPU is its I/O peripheral.
#[derive(Debug, Parser)]
#[command(name = "everwarp", version, arg_required_else_help = true)]
struct Cli {
    /// How files are read: io_uring, an io_uring for each thread, or threads, with plain calls. Otherwise it is io_uring where the
    /// system allows that.
    #[arg(long, value_name = "BACKEND")]
    io: Option<everwarp::files::Backend>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a native program, or a WebAssembly module as processes.
    Run(run::Args),
    /// Serve HTTP: files, and programs that answer requests.
    Serve(serve::ServeArgs),
    /// Start the service, which keeps engines ready for other commands.
    Up(service::UpArgs),
    /// End the service.
    Down(service::DownArgs),
    /// Say what the service and its engines do.
    Status(service::StatusArgs),
    /// The child of the service that has an engine.
    #[command(hide = true)]
    Engine(service::EngineArgs),
    /// The child of the service's child that compiles a module for the CPU engine.
    #[command(hide = true)]
    Compiler(service::CompilerArgs),
    /// List the engines that run, and their processes.
    Ps(ps::PsArgs),
    /// Ask a process of an engine that runs to end.
    Kill(ps::KillArgs),
    /// List the actors of engines that run, describe one, or give it an order.
    Actors(actors::ActorsArgs),
    /// Show what all engines do, until it is ended: tasks, actors, processes and GPUs.
    Top(top::TopArgs),
    /// Say what this machine offers, and what to do about what is missing.
    Doctor(doctor::Args),
    /// List the programs and their parameters.
    Programs(programs::Args),
    /// Compile a WebAssembly module to PTX, or say what it asks for.
    Compile(compile::Args),
    /// Say how much compiled code is kept on disk, list it or remove it.
    Cache(cache::Args),
    /// Measure everwarp, and compare it with the raw limits of the same machine.
    Bench(bench::Args),
    /// Write a page that runs programs on the GPU of a browser.
    #[cfg(feature = "wgpu")]
    Web(web::Args),
    /// Measure what this machine's cores can do at most: memory, arithmetic and atomics.
    Roofline(roofline::Args),
    /// Print the completions for a shell.
    Completions(shell::CompletionsArgs),
    /// Write manual pages for `man`.
    Man(shell::ManArgs),
    /// Look up what is known about GPU-centric computing, and compare it with this machine.
    Kb(kb::KbArgs),
}

/// A file that reaches the limit of its size (`ulimit -f`) is an error of the write, as a full disk is, and not the end of the
/// command, which would leave half of the file. The children of the command have the signal's own effect again.
fn size_limits_are_errors() {
    // Without a handler everything else works.
    drop(signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        std::sync::Arc::default(),
    ));
}

fn main() -> ExitCode {
    let command = trace::span("command");
    size_limits_are_errors();
    assembling::show();
    let quick = run::Args::of_program().map(Command::Run);
    let read = || {
        let Cli { io, command } = Cli::parse();
        if let Some(backend) = io {
            backend.force();
        }
        command
    };
    let result = match quick.unwrap_or_else(read) {
        Command::Run(args) => run::main(args),
        Command::Serve(args) => serve::main(args),
        Command::Up(args) => service::up(args).map(|()| 0),
        Command::Down(args) => service::down(&args).map(|()| 0),
        Command::Status(args) => service::status(&args).map(|()| 0),
        Command::Engine(args) => service::engine(&args),
        Command::Compiler(args) => service::compiler(&args),
        Command::Ps(args) => ps::ps(&args).map(|()| 0),
        Command::Kill(args) => ps::kill(&args).map(|()| 0),
        Command::Actors(args) => actors::actors(&args).map(|()| 0),
        Command::Top(args) => top::top(&args).map(|()| 0),
        Command::Doctor(args) => doctor::main(&args).map(|()| 0),
        Command::Programs(args) => programs::main(&args).map(|()| 0),
        Command::Compile(args) => compile::main(&args).map(|()| 0),
        Command::Cache(args) => cache::main(&args).map(|()| 0),
        Command::Bench(args) => bench::main(&args).map(|()| 0),
        #[cfg(feature = "wgpu")]
        Command::Web(args) => web::main(&args).map(|()| 0),
        Command::Roofline(args) => roofline::main(&args).map(|()| 0),
        Command::Completions(args) => shell::completions(&args).map(|()| 0),
        Command::Man(args) => shell::man(&args).map(|()| 0),
        Command::Kb(args) => kb::main(&args).map(|()| 0),
    };
    drop(command);
    trace::write();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = error.exit_code();
            eprintln!("Error: {:?}", miette::Report::new(Printed(error)));
            ExitCode::from(code)
        }
    }
}

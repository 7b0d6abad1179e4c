//! The service from end to end: what clients see, and what happens when any part of it ends.

#![cfg(target_os = "linux")]

mod alike;
mod client;
mod clients;
#[path = "../shared/echo.rs"]
mod echo;
mod ends;
mod hostile;
mod library;
mod listeners;
mod operator;
#[path = "../process/cases.rs"]
mod process;
#[path = "../shared/pseudo_terminal.rs"]
mod pseudo_terminal;
mod quotas;
mod sandbox;
mod settings;
mod sockets;
mod terminal;

use std::process::Command;
use std::sync::OnceLock;

use sandbox::{Sandbox, Service};

/// The service that the cases of `everwarp run` share. It ends with this program.
fn shared() -> &'static Sandbox {
    static SHARED: OnceLock<(Sandbox, Service)> = OnceLock::new();
    let (sandbox, _) = SHARED.get_or_init(|| {
        let sandbox = Sandbox::new();
        let service = sandbox.up(&[]);
        (sandbox, service)
    });
    sandbox
}

/// The command, which uses the service.
fn everwarp() -> Command {
    shared().command(&[])
}

//! Engines are watched while they run: `everwarp top`, metrics, health and traces.

mod book;
#[allow(dead_code, reason = "the tests of calls are programs of their own")]
mod handlers;
mod metrics;
mod once;
mod perfetto;
#[path = "../shared/pseudo_terminal.rs"]
mod pseudo_terminal;
mod sandbox;
mod screen;
mod spans;
mod terminal;
mod trace;

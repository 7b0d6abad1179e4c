//! Engines are watched while they run: `everwarp top`, metrics, health and traces.

mod book;
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

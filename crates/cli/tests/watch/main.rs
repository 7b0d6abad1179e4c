//! Engines are watched while they run: `everwarp top`, metrics, health and traces.

mod metrics;
mod once;
mod perfetto;
mod sandbox;
mod screen;
mod terminal;
mod trace;

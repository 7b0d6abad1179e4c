//! `everwarp serve` and `--per-connection` from end to end, on an engine of their own.

mod counted;
mod hostile;
mod http;
mod killed;
mod notes;
mod routes;
mod server;
mod tools;

//! `everwarp serve` and `--per-connection` from end to end, on an engine of their own.

mod hostile;
mod http;
mod routes;
mod server;
mod tools;

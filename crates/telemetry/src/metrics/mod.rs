//! Metrics and health over HTTP.

mod http;
mod text;

pub use http::{MetricsError, MetricsServer, Views, serve, serve_views};
pub use text::text;

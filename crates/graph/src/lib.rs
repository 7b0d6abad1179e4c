//! Graphs for the standard programs: reading them, generating them, and holding them as a [`Csr`].
//!
//! This crate is **internal** to everwarp; it promises nothing to code outside the project. It knows
//! nothing of devices: a program uploads [`Csr::rows`] and [`Csr::columns`] as they are.
//!
//! * [`read_path`] and [`read`] take SNAP-style edge lists and Matrix Market coordinate files;
//!   `read_path` also unpacks gzip.
//! * [`generate`] builds the graph that a [`Spec`] such as `rmat:16` describes.
//! * [`Csr::from_edges`] is the one place where edges become rows.
//!
//! Every failure is a [`GraphError`] that names the line at fault and what to do about it. Nothing is
//! repaired silently: parallel edges and self loops are kept as given, and malformed lines are refused.

mod csr;
mod direction;
mod edge_list;
mod edges;
mod error;
mod generate;
mod lines;
mod matrix_market;
mod read;
mod spec;

pub use csr::Csr;
pub use direction::Direction;
pub use error::{GraphError, MAX_ID};
pub use generate::generate;
pub use read::{Format, ReadOptions, read, read_file, read_path};
pub use spec::{DEFAULT_EDGE_FACTOR, DEFAULT_SEED, GRAMMAR, Spec, SpecError};

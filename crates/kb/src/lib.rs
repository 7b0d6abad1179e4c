//! What is known about GPU-centric computing: findings with their sources, a search over them, and the figures of this
//! machine next to them.
//!
//! The findings are TOML files, one for each topic, in `data`; they are part of the binary. A user may add findings in a
//! file of their own ([`UserFile`]). [`Knowledge`] holds all of them, [`Index`] searches them, and [`advise`] says from
//! measured costs where a piece of work belongs.
//!
//! ```
//! use everwarp_kb::{Index, Knowledge};
//!
//! let knowledge = Knowledge::built_in();
//! let hits = Index::new(&knowledge).search("persistent kernel", 3);
//! assert_eq!(hits[0].finding.topic, "persistent-kernels");
//! ```
//!
//! This crate is internal to everwarp and promises no stability.

pub mod advise;
mod error;
mod finding;
mod knowledge;
mod report;
mod search;
mod user;
mod words;

pub use error::KbError;
pub use finding::{Check, Confidence, Figure, Finding, FindingId, Topic};
pub use knowledge::Knowledge;
pub use report::{Report, ReportRow};
pub use search::{Hit, Index};
pub use user::{NewFinding, UserFile};

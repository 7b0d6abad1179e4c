//! Facts about a module, found before any text is written. No file of this folder writes PTX.

pub(crate) mod abi;
pub(crate) mod assigned;
pub(crate) mod calls;
pub(crate) mod carried;
pub(crate) mod chains;
pub(crate) mod deep;
pub(crate) mod features;
pub(crate) mod first;
pub(crate) mod layout;
pub(crate) mod limits;
pub(crate) mod live;
pub(crate) mod module;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod referenced;
pub(crate) mod suspending;
pub(crate) mod tails;
pub(crate) mod types;
pub(crate) mod waiting;

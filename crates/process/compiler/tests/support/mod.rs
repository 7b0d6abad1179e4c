//! Code that several tests share.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of it"
)]

pub(crate) mod cubins;
mod encode;
pub(crate) mod gpu;
pub(crate) mod instance;
pub(crate) mod machine;
pub(crate) mod ptx;
pub(crate) mod report;
pub(crate) mod spec;
pub(crate) mod tools;
pub(crate) mod waiting;

pub(crate) use encode::encode;

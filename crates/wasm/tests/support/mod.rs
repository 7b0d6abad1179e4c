//! What the tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod cubins;
pub(crate) mod gpu;
pub(crate) mod instance;
pub(crate) mod machine;
pub(crate) mod ptx;
pub(crate) mod report;
pub(crate) mod spec;
pub(crate) mod tools;
pub(crate) mod waiting;

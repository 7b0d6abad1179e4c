//! The emitters: each writes a part of the PTX of a module from the facts in its [`Context`](crate::context::Context).

pub(crate) mod body;
pub(crate) mod carried;
pub(crate) mod deep;
pub(crate) mod functions;
pub(crate) mod image;
pub(crate) mod indirect;
mod signature;
pub(crate) mod switch;
pub(crate) mod trampoline;

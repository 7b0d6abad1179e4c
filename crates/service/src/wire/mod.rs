//! Bytes on a socket: values ([`codec`]) and frames with descriptors ([`socket`]).

pub(crate) mod codec;
pub(crate) mod socket;

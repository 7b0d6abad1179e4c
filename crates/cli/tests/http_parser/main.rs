//! The parser of `guests/http`, compiled for this machine: heads against the library `httparse`, and both heads and bodies
//! against every division into segments. The inputs are changed at random from a fixed seed, so a failure comes again.

mod bodies;
mod heads;
mod random;
#[allow(
    dead_code,
    reason = "the answers of the server use the rest of a request"
)]
#[path = "../../../../guests/http/src/request.rs"]
mod request;
mod wire;

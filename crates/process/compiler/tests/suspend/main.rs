//! Suspension does not change what an instance computes: results, traps, fuel, memory, globals and the requests to its
//! imports are the same under every schedule.

#[path = "../support/mod.rs"]
mod support;

mod deep;
mod host;
mod lazy;
mod leave;
mod life;
mod linked;
mod modules;
mod random;
mod run;
mod shape;
mod suite;
mod tails;

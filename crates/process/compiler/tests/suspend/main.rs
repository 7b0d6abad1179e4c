//! Suspended and resumed, an instance does what it does without: results, traps, fuel, memory, globals and
//! what it asks of its imports are the same under every schedule.

#[path = "../support/mod.rs"]
mod support;

mod host;
mod leave;
mod life;
mod linked;
mod modules;
mod random;
mod run;
mod shape;
mod suite;
mod tails;

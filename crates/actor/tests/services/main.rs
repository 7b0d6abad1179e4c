//! What actors on the CPU engine have next to messages: each promise of `docs/actors.md`, one test for each.

mod asks;
mod channels;
mod columns;
mod groups;
mod kept;
mod letters;
mod misuse;
mod names;
mod payloads;
mod shapes;
mod simulated;
mod streams;
mod support;
mod timers;
mod watching;

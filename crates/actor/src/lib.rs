//! Actors: state, a mailbox and a handler, a million at a time on one engine. `docs/actors.md` is their guide.
//!
//! This crate is **internal** to everwarp, which shows it as `everwarp::actor`.
//!
//! Under `--cfg loom` only the protocols are built, for their models.

#![cfg_attr(
    loom,
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "models use a part of it"
    )
)]

mod credits;
mod ending;
mod id;
mod mail;
mod mailbox;
mod message;
mod mutant;
mod notes;
mod number;
mod pool;
mod restarts;
mod side;
mod sync;
mod table;
mod turn;

#[cfg(not(loom))]
mod asked;
#[cfg(not(loom))]
mod builtin;
#[cfg(not(loom))]
mod chain;
#[cfg(not(loom))]
mod channel;
#[cfg(not(loom))]
mod channel_actor;
#[cfg(not(loom))]
mod columns;
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
mod device;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod events;
#[cfg(not(loom))]
mod failures;
#[cfg(not(loom))]
mod far;
#[cfg(not(loom))]
mod near;
#[cfg(not(loom))]
mod neighbours;
#[cfg(not(loom))]
mod payload;
#[cfg(not(loom))]
mod post;
#[cfg(not(loom))]
#[doc(hidden)] // `actors!` names it
pub mod program;
#[cfg(not(loom))]
mod services;
#[cfg(not(loom))]
mod services_host;
#[cfg(not(loom))]
mod simulation;
#[cfg(not(loom))]
mod slots;
#[cfg(not(loom))]
mod streams;
#[cfg(not(loom))]
mod system;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
mod typed;
#[cfg(not(loom))]
mod undo;
#[cfg(not(loom))]
mod watch;

#[cfg(all(loom, test))]
mod models;

pub use ending::Ending;
pub use id::ActorId;
#[cfg(not(loom))]
pub use {
    asked::Asked,
    channel::{Channel, ChannelId, MAX_VALUE_BYTES},
    columns::Column,
    context::ActorCx,
    device::{DeviceHandler, FailedModule, MODULE_HEADER, reasons},
    error::{ActorError, LongMailbox},
    failures::Failure,
    message::{DeadReason, MAX_ASK_WORDS, MAX_WORDS, Message},
    payload::{MAX_PAYLOAD_WORDS, Refused},
    program::{ActorProgram, BatchClosure, BatchFn, Handler, HandlerClosure, HandlerFn, Kind},
    restarts::Restarts,
    side::{
        DeadLetter, DeadLetters, GroupId, GroupStats, KeptAsk, Member, Monitor, Policy, Strategy,
        Supervision, TimerId,
    },
    simulation::{AskId, Faults, Simulation},
    streams::{Inlet, Outlet, Slow, Topic},
    system::{ActorConfig, ActorStats, ActorSystem, Tell},
    typed::{Field, FieldType, MessageType, Value},
};

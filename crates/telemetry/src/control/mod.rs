//! The socket on which other programs of the same user look at the engines of this one. `everwarp ps`, `kill`, `top` and
//! `actors` are such programs.
//!
//! A request is one line of JSON, and so is its answer; then the connection ends. Only the user can open the folder, and
//! the user at the other end is compared, but requests are treated as hostile all the same: their length, their number and
//! their time are limited. The first engine of a program opens the socket and the last one removes it.

mod client;
mod folder;
mod server;
mod sockets;

use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

pub use client::{ask, engines};
pub use folder::{Folder, FolderError, Lock, own_user};
use server::Server;
pub use sockets::ControlError;

use crate::lock::lock;
use crate::registry::{self, Order};
use crate::view::{ActorRow, ProgramView};

/// The variable that keeps a program from opening a socket: `off`.
pub const VARIABLE: &str = "EVERWARP_CONTROL";

/// A request to a program with engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Describe all engines, with up to `most` processes or actors of each host and system.
    View {
        /// The limit.
        most: u32,
    },
    /// Carry an order out: of the source with this number, or of whichever has the target.
    Order {
        /// The source.
        source: Option<u32>,
        /// A process or an actor: `SLOT.GENERATION`.
        target: String,
        /// The order.
        order: Order,
    },
    /// Describe one actor with its state.
    Actor {
        /// The source.
        source: Option<u32>,
        /// The actor: `SLOT.GENERATION`.
        id: String,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The answer to [`Request::View`].
    Program(Box<ProgramView>),
    /// The order has been given.
    Done,
    /// No process and no actor has this name.
    NoTarget,
    /// The answer to [`Request::Actor`].
    Actor(ActorRow),
    /// The request was not carried out, for this reason.
    Refused {
        /// The reason.
        reason: String,
    },
}

/// The program's socket, and how many sources keep it open. One lock opens and closes it: a socket that is being closed
/// must not meet the next one of the same name.
#[derive(Debug)]
struct Open {
    server: Option<Server>,
    users: usize,
}

static OPEN: Mutex<Open> = Mutex::new(Open {
    server: None,
    users: 0,
});

fn open() -> MutexGuard<'static, Open> {
    lock(&OPEN)
}

/// Keeps the program's socket open.
#[derive(Debug)]
pub struct Socket(());

impl Drop for Socket {
    fn drop(&mut self) {
        let mut open = open();
        open.users -= 1;
        if open.users == 0 {
            open.server = None;
        }
    }
}

fn answer(request: Request) -> Answer {
    let done = |done: bool| if done { Answer::Done } else { Answer::NoTarget };
    let answered = match request {
        Request::View { most } => Ok(Answer::Program(Box::new(registry::view(most as usize)))),
        Request::Order {
            source,
            target,
            order,
        } => registry::order(source, &target, order).map(done),
        Request::Actor { source, id } => {
            registry::actor(source, &id).map(|actor| actor.map_or(Answer::NoTarget, Answer::Actor))
        }
    };
    answered.unwrap_or_else(|reason| Answer::Refused { reason })
}

/// Opens the program's socket, unless it is open.
///
/// # Errors
/// The variable [`VARIABLE`] is `off`, or the folder or the socket cannot be made.
pub fn socket() -> Result<Socket, ControlError> {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
        return Err(ControlError::Off);
    }
    let mut open = open();
    if open.server.is_none() {
        open.server = Some(Server::start(&Folder::of_user(), Arc::new(answer))?);
    }
    open.users += 1;
    Ok(Socket(()))
}

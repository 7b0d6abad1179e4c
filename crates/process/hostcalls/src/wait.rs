//! A request that cannot be answered yet.

use std::sync::Arc;
use std::time::Instant;

use everwarp_io::{Interest, Socket};
use everwarp_process::Pid;

use crate::errno::Errno;
use crate::events::{Events, FunctionState};
use crate::poll::Poll;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sockets::SocketCall;

/// The state of a request that has been served.
pub(crate) enum Served {
    /// The reply is the answer.
    Answered,
    /// There is no answer yet.
    Waits(Wait),
}

/// A function that a process has asked for.
pub(crate) struct WantedFunction {
    pub(crate) events: Arc<dyn Events>,
    pub(crate) process: Pid,
    pub(crate) function: u32,
}

impl WantedFunction {
    pub(crate) fn state(&self) -> FunctionState {
        self.events.function(self.process, self.function)
    }
}

/// A request that waits for time, for standard input, for a socket, for a function, or for room to open a file.
#[must_use = "a request that is dropped here is never answered"]
pub struct Wait {
    pub(crate) process: Arc<Process>,
    until: Until,
    /// The ring's slot of the request, by which a thread of the process may cancel it.
    pub(crate) slot: Option<u32>,
}

enum Until {
    Input {
        limit: usize,
    },
    Events(Poll),
    Socket(SocketCall),
    Function(WantedFunction),
    /// Until other processes close files. [`Openings`](crate::openings::Openings) has such requests.
    Room(Request<'static>),
}

impl Wait {
    pub(crate) fn for_input(process: Arc<Process>, limit: usize) -> Self {
        Self::until(process, Until::Input { limit })
    }

    pub(crate) fn for_events(process: Arc<Process>, poll: Poll) -> Self {
        Self::until(process, Until::Events(poll))
    }

    pub(crate) fn for_socket(process: Arc<Process>, call: SocketCall) -> Self {
        Self::until(process, Until::Socket(call))
    }

    pub(crate) fn for_function(process: Arc<Process>, wanted: WantedFunction) -> Self {
        Self::until(process, Until::Function(wanted))
    }

    pub(crate) fn for_room(process: Arc<Process>, request: &Request<'_>) -> Self {
        Self::until(process, Until::Room(request.to_owned_payload()))
    }

    fn until(process: Arc<Process>, until: Until) -> Self {
        Self {
            process,
            until,
            slot: None,
        }
    }

    /// The same for a request that came with this slot of the ring.
    pub(crate) fn of_slot(self, slot: u32) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    /// The process and its request, if it waits for room to open a file.
    pub(crate) fn into_opening(self) -> Result<(Arc<Process>, Request<'static>), Self> {
        match self.until {
            Until::Room(request) => Ok((self.process, request)),
            until => Err(Self { until, ..self }),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.until {
            Until::Input { .. } | Until::Socket(_) | Until::Function(_) | Until::Room(_) => None,
            Until::Events(poll) => poll.deadline(),
        }
    }

    pub(crate) fn wants_input(&self) -> bool {
        match &self.until {
            Until::Input { .. } => true,
            Until::Events(poll) => poll.wants_input(),
            Until::Socket(_) | Until::Function(_) | Until::Room(_) => false,
        }
    }

    pub(crate) fn wants_function(&self) -> bool {
        matches!(self.until, Until::Function(_))
    }

    /// The sockets that it waits for.
    pub(crate) fn sockets(&self) -> Vec<(Arc<Socket>, Interest)> {
        match &self.until {
            Until::Input { .. } | Until::Function(_) | Until::Room(_) => Vec::new(),
            Until::Events(poll) => poll.sockets(),
            Until::Socket(call) => call.interest().into_iter().collect(),
        }
    }

    /// Whether it takes what has come, so that nothing is left for the next request if it has to go on waiting.
    pub(crate) fn takes(&self) -> bool {
        matches!(self.until, Until::Socket(_))
    }

    /// Whether the wait is over; then `reply` is the answer.
    pub(crate) fn finish(&self, now: Instant, reply: &mut Reply) -> bool {
        reply.clear();
        match &self.until {
            Until::Input { limit } => match self.process.stdin.read(*limit, &mut reply.data) {
                Ok(false) => return false,
                Ok(true) => reply.count(),
                Err(errno) => reply.set(Err(errno)),
            },
            Until::Events(poll) => {
                reply.values[0] = poll.finish(&self.process, now, &mut reply.data);
                return reply.values[0] > 0;
            }
            Until::Socket(call) => match call.attempt(&self.process, reply) {
                Ok(done) => return done,
                Err(errno) => reply.set(Err(errno)),
            },
            Until::Function(wanted) => match wanted.state() {
                FunctionState::Awaited => return false,
                FunctionState::Present => {}
                FunctionState::Unavailable => reply.set(Err(Errno::NOSYS)),
            },
            Until::Room(_) => return false,
        }
        true
    }
}
